"""overtrick.testing.check_game accepts every game and names the faulty method of a broken one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import overtrick
from overtrick.core import UserError
from overtrick.games.goofspiel import Goofspiel
from overtrick.games.liars_dice import LiarsDice
from overtrick.games.phantom import PhantomBoard, hex_wins
from overtrick.testing import check_game

GAMES = [
    *((name, {}) for name in overtrick.names()),
    ("leduc_textbook", {"fold": False}),
    ("holdem", {"view": "strength"}),
    ("liars_dice", {"dice": 2, "faces": 2}),
    ("goofspiel", {"cards": 2}),
    ("goofspiel", {"cards": 9, "points_order": "descending"}),
]


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_every_game_keeps_the_contract(name, options, sample_deals):
    game = overtrick.make(name, **options)
    deals = sample_deals(game, 200, np.random.default_rng(1)) if name == "auction" else None
    check_game(game, deals)


def test_the_payoffs_of_given_deals_may_differ_from_those_of_the_game():
    game = overtrick.make("kuhn")
    for deals in (game.deal(1, np.random.default_rng(0)), game.every_deal()[0][:1].repeat(50, 0)):
        check_game(game, deals)


class ForgetfulViews(PhantomBoard):
    """Dark hex in which the attempts are lost."""

    def __init__(self):
        super().__init__("small", hex_wins(2), False)

    def __reduce__(self):
        return ForgetfulViews, ()

    def view_observations(self, seat, attempts):
        return super().view_observations(seat, np.zeros_like(attempts))


class WrongWins(ForgetfulViews):
    def __init__(self):
        super().__init__()
        self.wins = self.wins.astype(int)

    def __reduce__(self):
        return WrongWins, ()


class SwappedViews(Goofspiel):
    """Goofspiel in which the views of the seats are swapped."""

    def __reduce__(self):
        return SwappedViews, ()

    def view_observations(self, seat, views):
        return super().view_observations(1 - seat, views)


class PaysMargins(Goofspiel):
    """Goofspiel in which the winner gains 2."""

    lowest_payoff = -2.0

    def __reduce__(self):
        return PaysMargins, ()

    def step(self, state, observations, action):
        return 2 * super().step(state, observations, action)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (ForgetfulViews, "view_observations: must make the observations"),
        (WrongWins, "wins: must"),
        (SwappedViews, "view_observations: must make the observations"),
        (PaysMargins, "step: the seat with the higher total"),
    ],
)
def test_a_game_evaluated_by_walks_whose_views_are_wrong_is_found(game, message):
    with pytest.raises(UserError, match=message):
        check_game(game())


class Broken(LiarsDice):
    """A small game; its subclasses break one law each."""

    def __init__(self):
        super().__init__(faces=2)

    def __reduce__(self):
        return type(self), ()


class NotZeroSum(Broken):
    def step(self, state, observations, action):
        return np.maximum(super().step(state, observations, action), 0)


class Float64Features(Broken):
    def features(self, observations):
        return super().features(observations).astype(np.float64)


class WrongProbabilities(Broken):
    def every_deal(self):
        deals, probability = super().every_deal()
        return deals, probability / 2


class LoadedDice(Broken):
    def deal(self, games, rng):
        return super().deal(games, rng) | 1


class AcceptsIllegalActions(Broken):
    def step(self, state, observations, action):
        return super().step(state, observations, action.clip(0))


class AcceptsImpossibleObservations(Broken):
    def validated_observations(self, observation):
        return super().validated_observations(observation.clip(-1, 1))


class UnrevealedCard(Broken):
    def revealed_columns(self, state):
        return super().revealed_columns(state) - 1


class MissingInfosets(Broken):
    def observe(self, state):
        return dataclasses.replace(super().observe(state), infoset=None)


class InconsistentRedeal(Broken):
    def redeal(self, observations, rng):
        return self.deal(len(observations), rng)


class EmptyDescription(Broken):
    def describe(self, observation):
        return ""


class UnseededDeal(Broken):
    def deal(self, games, rng):
        return super().deal(games, np.random.default_rng())


class LosesAnAction(Broken):
    def canonical_observations(self, observations):
        return observations, np.zeros((len(observations), self.actions), np.int64)

    def canonical_policy(self, policy):
        return policy


class AcceptsAnyAbstraction(Broken):
    def state_keys(self, representation):
        return lambda observations: observations.infoset

    def combined_policy(self, players, others):
        return others


class NamesNoColumn(Broken):
    column_seats = (0,)

    def ends_with_showdown(self, actions):
        return True


class ForgetsItsFaces(LiarsDice):
    def __init__(self, faces=6):
        super().__init__(faces=faces)

    def portable_options(self):
        return {}


class EvaluatedOnOtherDice(Broken):
    def evaluation_game(self):
        return LiarsDice(faces=6)


class SeenOnOtherDice(Broken):
    view = default_view = "dice"

    def policy_of_view(self, view, make):
        return make(LiarsDice(faces=6))


class SeenOnNoDice(SeenOnOtherDice):
    def policy_of_view(self, view, make):
        return None


class ShapedOnOtherDice(Broken):
    has_shaping = True

    def with_shaping(self, share):
        return LiarsDice(faces=6)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SeenOnOtherDice, "policy_of_view: the game must start as this game does"),
        (SeenOnNoDice, "policy_of_view: must call make once"),
        (ShapedOnOtherDice, "with_shaping: the game must start as this game does"),
        (LosesAnAction, "canonical_observations: must return a permutation"),
        (AcceptsAnyAbstraction, "state_keys: must raise UserError"),
        (EvaluatedOnOtherDice, "evaluation_game: the game must start as this game does"),
        (NamesNoColumn, "column_seats: must have 2 numbers"),
        (NotZeroSum, "step: payoffs must sum to zero"),
        (Float64Features, "features: must be .R, F. float32"),
        (WrongProbabilities, "every_deal: probabilities must sum to 1"),
        (LoadedDice, "deal: random play must win what the tree expects"),
        (AcceptsIllegalActions, "step: must raise ValueError"),
        (AcceptsImpossibleObservations, "validated_observations"),
        (UnrevealedCard, "infosets: .*number information sets"),
        (MissingInfosets, "observe: infoset must be None if infosets is"),
        (InconsistentRedeal, "redeal: must keep all that the seat has observed"),
        (EmptyDescription, "describe: must return words"),
        (UnseededDeal, "deal: must draw only from the given generator"),
    ],
)
def test_a_broken_game_is_named_with_its_method(kind, message):
    check_game(Broken())
    with pytest.raises(UserError, match=message):
        check_game(kind())


class UnseenColumn(Broken):
    """Many deals with one tree: no seat ever sees the last column of a deal."""

    min_tree_size = 400

    def deal(self, games, rng):
        return np.column_stack([super().deal(games, rng), rng.integers(100, size=games)])

    def redeal(self, observations, rng):
        deals = self.deal(len(observations), rng)
        deals[np.arange(len(deals)), observations.seat] = observations.observation[:, 0]
        return deals

    def every_deal(self):
        deals, probability = super().every_deal()
        unseen = np.tile(np.arange(100), len(deals))
        return np.column_stack([np.repeat(deals, 100, axis=0), unseen]), np.repeat(
            probability / 100, 100
        )

    def are_possible_deals(self, deals):
        return super().are_possible_deals(deals[:, :-1])

    def start(self, deals):
        return super().start(deals[:, :-1])


def test_the_minimum_size_of_a_tree_may_be_the_number_of_deals(monkeypatch):
    check_game(UnseenColumn())
    monkeypatch.setattr(UnseenColumn, "min_tree_size", 401)
    with pytest.raises(UserError, match="min_tree_size: must be from 1 to 400"):
        check_game(UnseenColumn())


def test_portable_options_must_make_the_same_game():
    check_game(ForgetsItsFaces())
    with pytest.raises(UserError, match="portable_options: the game must start as this game does"):
        check_game(ForgetsItsFaces(faces=2))
