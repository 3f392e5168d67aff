"""Scripted poker players: thresholds are parameters, the spec's values their defaults."""

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
    """A player who, at each decision, takes the first of its wishes that is legal."""

    def __init__(self, game: Poker) -> None:
        self.game = game

    def first_legal(self, observations: Observations, *verbs: str) -> Array:
        """(R, A) all probability on the action that means the first verb possible in each row."""
        node = observations.observation[:, self.game.observation_fields.index("betting")]
        means = self.game.betting.verb[node][:, [VERBS.index(verb) for verb in verbs]]
        first = (means >= 0).argmax(axis=1)
        return np.eye(self.game.actions)[means[np.arange(len(means)), first]]


class Caller(ScriptedPlayer):
    """Never raises and never folds."""

    def probs(self, observations: Observations) -> Array:
        return self.first_legal(observations, CALL, CHECK)


class Folder(ScriptedPlayer):
    """Never puts a chip into the pot of its own will."""

    def probs(self, observations: Observations) -> Array:
        return self.first_legal(observations, CHECK, FOLD)


class Bluffer(ScriptedPlayer):
    """Plays by strength, and plays the weakest hand as a strong one now and then.

    The top rank or a pair is strong: raise, at the cap call, else check. The lowest rank
    unpaired is weak: check, else fold; at each decision it is played as strong with probability
    `bluff` (0 to 1). The rest is medium: call, else check.
    """

    def __init__(self, game: Poker, bluff: float = 0.2) -> None:
        super().__init__(game)
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        strong = self.first_legal(observations, RAISE, CALL, CHECK)
        medium = self.first_legal(observations, CALL, CHECK)
        weak = self.bluff * strong + (1 - self.bluff) * self.first_legal(observations, CHECK, FOLD)
        hole, board = (
            self.game.rank(observations.observation[:, column, None]) for column in (0, 1)
        )
        is_strong = (hole == self.game.rules.ranks - 1) | (hole == board)
        return np.where(is_strong, strong, np.where(hole == 0, weak, medium))


class ByStrength(ScriptedPlayer):
    """Plays hold'em by how strong its holding is among all that the board allows.

    The share `raises` (0 to 1) of the strongest is raised, at the cap called; what else is in the
    share `plays` calls or checks; the rest checks or folds. At each decision the rest is played
    as one of the strongest with probability `bluff`. Strength is the exact percentile of the
    chance to win against a uniform hand: see percentile.py.
    """

    def __init__(self, game: Poker, plays: float, raises: float, bluff: float = 0.0) -> None:
        super().__init__(game)
        self.plays = plays
        self.raises = raises
        self.bluff = bluff

    def probs(self, observations: Observations) -> Array:
        hole = self.game.rules.hole
        strength = percentiles(
            observations.observation[:, :hole], observations.observation[:, hole:-4]
        )[:, None]
        strong = self.first_legal(observations, RAISE, CALL, CHECK)
        medium = self.first_legal(observations, CALL, CHECK)
        rest = self.bluff * strong + (1 - self.bluff) * self.first_legal(observations, CHECK, FOLD)
        played = np.where(strength >= 1 - self.plays, medium, rest)
        return np.where(strength >= 1 - self.raises, strong, played)


ONE_CARD: dict[str, Callable[[Poker], BehaviouralPolicy]] = {"call": Caller, "bluff": Bluffer}
HOLDEM: dict[str, Callable[[Poker], BehaviouralPolicy]] = {
    "call": Caller,
    "la": partial(ByStrength, plays=0.8, raises=0.45),  # loose-aggressive
    "ta": partial(ByStrength, plays=0.4, raises=0.25, bluff=0.1),  # tight-aggressive
    "lp": partial(ByStrength, plays=0.8, raises=0.05),  # loose-passive
}


def scripted_players(game: Poker) -> dict[str, Callable[[Poker], BehaviouralPolicy]]:
    """The scripted players of a game, by name."""
    return dict(HOLDEM if game.rules.best_five else ONE_CARD)
