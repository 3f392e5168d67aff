"""Enumerate a game's whole tree by playing every action in every deal with its rule engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overtrick.core import (
    CHANCE,
    END,
    Array,
    Enumerable,
    Observations,
    TreeNodes,
    UserError,
    concat_columns,
    select_rows,
)


@dataclass
class _Level:
    """Tree nodes of one depth: each array has one entry for each node."""

    parent: Array  # index in the level above
    edge: Array
    chance: Array
    gain: Array
    seat: Array
    infoset: Array
    observations: Observations  # one row for each node at which a seat acts


@dataclass
class _Branches:
    """Game states at one depth of the tree, one in each row.

    A game state is a tree node together with one complete deal that agrees with the node's history.
    """

    state: Any
    deal: Array  # (X,) index of the deal
    node: Array  # (X,) index of the node in its level
    pending: Array  # (X, S) action chosen by each seat of a simultaneous move, else -1


def enumerate_tree(game: Enumerable, fits: Callable[[float, int], bool]) -> TreeNodes:
    """Enumerate the nodes of a game's tree by playing every action in every deal.

    A node is a history of actions and of the chance outcomes that at least one seat has seen. All
    deals that agree with the history share the node. The tree has a chance node where a seat first
    sees an outcome, with one edge for each outcome, as in OpenSpiel.

    `fits(V, N)` returns whether V nodes and N information sets fit in memory. Raises UserError if
    they do not. Raises ValueError if an observation reveals a chance outcome that no seat has seen
    yet, according to `game.revealed_columns`.
    """
    assert game.infosets is not None
    if not fits(game.min_tree_size, game.infosets):
        raise _size_error(game, game.min_tree_size)
    deals, probability = game.every_deal()
    weight = probability / probability.min()
    if np.allclose(weight, np.rint(weight), rtol=1e-12):
        # count equally likely deals instead of summing floats: a third is then exact
        weight = np.rint(weight)
    levels = _levels(game, deals, weight, fits)
    sizes = np.cumsum([0] + [len(level.seat) for level in levels])
    parent = np.concatenate(
        [np.full(1, -1)]
        + [level.parent + start for level, start in zip(levels[1:], sizes[:-2], strict=True)]
    )

    def column(name: str, kind: type) -> Array:
        return np.concatenate([getattr(level, name) for level in levels], dtype=kind)

    return TreeNodes(
        seats=game.seats,
        parent=parent.astype(np.int32),
        edge=column("edge", np.int32),
        seat=column("seat", np.int32),
        infoset=column("infoset", np.int32),
        chance=column("chance", np.float64),
        gain=column("gain", np.float64),
        observations=_one_row_per_infoset(game, [level.observations for level in levels]),
    )


def _one_row_per_infoset(
    game: Enumerable, observations_by_level: list[Observations]
) -> Observations:
    """Return one observation of each information set, in the order of the sets' numbers.

    `observations_by_level`: for each depth of the tree the observations of its decision nodes.
    Raises ValueError unless the observations have as many information sets as the game declares.
    """
    joined = concat_columns(observations_by_level)
    assert joined.infoset is not None
    numbers, first = np.unique(joined.infoset, return_index=True)
    if len(numbers) != game.infosets:
        raise ValueError(
            f"{game.name} declares {game.infosets} information sets but has {len(numbers)}"
        )
    return replace(select_rows(joined, first), game=np.arange(len(first)))


def _size_error(game: Enumerable, nodes: int) -> UserError:
    return UserError(f"{game.name} has {nodes:,} deals or nodes or more: they do not fit in memory")


def _levels(
    game: Enumerable, deals: Array, weight: Array, fits: Callable[[float, int], bool]
) -> list[_Level]:
    """Return the nodes of a game's tree, one _Level for each depth, from the root down.

    `deals` (G, C) are all possible deals and `weight` (G,) their unnormalised probabilities.
    `fits(V, N)` returns whether V nodes and N information sets fit in memory. Raises UserError if
    they do not.
    """
    # prefix[c, d]: number that deals share if they agree with deal d in the first c columns
    prefix = np.stack(
        [
            np.unique(deals[:, :c], axis=0, return_inverse=True)[1].reshape(-1)
            for c in range(deals.shape[1] + 1)
        ]
    )
    count = len(deals)
    rows = _Branches(
        game.start(deals),
        np.arange(count),
        np.zeros(count, np.int64),
        np.full((count, game.seats), -1),
    )
    shown = np.zeros(count, np.int64)  # (X,) number of deal columns that the node has revealed
    parent, edge = np.zeros(1, np.int64), np.zeros(1, np.int64)
    chance, gain = np.ones(1), np.zeros((1, game.seats))
    levels: list[_Level] = []
    node_count = 0
    while len(parent):
        nodes = len(parent)
        node_count += nodes
        hidden = shown < game.revealed_columns(rows.state)  # chance acts before any seat
        observations, branch_of = _acting_rows(game, rows, ~hidden)
        seat = np.full(nodes, END)
        seat[rows.node[hidden]] = CHANCE
        seat[rows.node[branch_of]] = observations.seat
        first = _first_branch(rows.node[branch_of], nodes)
        here = select_rows(observations, first[first >= 0])
        infoset = np.full(nodes, -1)
        assert here.infoset is not None
        assert here.legal is not None
        assert game.infosets is not None
        if not fits(lower_bound := node_count + int(here.legal.sum()), game.infosets):
            raise _size_error(game, lower_bound)
        infoset[first >= 0] = here.infoset
        _check_observed(game, observations, infoset[rows.node[branch_of]])
        levels.append(_Level(parent, edge, chance, gain, seat, infoset, here))

        # chance's children: one for each value of the deal's next column
        split = np.flatnonzero(hidden)
        by_chance = _Expansion(
            select_rows(rows.state, split),
            rows.deal[split],
            rows.node[split],
            prefix[shown[split] + 1, rows.deal[split]],
            shown[split] + 1,
            rows.pending[split],
            np.zeros((len(split), game.seats)),
        )
        by_action = _expand_actions(game, rows, observations, branch_of, shown)
        rows, shown, parent, edge, chance, gain = _merge_nodes(by_chance, by_action, weight)
    return levels


@dataclass
class _Expansion:
    """Successors of the game states at one depth, each after one action or chance outcome.

    All arrays have one row for each successor state.

    - `state`: the successor states
    - `deal`: index of the deal
    - `source`: tree node before the action or outcome, as an index among the nodes of its depth
    - `edge`: the action, or the number of the chance outcome
    - `shown`: number of chance nodes on the path from the root
    - `pending`: action that each seat has chosen in an unfinished simultaneous move, else -1
    - `gain`: points that each seat gains by the action; 0 for chance outcomes
    """

    state: Any
    deal: Array
    source: Array
    edge: Array
    shown: Array
    pending: Array
    gain: Array


def _acting_rows(game: Enumerable, rows: _Branches, ready: Array) -> tuple[Observations, Array]:
    """Observe the seat that decides next in each game state.

    - `rows`: X game states
    - `ready` (X,) bool: False for game states in which chance acts next

    Returns R observations, and (R,) the index in `rows` of the game state of each observation.
    Finished games, and games in which chance acts next, have no observation. In a simultaneous move
    the next seat is the first that has not chosen its action.
    """
    observations = game.observe(rows.state)
    open_ = ready[observations.game] & (rows.pending[observations.game, observations.seat] < 0)
    observations = select_rows(observations, np.flatnonzero(open_))
    order = np.lexsort((observations.seat, observations.game))
    observations = select_rows(observations, order)
    first = np.append(True, observations.game[1:] != observations.game[:-1])[: len(observations)]
    observations = select_rows(observations, np.flatnonzero(first))
    return observations, observations.game


def _expand_actions(
    game: Enumerable, rows: _Branches, observations: Observations, branch_of: Array, shown: Array
) -> _Expansion:
    """Apply every legal action of each observation, and return the successor states.

    - `rows`: X game states
    - `observations`: R observations, at most one for each game state, from `_acting_rows`
    - `branch_of` (R,): index in `rows` of the game state of each observation
    - `shown` (X,): number of chance nodes on the path from the root to each game state

    The seats of a simultaneous move choose one after another. Their actions wait in the array
    `pending` of the successor states. The game makes its step after the last choice.
    """
    assert observations.legal is not None
    row, action = np.nonzero(observations.legal)
    source = branch_of[row]
    state = select_rows(rows.state, source)
    pending = rows.pending[source].copy()
    pending[np.arange(len(source)), observations.seat[row]] = action
    gain = np.zeros((len(source), game.seats))
    acting = game.observe(state)
    chosen = pending[acting.game, acting.seat]
    incomplete = np.zeros(len(source), bool)
    incomplete[acting.game[chosen < 0]] = True  # a seat of a simultaneous move must still choose
    ready = np.flatnonzero(~incomplete)
    if len(ready):
        ready_state = select_rows(state, ready)
        step = game.observe(ready_state)
        gain[ready] = game.step(ready_state, step, pending[ready][step.game, step.seat])
        for name in state.__dataclass_fields__:
            getattr(state, name)[ready] = getattr(ready_state, name)
        pending[ready] = -1
    return _Expansion(
        state, rows.deal[source], rows.node[source], action, shown[source], pending, gain
    )


def _merge_nodes(
    a: _Expansion, b: _Expansion, deal_weight: Array
) -> tuple[_Branches, Array, Array, Array, Array, Array]:
    """Merge successor states with the same parent node and edge into one tree node.

    The game states of one node share the history of actions and revealed chance outcomes. They
    differ in the chance outcomes that no seat has seen yet.

    - `a`: states after chance outcomes
    - `b`: states after actions
    - `deal_weight` (G,): unnormalised probabilities of all deals

    Returns these values, in this order:

    - the X game states, each with the index of its new node
    - (X,) number of chance nodes on the path from the root to each state
    - (nodes,) parent of each new node, as an index among the nodes of the previous depth
    - (nodes,) edge from the parent: the action, or the number of the chance outcome
    - (nodes,) probability of the chance outcome; 1 after an action
    - (nodes, S) expected points that each seat gains on the edge, given the history
    """
    both = concat_columns([a, b])
    source, deal, gain = both.source, both.deal, both.gain
    by_chance = np.arange(len(source)) < len(a.source)
    key, first, node = np.unique(
        np.stack([source, both.edge], axis=1), axis=0, return_index=True, return_inverse=True
    )
    node = node.reshape(-1)
    weight = np.bincount(node, deal_weight[deal], minlength=len(key))
    from_parent = np.zeros(int(source.max(initial=-1)) + 1)
    np.add.at(from_parent, key[:, 0], weight)
    share = weight / from_parent[key[:, 0]]
    rows = _Branches(both.state, deal, node, both.pending)
    # the gain of a node is the probability-weighted mean over its deals
    totals = [
        np.bincount(node, points * deal_weight[deal], minlength=len(key)) for points in gain.T
    ]
    mean = np.stack(totals, axis=1) / np.maximum(weight, np.finfo(float).tiny)[:, None]
    rank = key[:, 1].copy()
    if by_chance.any():
        start = np.searchsorted(key[:, 0], key[:, 0])
        place = np.arange(len(key)) - start
        rank = np.where(by_chance[first], place, rank)
    return rows, both.shown, key[:, 0], rank, np.where(by_chance[first], share, 1.0), mean


def _first_branch(node: Array, nodes: int) -> Array:
    """Return (nodes,) the position at which each number 0 to `nodes` - 1 first occurs in `node`.

    `node` holds numbers of tree nodes. The position of a number that does not occur is -1.
    """
    first = np.full(nodes, -1)
    first[node[::-1]] = np.arange(len(node))[::-1]
    return first


def _check_observed(game: Enumerable, observations: Observations, infoset: Array) -> None:
    """Raise ValueError if a seat observes a chance outcome before the game declares it revealed.

    By the game's declaration, the game states of one tree node differ only in chance outcomes that
    no seat has seen yet. All observations at the node must then have the same information set.

    - `observations`: R observations
    - `infoset` (R,): information set of the tree node at which each observation is made
    """
    assert observations.infoset is not None
    if not np.array_equal(observations.infoset, infoset):
        raise ValueError(f"{game.name}: a seat observes a chance outcome before it is revealed")
