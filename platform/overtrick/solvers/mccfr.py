"""Monte Carlo CFR on tree arrays: each iteration traverses a sample of the tree.

Source: Lanctot et al. 2009, "Monte Carlo sampling for regret minimization in extensive games".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import PCG64, Generator

from overtrick.core import CHANCE, Array, UserError
from overtrick.solvers.cfr import strategy_from_weights
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver


@dataclass(frozen=True)
class MccfrVariant:
    """Variant of Monte Carlo CFR: outcome sampling or external sampling.

    At a decision of the updated seat, outcome sampling samples one action, and external sampling
    tries all actions. Both sample chance and the actions of all other seats.
    """

    outcome: bool  # True: outcome sampling, one action; False: external sampling, all actions
    exploration: float = 0.6  # outcome sampling: probability of a uniform action, in (0, 1]

    def __post_init__(self) -> None:
        if not 0 < self.exploration <= 1:
            raise UserError(f"exploration must be above 0 and at most 1, not {self.exploration}")


EXTERNAL = MccfrVariant(outcome=False)
"""External sampling.

When a seat is updated, the current strategy of the next seat is added to the next seat's average
strategy at every visited information set (OpenSpiel's "simple" averaging).
"""

OUTCOME = MccfrVariant(outcome=True)
"""Outcome sampling.

The current strategy of the updated seat is added to its average strategy. The weight is the seat's
own reach probability divided by the sampling probability (stochastically weighted averaging,
Lanctot 2013).
"""

VARIANTS = {"external": EXTERNAL, "outcome": OUTCOME}

NODE_RECORD = np.dtype(
    [
        ("first", np.int32),  # the first child
        ("children", np.int32),
        ("seat", np.int32),
        ("start", np.int32),  # index of the first action among the L; 0 at chance and at ends
        ("upto", np.float64),  # child of chance: cumulative probability of it and earlier outcomes
    ]
)
"""Fields of one node that a traversal reads, stored together in memory."""


class MccfrSolver(IterativeSolver):
    """Monte Carlo CFR on a game tree: cumulative sampled regrets and the average strategy.

    Every random draw is one `rng.random()` of the given generator. A seed therefore determines the
    run, and a restored solver computes the same numbers as an uninterrupted one. The order of draws
    differs from OpenSpiel's, so results agree with OpenSpiel in distribution only. Raises
    ValueError unless the generator is a PCG64 (numpy's default). Raises UserError for external
    sampling of a one-seat game, because no traversal would update the average strategy.
    """

    saved = ("iteration", "regret", "total")

    def __init__(self, tree: Tree, variant: MccfrVariant, rng: Generator) -> None:
        if not isinstance(rng.bit_generator, PCG64):
            raise ValueError("the generator must be a PCG64, as numpy.random.default_rng makes it")
        if tree.seats < 2 and not variant.outcome:
            raise UserError(
                "external sampling needs two seats: it averages the strategy of the next seat"
            )
        self.tree = tree
        self.variant = variant
        self.rng = rng
        self.regret = np.zeros(tree.start[-1])  # (L,) cumulative, as sampled
        self.total = np.zeros(tree.start[-1])  # (L,) weighted sum of strategies, as sampled
        self._nodes = _node_records(tree)

    def run(self, iterations: int) -> None:
        """Run `iterations` more iterations, each with one sampled traversal for each seat."""
        tables = (self._nodes, self.tree.gains, self.regret, self.total)
        if self.variant.outcome:
            _outcome(*tables, self.tree.chance, iterations, self.variant.exploration, self.rng)
        else:
            _external(*tables, iterations, self.rng)
        self.iteration += iterations

    def average(self) -> Array:
        """Return the average strategy (N, A); uniform at information sets never visited."""
        return strategy_from_weights(self.tree, self.total)

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint, including the generator's state."""
        return {**super().state(), "generator": _generator_words(self.rng)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore arrays returned by the method `state`, including the state of the generator."""
        super().load(state)
        _restore_generator(self.rng, state["generator"])


def solve(tree: Tree, iterations: int, variant: MccfrVariant, rng: Generator) -> Array:
    """Run MCCFR from the uniform strategy and return the average strategy (N, A)."""
    solver = MccfrSolver(tree, variant, rng)
    solver.run(iterations)
    return solver.average()


def _generator_words(rng: Generator) -> Array:
    """Return the state of a PCG64 generator as (6,) uint64.

    The first words are state and increment: 128 bits each, in two words, the low word first. The
    last two words are the buffered 32-bit draw: whether there is one, and its value.
    """
    state = rng.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    words = [number >> shift & 2**64 - 1 for number in numbers for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def _restore_generator(rng: Generator, words: Array) -> None:
    low, high, inc_low, inc_high, has, left = map(int, words)
    numbers = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": numbers, "has_uint32": has, "uinteger": left,
    }  # fmt: skip


def _node_records(tree: Tree) -> Array:
    """Return the V nodes of a tree as (V,) records of the type NODE_RECORD."""
    nodes = np.zeros(tree.nodes, NODE_RECORD)
    nodes["first"], nodes["children"], nodes["seat"] = tree.first, tree.children, tree.seat
    acts = tree.seat >= 0
    nodes["start"][acts] = tree.start[tree.infoset[acts]]
    _cumulate_chance(nodes, tree.chance)
    return nodes


@njit(cache=True)
def _cumulate_chance(nodes, chance):  # type: ignore[no-untyped-def]
    for step in nodes:
        if step.seat == CHANCE:
            upto = 0.0
            for child in range(step.first, step.first + step.children):
                upto += chance[child]
                nodes[child].upto = upto
            nodes[step.first + step.children - 1].upto = 1.0  # despite rounding


# Functions that run at every node are inlined: counting array references would cost more.


@njit(cache=True, inline="always")
def _sample_chance(nodes, first, children, u):  # type: ignore[no-untyped-def]
    """Sample a child of a chance node by inversion of the cumulative distribution.

    - `nodes`: records of all nodes (NODE_RECORD)
    - `first`, `children`: first child of the chance node, and number of its children
    - `u`: uniform random number in [0, 1)
    """
    # linear search from the child that equally likely outcomes would give
    child = first + int(u * children)
    while child > first and u < nodes[child - 1].upto:
        child -= 1
    while u >= nodes[child].upto:
        child += 1
    return child


@njit(cache=True, inline="always")
def _positive(regret, start, stop):  # type: ignore[no-untyped-def]
    """Return the sum of the positive regrets of one information set, in regret[start:stop]."""
    positive = 0.0
    for place in range(start, stop):
        positive += max(regret[place], 0.0)
    return positive


@njit(cache=True, inline="always")
def _action_probability(regret, place, positive, actions):  # type: ignore[no-untyped-def]
    """Return the probability of one action by regret matching (Hart and Mas-Colell 2000).

    `place`: index of the action's regret. `positive`: sum of the positive regrets of its
    information set; if it is 0, all `actions` legal actions are equally likely.
    """
    return max(regret[place], 0.0) / positive if positive > 0 else 1 / actions


@njit(cache=True, inline="always")
def _sample_action(regret, start, stop, positive, u):  # type: ignore[no-untyped-def]
    """Return the index in `regret` of the action that regret matching samples for u in [0, 1).

    regret[start:stop] are the regrets of one information set, and `positive` is the sum of the
    positive ones. The action is uniformly random if `positive` is 0. `u`: a uniform random number.
    """
    chosen = start
    if positive > 0:
        left = u * positive
        for place in range(start, stop):
            if regret[place] > 0:  # rounding must not choose an action of probability 0
                chosen = place
                left -= regret[place]
                if left < 0:
                    break
    else:
        chosen += int(u * (stop - start))
    return chosen


@njit(cache=True, inline="always")
def _add_to_average(strategy_sum, regret, start, stop, positive, weight):  # type: ignore[no-untyped-def]
    for place in range(start, stop):
        strategy_sum[place] += weight * _action_probability(regret, place, positive, stop - start)


@njit(cache=True, inline="always")
def _update_regrets(regret, start, stop, value, below):  # type: ignore[no-untyped-def]
    """Add the sampled regrets of one decision to `regret`; return the value of the decision.

    The value of the decision is the mean of its action values under regret matching. An action's
    sampled regret is its value minus this mean. Regrets of the decision's actions are
    regret[start:stop]. Values of these actions are at the indices `below`, `below` + 1, ... of
    `value`.
    """
    positive, here = _positive(regret, start, stop), 0.0
    for place in range(start, stop):
        p = _action_probability(regret, place, positive, stop - start)
        here += p * value[below + place - start]
    for place in range(start, stop):
        regret[place] += value[below + place - start] - here
    return here


@njit(cache=True)
def _external(nodes, gain, regret, strategy_sum, iterations, rng):  # type: ignore[no-untyped-def]
    """Run iterations of external sampling; update `regret` and `strategy_sum` in place.

    An iteration makes one traversal for each seat. A traversal lists the seat's visited decisions,
    then updates their regrets from the last decision to the first.

    - `nodes` (V,): nodes of the tree, as records of the type NODE_RECORD
    - `gain` (S, V): points of each seat on the edge into each node
    - `regret` (L,), `strategy_sum` (L,): sums of sampled regrets and of strategies, by legal action
    """
    seats = len(gain)
    size = 1 + len(regret)  # perfect recall: a traversal visits each own sequence at most once
    at, below, value = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size)
    for _ in range(iterations):
        for learner in range(seats):
            at[0], count, i = 0, 1, 0
            while i < count:
                node = at[i]
                won = gain[learner, node]
                while nodes[node].children > 0 and nodes[node].seat != learner:
                    first, children = nodes[node].first, nodes[node].children
                    if nodes[node].seat == CHANCE:
                        node = _sample_chance(nodes, first, children, rng.random())
                    else:
                        start, stop = nodes[node].start, nodes[node].start + children
                        positive = _positive(regret, start, stop)
                        if nodes[node].seat == (learner + 1) % seats:
                            _add_to_average(strategy_sum, regret, start, stop, positive, 1.0)
                        place = _sample_action(regret, start, stop, positive, rng.random())
                        node = first + place - start
                    won += gain[learner, node]
                at[i], value[i], below[i] = node, won, count
                for child in range(nodes[node].first, nodes[node].first + nodes[node].children):
                    at[count] = child
                    count += 1
                i += 1
            for i in range(count - 1, -1, -1):
                start, children = nodes[at[i]].start, nodes[at[i]].children
                if children > 0:
                    value[i] += _update_regrets(regret, start, start + children, value, below[i])


@njit(cache=True)
def _outcome(nodes, gain, regret, strategy_sum, chance, iterations, exploration, rng):  # type: ignore[no-untyped-def]
    """Run iterations of outcome sampling; update `regret` and `strategy_sum` in place.

    An iteration samples one game for each seat. The regrets of the seat's decisions in this game
    are then updated from the last decision to the first.

    - `nodes` (V,): nodes of the tree, as records of the type NODE_RECORD
    - `gain` (S, V): points of each seat on the edge into each node
    - `regret` (L,), `strategy_sum` (L,): sums of sampled regrets and of weighted strategies, by
      legal action
    - `chance` (V,): probability of the chance outcome that leads to each node
    - `exploration`: probability with which the updated seat takes a uniformly random action
    """
    size = 1 + len(regret)
    at, chosen, won = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size)
    probability, sampling, reach = np.empty(size), np.empty(size), np.empty(size)
    for _ in range(iterations):
        for learner in range(len(gain)):
            node, count = 0, 0
            own, sampled, others = 1.0, 1.0, 1.0  # reach of the strategy, the sampling, the others
            won[0] = gain[learner, 0]
            while nodes[node].children > 0:
                first, children, mover = nodes[node].first, nodes[node].children, nodes[node].seat
                start, stop = nodes[node].start, nodes[node].start + children
                if mover == CHANCE:
                    node = _sample_chance(nodes, first, children, rng.random())
                    others *= chance[node]
                else:
                    positive = _positive(regret, start, stop)
                    explore = mover == learner and rng.random() < exploration
                    known = 0.0 if explore else positive
                    place = _sample_action(regret, start, stop, known, rng.random())
                    p = _action_probability(regret, place, positive, children)
                    if mover == learner:
                        weight = own / (sampled * others)
                        _add_to_average(strategy_sum, regret, start, stop, positive, weight)
                        at[count], chosen[count] = node, place
                        probability[count], reach[count] = p, sampled
                        sampling[count] = exploration / children + (1 - exploration) * p
                        own, sampled, count = own * p, sampled * sampling[count], count + 1
                        won[count] = 0.0  # points gained until the seat's next decision
                    else:
                        others *= p
                    node = first + place - start
                won[count] += gain[learner, node]
            later = won[count]
            for i in range(count - 1, -1, -1):
                action = later / sampling[i]  # sampled value of the chosen action; 0 for the others
                here = probability[i] * action
                start = nodes[at[i]].start
                for place in range(start, start + nodes[at[i]].children):
                    regret[place] -= here / reach[i]
                regret[chosen[i]] += action / reach[i]
                later = here + won[i]
