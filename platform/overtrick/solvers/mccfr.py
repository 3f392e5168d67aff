"""Monte Carlo CFR on arrays (Lanctot et al. 2009): an iteration walks a sample of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import PCG64, Generator

from overtrick.core import CHANCE, Array, UserError
from overtrick.solvers.cfr import strategy_from_weights
from overtrick.solvers.extensive.tree import Tree


@dataclass(frozen=True)
class MccfrVariant:
    """What a seat tries at its decisions when it learns; all other choices are drawn."""

    outcome: bool  # one action, drawn; else every action
    exploration: float = 0.6  # of outcome sampling: share of draws that are uniform, in (0, 1]

    def __post_init__(self) -> None:
        if not 0 < self.exploration <= 1:
            raise UserError(f"exploration must be above 0 and at most 1, not {self.exploration}")


EXTERNAL = MccfrVariant(outcome=False)
"""External sampling. When a seat learns, the strategy of the seat after it is averaged wherever
the walk comes, OpenSpiel's "simple" rule."""

OUTCOME = MccfrVariant(outcome=True)
"""Outcome sampling. The learning seat's strategy is averaged, weighted by its own reach over the
walk's (stochastically weighted averaging, Lanctot 2013)."""

VARIANTS = {"external": EXTERNAL, "outcome": OUTCOME}

STEP = np.dtype(
    [
        ("first", np.int32),  # the first child
        ("children", np.int32),
        ("seat", np.int32),
        ("start", np.int32),  # place of the first action; 0 where nobody acts
        ("upto", np.float64),  # below chance: probability of this outcome or one before it
    ]
)
"""What a walk reads at a node, side by side in memory."""


class MccfrSolver:
    """The memory of a run: `run` adds iterations, `average` is the strategy so far.

    Each draw is one `rng.random()` of the generator handed in, in an order of this module's own:
    a seed fixes the run, a loaded run goes on as if it had never stopped, and OpenSpiel's runs
    are like it only on average. Raises ValueError unless the generator is numpy's default, PCG64;
    UserError for external sampling of a game of one seat, whose strategy no other's walk averages.
    """

    def __init__(self, tree: Tree, plan: MccfrVariant, rng: Generator) -> None:
        if not isinstance(rng.bit_generator, PCG64):
            raise ValueError("the generator must be a PCG64, as numpy.random.default_rng makes it")
        if tree.seats < 2 and not plan.outcome:
            raise UserError("external sampling needs two seats: one learns, the next is averaged")
        self.tree = tree
        self.plan = plan
        self.rng = rng
        self.iteration = 0
        self.regret = np.zeros(tree.start[-1])  # (L,) cumulative, as sampled
        self.total = np.zeros(tree.start[-1])  # (L,) weighted sum of strategies, as sampled
        self._steps = _steps(tree)

    def run(self, iterations: int) -> None:
        """Add iterations; in each every seat in turn learns from a walk of its own."""
        tables = (self._steps, self.tree.gains, self.regret, self.total)
        if self.plan.outcome:
            _outcome(*tables, self.tree.chance, iterations, self.plan.exploration, self.rng)
        else:
            _external(*tables, iterations, self.rng)
        self.iteration += iterations

    def average(self) -> Array:
        """(N, A) the average strategy; uniform where no walk has come."""
        return strategy_from_weights(self.tree, self.total)

    def state(self) -> dict[str, Array]:
        """What the next iteration depends on."""
        return {
            "regret": self.regret,
            "total": self.total,
            "iteration": np.array(self.iteration),
            "generator": _words(self.rng),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.regret, self.total = state["regret"].copy(), state["total"].copy()
        self.iteration = int(state["iteration"])
        _reset(self.rng, state["generator"])


def solve(tree: Tree, iterations: int, plan: MccfrVariant, rng: Generator) -> Array:
    """The average strategy (N, A) after some iterations."""
    solver = MccfrSolver(tree, plan, rng)
    solver.run(iterations)
    return solver.average()


def _words(rng: Generator) -> Array:
    """(6,) uint64 a PCG64's state: two numbers of 128 bits, low words first, then what is left
    of a draw of 32 bits."""
    state = rng.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    words = [number >> shift & 2**64 - 1 for number in numbers for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def _reset(rng: Generator, words: Array) -> None:
    low, high, inc_low, inc_high, has, left = map(int, words)
    numbers = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": numbers, "has_uint32": has, "uinteger": left,
    }  # fmt: skip


def _steps(tree: Tree) -> Array:
    """(V,) STEP."""
    steps = np.zeros(tree.nodes, STEP)
    steps["first"], steps["children"], steps["seat"] = tree.first, tree.children, tree.seat
    acts = tree.seat >= 0
    steps["start"][acts] = tree.start[tree.infoset[acts]]
    _add_up(steps, tree.chance)
    return steps


@njit(cache=True)
def _add_up(steps, chance):  # type: ignore[no-untyped-def]
    for step in steps:
        if step.seat == CHANCE:
            upto = 0.0
            for child in range(step.first, step.first + step.children):
                upto += chance[child]
                steps[child].upto = upto
            steps[step.first + step.children - 1].upto = 1.0  # whatever the rounding


# What runs at every node is inlined: to count references to arrays would cost more than the work.


@njit(cache=True, inline="always")
def _deal(steps, first, children, u):  # type: ignore[no-untyped-def]
    """Chance's child for a u in [0, 1): sought from where equal probabilities would have it."""
    child = first + int(u * children)
    while child > first and u < steps[child - 1].upto:
        child -= 1
    while u >= steps[child].upto:
        child += 1
    return child


@njit(cache=True, inline="always")
def _positive(regret, start, stop):  # type: ignore[no-untyped-def]
    """The sum of an information set's positive regrets."""
    positive = 0.0
    for place in range(start, stop):
        positive += max(regret[place], 0.0)
    return positive


@njit(cache=True, inline="always")
def _share(regret, place, positive, actions):  # type: ignore[no-untyped-def]
    """Probability of an action by regret matching (Hart and Mas-Colell 2000)."""
    return max(regret[place], 0.0) / positive if positive > 0 else 1 / actions


@njit(cache=True, inline="always")
def _choose(regret, start, stop, positive, u):  # type: ignore[no-untyped-def]
    """The place that regret matching plays for a u in [0, 1); uniform if positive is 0."""
    chosen = start
    if positive > 0:
        left = u * positive
        for place in range(start, stop):
            if regret[place] > 0:  # so that no rounding can choose what has probability 0
                chosen = place
                left -= regret[place]
                if left < 0:
                    break
    else:
        chosen += int(u * (stop - start))
    return chosen


@njit(cache=True, inline="always")
def _average(total, regret, start, stop, positive, weight):  # type: ignore[no-untyped-def]
    for place in range(start, stop):
        total[place] += weight * _share(regret, place, positive, stop - start)


@njit(cache=True, inline="always")
def _learn(regret, start, stop, value, below):  # type: ignore[no-untyped-def]
    """Add the regrets of a decision whose actions are worth value[below], ...; what it is worth."""
    positive, here = _positive(regret, start, stop), 0.0
    for place in range(start, stop):
        share = _share(regret, place, positive, stop - start)
        here += share * value[below + place - start]
    for place in range(start, stop):
        regret[place] += value[below + place - start] - here
    return here


@njit(cache=True)
def _external(steps, gain, regret, total, iterations, rng):  # type: ignore[no-untyped-def]
    """A walk lists where its seat decides or play ends; then the seat learns from the last back."""
    seats = len(gain)
    most = 1 + len(regret)  # a walk meets each own sequence once at most, by perfect recall
    at, below, value = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most)
    for _ in range(iterations):
        for who in range(seats):
            at[0], met, i = 0, 1, 0
            while i < met:
                node = at[i]
                won = gain[who, node]
                while steps[node].children > 0 and steps[node].seat != who:
                    first, children = steps[node].first, steps[node].children
                    if steps[node].seat == CHANCE:
                        node = _deal(steps, first, children, rng.random())
                    else:
                        start, stop = steps[node].start, steps[node].start + children
                        positive = _positive(regret, start, stop)
                        if steps[node].seat == (who + 1) % seats:
                            _average(total, regret, start, stop, positive, 1.0)
                        place = _choose(regret, start, stop, positive, rng.random())
                        node = first + place - start
                    won += gain[who, node]
                at[i], value[i], below[i] = node, won, met
                for child in range(steps[node].first, steps[node].first + steps[node].children):
                    at[met] = child
                    met += 1
                i += 1
            for i in range(met - 1, -1, -1):
                start, children = steps[at[i]].start, steps[at[i]].children
                if children > 0:
                    value[i] += _learn(regret, start, start + children, value, below[i])


@njit(cache=True)
def _outcome(steps, gain, regret, total, chance, iterations, exploration, rng):  # type: ignore[no-untyped-def]
    """A walk is one game; its seat notes its decisions and learns from the last back."""
    most = 1 + len(regret)
    at, chosen, won = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most)
    wanted, drawn, before = np.empty(most), np.empty(most), np.empty(most)
    for _ in range(iterations):
        for who in range(len(gain)):
            node, met = 0, 0
            own, tried, others = 1.0, 1.0, 1.0  # reach: as played, as drawn; all but this seat's
            won[0] = gain[who, 0]
            while steps[node].children > 0:
                first, children, mover = steps[node].first, steps[node].children, steps[node].seat
                start, stop = steps[node].start, steps[node].start + children
                if mover == CHANCE:
                    node = _deal(steps, first, children, rng.random())
                    others *= chance[node]
                else:
                    positive = _positive(regret, start, stop)
                    explore = mover == who and rng.random() < exploration
                    place = _choose(regret, start, stop, 0.0 if explore else positive, rng.random())
                    share = _share(regret, place, positive, children)
                    if mover == who:
                        _average(total, regret, start, stop, positive, own / (tried * others))
                        at[met], chosen[met], wanted[met], before[met] = node, place, share, tried
                        drawn[met] = exploration / children + (1 - exploration) * share
                        own, tried, met = own * share, tried * drawn[met], met + 1
                        won[met] = 0.0  # what the seat gains until it decides again
                    else:
                        others *= share
                    node = first + place - start
                won[met] += gain[who, node]
            later = won[met]
            for i in range(met - 1, -1, -1):
                action = later / drawn[i]  # estimates the chosen action; the others count as 0
                here = wanted[i] * action
                start = steps[at[i]].start
                for place in range(start, start + steps[at[i]].children):
                    regret[place] -= here / before[i]
                regret[chosen[i]] += action / before[i]
                later = here + won[i]
