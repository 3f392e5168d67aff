"""How badly a fixed strategy can be beaten, by looking ahead.

For the searching seat the others' fixed strategy and chance are nature, so it faces a partially
observable Markov decision process whose states are the nodes of its information sets (Samothrakis
and Lucas 2011, section 3.4). sigma is (N, A) as in solvers/extensive/best_response.py; the
searching seat's own rows of it play no part in the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array
from overtrick.solvers.extensive.best_response import check_strategy, edge_probability
from overtrick.solvers.extensive.tree import Tree

EXPLORATION = 0.5
"""In ranges of the seat's payoffs. UCB1 has sqrt(2) (Auer, Cesa-Bianchi and Fischer 2002); on
Leduc against uniform play 0.5 misses about half as much at 10,000 and 100,000 simulations."""


@dataclass(frozen=True)
class SearchResult:
    """What a search came upon; `value.expected(tree, found.sigma)[seat]` is its true worth."""

    value: float  # points that the search expects the seat to win; where sampled it errs both ways
    sigma: Array  # (N, A) sigma with a pure row wherever the search chose; the rest is untouched


class InfosetBelief(NamedTuple):
    """An information set that nature may bring about next."""

    row: int  # number of the information set
    probability: float  # that it is the one that comes
    node: Array  # (n,) int its nodes, those of probability 0 left out
    belief: Array  # (n,) probability of each once it has come, summing to 1


def expectimax(
    tree: Tree, sigma: Array, seat: int, depth: int,
    simulations: int = 0, rng: Generator | None = None, exploration: float = EXPLORATION,
) -> SearchResult:  # fmt: skip
    """The most that a seat can win when the others keep to sigma, exactly for some decisions.

    depth: of its own decisions in a row the seat weighs so many exactly, from the root down. An
    information set below them is worth what a Monte Carlo tree search of so many simulations
    from its belief says, and is played, as are those under it, by that search's most visited
    actions: nothing is searched again when play comes there. If the depth covers all decisions
    nothing is estimated and the result is a best response. Raises ValueError if it does not and
    there are no simulations or no generator. Samothrakis and Lucas 2011, Algorithm 1.
    """
    decisions = tree.decisions(seat)
    if depth < 0 or (depth < decisions and (simulations < 1 or rng is None)):
        raise ValueError(
            f"depth {depth} does not cover the {decisions} decisions of seat {seat}: "
            "give simulations and a generator for those below, or a greater depth"
        )
    search = _Search(tree, sigma, seat, simulations, rng, exploration)
    return search.found(search.ahead(np.array([0]), np.ones(1), depth))


def mcts(
    tree: Tree, sigma: Array, seat: int,
    simulations: int, rng: Generator, exploration: float = EXPLORATION,
) -> SearchResult:  # fmt: skip
    """What Monte Carlo tree search from the root wins when the others keep to sigma.

    Each simulation draws chance and the others, chooses own actions by UCB1 from statistics of
    the information set, adds the first set without statistics, and below it plays uniformly.
    Found are the most visited actions (of equals the one of higher mean) and the mean return of
    those of the first decisions, which lags behind while later decisions are still explored.
    exploration: in ranges of the seat's payoffs, largest less smallest of the whole tree; 0 is
    greedy. Raises ValueError without simulations. Kocsis and Szepesvari 2006 (UCT); Silver and
    Veness 2010 (POMCP) for information sets under a fixed nature.
    """
    if simulations < 1:
        raise ValueError(f"{simulations} simulations find nothing: give 1 or more")
    search = _Search(tree, sigma, seat, simulations, rng, exploration)
    first = np.flatnonzero((tree.observations.seat == seat) & (tree.stage == 0))
    return search.found(tree.gain[0, seat] + search.simulate(np.array([0]), np.ones(1), first))


def next_infosets(
    tree: Tree, probability: Array, seat: int, node: Array, belief: Array
) -> tuple[float, list[InfosetBelief]]:
    """What nature does from a belief up to the seat's next decision, or to the end.

    node (n,) and belief (n,) are where play may be, probability (V,) that of each edge under
    nature. Returns the expected points gained on the way, edges into `node` included, and the
    information sets that may come, each with its belief by Bayes' rule. Samothrakis and Lucas
    2011, eqs. 7 to 9.
    """
    points = 0.0
    nodes, beliefs = [], []
    while len(node):
        points += float(belief @ tree.gain[node, seat])
        own = tree.seat[node] == seat
        nodes.append(node[own])
        beliefs.append(belief[own])
        count = np.where(own, 0, tree.children[node])
        before = np.cumsum(count) - count
        child = np.repeat(tree.first[node] - before, count) + np.arange(count.sum())
        belief = np.repeat(belief, count) * probability[child]
        node, belief = child[belief > 0], belief[belief > 0]
    node, belief = np.concatenate(nodes, dtype=np.int64), np.concatenate(beliefs)
    rows, at = np.unique(tree.infoset[node], return_inverse=True)
    comes = np.bincount(at, belief)
    return points, [
        InfosetBelief(int(row), float(comes[i]), node[at == i], belief[at == i] / comes[i])
        for i, row in enumerate(rows)
    ]


class _Search:
    """The memory of one search."""

    def __init__(
        self, tree: Tree, sigma: Array, seat: int,
        simulations: int, rng: Generator | None, exploration: float,
    ) -> None:  # fmt: skip
        check_strategy(tree, sigma)
        self.tree, self.seat, self.simulations, self.rng = tree, seat, simulations, rng
        self.reply = sigma.copy()
        self.probability = edge_probability(tree, sigma)
        self.gain = tree.gains[seat]
        payoff = _payoff(tree.parent, self.gain)[tree.children == 0]
        self.bonus = exploration * float(np.ptp(payoff))  # points
        # searches from different information sets share these: perfect recall keeps them apart
        self.visits = np.zeros(tree.start[-1], np.int64)  # (L,) times tried
        self.total = np.zeros(len(self.visits))  # (L,) points gained from there on, in all

    def ahead(self, node: Array, belief: Array, depth: int) -> float:
        """Points to come from a belief, edges into its nodes included."""
        points, sets = next_infosets(self.tree, self.probability, self.seat, node, belief)
        return points + sum(s.probability * self.decide(s, depth) for s in sets)

    def decide(self, here: InfosetBelief, depth: int) -> float:
        """Points to come from an information set, edges into its nodes left out."""
        if depth == 0:
            return self.simulate(here.node, here.belief, np.array([here.row]))
        first, actions = self.tree.first[here.node], int(self.tree.legal[here.row].sum())
        worth = [self.ahead(first + k, here.belief, depth - 1) for k in range(actions)]
        best = int(np.argmax(worth))
        self.play(here.row, best)
        return worth[best]

    def simulate(self, node: Array, belief: Array, rows: Array) -> float:
        """The same, by Monte Carlo tree search; rows are the next information sets to come."""
        tree = self.tree
        before = _simulate(
            tree.first, tree.children, tree.seat, tree.infoset, tree.start,
            tree.decisions(self.seat), self.probability, self.gain, self.seat, node, belief,
            self.simulations, self.bonus, self.visits, self.total, self.rng,
        )  # fmt: skip
        return float(before + sum(self.chosen(row)[1] for row in rows)) / self.simulations

    def chosen(self, row: int) -> tuple[int, float]:
        """The most visited action of a set, and what all visits of it would have returned."""
        begin, end = self.tree.start[row : row + 2]
        visits = self.visits[begin:end]
        mean = self.total[begin:end] / np.maximum(visits, 1)
        best = int(np.where(visits == visits.max(), mean, -np.inf).argmax())
        return best, float(visits.sum() * mean[best])

    def play(self, row: int, k: int) -> None:
        """Choose a set's k-th legal action."""
        self.reply[row] = 0
        self.reply[row, np.flatnonzero(self.tree.legal[row])[k]] = 1

    def found(self, worth: float) -> SearchResult:
        for row in np.unique(self.tree.owner[self.visits > 0]):
            self.play(row, self.chosen(row)[0])
        return SearchResult(float(worth), self.reply)


@njit(cache=True)
def _payoff(parent, gain):  # type: ignore[no-untyped-def]
    """(V,) points gained from the root to each node."""
    payoff = gain.copy()
    for node in range(1, len(parent)):
        payoff[node] += payoff[parent[node]]
    return payoff


@njit(cache=True)
def _simulate(  # type: ignore[no-untyped-def]
    first, children, mover, infoset, start, most, probability, gain, who, roots, belief,
    simulations, bonus, visits, total, rng,
):  # fmt: skip
    """Add simulations to the statistics; returns the sum of what they gained before who acted."""
    place = np.empty(most, np.int64)  # the actions of one simulation in the tree
    so_far = np.empty(len(place))  # points gained before each
    before = 0.0
    for _ in range(simulations):
        node = roots[_draw(belief, rng)]
        points = 0.0
        acted, grown = 0, False
        while children[node] > 0:
            if mover[node] != who:
                k = _draw(probability[first[node] : first[node] + children[node]], rng)
            elif grown:
                k = int(rng.random() * children[node])
            else:
                begin = start[infoset[node]]
                tried = visits[begin : begin + children[node]]
                grown = tried.sum() == 0
                k = _ucb(tried, total[begin : begin + children[node]], bonus, rng)
                place[acted], so_far[acted] = begin + k, points
                acted += 1
            node = first[node] + k
            points += gain[node]
        before += so_far[0] if acted else points
        for i in range(acted):
            visits[place[i]] += 1
            total[place[i]] += points - so_far[i]
    return before


@njit(cache=True)
def _ucb(visits, total, bonus, rng):  # type: ignore[no-untyped-def]
    """The action of the highest upper confidence bound; first the untried ones, in any order."""
    untried, best, bound = 0, 0, -np.inf
    log = np.log(visits.sum())
    for k in range(len(visits)):
        if visits[k] == 0:
            untried += 1
            if rng.random() * untried < 1:  # each of them is kept with equal probability
                best = k
        elif untried == 0:
            here = total[k] / visits[k] + bonus * np.sqrt(log / visits[k])
            if here > bound:
                best, bound = k, here
    return best


@njit(cache=True)
def _draw(probability, rng):  # type: ignore[no-untyped-def]
    """An index by its probability; never one of probability 0, however the sum was rounded."""
    mark, last = rng.random(), 0
    for k in range(len(probability)):
        if probability[k] > 0:
            last = k
            if mark < probability[k]:
                break
            mark -= probability[k]
    return last
