"""Acting players on a board of a game that is too large for a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array, Observations
from overtrick.evaluation.board.acting_player import checked_answer
from overtrick.evaluation.board.board_match import PlayerClock
from overtrick.evaluation.board.board_setting import (
    UNNUMBERED,
    ActingPlayer,
    Decision,
    FinishedGame,
    ObservingPlayer,
)
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.policies.memoryless import MemorylessPolicy


class ActingPolicy(MemorylessPolicy):
    """Policy that asks an acting player for each decision, and takes its time by a clock.

    `playing`: as in `Decision`.
    """

    def __init__(
        self, setting: BucketSetting, player: ActingPlayer, playing: bool, clock: PlayerClock
    ) -> None:
        self._setting, self._player, self._playing = setting, player, playing
        self._clock = clock

    def probs(self, observations: Observations) -> Array:
        """Return the player's probabilities (R, A), 1 for an action that it answers with.

        Raises UserError if an answer is neither a legal action nor a row of probabilities.
        """
        assert observations.legal is not None
        names, rows = self._setting.game.action_names, []
        for seat, seen, legal in zip(
            observations.seat.tolist(), observations.observation, observations.legal, strict=True
        ):
            cards, actions = self._setting.game.decode(seat, seen)
            options = tuple(np.flatnonzero(legal).tolist())
            decision = Decision(UNNUMBERED, seat, cards, actions, options, self._playing)
            answer = self._clock.ask(self._player.act, decision)
            rows.append(checked_answer(answer, options, names, decision)[0])
        return np.array(rows)


class ActingPolicyPlayer:
    """Player that gives policies, made from a player that is asked for one decision at a time."""

    def __init__(self, setting: BucketSetting, player: ActingPlayer, clock: PlayerClock) -> None:
        self._setting, self._player, self._clock = setting, player, clock
        self._observed = 0  # games

    def policy(self, games: Sequence[FinishedGame]) -> ActingPolicy:
        """Return the policy of a checkpoint after all games of the match so far."""
        return self._asking(games, playing=False)

    def next_policy(self, games: Sequence[FinishedGame]) -> ActingPolicy:
        """Return the policy of the next game."""
        return self._asking(games, playing=True)

    def _asking(self, games: Sequence[FinishedGame], playing: bool) -> ActingPolicy:
        if isinstance(self._player, ObservingPlayer):
            for game in games[self._observed :]:
                self._clock.ask(self._player.observe, game)
        self._observed = len(games)
        return ActingPolicy(self._setting, self._player, playing, self._clock)
