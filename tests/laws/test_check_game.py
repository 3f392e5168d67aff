"""overtrick.testing.check_game: it passes every game, and names the method of a broken one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import overtrick
from overtrick.core import UserError
from overtrick.games.liars_dice import LiarsDice
from overtrick.testing import check_game

GAMES = [
    *((name, {}) for name in overtrick.names()),
    ("leduc_textbook", {"fold": False}),
    ("holdem", {"view": "strength"}),
    ("liars_dice", {"dice": 2, "faces": 2}),
]


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_every_game_keeps_the_contract(name, options, dealt):
    game = overtrick.make(name, **options)
    deals = dealt(game, 200, np.random.default_rng(1)) if name == "auction" else None
    check_game(game, deals)


class Broken(LiarsDice):
    """A small game to break."""

    def __init__(self):
        super().__init__(faces=2)

    def __reduce__(self):
        return type(self), ()


class Generous(Broken):
    def step(self, state, observations, action):
        return np.maximum(super().step(state, observations, action), 0)


class Wide(Broken):
    def features(self, observations):
        return super().features(observations).astype(np.float64)


class Unfair(Broken):
    def every_deal(self):
        deals, probability = super().every_deal()
        return deals, probability / 2


class Loaded(Broken):
    def deal(self, games, rng):
        return super().deal(games, rng) | 1


class Careless(Broken):
    def step(self, state, observations, action):
        return super().step(state, observations, action.clip(0))


class Trusting(Broken):
    def validated_observations(self, observation):
        return super().validated_observations(observation.clip(-1, 1))


class Peeking(Broken):
    def revealed_columns(self, state):
        return super().revealed_columns(state) - 1


class Unnumbered(Broken):
    def observe(self, state):
        return dataclasses.replace(super().observe(state), infoset=None)


class Forgetting(Broken):
    def redeal(self, observations, rng):
        return self.deal(len(observations), rng)


class Silent(Broken):
    def describe(self, seen):
        return ""


class Random(Broken):
    def deal(self, games, rng):
        return super().deal(games, np.random.default_rng())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Generous, "step: payoffs must sum to zero"),
        (Wide, "features: must be .R, F. float32"),
        (Unfair, "every_deal: probabilities must sum to 1"),
        (Loaded, "deal: random play must win what the tree expects"),
        (Careless, "step: must raise ValueError"),
        (Trusting, "validated_observations"),
        (Peeking, "infosets: .*number information sets"),
        (Unnumbered, "observe: infoset must be None if infosets is"),
        (Forgetting, "redeal: must keep all that the seat has observed"),
        (Silent, "describe: must return words"),
        (Random, "deal: must draw only from the given generator"),
    ],
)
def test_a_broken_game_is_named_with_its_method(kind, said):
    check_game(Broken())
    with pytest.raises(UserError, match=said):
        check_game(kind())
