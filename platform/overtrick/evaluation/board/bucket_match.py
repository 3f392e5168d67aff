"""A match on a board in a game that is too large for a tree; its hands have an abstraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, HandAbstraction, PublicCards
from overtrick.evaluation.board.board_match import Checkpoint, MatchResult, PlayerClock
from overtrick.evaluation.board.board_setting import FinishedGame
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import Told, seen_cards
from overtrick.policies.rollout import play_duplicate
from overtrick.solvers.public_tree.values import IndexedGame

DEALS = 20_000
"""Deals with which a strategy is evaluated, each played in both seats. They are the same for all
players."""


class PolicyPlayer(Protocol):
    """A player that gives a policy for the whole game. A new one is made for each match."""

    def policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy after all games of the match so far.

        The player is evaluated by this policy at a checkpoint, and plays the next game by it.
        """


@runtime_checkable
class ExploringPolicyPlayer(PolicyPlayer, Protocol):
    """A player that plays some games by another policy, to learn more about the opponent."""

    def next_policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy of the next game, after all games of the match so far."""


class CardGame(Game, PublicCards, Protocol):
    """A game whose actions are public and whose chance outcomes are cards."""


@dataclass(frozen=True, eq=False)
class BucketSetting:
    """A game, an abstraction of its hands, and the cards that a player is told after each game."""

    game: CardGame
    abstraction: HandAbstraction
    indexed: IndexedGame  # of the abstraction
    told: Told

    def finished_game(
        self, seat: int, deal: Array, actions: tuple[int, ...], payoff: float
    ) -> FinishedGame:
        """Return a seat's observation of a finished game. `deal` (C,): all cards."""
        shown = self.abstraction.dealt_cards(actions)
        cards = tuple(int(c) if k < shown else -1 for k, c in enumerate(deal))
        seen = seen_cards(self.game, seat, self.told, cards, actions)
        return FinishedGame(seat, seen, actions, payoff, number=-1)


NewPolicyPlayer: TypeAlias = Callable[[BucketSetting, Generator], PolicyPlayer]
"""Class or function that makes the player of one match; its random draws are by the generator."""


def play_match(
    setting: BucketSetting,
    new_player: NewPolicyPlayer,
    opponent: BucketOpponent,
    checkpoints: Sequence[int],
    rng: Generator,
    seconds_per_game: float | None = None,
) -> MatchResult:
    """Play a match; return the results at each checkpoint. See `board_match.play_match`.

    Payoffs at checkpoints are means of sampled games. Raises UserError if the player spends more
    time than it has.
    """
    play_rng, player_rng = rng.spawn(2)
    player, clock = new_player(setting, player_rng), PlayerClock(seconds_per_game, checkpoints[-1])
    games, found, total = list[FinishedGame](), list[Checkpoint](), 0.0
    for number in range(checkpoints[-1] + 1):
        if number in checkpoints:
            payoff = sampled_payoff(setting.game, clock.ask(player.policy, games), opponent)
            found.append(Checkpoint(number, payoff, None, total / number))
        if number == checkpoints[-1]:
            break
        ask = player.next_policy if isinstance(player, ExploringPolicyPlayer) else player.policy
        policies, seat = [opponent.policy] * 2, number % 2
        policies[seat] = clock.ask(ask, games)
        deal, actions, payoffs = _play_game(setting.game, policies, play_rng)
        games.append(setting.finished_game(seat, deal, actions, float(payoffs[seat])))
        total += games[-1].payoff
    return MatchResult(found, clock.seconds / checkpoints[-1])


def sampled_payoff(game: Game, policy: BehaviouralPolicy, opponent: BucketOpponent) -> float:
    """Return a policy's mean payoff against an opponent, over DEALS deals from both seats.

    The deals, and the draws of actions, are the same for all policies.
    """
    rng = np.random.default_rng(int(opponent.digest[:8], 16))
    return float(play_duplicate(game, policy, opponent.policy, DEALS, rng)[1].mean())


def _play_game(
    game: Game, policies: Sequence[BehaviouralPolicy], rng: Generator
) -> tuple[Array, tuple[int, ...], Array]:
    """Play one game; return its deal (C,), the actions of both seats, and their payoffs (2,)."""
    deals = game.deal(1, rng)
    state, actions, payoffs = game.start(deals), list[int](), np.zeros(2)
    while len(observations := game.observe(state)):
        odds = policies[observations.seat[0]].probs(observations)[0].cumsum()
        action = int(np.searchsorted(odds, rng.random() * odds[-1], side="right"))
        payoffs += game.step(state, observations, np.array([action]))[0]
        actions.append(action)
    return deals[0], tuple(actions), payoffs
