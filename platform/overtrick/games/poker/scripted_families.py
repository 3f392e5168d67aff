"""Families of scripted poker players: each draws a player with random parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Observations
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.games.poker.game import Poker
from overtrick.games.poker.rules import CALL, CHECK
from overtrick.games.poker.scripted_players import ScriptedPlayer, hand_percentiles
from overtrick.games.poker.showdown import strength
from overtrick.policies.uniform import UniformPolicy

DrawPlayer = Callable[[Generator], BehaviouralPolicy]
"""Function that draws a player of a family with a random generator."""


class StrengthPlayer(ScriptedPlayer, ABC):
    """Poker player that acts by the strength of its hand, from 0 to 1, with parameters.

    `folds`: strength below which the player checks or folds.
    `raises`: strength from which it raises, or calls if it may not raise. In between it calls.
    `bluff`: probability to act with a hand below `folds` as with one above `raises`.
    `trap`: probability to call or check with a hand above `raises`.
    `noise`: probability of a uniformly random action instead, at each decision.
    """

    def __init__(
        self,
        game: Poker,
        folds: float,
        raises: float,
        bluff: float = 0.0,
        trap: float = 0.0,
        noise: float = 0.0,
    ) -> None:
        super().__init__(game)
        self.folds, self.raises = folds, raises
        self.bluff, self.trap, self.noise = bluff, trap, noise

    @abstractmethod
    def strength(self, observations: Observations) -> Array:
        """Return the strength (R,) of the hand in each observation."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A), by the strength of the hand and the parameters."""
        strength = self.strength(observations)[:, None]
        strong, weak = strength >= self.raises, strength < self.folds
        open_play = self.play_by_strength(observations, strong, weak, self.bluff)
        calling = self.first_legal(observations, CALL, CHECK)
        probs = np.where(strong, (1 - self.trap) * open_play + self.trap * calling, open_play)
        return (1 - self.noise) * probs + self.noise * UniformPolicy().probs(observations)


class EquityPlayer(StrengthPlayer):
    """Player of small poker games; the strength of its hand is the equity.

    The equity is the probability to win a showdown against a uniformly random hand, plus half that
    of a tie. Before the board card is dealt it is the mean over all boards.
    """

    def __init__(self, game: EnumerablePoker, **parameters: float) -> None:
        """`parameters`: see StrengthPlayer."""
        super().__init__(game, **parameters)
        self.equity = _equities(game)

    def strength(self, observations: Observations) -> Array:
        """Return the equity (R,) of the hand in each observation."""
        hole, board = observations.observation[:, 0], observations.observation[:, 1]
        return np.asarray(self.equity[hole, board])


class PercentilePlayer(StrengthPlayer):
    """Hold'em player; the strength of its hand is the percentile among all hands on the board."""

    def strength(self, observations: Observations) -> Array:
        """Return the percentile (R,) of the hand in each observation."""
        return hand_percentiles(self.game, observations)


def _equities(game: EnumerablePoker) -> Array:
    """Return the equity of each hole card (row) with each board card (column).

    The last column is for decisions before the board card is dealt, or in games without one.
    Impossible pairs have equity 0.
    """
    deals, probability = game.every_deal()
    strengths = strength(game.rules, deals, game.rank(deals))
    won = (1 + np.sign(strengths[:, 0] - strengths[:, 1])) / 2
    shape = (game.kinds, game.kinds + 1)
    total, weight = np.zeros(shape), np.zeros(shape)
    before = np.full(len(deals), game.kinds)
    for column in (before, deals[:, 2]) if sum(game.rules.board) else (before,):
        np.add.at(total, (deals[:, 0], column), probability * won)
        np.add.at(weight, (deals[:, 0], column), probability)
    return total / np.where(weight > 0, weight, 1)


def scripted_families(game: Any, player: Callable[..., StrengthPlayer]) -> Mapping[str, DrawPlayer]:
    """Return the families of scripted players of a small poker game or of hold'em, by name.

    `player`: class of the players. Each family is a function that draws a player's parameters with
    a generator. Callers and raisers hardly look at their cards; tight players fold often and loose
    ones seldom; bluffers raise weak hands; slow players call with strong hands and raise some weak
    ones.
    """

    def family(**ranges: tuple[float, float]) -> DrawPlayer:
        """Return the family of players whose parameters lie in the given ranges."""

        def draw(rng: Generator) -> BehaviouralPolicy:
            parameters = {key: rng.uniform(*ends) for key, ends in ranges.items()}
            return player(game, **parameters)

        return draw

    return {
        "caller": family(folds=(0, 0.1), raises=(1.0, 1.2), noise=(0.0, 0.25)),
        "raiser": family(folds=(0, 0.3), raises=(0, 0.4), noise=(0.0, 0.25)),
        "tight": family(folds=(0.4, 0.6), raises=(0.6, 0.95), bluff=(0, 0.15), noise=(0, 0.1)),
        "loose": family(folds=(0, 0.35), raises=(0.5, 0.95), bluff=(0, 0.15), noise=(0, 0.1)),
        "bluffer": family(folds=(0.3, 0.6), raises=(0.5, 0.9), bluff=(0.3, 0.8), noise=(0, 0.1)),
        "slow_player": family(
            folds=(0.2, 0.5), raises=(0.5, 0.8), bluff=(0.2, 0.6), trap=(0.6, 1), noise=(0, 0.1)
        ),
    }
