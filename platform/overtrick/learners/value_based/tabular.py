"""Q-learning and SARSA on a hash table of the choices that were seen (Watkins and Dayan 1992;
Rummery and Niranjan 1994), with spread to like actions and tables merged by counts (Hadjur 2018).

States come as uint64: (D, 1), in which every action may be chosen, or (D, A), one an action, 0
where it may not be taken. A choice is a state and an action, or such a state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories
from overtrick.policies.memoryless import MemorylessPolicy

MAX_LOAD = 0.7  # share of places taken at which a table grows
INITIAL_CAPACITY = 1 << 12  # places of a new table
MAX_ACTIONS = 64  # of a state that has them all: what is known of them is a set of bits

COLUMNS = {
    "choice": np.uint64,
    "value": np.float32,
    "count": np.uint32,
    "state": np.uint64,
    "actions": np.uint64,
}

StateKeys = Callable[[Observations], Array]
"""Rows to what a table knows them by: (R, 1) or (R, A) uint64."""


@dataclass(frozen=True)
class TabularConfig:
    """How values are learnt."""

    rule: Literal["q", "sarsa"]  # what follows is worth its best known action, or the one taken
    alpha: float | None  # share by which a value moves to its target; None: the mean of all targets
    gamma: float  # discount, a decision
    spread: float = 0.0  # share of the reward that like actions learn, to the power of the distance


class QTable:
    """What the choices seen so far are worth. New ones start at 0.

    The target of a choice is its reward plus gamma times the value of the next decision in the same
    game and seat, 0 if that is unknown or there is none. like: for each action those like it
    (A, L), -1 for none, and their distances (A, L); they learn the same with reward times spread to
    the power of the distance.
    """

    def __init__(
        self, states: StateKeys, plan: TabularConfig, like: tuple[Array, Array] | None = None
    ) -> None:
        self.states = states
        self.plan = plan
        if like is None or not plan.spread:
            like = np.zeros((MAX_ACTIONS, 0), np.int64), np.zeros((MAX_ACTIONS, 0))
        self.like = like[0]
        self.share = (plan.spread ** like[1]).astype(np.float32)
        self.columns: dict[str, Array] = {
            name: np.zeros(INITIAL_CAPACITY, dtype) for name, dtype in COLUMNS.items()
        }
        self.choices = self.known = 0  # places taken

    def policy(self, explore: bool = True, epsilon: float = 0.1) -> GreedyTable:
        """The action of the highest value; with probability epsilon any, if it explores."""
        return GreedyTable(self.states, self.columns, epsilon if explore else 0.0)

    def learn(self, batch: Trajectories, rng: Generator | None = None) -> dict[str, float]:
        """Take every decision in once, in order. There is no chance in it."""
        assert batch.legal is not None
        states = self.states(batch.observations())
        wide = states.shape[1] > 1
        self._make_room(len(batch) * (1 + self.like.shape[1]), 0 if wide else len(batch))
        plan, of = self.plan, self.columns
        alpha = 0.0 if plan.alpha is None else plan.alpha
        self.choices, self.known = _learn(
            of["choice"], of["value"], of["count"], of["state"], of["actions"],
            self.choices, self.known, states, batch.legal, batch.action,
            batch.reward.astype(np.float32), batch.last, self.like, self.share,
            alpha, plan.gamma, plan.rule == "q",
        )  # fmt: skip
        return {"choices": float(self.choices)}

    def merge(self, other: Mapping[str, Array]) -> None:
        """Take in what another table learnt: values by how often each was seen."""
        self._make_room(int((other["choice"] > 0).sum()), int((other["state"] > 0).sum()))
        of = self.columns
        self.choices, self.known = _merge(
            of["choice"], of["value"], of["count"], of["state"], of["actions"],
            self.choices, self.known, other["choice"], other["value"], other["count"],
            other["state"], other["actions"],
        )  # fmt: skip

    def _make_room(self, choices: int, known: int) -> None:
        """Grow until so many more choices and states fit."""
        for key, values, wanted in (
            ("choice", ("value", "count"), self.choices + choices),
            ("state", ("actions",), self.known + known),
        ):
            keys = self.columns[key]
            places = len(keys)
            while wanted > MAX_LOAD * places:
                places *= 2
            if places == len(keys):
                continue
            self.columns[key] = np.zeros(places, np.uint64)
            moved = _moved(keys, self.columns[key])
            for name in values:
                old = self.columns[name]
                self.columns[name] = np.zeros(places, old.dtype)
                self.columns[name][moved[moved >= 0]] = old[moved >= 0]

    def state(self) -> dict[str, Array]:
        return {name: column.copy() for name, column in self.columns.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        self.columns = {name: state[name].copy() for name in self.columns}
        self.choices = int((self.columns["choice"] > 0).sum())
        self.known = int((self.columns["state"] > 0).sum())


class GreedyTable(MemorylessPolicy):
    """The legal action of the highest known value; any where none is known, or with probability
    epsilon (0 to 1)."""

    def __init__(
        self, states: StateKeys, columns: Mapping[str, Array], epsilon: float = 0.0
    ) -> None:
        self.states = states
        self.columns = columns
        self.epsilon = epsilon

    def values(self, observations: Observations) -> Array:
        """(R, A) float32 what is known of the legal actions, -inf of the others."""
        assert observations.legal is not None
        values = np.full(observations.legal.shape, -np.inf, np.float32)
        states = self.states(observations)
        _look_up(self.columns["choice"], self.columns["value"], states, observations.legal, values)
        return values

    def probs(self, observations: Observations) -> Array:
        assert observations.legal is not None
        values = self.values(observations)
        known = np.isfinite(values).any(axis=1)
        probs = observations.legal / observations.legal.sum(axis=1, keepdims=True)
        probs[known] *= self.epsilon
        probs[known, values[known].argmax(axis=1)] += 1 - self.epsilon
        return probs


def merge_tables(tables: Sequence[QTable]) -> QTable:
    """One table of what several have learnt apart, by a tree of merges; the first becomes it."""
    left = list(tables)
    while len(left) > 1:
        for one, other in zip(left[::2], left[1::2], strict=False):
            one.merge(other.columns)
        left = left[::2]
    return left[0]


@njit(cache=True)
def _place(keys, key):  # type: ignore[no-untyped-def]
    """Where a key stands, or would (open addressing with Fibonacci hashing, Knuth 1998, 6.4)."""
    last = len(keys) - 1
    place = np.int64(key * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(24)) & last
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) & last
    return place


@njit(cache=True)
def _moved(old, new):  # type: ignore[no-untyped-def]
    """Enter all keys of a table in a new one: where each came, -1 for the places that were free."""
    moved = np.full(len(old), -1)
    for place in range(len(old)):
        if old[place]:
            moved[place] = _place(new, old[place])
            new[moved[place]] = old[place]
    return moved


@njit(cache=True)
def _choice(states, row, action):  # type: ignore[no-untyped-def]
    """The key of an action in a row; 0 for one that may not be taken."""
    if states.shape[1] > 1:
        return states[row, action]
    key = states[row, 0] * np.uint64(0xFF51AFD7ED558CCD)  # states may be neighbours
    key = (key ^ key >> np.uint64(32)) + np.uint64(action)
    key *= np.uint64(0xC4CEB9FE1A85EC53)
    return key ^ key >> np.uint64(32)


@njit(cache=True)
def _best(choice, value, state, actions, states, legal, row):  # type: ignore[no-untyped-def]
    """The highest value known in a row; 0 if none is."""
    wide, known = states.shape[1] > 1, np.uint64(0)
    if not wide:
        known = actions[_place(state, states[row, 0])]
    best, some = np.float32(0), False
    for action in range(legal.shape[1]):
        if not (legal[row, action] if wide else known >> np.uint64(action) & np.uint64(1)):
            continue
        place = _place(choice, _choice(states, row, action))
        if choice[place] and (not some or value[place] > best):
            best, some = value[place], True
    return best


@njit(cache=True)
def _learn(  # type: ignore[no-untyped-def]
    choice, value, count, state, actions, choices, known,
    states, legal, action, reward, last, like, share, alpha, gamma, best,
):  # fmt: skip
    for row in range(len(action)):
        ahead = np.float32(0)
        if not last[row] and gamma > 0:
            if best:
                ahead = _best(choice, value, state, actions, states, legal, row + 1)
            else:  # 0 stands where nothing is known
                ahead = value[_place(choice, _choice(states, row + 1, action[row + 1]))]
        for k in range(-1, like.shape[1]):
            taken = action[row] if k < 0 else like[action[row], k]
            key = _choice(states, row, taken) if taken >= 0 else np.uint64(0)
            if not key:
                continue
            place = _place(choice, key)
            choices += choice[place] == 0
            choice[place] = key
            count[place] += 1
            gained = reward[row] if k < 0 else reward[row] * share[action[row], k]
            rate = alpha if alpha > 0 else 1 / count[place]
            value[place] += rate * (gained + gamma * ahead - value[place])
            if states.shape[1] == 1:
                place = _place(state, states[row, 0])
                known += state[place] == 0
                state[place] = states[row, 0]
                actions[place] |= np.uint64(1) << np.uint64(taken)
    return choices, known


@njit(cache=True)
def _merge(  # type: ignore[no-untyped-def]
    choice, value, count, state, actions, choices, known,
    their_choice, their_value, their_count, their_state, their_actions,
):  # fmt: skip
    for k in range(len(their_choice)):
        if their_choice[k]:
            place = _place(choice, their_choice[k])
            choices += choice[place] == 0
            choice[place] = their_choice[k]
            total = count[place] + their_count[k]
            value[place] += (their_value[k] - value[place]) * their_count[k] / total
            count[place] = total
    for k in range(len(their_state)):
        if their_state[k]:
            place = _place(state, their_state[k])
            known += state[place] == 0
            state[place] = their_state[k]
            actions[place] |= their_actions[k]
    return choices, known


@njit(cache=True)
def _look_up(choice, value, states, legal, values):  # type: ignore[no-untyped-def]
    for row in range(len(legal)):
        for action in range(legal.shape[1]):
            if legal[row, action]:
                place = _place(choice, _choice(states, row, action))
                if choice[place]:
                    values[row, action] = value[place]
