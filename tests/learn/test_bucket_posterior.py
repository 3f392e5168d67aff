"""Bayesian estimates of opponents in an abstraction of hands, in limit hold'em."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config.job_file import GameChoice
from overtrick.evaluation.board import bucket_board
from overtrick.games import registry
from overtrick.games.poker.holdem.percentile_abstraction import BUCKETS, PercentileAbstraction
from overtrick.learners.supervised.bucket_posterior import (
    UNIFORM_SHARE,
    BucketEstimate,
)

HOLDEM = GameChoice(name="holdem")
GAME = registry.make("holdem")


@pytest.fixture(scope="module")
def abstraction():
    return PercentileAbstraction(GAME)


@pytest.fixture(scope="module")
def prior():
    return bucket_board.population_prior(HOLDEM, 5, 2)


def random_games(abstraction, strategy, count, rng):
    """Return rows and actions of a seat's decisions in sampled games, for hidden hands.

    Seat 1 follows a strategy (N, A); seat 0 plays at random.
    """
    betting, games = GAME.betting, []
    for deal in GAME.deal(count, rng):
        state, actions = GAME.start(deal[None]), []
        while len(observations := GAME.observe(state)):
            row = abstraction.rows(observations)[0]
            odds = strategy[row] if observations.seat[0] == 1 else observations.legal[0] * 1.0
            actions.append(int(rng.choice(len(odds), p=odds / odds.sum())))
            GAME.step(state, observations, np.array(actions[-1:]))
        node, cards = 0, deal.astype(int).copy()
        for action in actions:
            node = betting.after[node, action]
        cards[abstraction.dealt_cards(tuple(actions)) :] = -1
        cards[2:4] = -1
        strength = GAME.start(deal[None]).strength[0]
        payoff = float(np.sign(strength[0] - strength[1]))
        games.append(abstraction.opponent_decisions(0, tuple(cards), tuple(actions), payoff))
    return games


def test_a_plan_is_the_product_along_the_way_there(prior) -> None:
    """Of one line of betting: raise, call, then the flop: check, raise, call, then the turn."""
    rules, member = prior.game.rules, 3
    table = prior.members[member].reshape(-1, BUCKETS, GAME.actions)
    reach, node = rules.start.sum(axis=0), 0
    for action in (1, 0, 3, 1, 0):
        number = prior.game.index[node]
        if rules.seat[node] == 1:
            reach = reach * table[number, :, action]
        child = rules.after[node, action]
        if rules.round[child] > rules.round[node]:
            reach = reach @ rules.moves[rules.round[node]]
        node = child
    if rules.seat[node] != 1:
        node = rules.after[node, 3]
    number = prior.game.index[node]
    plan = prior.plans[member].reshape(-1, BUCKETS, GAME.actions)[number]
    assert plan == pytest.approx(reach[:, None] * table[number], rel=1e-4, abs=1e-9)


def test_a_game_weighs_members_by_its_probability(prior, abstraction) -> None:
    rng = np.random.default_rng(0)
    games = random_games(abstraction, prior.members[0].astype(float), 3, rng)
    estimate = BucketEstimate(prior)
    expected = np.zeros(len(prior.members))
    for rows, actions in games:
        estimate.observe(rows, actions)
        if len(actions):
            taken = prior.members[:, rows, actions[:, None]]  # (M, D, H)
            expected += np.log(taken.prod(axis=1, dtype=float).mean(axis=1) + 1e-12)
    finite = expected > np.log(1e-9)
    assert finite.any()
    assert estimate.log_posterior[finite] == pytest.approx(expected[finite], rel=1e-3, abs=1e-3)
    assert (estimate.log_posterior[~finite] < expected[finite].max()).all()


def test_the_member_that_plays_is_found(prior, abstraction) -> None:
    for member in range(2):
        estimate, rng = BucketEstimate(prior), np.random.default_rng(member)
        strategy = prior.members[member].astype(float)
        for rows, actions in random_games(abstraction, strategy, 60, rng):
            estimate.observe(rows, actions)
        estimate.update()
        assert estimate.log_posterior.argmax() == member
        error = np.abs(estimate.strategy() - strategy)
        assert error[: BUCKETS * 20].mean() < 0.05


def test_a_deviation_from_all_members_is_learned(prior, abstraction) -> None:
    """The opponent always raises before the flop, as no member does."""
    strategy = prior.members[0].astype(float)
    start = prior.game.rules.round[prior.game.rules.seat >= 0] == 0
    early = np.repeat(start, BUCKETS)
    raises = early & prior.game.legal[:, 1]
    strategy[raises] = (0, 1, 0, 0)
    estimate, rng = BucketEstimate(prior), np.random.default_rng(5)
    for number, (rows, actions) in enumerate(random_games(abstraction, strategy, 200, rng)):
        estimate.observe(rows, actions)
        if number % 20 == 19:
            estimate.update()
    weights = np.exp(estimate.log_weights - estimate.log_weights.max())
    assert weights[0] < 0.01  # the hypothesis without deviation
    opening = [n for n in range(BUCKETS * 12) if raises[n] and prior.game.seat[n] == 1]
    assert estimate.strategy()[opening, 1].mean() > 0.7
    assert np.abs(estimate.strategy().sum(axis=1) - 1).max() < 1e-9


def test_without_games_the_estimate_is_the_mean_of_the_plans(prior) -> None:
    found = BucketEstimate(prior, (np.inf, 1.0))
    plan = prior.plans.sum(axis=0, dtype=float)
    total = plan.sum(axis=1)
    reached = total > 1e-12
    mean = plan[reached] / total[reached, None]
    assert np.abs(found.strategies[0][reached] - mean).max() < 1e-4
    mixed = (1 - UNIFORM_SHARE) * found.strategies[0] + UNIFORM_SHARE * prior.uniform
    assert np.abs(found.strategies[1] - mixed).max() < 1e-9
    assert found.sample(np.random.default_rng(0)).shape == prior.uniform.shape
