"""Play single games, not batches of games, for the environments.

A small game is played on its exact tree. Other games are played by a class for single games, if
the game registers one, or else by the game's batch engine with a batch of one game.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from overtrick.core import CHANCE, END, Array, Enumerable, Game, Observations, select_rows
from overtrick.games import registry
from overtrick.solvers.extensive.tree import build

MAX_TREE_SIZE = 10_000
"""Maximum number of information sets, and of deals or tree nodes, of a game played on its tree."""


class SingleGame(Protocol):
    """Interface of one game in progress.

    Seats that act at the same time act one after another, without observing each other's actions.
    """

    seat: int  # the seat to act; -1 once the game is over

    @property
    def legal(self) -> Array:
        """Return the mask (A,) int8 of legal actions of the seat to act.

        Callers must not change the array.
        """

    @property
    def observation(self) -> Array:
        """Return the features (F,) float32 of the seat to act, in a new array."""

    @property
    def observations(self) -> Observations:
        """Return the observation of the seat to act, as one row for a policy."""

    def begin(self, rng: Generator) -> None:
        """Replace this game by a new game, dealt with `rng`."""

    def act(self, action: Any) -> list[float]:
        """Play a legal action of the seat to act; return the points that each seat gains (S,)."""


def validated_move(move: Any, width: int, agent: str) -> Array:
    """Check a continuous action and return it as an array (width,) of float64.

    `agent`: name of the agent, for the error message. Raises ValueError for a wrong length or
    numbers that are not finite.
    """
    vector = np.asarray(move, np.float64)
    if vector.shape != (width,) or not np.isfinite(vector).all():
        raise ValueError(f"the action of {agent} must be {width} finite numbers")
    return vector


def make_single_game(game: Game) -> SingleGame:
    """Return the fastest implementation of SingleGame for a game.

    A small game is played on its exact tree. Another game is played by the class that its GameSpec
    registers for single games or, without such a class, by its batch engine.
    """
    if isinstance(game, Enumerable):
        size = max(game.infosets or MAX_TREE_SIZE + 1, game.min_tree_size)
        if size <= MAX_TREE_SIZE:
            return TreeSingleGame(game)
    return registry.spec_of(game).single_game(game) or EngineSingleGame(game)


class EngineSingleGame:
    """SingleGame that is played by the game's batch engine, as a batch of one game."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        """Deal and start a new game."""
        self.state = self._game.start(self._game.deal(1, rng))
        self.update_turn()

    def act(self, action: Any) -> list[float]:
        """Play an action of the seat to act, and return the points that each seat gains (S,).

        Seats that act at the same time are asked one after another; all gain 0 until the last of
        them has chosen and the engine makes its step.
        """
        self._chosen.append(action)
        if len(self._chosen) < len(self._rows):
            self.seat = int(self._rows.seat[len(self._chosen)])
            return [0.0] * self._game.seats
        (points,) = self._game.step(self.state, self._rows, np.array(self._chosen))
        self.update_turn()
        return points.tolist()

    def update_turn(self) -> None:
        """Observe all seats that act now, and select the first of them as the seat to act."""
        self._rows = self._game.observe(self.state)
        self._chosen: list[Any] = []
        self.seat = int(self._rows.seat[0]) if len(self._rows) else -1
        self._legal = None if self._rows.legal is None else self._rows.legal.astype(np.int8)

    @property
    def legal(self) -> Array:
        """Return the mask (A,) int8 of legal actions of the seat to act."""
        assert self._legal is not None
        return self._legal[len(self._chosen)]

    @property
    def observation(self) -> Array:
        """Return the features (F,) float32 of the seat to act."""
        return self._game.features(self.observations)[0]

    @property
    def observations(self) -> Observations:
        """Return the observation of the seat to act, as one row for a policy."""
        row = len(self._chosen)
        return select_rows(self._rows, slice(row, row + 1))


class TreeSingleGame:
    """SingleGame that is played by look-ups in the game's exact tree.

    Features, legal actions and points are computed once for the whole tree.
    """

    def __init__(self, game: Enumerable) -> None:
        tree = build(game)
        self._seat = np.where(tree.seat == END, -1, tree.seat).tolist()
        self._infoset = tree.infoset.tolist()
        self._gain = tree.gain.tolist()
        self._legal = tree.legal.astype(np.int8)
        self._features = game.features(tree.observations)
        self._rows = replace(tree.observations, game=np.zeros_like(tree.observations.game))
        self._children: list[dict[int, int]] = [{} for _ in self._seat]  # by action or outcome
        edges = zip(tree.parent[1:].tolist(), tree.edge[1:].tolist(), strict=True)
        for node, (parent, edge) in enumerate(edges, start=1):
            self._children[parent][edge] = node
        chance = tree.chance.tolist()
        self._cumulative = {
            node: list(accumulate(chance[child] for child in self._children[node].values()))
            for node in np.flatnonzero(tree.seat == CHANCE).tolist()
        }
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        """Return to the root of the tree and sample the first chance outcomes."""
        self._rng = rng
        self._move_to(0)

    def act(self, action: int) -> list[float]:
        """Follow an action to the next decision; return the points that each seat gains (S,)."""
        return self._move_to(self._children[self._node][action])

    @property
    def legal(self) -> Array:
        """Return the mask (A,) int8 of legal actions of the seat to act."""
        return self._legal[self._infoset[self._node]]

    @property
    def observation(self) -> Array:
        """Return the features (F,) float32 of the seat to act."""
        return self._features[self._infoset[self._node]].copy()

    @property
    def observations(self) -> Observations:
        """Return the observation of the seat to act, as one row for a policy."""
        row = self._infoset[self._node]
        return select_rows(self._rows, slice(row, row + 1))

    def _move_to(self, node: int) -> list[float]:
        """Move to a tree node, and on through chance nodes until a seat acts or the game is over.

        The chance outcomes are sampled. Returns the points (S,) that each seat gains on the way.
        """
        points: list[float] = self._gain[node]
        while cumulative := self._cumulative.get(node):
            drawn = self._rng.random() * cumulative[-1]
            outcome = min(bisect_right(cumulative, drawn), len(cumulative) - 1)
            node = self._children[node][outcome]
            if any(gain := self._gain[node]):
                points = [a + b for a, b in zip(points, gain, strict=True)]
        self._node, self.seat = node, self._seat[node]
        return points
