"""A match on a board: games against one opponent, in which the player adapts after each game."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, UserError
from overtrick.evaluation.board.acting_player import ActingPlayerAdapter
from overtrick.evaluation.board.board_setting import (
    ActingPlayer,
    BoardSetting,
    ClosablePlayer,
    ExploringPlayer,
    FinishedGame,
    NewPlayer,
    StrategyPlayer,
)
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal_order import depth_and_chance_reach
from overtrick.solvers.extensive.tree import Tree


class Checkpoint(NamedTuple):
    """Result of a match after a number of games. Payoffs are points per game."""

    games: int
    payoff: float | None
    """Of the player's strategy then, averaged over both seats; exact, if the game has a tree. None
    for an opponent that changes."""
    exploitability: float | None  # exact, of that strategy; None without a tree
    online: float  # mean of the games so far


class MatchResult(NamedTuple):
    """Result of a match."""

    checkpoints: list[Checkpoint]
    seconds_per_game: float  # in which the player computed its strategies


Answer = TypeVar("Answer")


class PlayerClock:
    """Measures a player's time in a match, and enforces a limit.

    `seconds_per_game`: limit of the player's time, as a mean over the match; None: no limit.
    """

    def __init__(self, seconds_per_game: float | None, games: int) -> None:
        self.limit = None if seconds_per_game is None else seconds_per_game * games
        self.seconds = 0.0

    def ask(self, question: Callable[..., Answer], *arguments: object) -> Answer:
        """Return a player's answer. Raises UserError if the player has spent its time."""
        began = time.perf_counter()
        answer = question(*arguments)
        self.seconds += time.perf_counter() - began
        if self.limit is not None and self.seconds > self.limit:
            raise UserError(
                f"the player took {self.seconds:.1f} s, more than the {self.limit:g} s of a match: "
                "raise limits.seconds_per_game"
            )
        return answer


def play_match(
    setting: BoardSetting,
    new_player: NewPlayer,
    opponent: BoardOpponent,
    checkpoints: Sequence[int],
    rng: Generator,
    seconds_per_game: float | None = None,
) -> MatchResult:
    """Play a match; return the results at each checkpoint.

    The player sits in seats 0 and 1 in turn. `checkpoints`: numbers of games, in rising order.
    `seconds_per_game`: limit of the player's time, as a mean over the match, without the time to
    create it; None: no limit. Raises UserError if the player spends more time, or returns an array
    that is no strategy of the tree.
    """
    play_rng, player_rng = rng.spawn(2)
    clock = PlayerClock(seconds_per_game, checkpoints[-1])
    player = new_player(setting, player_rng)
    try:
        made = ActingPlayerAdapter(setting, player) if isinstance(player, ActingPlayer) else player
        return _play(setting, made, opponent, checkpoints, play_rng, clock)
    finally:
        if isinstance(player, ClosablePlayer):
            player.close()


def _play(
    setting: BoardSetting,
    player: StrategyPlayer | ActingPlayerAdapter,
    opponent: BoardOpponent,
    checkpoints: Sequence[int],
    rng: Generator,
    clock: PlayerClock,
) -> MatchResult:
    """Play a match, in which `rng` draws chance's outcomes and the actions of both seats."""
    tree, games, found = setting.tree, list[FinishedGame](), list[Checkpoint]()
    owner = tree.observations.seat[tree.action_infoset]
    depth, _ = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    draws = rng.random((checkpoints[-1], 1 + int(depth.max())))
    total = 0.0
    for number in range(checkpoints[-1] + 1):
        theirs = opponent.phases[opponent.phase_index(number)]
        if number in checkpoints:
            strategy = _checked(tree, clock.ask(player.strategy, games), games)
            payoff = None if opponent.changes else exact_payoff(tree, strategy, theirs)
            gap = best_response.exploitability(tree, strategy)
            found.append(Checkpoint(number, payoff, gap, total / number))
        if number == checkpoints[-1]:
            break
        seat = number % 2
        if isinstance(player, ActingPlayerAdapter):
            node = clock.ask(player.play, games, seat, theirs, draws[number])
        else:
            play = player.next_strategy if isinstance(player, ExploringPlayer) else player.strategy
            strategy = _checked(tree, clock.ask(play, games), games)
            flat = np.where(owner == seat, tree.flat(strategy), tree.flat(theirs))
            node = _sample_end(
                tree.first, tree.children, tree.seat, tree.infoset, tree.chance, tree.start, flat,
                draws[number],
            )  # fmt: skip
        games.append(setting.finished_game(seat, int(node)))
        total += games[-1].payoff
    return MatchResult(found, clock.seconds / checkpoints[-1])


def _checked(tree: Tree, answer: Array, games: Sequence[FinishedGame]) -> Array:
    """Return a player's answer. Raises UserError if it is not a strategy (N, A) of the tree."""
    strategy = np.asarray(answer, float)
    try:
        best_response.check_strategy(tree, strategy)
    except UserError as error:
        raise UserError(f"the player's strategy after {len(games)} games: {error}") from None
    return strategy


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
