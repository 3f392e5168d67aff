"""Best-response search against a fixed strategy: expectimax and Monte Carlo tree search.

The other seats' fixed strategy and chance form the environment of the searching seat. This seat
faces a partially observable Markov decision process whose states are the nodes of its information
sets (Samothrakis and Lucas 2011, section 3.4). A strategy sigma is (N, A) as in
solvers/extensive/best_response.py. The searching seat's own rows of sigma do not affect the search.
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
"""UCB1's exploration constant, as a multiple of the range of the seat's payoffs.

The paper has sqrt(2) (Auer, Cesa-Bianchi and Fischer 2002). In Leduc against uniform play, 0.5
halves the distance to the best-response value at 10,000 and 100,000 simulations.
"""


@dataclass(frozen=True)
class SearchResult:
    """Result of a best-response search: the seat's strategy and its estimated value.

    The exact value of the strategy is `best_response.expected(tree, result.sigma)[seat]`.
    """

    value: float  # estimated points of the seat; if sampled, the error may have either sign
    sigma: Array  # (N, A) the given sigma, with the search's actions where it chose any


class InfosetBelief(NamedTuple):
    """Information set that the searching seat may reach, with the probabilities of its nodes."""

    row: int  # number of the information set
    probability: float  # of reaching it
    node: Array  # (n,) int its nodes of positive probability
    belief: Array  # (n,) conditional probability of each node, summing to 1


def expectimax(
    tree: Tree, sigma: Array, seat: int, depth: int,
    simulations: int = 0, rng: Generator | None = None, exploration: float = EXPLORATION,
) -> SearchResult:  # fmt: skip
    """Search for a best response to sigma: expectimax to a depth, Monte Carlo tree search below.

    Expectimax chooses the first `depth` decisions of `seat`. Monte Carlo tree search (MCTS) chooses
    the later decisions. A separate MCTS of `simulations` games runs at each information set of the
    seat's decision number `depth` + 1. Each game starts at a node of this information set, sampled
    from the belief. Where MCTS chooses, the resulting strategy takes the most visited action.

    If `depth` covers all decisions of the seat, the result is an exact best response. Otherwise
    `simulations` and `rng` must be given, or ValueError is raised.

    - `sigma` (N, A): fixed strategy of the other seats; the rows of `seat` do not affect the search
    - `exploration`: UCB1's exploration constant, as a multiple of the range of the seat's payoffs
      in the tree

    Source: Samothrakis and Lucas 2011, Algorithm 1.
    """
    decisions = tree.max_decisions(seat)
    if depth < 0 or (depth < decisions and (simulations < 1 or rng is None)):
        raise ValueError(
            f"depth {depth} does not cover the {decisions} decisions of seat {seat}: "
            "give simulations and a generator for those below, or a greater depth"
        )
    search = _Search(tree, sigma, seat, simulations, rng, exploration)
    return search.result(search.belief_value(np.array([0]), np.ones(1), depth))


def mcts(
    tree: Tree, sigma: Array, seat: int,
    simulations: int, rng: Generator, exploration: float = EXPLORATION,
) -> SearchResult:  # fmt: skip
    """Search for a best response to sigma (N, A) by Monte Carlo tree search from the root.

    A simulation samples the actions of chance and of the other seats. It chooses the seat's actions
    by UCB1 from the statistics of each information set. It adds the first information set without
    statistics to the search tree, and continues uniformly at random.

    The resulting strategy takes the most visited action of each information set; among equally
    visited actions, the action with the higher mean return. The value in the result is the mean
    return of the chosen first actions. This mean is too low while later decisions are still being
    explored.

    `exploration`: UCB1's exploration constant, as a multiple of the range of the seat's payoffs in
    the tree; 0 is greedy. Raises ValueError if `simulations` is below 1. Sources: Kocsis and
    Szepesvari 2006 (UCT); Silver and Veness 2010 (POMCP), for information sets in a fixed
    environment.
    """
    if simulations < 1:
        raise ValueError(f"{simulations} simulations find nothing: give 1 or more")
    search = _Search(tree, sigma, seat, simulations, rng, exploration)
    first = np.flatnonzero((tree.observations.seat == seat) & (tree.stage == 0))
    return search.result(tree.gain[0, seat] + search.mcts_value(np.array([0]), np.ones(1), first))


def next_infosets(
    tree: Tree, probability: Array, seat: int, node: Array, belief: Array
) -> tuple[float, list[InfosetBelief]]:
    """Propagate a belief over nodes to the seat's next decisions or to the ends of the game.

    - `node` (n,), `belief` (n,): the current nodes and their probabilities
    - `probability` (V,): probability with which chance or another seat takes the edge into each
      node

    Returns two values:

    - the expected points that the seat gains on the way, including the points on the transition
      into the current node
    - the information sets reached, each with the probabilities of its nodes by Bayes' rule

    Source: Samothrakis and Lucas 2011, eqs. 7 to 9.
    """
    points = 0.0
    nodes, beliefs = [], []
    while len(node):
        points += float(belief @ tree.gain[node, seat])
        own = tree.seat[node] == seat
        nodes.append(node[own])
        beliefs.append(belief[own])
        count = np.where(own, 0, tree.children[node])
        offset = np.cumsum(count) - count
        child = np.repeat(tree.first[node] - offset, count) + np.arange(count.sum())
        belief = np.repeat(belief, count) * probability[child]
        node, belief = child[belief > 0], belief[belief > 0]
    node, belief = np.concatenate(nodes, dtype=np.int64), np.concatenate(beliefs)
    rows, at = np.unique(tree.infoset[node], return_inverse=True)
    arrival = np.bincount(at, belief)
    return points, [
        InfosetBelief(int(row), float(arrival[i]), node[at == i], belief[at == i] / arrival[i])
        for i, row in enumerate(rows)
    ]


class _Search:
    """State of one best-response search: visit counts, sums of returns, and the strategy so far."""

    def __init__(
        self, tree: Tree, sigma: Array, seat: int,
        simulations: int, rng: Generator | None, exploration: float,
    ) -> None:  # fmt: skip
        check_strategy(tree, sigma)
        self.tree, self.seat, self.simulations, self.rng = tree, seat, simulations, rng
        self.reply = sigma.copy()
        self.probability = edge_probability(tree, sigma)
        self.gain = tree.gains[seat]
        payoff = _path_payoffs(tree.parent, self.gain)[tree.children == 0]
        self.bonus = exploration * float(np.ptp(payoff))  # points
        # searches from different information sets share these arrays; perfect recall separates them
        self.visits = np.zeros(tree.start[-1], np.int64)  # (L,) visits of each action
        self.total = np.zeros(len(self.visits))  # (L,) sum of returns from the action onwards

    def belief_value(self, node: Array, belief: Array, depth: int) -> float:
        """Return the searching seat's expected remaining points, given a belief over nodes.

        - `node` (n,), `belief` (n,): nodes at which the game may be, and their probabilities
        - `depth`: number of the seat's decisions to search by expectimax; later decisions are
          searched by Monte Carlo tree search

        Points gained on the transition into the current node are included.
        """
        points, sets = next_infosets(self.tree, self.probability, self.seat, node, belief)
        return points + sum(s.probability * self.infoset_value(s, depth) for s in sets)

    def infoset_value(self, current: InfosetBelief, depth: int) -> float:
        """Return the searching seat's expected points from an information set onwards.

        Points gained before the information set is reached are excluded. `depth`: number of the
        seat's decisions to search by expectimax, this one included. The best action found by
        expectimax is stored. With `depth` 0 the value is estimated by Monte Carlo tree search.
        """
        if depth == 0:
            return self.mcts_value(current.node, current.belief, np.array([current.row]))
        first, actions = self.tree.first[current.node], int(self.tree.legal[current.row].sum())
        worth = [self.belief_value(first + k, current.belief, depth - 1) for k in range(actions)]
        best = int(np.argmax(worth))
        self.set_action(current.row, best)
        return worth[best]

    def mcts_value(self, node: Array, belief: Array, rows: Array) -> float:
        """Estimate the seat's expected points to the end of the game by Monte Carlo tree search.

        - `node` (n,), `belief` (n,): nodes at which the game may be, and their probabilities
        - `rows`: the information sets at which the seat can make its next decision

        Points gained before the current node is reached are excluded.
        """
        tree = self.tree
        points_before = _simulate(
            tree.first, tree.children, tree.seat, tree.infoset, tree.start,
            tree.max_decisions(self.seat), self.probability, self.gain, self.seat, node, belief,
            self.simulations, self.bonus, self.visits, self.total, self.rng,
        )  # fmt: skip
        return float(points_before + sum(self.most_visited(r)[1] for r in rows)) / self.simulations

    def most_visited(self, row: int) -> tuple[int, float]:
        """Return the most visited action of information set `row`, and the set's weighted value.

        The action is an index among the legal actions of the information set. The mean return of
        this action is the estimated value of the information set. The weighted value is this value
        times the visits of all actions of the information set.
        """
        begin, end = self.tree.start[row : row + 2]
        visits = self.visits[begin:end]
        mean = self.total[begin:end] / np.maximum(visits, 1)
        best = int(np.where(visits == visits.max(), mean, -np.inf).argmax())
        return best, float(visits.sum() * mean[best])

    def set_action(self, row: int, k: int) -> None:
        """Let the searching seat's strategy play the k-th legal action at information set `row`."""
        self.reply[row] = 0
        self.reply[row, np.flatnonzero(self.tree.legal[row])[k]] = 1

    def result(self, worth: float) -> SearchResult:
        """Return the strategy found by the search, with its estimated value `worth`.

        The strategy takes the most visited action at each information set that Monte Carlo tree
        search has visited. `worth`: the searching seat's expected points.
        """
        for row in np.unique(self.tree.action_infoset[self.visits > 0]):
            self.set_action(row, self.most_visited(row)[0])
        return SearchResult(float(worth), self.reply)


@njit(cache=True)
def _path_payoffs(parent, gain):  # type: ignore[no-untyped-def]
    """Return (V,) the points that a seat gains on the path from the root to each node.

    `gain` (V,): the seat's points on the edge into each node.
    """
    payoff = gain.copy()
    for node in range(1, len(parent)):
        payoff[node] += payoff[parent[node]]
    return payoff


@njit(cache=True)
def _simulate(  # type: ignore[no-untyped-def]
    first, children, mover, infoset, start, max_decisions, probability, gain, seat, roots, belief,
    simulations, bonus, visits, total, rng,
):  # fmt: skip
    """Run MCTS simulations and update the action statistics `visits` (L,) and `total` (L,).

    The arrays (L,) have one entry for each legal action of each of the N information sets. For each
    action that the seat takes inside the search tree, a simulation adds 1 to `visits`, and the
    points gained from this action onwards to `total`. Returns the points gained before the seat's
    first action, summed over simulations.

    - `first`, `children` (V,): first child and number of children of each node
    - `mover`, `infoset` (V,): acting seat and information set of each node
    - `start` (N + 1,): index in arrays (L,) of each information set's first legal action
    - `max_decisions`: largest number of the seat's decisions in one game
    - `probability` (V,): probability with which chance or another seat takes the edge into each
      node
    - `gain` (V,): the seat's points on the edge into each node
    - `roots` (n,), `belief` (n,): nodes at which a simulation starts, and their probabilities
    - `bonus`: UCB1's exploration constant in points
    """
    place = np.empty(max_decisions, np.int64)  # actions of one simulation inside the search tree
    points_at = np.empty(len(place))  # points gained before each action
    points_before = 0.0
    for _ in range(simulations):
        node = roots[_sample_index(belief, rng)]
        points = 0.0
        acted, expanded = 0, False
        while children[node] > 0:
            if mover[node] != seat:
                k = _sample_index(probability[first[node] : first[node] + children[node]], rng)
            elif expanded:
                k = int(rng.random() * children[node])
            else:
                begin = start[infoset[node]]
                tried = visits[begin : begin + children[node]]
                expanded = tried.sum() == 0
                k = _ucb_action(tried, total[begin : begin + children[node]], bonus, rng)
                place[acted], points_at[acted] = begin + k, points
                acted += 1
            node = first[node] + k
            points += gain[node]
        points_before += points_at[0] if acted else points
        for i in range(acted):
            visits[place[i]] += 1
            total[place[i]] += points - points_at[i]
    return points_before


@njit(cache=True)
def _ucb_action(visits, total, bonus, rng):  # type: ignore[no-untyped-def]
    """Return the action with the highest upper confidence bound (UCB1), or a random untried action.

    `visits` and `total`: visits of each legal action, and sums of its returns. `bonus`: UCB1's
    exploration constant in points.
    """
    untried, best, bound = 0, 0, -np.inf
    log = np.log(visits.sum())
    for k in range(len(visits)):
        if visits[k] == 0:
            untried += 1
            if rng.random() * untried < 1:  # reservoir sampling: each is equally likely
                best = k
        elif untried == 0:
            current = total[k] / visits[k] + bonus * np.sqrt(log / visits[k])
            if current > bound:
                best, bound = k, current
    return best


@njit(cache=True)
def _sample_index(probability, rng):  # type: ignore[no-untyped-def]
    """Sample an index by its probability. Rounding never selects an index of probability 0."""
    mark, last = rng.random(), 0
    for k in range(len(probability)):
        if probability[k] > 0:
            last = k
            if mark < probability[k]:
                break
            mark -= probability[k]
    return last
