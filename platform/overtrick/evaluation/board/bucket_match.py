"""A match on a board in a game that is too large for a tree; its hands have an abstraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, UserError
from overtrick.evaluation.board.board_match import Checkpoint, MatchResult, PlayerClock
from overtrick.evaluation.board.board_setting import ActingPlayer, ClosablePlayer, FinishedGame
from overtrick.evaluation.board.bucket_acting_player import ActingPolicyPlayer
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.bucket_setting import (
    BucketSetting,
    ExploringPolicyPlayer,
    PolicyPlayer,
)
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play_duplicate

DEALS = 20_000
"""Deals with which a strategy is evaluated, each played in both seats. They are the same for all
players."""


NewPolicyPlayer: TypeAlias = Callable[[BucketSetting, Generator], PolicyPlayer | ActingPlayer]
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
    clock = PlayerClock(seconds_per_game, checkpoints[-1])
    made = new_player(setting, player_rng)
    try:
        player = (
            ActingPolicyPlayer(setting, made, clock) if isinstance(made, ActingPlayer) else made
        )
        if not isinstance(player, PolicyPlayer):
            raise UserError(
                f"in {setting.game.name}, which is too large for a tree, a player needs the method "
                "act or policy"
            )
        return _play(setting, player, opponent, checkpoints, (deal_rng, action_rng), clock)
    finally:
        if isinstance(made, ClosablePlayer):
            made.close()


def _play(
    setting: BucketSetting,
    player: PolicyPlayer,
    opponent: BucketOpponent,
    checkpoints: Sequence[int],
    rngs: tuple[Generator, Generator],
    clock: PlayerClock,
) -> MatchResult:
    """Play a match. `rngs`: the generators of the deals, and of the actions of both seats."""
    (deal_rng, action_rng), length = rngs, checkpoints[-1]
    deals = setting.game.deal(length, deal_rng)

    def ask_for(method: Callable[[Sequence[FinishedGame]], BehaviouralPolicy]) -> BehaviouralPolicy:
        """Ask the player for a policy; an acting player takes its time by itself."""
        asked = isinstance(player, ActingPolicyPlayer)
        return method(games) if asked else clock.ask(method, games)

    games, found, total = list[FinishedGame](), list[Checkpoint](), 0.0
    evaluated: tuple[BehaviouralPolicy, float] | None = None  # the last policy, and its payoff
    for number, game_rng in enumerate([*action_rng.spawn(length), None]):
        if number in checkpoints:
            policy = ask_for(player.policy)
            if evaluated is None or evaluated[0] is not policy:
                evaluated = policy, sampled_payoff(setting.game, policy, opponent)
            found.append(Checkpoint(number, evaluated[1], None, total / number))
        if game_rng is None:
            break
        ask = player.next_policy if isinstance(player, ExploringPolicyPlayer) else player.policy
        policies, seat = [opponent.policy] * 2, number % 2
        policies[seat] = ask_for(ask)
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
