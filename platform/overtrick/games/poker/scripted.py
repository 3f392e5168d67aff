"""Scripted poker players: thresholds are parameters, the spec's values their defaults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from overtrick.core import Array, Mixed, Turn
from overtrick.games.poker.game import Poker
from overtrick.games.poker.rules import CALL, CHECK, FOLD, RAISE, VERBS
from overtrick.policies import Memoryless


class Scripted(Memoryless):
    """A player who, at each decision, takes the first of its wishes that is legal."""

    def __init__(self, game: Poker) -> None:
        self.game = game

    def wish(self, turn: Turn, *verbs: str) -> Array:
        """(R, A) all probability on the action that means the first verb possible in each row."""
        node = turn.seen[:, self.game.facts.index("betting")]
        means = self.game.betting.verb[node][:, [VERBS.index(verb) for verb in verbs]]
        first = (means >= 0).argmax(axis=1)
        return np.eye(self.game.actions)[means[np.arange(len(means)), first]]


class Caller(Scripted):
    """Never raises and never folds."""

    def probs(self, turn: Turn) -> Array:
        return self.wish(turn, CALL, CHECK)


class Bluffer(Scripted):
    """Plays by strength, and plays the weakest hand as a strong one now and then.

    The top rank or a pair is strong: raise, at the cap call, else check. The lowest rank
    unpaired is weak: check, else fold; at each decision it is played as strong with probability
    `bluff` (0 to 1). The rest is medium: call, else check.
    """

    def __init__(self, game: Poker, bluff: float = 0.2) -> None:
        super().__init__(game)
        self.bluff = bluff

    def probs(self, turn: Turn) -> Array:
        strong = self.wish(turn, RAISE, CALL, CHECK)
        medium = self.wish(turn, CALL, CHECK)
        weak = self.bluff * strong + (1 - self.bluff) * self.wish(turn, CHECK, FOLD)
        hole, board = (self.game.rank(turn.seen[:, column, None]) for column in (0, 1))
        is_strong = (hole == self.game.rules.ranks - 1) | (hole == board)
        return np.where(is_strong, strong, np.where(hole == 0, weak, medium))


def players(game: Poker) -> dict[str, Callable[[Poker], Mixed]]:
    """The scripted players of a game, by name."""
    return {"call": Caller} if game.rules.best_five else {"call": Caller, "bluff": Bluffer}
