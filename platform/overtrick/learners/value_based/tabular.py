"""Tabular Q-learning and SARSA on a hash table (Watkins and Dayan 1992, Rummery and Niranjan 1994).

The D decisions of a batch have uint64 keys in one of two forms:

- (D, 1): one key for each state.
- (D, A): one key for each state-action pair, 0 where the action is not available.

An update can also change the values of similar actions, such as cards of adjacent ranks. Tables can
be merged, with values averaged by visit counts (Hadjur 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import (
    AbstractStates,
    Array,
    BehaviouralPolicy,
    Observations,
    Trajectories,
    UserError,
)
from overtrick.policies import model_kinds
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.uniform import UniformPolicy

MAX_LOAD = 0.7  # load factor at which a table grows
INITIAL_CAPACITY = 1 << 12  # slots of a new table
MAX_ACTIONS = 64  # with state keys (D, 1): the bits of a uint64 mark the visited actions

COLUMNS = {
    "choice": np.uint64,  # key of a state-action pair
    "value": np.float32,  # its action value
    "count": np.uint32,  # its number of visits
    "state": np.uint64,  # key of a state
    "actions": np.uint64,  # its visited actions, one bit each
}

StateKeys = Callable[[Observations], Array]
"""Function from observations to state keys, (R, 1) or (R, A) uint64."""


@dataclass(frozen=True)
class TabularConfig:
    """Hyperparameters of tabular Q-learning and SARSA."""

    rule: Literal["q", "sarsa"]  # value of the next decision: best visited action, or action taken
    alpha: float | None  # learning rate; None: 1 / visits, the mean of all targets
    gamma: float  # discount per decision
    spread: float = 0.0  # factor of the reward for similar actions, per unit of distance


class QTable:
    """Hash table of action values, learnt by Q-learning or SARSA; new entries start at 0.

    The target of a state-action pair is its reward plus gamma times the value of the next decision
    of the same game and seat. The value of the next decision is 0 if the table has no entry for it,
    or if there is no next decision.

    - `states`: function from observations to state keys.
    - `similar`: two arrays (A, L), the indices of up to L similar actions of each action (-1: none)
      and their distances. These actions are updated too, with reward x `config.spread`^distance.
    """

    def __init__(
        self, states: StateKeys, config: TabularConfig, similar: tuple[Array, Array] | None = None
    ) -> None:
        self.states = states
        self.config = config
        if similar is None or not config.spread:
            similar = np.zeros((MAX_ACTIONS, 0), np.int64), np.zeros((MAX_ACTIONS, 0))
        self.similar = similar[0]
        self.share = (config.spread ** similar[1]).astype(np.float32)
        self.columns: dict[str, Array] = {
            name: np.zeros(INITIAL_CAPACITY, dtype) for name, dtype in COLUMNS.items()
        }
        self.choices = self.states_known = 0  # slots in use

    def policy(self, explore: bool = True, epsilon: float = 0.1) -> GreedyTable:
        """Return the greedy policy of the table or, with `explore`, the epsilon-greedy policy."""
        return GreedyTable(self.states, self.columns, epsilon if explore else 0.0)

    def learn(self, batch: Trajectories, rng: Generator | None = None) -> dict[str, float]:
        """Update the table once for each decision, in order.

        Returns the number of entries as a metric.
        """
        assert batch.legal is not None
        states = self.states(batch.observations())
        action_keys = states.shape[1] > 1
        self._make_room(len(batch) * (1 + self.similar.shape[1]), 0 if action_keys else len(batch))
        config = self.config
        alpha = 0.0 if config.alpha is None else config.alpha
        self.choices, self.states_known = _update(
            *self.columns.values(), self.choices, self.states_known, states, batch.legal,
            batch.action, batch.reward.astype(np.float32), batch.last, self.similar, self.share,
            alpha, config.gamma, config.rule == "q",
        )  # fmt: skip
        return {"choices": float(self.choices)}

    def merge(self, other: Mapping[str, Array]) -> None:
        """Merge the `state()` of another table into this one; average values by visit counts."""
        self._make_room(int((other["choice"] > 0).sum()), int((other["state"] > 0).sum()))
        theirs = (other[name] for name in COLUMNS)
        self.choices, self.states_known = _merge_columns(
            *self.columns.values(), self.choices, self.states_known, *theirs
        )

    def _make_room(self, choices: int, states_known: int) -> None:
        """Grow the table so that new entries fit without exceeding the load factor MAX_LOAD.

        `choices`, `states_known`: upper bounds on the numbers of new state-action pairs and of new
        states.
        """
        for key, values, wanted in (
            ("choice", ("value", "count"), self.choices + choices),
            ("state", ("actions",), self.states_known + states_known),
        ):
            keys = self.columns[key]
            places = len(keys)
            while wanted > MAX_LOAD * places:
                places *= 2
            if places == len(keys):
                continue
            self.columns[key] = np.zeros(places, np.uint64)
            moved = _rehash(keys, self.columns[key])
            for name in values:
                old = self.columns[name]
                self.columns[name] = np.zeros(places, old.dtype)
                self.columns[name][moved[moved >= 0]] = old[moved >= 0]

    def state(self) -> dict[str, Array]:
        """Return copies of the table's keys, action values and visit counts, by column name."""
        return {name: column.copy() for name, column in self.columns.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore keys, action values and visit counts from a result of `state()`."""
        self.columns = {name: state[name].copy() for name in self.columns}
        self.choices = int((self.columns["choice"] > 0).sum())
        self.states_known = int((self.columns["state"] > 0).sum())


@dataclass(frozen=True, eq=False)
class GreedyTable(MemorylessPolicy):
    """Greedy policy of a Q-table: the visited legal action of the highest value.

    In states without a visited action it takes a uniformly random legal action. In other states it
    does so with probability `epsilon` (0 to 1).
    """

    states: StateKeys
    columns: Mapping[str, Array]
    epsilon: float = 0.0

    def values(self, observations: Observations) -> Array:
        """Return (R, A) float32 values of visited legal actions, -inf elsewhere."""
        assert observations.legal is not None
        values = np.full(observations.legal.shape, -np.inf, np.float32)
        keys, stored = self.columns["choice"], self.columns["value"]
        _read_values(keys, stored, self.states(observations), observations.legal, values)
        return values

    def probs(self, observations: Observations) -> Array:
        """Return (R, A) action probabilities."""
        assert observations.legal is not None
        values = self.values(observations)
        states_known = np.isfinite(values).any(axis=1)
        probs = observations.legal / observations.legal.sum(axis=1, keepdims=True)
        probs[states_known] *= self.epsilon
        probs[states_known, values[states_known].argmax(axis=1)] += 1 - self.epsilon
        return probs


@njit(cache=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot of a key in a hash table, or the free slot for a new key.

    `keys`: the key in each slot, 0 if free. Open addressing with Fibonacci hashing (Knuth 1998,
    section 6.4).
    """
    last = len(keys) - 1
    slot = np.int64(key * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(24)) & last
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & last
    return slot


@njit(cache=True)
def _rehash(old, new):  # type: ignore[no-untyped-def]
    """Copy the keys of hash table `old` to the larger, empty hash table `new`.

    Returns the new slot of each old slot, -1 for free slots.
    """
    moved = np.full(len(old), -1)
    for slot in range(len(old)):
        if old[slot]:
            moved[slot] = _slot(new, old[slot])
            new[moved[slot]] = old[slot]
    return moved


@njit(cache=True)
def _key(states, row, action):  # type: ignore[no-untyped-def]
    """Return the key of a state-action pair.

    `states` holds keys in one of two forms:

    - (R, 1): one key for each state. The result is a hash of the row's state key and `action`.
    - (R, A): one key for each state-action pair. The result is the entry at `row` and `action`; 0
      if the action is not available.
    """
    if states.shape[1] > 1:
        return states[row, action]
    # hash, because state keys may be consecutive
    key = states[row, 0] * np.uint64(0xFF51AFD7ED558CCD)
    key = (key ^ key >> np.uint64(32)) + np.uint64(action)
    key *= np.uint64(0xC4CEB9FE1A85EC53)
    return key ^ key >> np.uint64(32)


@njit(cache=True)
def _best_value(choice, value, state, actions, states, legal, row):  # type: ignore[no-untyped-def]
    """Return the highest value of a visited action in the state of row `row`; 0 if none is visited.

    - `choice`: keys of a hash table of state-action pairs.
    - `value`: action values of this hash table, parallel to `choice`.
    - `state`: keys of a hash table of states.
    - `actions`: visited actions of each state, one bit for each action, parallel to `state`.
    - `states`: keys of the rows, in one of two forms (see `_key`).
    - `legal` (R, A): mask of legal actions.

    With state keys (R, 1), the maximum is over all actions in `actions`, even those that are
    illegal in this row: an abstract state joins rows with different hands. With keys of
    state-action pairs (R, A), the maximum is over the visited legal actions of this row.
    """
    action_keys, states_known = states.shape[1] > 1, np.uint64(0)
    if not action_keys:
        states_known = actions[_slot(state, states[row, 0])]
    best, found = np.float32(0), False
    for action in range(legal.shape[1]):
        visited = states_known >> np.uint64(action) & np.uint64(1)
        if not (legal[row, action] if action_keys else visited):
            continue
        slot = _slot(choice, _key(states, row, action))
        if choice[slot] and (not found or value[slot] > best):
            best, found = value[slot], True
    return best


@njit(cache=True)
def _update(  # type: ignore[no-untyped-def]
    choice, value, count, state, actions, choices, states_known,
    states, legal, action, reward, last, similar, share, alpha, gamma, best,
):  # fmt: skip
    for row in range(len(action)):
        next_value = np.float32(0)
        if not last[row] and gamma > 0:
            if best:
                next_value = _best_value(choice, value, state, actions, states, legal, row + 1)
            else:  # a free slot has value 0
                next_value = value[_slot(choice, _key(states, row + 1, action[row + 1]))]
        for k in range(-1, similar.shape[1]):
            tried = action[row] if k < 0 else similar[action[row], k]
            key = _key(states, row, tried) if tried >= 0 else np.uint64(0)
            if not key:
                continue
            slot = _slot(choice, key)
            choices += choice[slot] == 0
            choice[slot] = key
            count[slot] += 1
            points = reward[row] if k < 0 else reward[row] * share[action[row], k]
            rate = alpha if alpha > 0 else 1 / count[slot]
            value[slot] += rate * (points + gamma * next_value - value[slot])
            if states.shape[1] == 1:
                slot = _slot(state, states[row, 0])
                states_known += state[slot] == 0
                state[slot] = states[row, 0]
                actions[slot] |= np.uint64(1) << np.uint64(tried)
    return choices, states_known


@njit(cache=True)
def _merge_columns(  # type: ignore[no-untyped-def]
    choice, value, count, state, actions, choices, states_known,
    their_choice, their_value, their_count, their_state, their_actions,
):  # fmt: skip
    for k in range(len(their_choice)):
        if their_choice[k]:
            slot = _slot(choice, their_choice[k])
            choices += choice[slot] == 0
            choice[slot] = their_choice[k]
            total = count[slot] + their_count[k]
            value[slot] += (their_value[k] - value[slot]) * their_count[k] / total
            count[slot] = total
    for k in range(len(their_state)):
        if their_state[k]:
            slot = _slot(state, their_state[k])
            states_known += state[slot] == 0
            state[slot] = their_state[k]
            actions[slot] |= their_actions[k]
    return choices, states_known


@njit(cache=True)
def _read_values(choice, value, states, legal, values):  # type: ignore[no-untyped-def]
    for row in range(len(legal)):
        for action in range(legal.shape[1]):
            if legal[row, action]:
                slot = _slot(choice, _key(states, row, action))
                if choice[slot]:
                    values[row, action] = value[slot]


def _stored_tables(weights: model_kinds.StoredWeights) -> list[str]:
    """List the player roles, such as `declarer`, for which a stored model has a Q-table."""
    suffix = ".choice"
    return [name.removesuffix(suffix) for name in weights.arrays if name.endswith(suffix)]


def _load_stored(weights: model_kinds.StoredWeights, game: Any) -> BehaviouralPolicy:
    """Build the greedy policy of a stored model that has a Q-table for each trained player role.

    A role is for example `declarer`. Roles without a table act uniformly at random. Raises
    UserError for a damaged model.
    """
    folder = weights.source
    if not isinstance(game, AbstractStates):
        raise UserError(f"the model in {folder} has Q-tables, but {game.name} has no state keys")
    try:
        states = game.state_keys(weights.job["tabular"]["state_abstraction"])
    except (KeyError, TypeError):
        raise UserError(
            f"the model in {folder} is damaged: its job names no tabular.state_abstraction; "
            "restore it"
        ) from None
    tables = {player: weights.under(player) for player in _stored_tables(weights)}
    for player, columns in tables.items():
        check_columns(columns, f"the table of {player} in {folder}")
    greedy = {player: GreedyTable(states, columns) for player, columns in tables.items()}
    return game.combined_policy(greedy, UniformPolicy())


def check_columns(columns: Mapping[str, Array], table: str) -> None:
    """Raise UserError unless these are the columns of a Q-table. `table`: its name in the error."""
    pairs = (("choice", "value"), ("choice", "count"), ("state", "actions"))
    fits = all({k, n} <= columns.keys() and columns[n].shape == columns[k].shape for k, n in pairs)
    kinds = {"choice": "u", "state": "u", "value": "f", "count": "iu", "actions": "iu"}
    fits = fits and all(columns[name].dtype.kind in kind for name, kind in kinds.items())
    if not fits or not all(_is_hash_table(columns[key]) for key in ("choice", "state")):
        raise UserError(f"{table} is damaged: its columns do not fit")


def _is_hash_table(keys: Array) -> bool:
    """Return whether an array of keys is a valid hash table: size a power of two, with a free slot.

    Without a free slot a look-up would not end.
    """
    return (
        keys.ndim == 1
        and len(keys) > 0
        and len(keys) & (len(keys) - 1) == 0
        and bool((keys == 0).any())
    )


model_kinds.register(model_kinds.ModelKind(lambda w: bool(_stored_tables(w)), _load_stored))
