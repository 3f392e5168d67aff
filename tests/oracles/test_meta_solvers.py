"""Meta-solvers: known equilibria of matrix games, and OpenSpiel's implementations."""

from __future__ import annotations

import numpy as np
import pytest
from open_spiel.python.algorithms.projected_replicator_dynamics import (
    _simplex_projection,
)
from open_spiel.python.egt import alpharank

from overtrick.core import UserError
from overtrick.solvers import meta_solvers

ROCK_PAPER_SCISSORS = np.array([[0.0, -1, 2], [1, 0, -3], [-2, 3, 0]])
"""With wins of 1, 3 and 2 points the equilibrium plays 3/6, 2/6 and 1/6."""

CONVERGING = ("nash", "regret_matching", "projected_replicator_dynamics")


def zero_sum(payoff):
    return np.stack([payoff, -payoff])


@pytest.mark.parametrize("name", CONVERGING)
def test_the_equilibrium_of_biased_rock_paper_scissors_is_known(name):
    mixtures = meta_solvers.META_SOLVERS[name](zero_sum(ROCK_PAPER_SCISSORS), 100_000)
    for mixture in mixtures:
        assert mixture == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=1e-9 if name == "nash" else 0.01)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_equilibrium_does_not_depend_on_the_unit_of_payoffs(unit):
    for mixture in meta_solvers.nash(unit * zero_sum(ROCK_PAPER_SCISSORS), 1):
        assert mixture == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=1e-9)


@pytest.mark.parametrize("name", CONVERGING)
def test_the_value_of_a_random_game_is_that_of_its_equilibrium(rng, name):
    payoff = rng.normal(size=(7, 5))
    rows, columns = meta_solvers.META_SOLVERS[name](zero_sum(payoff), 100_000)
    gap = (payoff @ columns).max() - (rows @ payoff).min()
    assert -1e-12 <= gap < (1e-9 if name == "nash" else 0.02)


@pytest.mark.parametrize("name", meta_solvers.META_SOLVERS)
def test_mixtures_are_probabilities_also_of_one_policy(rng, name):
    for shape in ((1, 1), (4, 2)):
        payoffs = zero_sum(rng.normal(size=shape))
        mixtures = meta_solvers.META_SOLVERS[name](payoffs, 100)
        assert [len(each) for each in mixtures] == list(shape)
        assert all((each >= 0).all() and each.sum() == pytest.approx(1) for each in mixtures)


def test_a_dominant_policy_of_three_seats_is_found(rng):
    payoffs = rng.normal(size=(3, 2, 3, 2))
    payoffs[0, 1] += 20
    payoffs[1, :, 2] += 20
    payoffs[2, :, :, 0] += 20
    for name in ("regret_matching", "projected_replicator_dynamics", "alpha_rank"):
        mixtures = meta_solvers.META_SOLVERS[name](payoffs, 20_000)
        found = [mixture[best] for mixture, best in zip(mixtures, (1, 2, 0), strict=True)]
        assert min(found) > 0.97, name


@pytest.mark.parametrize("shape", [(4, 5), (3, 2, 3)])
def test_alpha_rank_equals_openspiels(rng, shape):
    payoffs = rng.normal(size=(len(shape), *shape))
    _, _, theirs, _, _ = alpharank.compute(
        list(payoffs), use_inf_alpha=True, inf_alpha_eps=meta_solvers.ALPHA_RANK_NOISE
    )
    joint = np.reshape(theirs, shape)
    for seat, ours in enumerate(meta_solvers.alpha_rank(payoffs, 1)):
        axes = tuple(axis for axis in range(len(shape)) if axis != seat)
        assert ours == pytest.approx(joint.sum(axis=axes), abs=1e-9)


def test_the_projection_equals_openspiels(rng):
    for _ in range(20):
        mixture = rng.normal(size=6)
        theirs = _simplex_projection(mixture.copy(), 1e-3)
        meta_solvers._project(mixture, 1e-3)
        assert mixture == pytest.approx(theirs, abs=1e-12)


def test_unsuitable_games_are_refused(rng):
    with pytest.raises(UserError, match="nash needs a zero-sum game of two seats"):
        meta_solvers.nash(rng.normal(size=(2, 3, 3)), 1)
    with pytest.raises(UserError, match="at most 5,000 profiles"):
        meta_solvers.alpha_rank(np.zeros((2, 80, 80)), 1)
