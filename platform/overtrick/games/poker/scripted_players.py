"""Scripted poker players: caller, folder, bluffer, and hold'em players by hand strength."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, Observations
from overtrick.games.poker.game import Poker
from overtrick.games.poker.holdem.hand_percentile import percentiles
from overtrick.games.poker.rules import CALL, CHECK, FOLD, RAISE, VERBS
from overtrick.policies.memoryless import MemorylessPolicy


class ScriptedPlayer(MemorylessPolicy):
    """Base class of scripted poker players, which choose among fold, check, call and raise."""

    def __init__(self, game: Poker) -> None:
        self.game = game

    def first_legal(self, observations: Observations, *verbs: str) -> Array:
        """Return (R, A) probability 1 for the first legal action of `verbs` (fold, check, ...)."""
        node = observations.observation[:, self.game.observation_fields.index("betting")]
        action = self.game.betting.verb[node][:, [VERBS.index(verb) for verb in verbs]]
        first = (action >= 0).argmax(axis=1)
        return np.eye(self.game.actions)[action[np.arange(len(action)), first]]

    def play_by_strength(
        self, observations: Observations, strong: Array, weak: Array, bluff: float
    ) -> Array:
        """Return (R, A) probabilities that depend on whether hands are strong, weak or medium.

        strong and weak: (R, 1) bool. A strong hand raises, or calls at the cap. A medium hand calls
        or checks. A weak hand checks or folds, or with probability `bluff` plays as a strong one.
        """
        aggressive = self.first_legal(observations, RAISE, CALL, CHECK)
        passive = self.first_legal(observations, CALL, CHECK)
        bluffing = bluff * aggressive + (1 - bluff) * self.first_legal(observations, CHECK, FOLD)
        return np.where(strong, aggressive, np.where(weak, bluffing, passive))


class Caller(ScriptedPlayer):
    """Player that always calls or checks."""

    def probs(self, observations: Observations) -> Array:
        """Return (R, A) probability 1 for call, or for check."""
        return self.first_legal(observations, CALL, CHECK)


class Folder(ScriptedPlayer):
    """Player that always checks or folds."""

    def probs(self, observations: Observations) -> Array:
        """Return (R, A) probability 1 for check, or for fold."""
        return self.first_legal(observations, CHECK, FOLD)


class Bluffer(ScriptedPlayer):
    """Player of Kuhn and Leduc poker that raises strong hands and sometimes bluffs with weak ones.

    The highest rank or a pair is strong: raise, or call at the cap. The lowest rank without a pair
    is weak: check or fold, or play it as strong with probability `bluff` (0 to 1) at each decision.
    All other hands call or check.
    """

    def __init__(self, game: Poker, bluff: float = 0.2) -> None:
        super().__init__(game)
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A) by rank and pair."""
        hole, board = (
            self.game.rank(observations.observation[:, column, None]) for column in (0, 1)
        )
        strong = (hole == self.game.rules.ranks - 1) | (hole == board)
        return self.play_by_strength(observations, strong, hole == 0, self.bluff)


class ThresholdPlayer(ScriptedPlayer):
    """Hold'em player that acts by the percentile of its hole cards on the current board.

    The strongest hands, a share `raises` (0 to 1), raise, or call at the cap. Other hands in the
    strongest share `plays` call or check. All other hands check or fold, or with probability
    `bluff` at each decision play as the strongest. The percentile is the exact rank of the chance
    to win against a uniform random hand (see holdem/hand_percentile.py).
    """

    def __init__(self, game: Poker, plays: float, raises: float, bluff: float = 0.0) -> None:
        super().__init__(game)
        self.plays = plays
        self.raises = raises
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A) by the percentile of the hole cards."""
        hole = self.game.rules.hole
        strength = percentiles(
            observations.observation[:, :hole], observations.observation[:, hole:-4]
        )[:, None]
        strong, weak = strength >= 1 - self.raises, strength < 1 - self.plays
        return self.play_by_strength(observations, strong, weak, self.bluff)


ONE_CARD: dict[str, Callable[[Poker], BehaviouralPolicy]] = {"call": Caller, "bluff": Bluffer}
HOLDEM: dict[str, Callable[[Poker], BehaviouralPolicy]] = {
    "call": Caller,
    "la": partial(ThresholdPlayer, plays=0.8, raises=0.45),  # loose-aggressive
    "ta": partial(ThresholdPlayer, plays=0.4, raises=0.25, bluff=0.1),  # tight-aggressive
    "lp": partial(ThresholdPlayer, plays=0.8, raises=0.05),  # loose-passive
}


def scripted_players(game: Poker) -> dict[str, Callable[[Poker], BehaviouralPolicy]]:
    """Return constructors of the scripted players of a game, by name."""
    return dict(HOLDEM if game.rules.best_five else ONE_CARD)
