"""One game at a time, as doors show it: played by the engine or, where the tree is small, on it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    CHANCE,
    END,
    Array,
    BoundedPayoff,
    Enumerable,
    Game,
    Observations,
    UserError,
    select_rows,
)
from overtrick.games import registry
from overtrick.solvers.extensive.tree import build

MAX_TREE_SIZE = 10_000  # information sets, or deals, of a tree that is built within a moment


class SingleGame(Protocol):
    """A game in progress. Of those who choose at once one is asked after another, and nobody sees
    what was chosen."""

    seat: int  # who acts; -1 once the game is over

    @property
    def legal(self) -> Array:
        """(A,) int8 what that seat may do, if actions are single ones; not to be changed."""

    @property
    def observation(self) -> Array:
        """(F,) float32 what it sees; nobody else's array."""

    @property
    def observations(self) -> Observations:
        """The same for a policy of ours: one row."""

    def begin(self, rng: Generator) -> None:
        """A new game in place of this one."""

    def act(self, action: Any) -> list[float]:
        """Let the seat act, by a legal action: (S,) points that this brings."""


def validated_move(move: Any, width: int, agent: str) -> Array:
    """(width,) float64 a move by real vectors. Raises ValueError unless it is finite numbers."""
    found = np.asarray(move, np.float64)
    if found.shape != (width,) or not np.isfinite(found).all():
        raise ValueError(f"the move of {agent} must be {width} finite numbers")
    return found


def lowest_payoff(game: Game) -> float:
    """Return the payoff of an illegal action. Raises UserError for a game that names none."""
    if not isinstance(game, BoundedPayoff):
        raise UserError(f"{game.name} names no lowest_payoff, which an illegal action pays")
    return float(game.lowest_payoff)


def make_single_game(game: Game) -> SingleGame:
    """The quicker way to play a game."""
    if (
        isinstance(game, Enumerable)
        and max(game.infosets or MAX_TREE_SIZE + 1, game.min_tree_size) <= MAX_TREE_SIZE
    ):
        return TreeSingleGame(game)
    return registry.single_game(game) or EngineSingleGame(game)


class EngineSingleGame:
    """By the engine, in batches of one."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._nothing = [0.0] * game.seats
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        self.state = self._game.start(self._game.deal(1, rng))
        self.update_turn()

    def act(self, action: Any) -> list[float]:
        self._chosen.append(action)
        if len(self._chosen) < len(self._all):
            self.seat = int(self._all.seat[len(self._chosen)])
            return self._nothing
        (points,) = self._game.step(self.state, self._all, np.array(self._chosen))
        self.update_turn()
        gained: list[float] = points.tolist()
        return gained

    def update_turn(self) -> None:
        """Whose turn it is in the state, if anybody's."""
        self._all = self._game.observe(self.state)
        self._chosen: list[Any] = []
        self.seat = int(self._all.seat[0]) if len(self._all) else -1
        self._legal = None if self._all.legal is None else self._all.legal.astype(np.int8)

    @property
    def legal(self) -> Array:
        assert self._legal is not None
        found: Array = self._legal[len(self._chosen)]
        return found

    @property
    def observation(self) -> Array:
        found: Array = self._game.features(self.observations)[0]
        return found

    @property
    def observations(self) -> Observations:
        row = len(self._chosen)
        return select_rows(self._all, slice(row, row + 1))


class TreeSingleGame:
    """From node to node of the exact tree, which is the engine's own: a step looks things up."""

    def __init__(self, game: Enumerable) -> None:
        tree = build(game)
        self._seat = np.where(tree.seat == END, -1, tree.seat).tolist()
        self._infoset = tree.infoset.tolist()
        self._gain = tree.gain.tolist()
        self._legal = tree.legal.astype(np.int8)
        self._seen = game.features(tree.observations)
        self._sets = replace(tree.observations, game=np.zeros_like(tree.observations.game))
        self._below: list[dict[int, int]] = [{} for _ in self._seat]  # by action or outcome
        for node, (above, edge) in enumerate(
            zip(tree.parent[1:].tolist(), tree.edge[1:].tolist(), strict=True), start=1
        ):
            self._below[above][edge] = node
        chance = tree.chance.tolist()
        self._odds = {
            node: list(accumulate(chance[child] for child in self._below[node].values()))
            for node in np.flatnonzero(tree.seat == CHANCE).tolist()
        }
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        self._rng = rng
        self._to(0)

    def act(self, action: int) -> list[float]:
        return self._to(self._below[self._node][action])

    @property
    def legal(self) -> Array:
        found: Array = self._legal[self._infoset[self._node]]
        return found

    @property
    def observation(self) -> Array:
        found: Array = self._seen[self._infoset[self._node]].copy()
        return found

    @property
    def observations(self) -> Observations:
        row = self._infoset[self._node]
        return select_rows(self._sets, slice(row, row + 1))

    def _to(self, node: int) -> list[float]:
        """Come to a node, and on from it as chance will have it; the points gained since."""
        points = self._gain[node]
        while odds := self._odds.get(node):
            outcome = min(bisect_right(odds, self._rng.random() * odds[-1]), len(odds) - 1)
            node = self._below[node][outcome]
            if any(gain := self._gain[node]):
                points = [a + b for a, b in zip(points, gain, strict=True)]
        self._node, self.seat = node, self._seat[node]
        found: list[float] = points
        return found
