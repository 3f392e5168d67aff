"""A match on a board in a game that is too large for a tree; its hands have an abstraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, DealtCards, Game, HandAbstraction
from overtrick.evaluation.board.board_match import Checkpoint, MatchResult, PlayerClock
from overtrick.evaluation.board.board_setting import FinishedGame
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import Told, seen_cards
from overtrick.policies.action_sampling import sample_actions
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


class CardGame(Game, DealtCards, Protocol):
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
    deal_rng, action_rng, player_rng = rng.spawn(3)
    clock, length = PlayerClock(seconds_per_game, checkpoints[-1]), checkpoints[-1]
    player = clock.ask(new_player, setting, player_rng)
    deals = setting.game.deal(length, deal_rng)
    games, found, total = list[FinishedGame](), list[Checkpoint](), 0.0
    evaluated: tuple[BehaviouralPolicy, float] | None = None  # the last policy, and its payoff
    for number, game_rng in enumerate([*action_rng.spawn(length), None]):
        if number in checkpoints:
            policy = clock.ask(player.policy, games)
            if evaluated is None or evaluated[0] is not policy:
                evaluated = policy, sampled_payoff(setting.game, policy, opponent)
            found.append(Checkpoint(number, evaluated[1], None, total / number))
        if game_rng is None:
            break
        ask = player.next_policy if isinstance(player, ExploringPolicyPlayer) else player.policy
        policies, seat = [opponent.policy] * 2, number % 2
        policies[seat] = clock.ask(ask, games)
        deal = deals[number : number + 1]
        actions, payoffs = _play_game(setting.game, policies, deal, game_rng)
        games.append(setting.finished_game(seat, deal[0], actions, float(payoffs[seat])))
        total += games[-1].payoff
    return MatchResult(found, clock.seconds / length)


def sampled_payoff(game: Game, policy: BehaviouralPolicy, opponent: BucketOpponent) -> float:
    """Return a policy's mean payoff against an opponent, over DEALS deals from both seats.

    The deals, and the seeds of the action draws, are the same for all policies.
    """
    rng = np.random.default_rng(int(opponent.digest[:8], 16))
    return float(play_duplicate(game, policy, opponent.policy, DEALS, rng)[1].mean())


def _play_game(
    game: Game, policies: Sequence[BehaviouralPolicy], deals: Array, rng: Generator
) -> tuple[tuple[int, ...], Array]:
    """Play one game of a deal (1, C); return the actions of both seats, and their payoffs (2,)."""
    state, actions, payoffs = game.start(deals), list[int](), np.zeros(2)
    while len(observations := game.observe(state)):
        probs = policies[observations.seat[0]].probs(observations)
        action = sample_actions(probs, rng).action
        payoffs += game.step(state, observations, action)[0]
        actions.append(int(action[0]))
    return tuple(actions), payoffs
