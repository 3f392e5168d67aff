"""Every deal times every action, step by step through the engine that plays: a tree's nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
class Level:
    """The nodes at one depth; (n,) each, and the decisions that their seats face."""

    parent: Array  # place in the level above
    edge: Array
    chance: Array
    gain: Array
    seat: Array
    infoset: Array
    observations: Observations  # one row for each node at which a seat acts


@dataclass
class _Rows:
    """Every deal in every history that it can reach at one depth: the engine's view."""

    state: Any
    deal: Array  # (X,) which deal
    node: Array  # (X,) which node of the level
    pending: Array  # (X, S) actions that seats of this turn have already chosen, else -1


def enumerate_tree(game: Enumerable, fits: Callable[[float, int], bool]) -> TreeNodes:
    """The whole tree of a game.

    A node gathers every deal that play so far cannot tell apart, so chance stands where it is
    revealed, one outcome a node, as in OpenSpiel. Raises ValueError if a seat acts on what the
    deal has not shown yet, UserError unless fits(V, N): if there is no room for so many nodes and
    information sets.
    """
    assert game.infosets is not None
    if not fits(game.min_tree_size, game.infosets):
        raise _too_large(game, game.min_tree_size)
    deals, probability = game.every_deal()
    weight = probability / probability.min()
    if np.allclose(weight, np.rint(weight), rtol=1e-12):
        # equally likely deals are counted, not added up: so a third is a third to the last bit
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
        observations=_number(game, [level.observations for level in levels]),
    )


def _number(game: Enumerable, turns: list[Observations]) -> Observations:
    """One row for each information set, in the engine's own numbering."""
    joined = concat_columns(turns)
    assert joined.infoset is not None
    numbers, first = np.unique(joined.infoset, return_index=True)
    if len(numbers) != game.infosets:
        raise ValueError(f"{game.name} names {game.infosets} information sets, has {len(numbers)}")
    observations = select_rows(joined, first)
    return Observations(
        np.arange(len(observations)),
        observations.seat,
        observations.observation,
        observations.legal,
        observations.infoset,
    )


def _too_large(game: Enumerable, nodes: int) -> UserError:
    return UserError(f"{game.name} has {nodes:,} deals or nodes or more: they do not fit in memory")


def _levels(
    game: Enumerable, deals: Array, weight: Array, fits: Callable[[float, int], bool]
) -> list[Level]:
    """The levels of a game's tree from the root down; deals (G, C) weigh (G,) each."""
    # prefix[c][d]: deals that agree in their first c columns share a number
    prefix = np.stack(
        [
            np.unique(deals[:, :c], axis=0, return_inverse=True)[1].reshape(-1)
            for c in range(deals.shape[1] + 1)
        ]
    )
    count = len(deals)
    rows = _Rows(
        game.start(deals),
        np.arange(count),
        np.zeros(count, np.int64),
        np.full((count, game.seats), -1),
    )
    shown = np.zeros(count, np.int64)  # (X,) deal columns that the node has fixed
    parent, edge = np.zeros(1, np.int64), np.zeros(1, np.int64)
    chance, gain = np.ones(1), np.zeros((1, game.seats))
    levels: list[Level] = []
    found = 0
    while len(parent):
        nodes = len(parent)
        found += nodes
        hidden = shown < game.revealed_columns(rows.state)  # chance moves before anybody else
        observations, row_of = _next_to_act(game, rows, ~hidden)
        seat = np.full(nodes, END)
        seat[rows.node[hidden]] = CHANCE
        seat[rows.node[row_of]] = observations.seat
        first = _first_row(rows.node[row_of], nodes)
        here = select_rows(observations, first[first >= 0])
        infoset = np.full(nodes, -1)
        assert here.infoset is not None
        assert here.legal is not None
        assert game.infosets is not None
        if not fits(sure := found + int(here.legal.sum()), game.infosets):
            raise _too_large(game, sure)
        infoset[first >= 0] = here.infoset
        _check_shown(game, observations, infoset[rows.node[row_of]])
        levels.append(Level(parent, edge, chance, gain, seat, infoset, here))

        # children by chance: split the rows by the next column of the deal
        split = np.flatnonzero(hidden)
        by_chance = _Step(
            select_rows(rows.state, split),
            rows.deal[split],
            rows.node[split],
            prefix[shown[split] + 1, rows.deal[split]],
            shown[split] + 1,
            rows.pending[split],
            np.zeros((len(split), game.seats)),
        )
        by_action = _act(game, rows, observations, row_of, shown)
        rows, shown, parent, edge, chance, gain = _join(by_chance, by_action, weight)
    return levels


@dataclass
class _Step:
    """Rows one edge further: which node each came from and along which edge."""

    state: Any
    deal: Array
    source: Array
    edge: Array
    shown: Array
    pending: Array
    gain: Array


def _next_to_act(game: Enumerable, rows: _Rows, ready: Array) -> tuple[Observations, Array]:
    """The first seat of each game's turn that has not chosen yet, and the row of each."""
    observations = game.observe(rows.state)
    open_ = ready[observations.game] & (rows.pending[observations.game, observations.seat] < 0)
    observations = select_rows(observations, np.flatnonzero(open_))
    order = np.lexsort((observations.seat, observations.game))
    observations = select_rows(observations, order)
    first = np.append(True, observations.game[1:] != observations.game[:-1])[: len(observations)]
    observations = select_rows(observations, np.flatnonzero(first))
    return observations, observations.game


def _act(
    game: Enumerable, rows: _Rows, observations: Observations, row_of: Array, shown: Array
) -> _Step:
    """Every legal action of every row that acts; the engine steps once all its seats chose."""
    assert observations.legal is not None
    which, action = np.nonzero(observations.legal)
    source = row_of[which]
    state = select_rows(rows.state, source)
    pending = rows.pending[source].copy()
    pending[np.arange(len(source)), observations.seat[which]] = action
    gain = np.zeros((len(source), game.seats))
    whole = game.observe(state)
    chosen = pending[whole.game, whole.seat]
    waiting = np.zeros(len(source), bool)
    waiting[whole.game[chosen < 0]] = True  # another seat of the same turn still has to choose
    ready = np.flatnonzero(~waiting)
    if len(ready):
        part = select_rows(state, ready)
        step = game.observe(part)
        gain[ready] = game.step(part, step, pending[ready][step.game, step.seat])
        for name in state.__dataclass_fields__:
            getattr(state, name)[ready] = getattr(part, name)
        pending[ready] = -1
    return _Step(state, rows.deal[source], rows.node[source], action, shown[source], pending, gain)


def _join(
    a: _Step, b: _Step, deal_weight: Array
) -> tuple[_Rows, Array, Array, Array, Array, Array]:
    """Rows that share a parent and an edge become one node of the next level."""
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
    rows = _Rows(both.state, deal, node, both.pending)
    # an end may hold many deals: its gain is their mean, weighted by probability
    mean = (
        np.stack(
            [
                np.bincount(node, gain[:, s] * deal_weight[deal], minlength=len(key))
                for s in range(gain.shape[1])
            ],
            axis=1,
        )
        / np.maximum(weight, np.finfo(float).tiny)[:, None]
    )
    rank = key[:, 1].copy()
    if by_chance.any():
        start = np.searchsorted(key[:, 0], key[:, 0])
        place = np.arange(len(key)) - start
        rank = np.where(by_chance[first], place, rank)
    return (
        rows,
        both.shown,
        key[:, 0],
        rank,
        np.where(by_chance[first], share, 1.0),
        mean,
    )


def _first_row(node: Array, nodes: int) -> Array:
    """(nodes,) the first of the rows at each node, -1 where there is none."""
    first = np.full(nodes, -1)
    first[node[::-1]] = np.arange(len(node))[::-1]
    return first


def _check_shown(game: Enumerable, observations: Observations, infoset: Array) -> None:
    assert observations.infoset is not None
    if not np.array_equal(observations.infoset, infoset):
        raise ValueError(f"{game.name}: a seat acts on chance that the deal has not shown yet")
