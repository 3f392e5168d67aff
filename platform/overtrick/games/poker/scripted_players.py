"""Scripted poker players: caller, folder, bluffer, and hold'em players by hand strength."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, Observations
from overtrick.games.poker.game import Poker
from overtrick.games.poker.rules import CALL, CHECK, FOLD, RAISE, VERBS
from overtrick.policies.memoryless import MemorylessPolicy


class ScriptedPlayer(MemorylessPolicy):
    """Base class of scripted poker players, which choose among fold, check, call and raise."""

    def __init__(self, game: Poker) -> None:
        self.game = game

    def first_legal(self, observations: Observations, *verbs: str) -> Array:
        """Return action probabilities (R, A): 1 for the most preferred action that is legal.

        verbs: names of actions from `rules.VERBS`, in order of preference; one must be legal.
        """
        node = observations.observation[:, self.game.observation_fields.index("betting")]
        action = self.game.betting.verb[node][:, [VERBS.index(verb) for verb in verbs]]
        first = (action >= 0).argmax(axis=1)
        return np.eye(self.game.actions)[action[np.arange(len(action)), first]]

    def play_by_strength(
        self, observations: Observations, strong: Array, weak: Array, bluff: float
    ) -> Array:
        """Return action probabilities (R, A) for hands that are strong, weak or in between.

        strong, weak: (R, 1) bool. A strong hand raises, or calls if no raise is allowed. A hand in
        between calls or checks. A weak hand bluffs with probability `bluff`, that is, it acts like
        a strong hand; otherwise it checks or folds.
        """
        aggressive = self.first_legal(observations, RAISE, CALL, CHECK)
        passive = self.first_legal(observations, CALL, CHECK)
        bluffing = bluff * aggressive + (1 - bluff) * self.first_legal(observations, CHECK, FOLD)
        return np.where(strong, aggressive, np.where(weak, bluffing, passive))


class Caller(ScriptedPlayer):
    """Player that always calls or checks."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A): 1 for call if it is legal, otherwise for check."""
        return self.first_legal(observations, CALL, CHECK)


class Folder(ScriptedPlayer):
    """Player that always checks or folds."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A): 1 for check if it is legal, otherwise for fold."""
        return self.first_legal(observations, CHECK, FOLD)


class Bluffer(ScriptedPlayer):
    """Player of Kuhn and Leduc poker that raises strong hands and sometimes bluffs with weak ones.

    - Strong hand (the highest rank, or a pair): raises, or calls if no raise is allowed.
    - Weak hand (the lowest rank, no pair): bluffs with probability `bluff` at each decision, that
      is, acts as with a strong hand; otherwise checks or folds.
    - Other hand: calls or checks.
    """

    def __init__(self, game: Poker, bluff: float = 0.2) -> None:
        super().__init__(game)
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A), by the hole card and whether it pairs the board."""
        hole, board = self.game.rank(observations.observation[:, :2]).T[:, :, None]
        strong = (hole == self.game.rules.ranks - 1) | (hole == board)
        return self.play_by_strength(observations, strong, hole == 0, self.bluff)


def hand_percentiles(game: Poker, observations: Observations) -> Array:
    """Return the percentile (R,) of each observation's hole cards among all, given the board."""
    from overtrick.games.poker.holdem.hand_percentile import percentiles  # builds tables

    seen, hole = observations.observation, game.rules.hole
    return percentiles(seen[:, :hole], seen[:, hole:-4])


class ThresholdPlayer(ScriptedPlayer):
    """Hold'em player that acts by the percentile of its hole cards on the current board.

    Hands are ranked by their exact equity against a uniformly random hand (see
    holdem/hand_percentile.py).

    `raises`: top fraction of hands, 0 to 1, with which the player raises, or calls if it may not
        raise.
    `plays`: top fraction of hands with which it at least calls or checks. It checks or folds weaker
        hands.
    `bluff`: probability, at each decision with one of these weaker hands, to raise or call instead.
    """

    def __init__(self, game: Poker, plays: float, raises: float, bluff: float = 0.0) -> None:
        super().__init__(game)
        self.plays = plays
        self.raises = raises
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A), which depend on the percentile of the hole cards."""
        strength = hand_percentiles(self.game, observations)[:, None]
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
