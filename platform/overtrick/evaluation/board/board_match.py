"""A match on a board: games against one opponent, in which the player adapts after each game."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, PublicActionGame, UserError
from overtrick.evaluation.board.end_observations import (
    Path,
    Told,
    end_observations,
    end_payoffs,
    node_paths,
    seen_cards,
)
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal_order import depth_and_chance_reach
from overtrick.solvers.extensive.tree import Tree


class FinishedGame(NamedTuple):
    """A finished game, as the player observes it."""

    seat: int  # of the player
    cards: tuple[int, ...]  # the columns of the deal that were drawn; -1: not seen
    actions: tuple[int, ...]  # of both seats, from the first
    payoff: float  # of the player, in points
    number: int  # of this observation, among the seat's `BoardSetting.end_observations`


class BoardPlayer(Protocol):
    """A player on a board. A new one is made for each match."""

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy (N, A) after all games of the match so far.

        Row n has the probabilities of the actions at information set n; see
        `BoardSetting.tree.observations`. The player is evaluated by this strategy at a checkpoint,
        and plays the next game by it.
        """


@runtime_checkable
class ExploringPlayer(BoardPlayer, Protocol):
    """A player that plays some games by another strategy, to learn more about the opponent."""

    def next_strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy (N, A) of the next game, after all games of the match so far."""


@dataclass(frozen=True)
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

    def finished_game(self, seat: int, node: int) -> FinishedGame:
        """Return a seat's observation of the game that ended at a terminal node."""
        cards, actions = self._paths[node]
        seen = seen_cards(self.game, seat, self.told, cards, actions)
        payoff = float(self.payoffs[node, seat])
        return FinishedGame(seat, seen, actions, payoff, int(self.end_observations[seat][node]))


NewPlayer: TypeAlias = Callable[[BoardSetting, Generator], BoardPlayer]
"""Class or function that makes the player of one match; its random draws are by the generator."""


class Checkpoint(NamedTuple):
    """Result of a match after a number of games. Payoffs are points per game."""

    games: int
    payoff: float | None
    """Exact, of the player's strategy then, averaged over both seats. None for an opponent that
    changes."""
    exploitability: float  # exact, of that strategy
    online: float  # mean of the games so far


class MatchResult(NamedTuple):
    """Result of a match."""

    checkpoints: list[Checkpoint]
    seconds_per_game: float  # in which the player computed its strategies


def play_match(
    setting: BoardSetting,
    new_player: NewPlayer,
    opponent: BoardOpponent,
    checkpoints: Sequence[int],
    rng: Generator,
) -> MatchResult:
    """Play a match; return the results at each checkpoint.

    The player sits in seats 0 and 1 in turn. `checkpoints`: numbers of games, in rising order.
    Raises UserError if the player returns an array that is no strategy of the tree.
    """
    tree, games, found = setting.tree, list[FinishedGame](), list[Checkpoint]()
    play_rng, player_rng = rng.spawn(2)
    player = new_player(setting, player_rng)
    owner = tree.observations.seat[tree.action_infoset]
    depth, _ = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    draws = play_rng.random((checkpoints[-1], 1 + int(depth.max())))
    total = seconds = 0.0
    for number in range(checkpoints[-1] + 1):
        theirs = opponent.phases[opponent.phase_index(number)]
        if number in checkpoints:
            strategy, spent = _ask(tree, player.strategy, games)
            seconds += spent
            payoff = None if opponent.changes else exact_payoff(tree, strategy, theirs)
            gap = best_response.exploitability(tree, strategy)
            found.append(Checkpoint(number, payoff, gap, total / number))
        if number == checkpoints[-1]:
            break
        play = player.next_strategy if isinstance(player, ExploringPlayer) else player.strategy
        strategy, spent = _ask(tree, play, games)
        seconds += spent
        seat = number % 2
        flat = np.where(owner == seat, tree.flat(strategy), tree.flat(theirs))
        node = _sample_end(
            tree.first, tree.children, tree.seat, tree.infoset, tree.chance, tree.start, flat,
            draws[number],
        )  # fmt: skip
        games.append(setting.finished_game(seat, int(node)))
        total += games[-1].payoff
    return MatchResult(found, seconds / checkpoints[-1])


def _ask(
    tree: Tree,
    strategy_of: Callable[[Sequence[FinishedGame]], Array],
    games: Sequence[FinishedGame],
) -> tuple[Array, float]:
    """Ask a player for a strategy; return it, and the seconds that the player took."""
    began = time.perf_counter()
    strategy = np.asarray(strategy_of(games), float)
    seconds = time.perf_counter() - began
    try:
        best_response.check_strategy(tree, strategy)
    except UserError as error:
        raise UserError(f"the player's strategy after {len(games)} games: {error}") from None
    return strategy, seconds


@njit(cache=True)
def _sample_end(first, children, seat, infoset, chance, start, flat, draws):  # type: ignore[no-untyped-def]
    """Walk from the root to a terminal node, and return it.

    `flat` (L,): probabilities of the legal actions. `draws`: uniform random numbers from 0 to 1,
    one for each edge of the walk. The other arrays are those of the tree.
    """
    node = depth = 0
    while children[node] > 0:
        total, chosen = 0.0, -1
        for child in range(first[node], first[node] + children[node]):
            if seat[node] < 0:
                probability = chance[child]
            else:
                probability = flat[start[infoset[node]] + child - first[node]]
            if probability > 0:
                chosen = child
            total += probability
            if draws[depth] < total:
                break
        node = chosen
        depth += 1
    return node
