"""The setting of a match on a board, and the players that adapt in it after each game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, PublicActionGame
from overtrick.evaluation.board.end_observations import (
    Path,
    Told,
    end_observations,
    end_payoffs,
    node_paths,
    seen_cards,
)
from overtrick.solvers.extensive.tree import Tree

UNNUMBERED = -1
"""Number of an information set or end observation in a game without a tree."""


class FinishedGame(NamedTuple):
    """A finished game, as the player observes it."""

    seat: int  # of the player
    cards: tuple[int, ...]  # the columns of the deal; -1: not seen, or not dealt
    actions: tuple[int, ...]  # of both seats, from the first
    payoff: float  # of the player, in points
    number: int  # of this observation, among the seat's `BoardSetting.end_observations`


class Decision(NamedTuple):
    """A decision, as the seat to act observes it."""

    infoset: int  # number of the information set; see `BoardSetting.tree.observations`
    seat: int
    cards: tuple[int, ...]  # the columns of the deal; -1: not seen, or not dealt
    actions: tuple[int, ...]  # of both seats, from the first
    legal: tuple[int, ...]  # actions
    playing: bool  # False: at a checkpoint, where no game is played


class StrategyPlayer(Protocol):
    """A player on a board. A new one is made for each match."""

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy (N, A) after all games of the match so far.

        Row n has the probabilities of the actions at information set n; see
        `BoardSetting.tree.observations`. The player is evaluated by this strategy at a checkpoint,
        and plays the next game by it.
        """


@runtime_checkable
class ExploringPlayer(StrategyPlayer, Protocol):
    """A player that plays some games by another strategy, to learn more about the opponent."""

    def next_strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy (N, A) of the next game, after all games of the match so far."""


@dataclass(frozen=True, eq=False)
class BoardSetting:
    """A game, and the cards that a player is told after each game of a match."""

    game: PublicActionGame
    tree: Tree
    told: Told

    @cached_property
    def end_observations(self) -> tuple[Array, Array]:
        """For seats 0 and 1 (V,) int32: number of its observation at each end, else -1."""
        first, second = (end_observations(self.game, self.tree, s, self.told) for s in range(2))
        return first, second

    @cached_property
    def payoffs(self) -> Array:
        """(V, S) the points of each seat at each terminal node."""
        return end_payoffs(self.tree)

    @cached_property
    def _paths(self) -> list[Path]:
        return node_paths(self.game, self.tree)

    @cached_property
    def decisions(self) -> list[Decision]:
        """The decision at each information set, as at a checkpoint."""
        tree, found = self.tree, list[Decision]()
        nodes = np.flatnonzero(tree.seat >= 0)
        _, first = np.unique(tree.infoset[nodes], return_index=True)
        for infoset, node in enumerate(nodes[first].tolist()):
            (cards, actions), seat = self._paths[node], int(tree.seat[node])
            seen = seen_cards(self.game, seat, "own_cards", cards, actions)
            legal = tuple(np.flatnonzero(tree.legal[infoset]).tolist())
            found.append(Decision(infoset, seat, seen, actions, legal, playing=False))
        return found

    def finished_game(self, seat: int, node: int) -> FinishedGame:
        """Return a seat's observation of the game that ended at a terminal node."""
        cards, actions = self._paths[node]
        seen = seen_cards(self.game, seat, self.told, cards, actions)
        payoff = float(self.payoffs[node, seat])
        return FinishedGame(seat, seen, actions, payoff, int(self.end_observations[seat][node]))


@runtime_checkable
class ActingPlayer(Protocol):
    """A player that is asked for one decision at a time. A new one is made for each match."""

    def act(self, decision: Decision) -> int | Sequence[float]:
        """Return an action, or the probabilities (A,) of all actions of the game."""


@runtime_checkable
class ObservingPlayer(ActingPlayer, Protocol):
    """An acting player that is also told each finished game, so that it can adapt."""

    def observe(self, game: FinishedGame) -> None:
        """Learn from a finished game."""


@runtime_checkable
class ClosablePlayer(Protocol):
    """A player with a resource, such as a process, that is released after its match."""

    def close(self) -> None:
        """Release the resource."""


NewPlayer: TypeAlias = Callable[[BoardSetting, Generator], StrategyPlayer | ActingPlayer]
"""Class or function that makes the player of one match; its random draws are by the generator."""
