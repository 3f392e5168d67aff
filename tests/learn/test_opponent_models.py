"""Opponent models: behaviour cloning recovers probabilities, and responses exploit the model."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import betabinom
from tests.rounding import assert_float32_close

from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import cached_exact_equilibrium
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.supervised import behaviour_cloning
from overtrick.learners.supervised.behaviour_cloning import (
    CloningConfig,
    Demonstrations,
    clone_behaviour,
    cross_entropy,
)
from overtrick.learners.supervised.opponent_model import (
    CONCENTRATIONS,
    correct_by_counts,
    fit_opponent_models,
    posterior_mean_strategy,
)
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import tensors
from overtrick.solvers.extensive import best_response
from overtrick.training.adaptation.eom import EomTrainer
from overtrick.training.adaptation.gradient_samples import strategies
from overtrick.training.registry import JOBS, TRAINERS


def entropy(sigma):
    """Return the mean entropy of a row's choice in nats: the minimum of the cross-entropy of
    cloning."""
    return -(sigma * np.log(np.where(sigma > 0, sigma, 1))).sum(axis=1).mean()


def rows_with_probabilities(game, tree, sigmas):
    """Return rows for as many networks as strategies, each with the action probabilities of one
    strategy."""
    features = np.stack([game.features(tree.observations)] * len(sigmas))
    return Demonstrations(features, np.stack([tree.legal] * len(sigmas)), np.stack(sigmas))


@pytest.fixture
def two(game_and_tree, rng, random_strategy):
    """Return Kuhn, its tree, two strategies, and an initial network."""
    game, tree = game_and_tree("kuhn")
    sigmas = [random_strategy(tree, rng) for _ in range(2)]
    wide = game.features(tree.observations).shape[1]
    return game, tree, sigmas, initial_weights((wide, 32, game.actions), rng)


@pytest.mark.parametrize("batch", [2**20, 5])
def test_stacked_networks_learn_the_probabilities_of_their_own_rows(two, rng, batch):
    game, tree, sigmas, first = two
    adam = Adam(repeat(first, 2), 0.01)
    plan = CloningConfig(epochs=700 if batch > 5 else 500, batch=batch)
    weights, loss = clone_behaviour(adam, rows_with_probabilities(game, tree, sigmas), plan, rng)
    for found, sigma, nats in zip(strategies(game, tree, weights), sigmas, loss, strict=True):
        assert entropy(sigma) - 1e-6 < nats < entropy(sigma) + 0.001
        assert np.abs(found - sigma).max() < 0.05


def test_a_single_network_is_cloned_as_in_a_stack(two, rng):
    game, tree, sigmas, first = two
    rows = rows_with_probabilities(game, tree, sigmas)
    plan = CloningConfig(epochs=20)
    both, _ = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, plan, rng)
    for k in range(2):
        mine = Demonstrations(rows.features[k], rows.legal[k], rows.taken[k])
        single, loss = clone_behaviour(Adam(first, 0.01), mine, plan, rng)
        assert loss.shape == ()
        for name, weights in single.items():
            assert_float32_close(weights, both[name][k])


def test_held_out_rows_stop_the_fit_before_it_overfits(two, rng):
    game, tree, sigmas, first = two
    drawn = [np.stack([rng.multinomial(3, p) for p in sigma]) for sigma in sigmas]
    held = np.stack([np.stack([rng.multinomial(50, p) for p in sigma]) for sigma in sigmas])
    rows = rows_with_probabilities(game, tree, drawn)
    shared = [torch.from_numpy(a) for a in (rows.features, rows.legal, held.astype(np.float32))]
    early, loss = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, CloningConfig(500), rng, held)
    late, _ = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, CloningConfig(500), rng)
    found = cross_entropy(tensors(early), *shared).numpy()
    assert_float32_close(found, loss)
    assert (found + 0.01 < cross_entropy(tensors(late), *shared).numpy()).all()


def test_a_model_without_games_is_the_prior(two, rng):
    game, tree, _, first = two
    rows = rows_with_probabilities(game, tree, [np.zeros(tree.legal.shape)])
    model = fit_opponent_models(first, rows, 0.01, CloningConfig(10), 0.2, rng)
    assert all(np.array_equal(model[n][0], first[n]) for n in first)


def test_held_out_decisions_are_not_trained_on(two, rng):
    game, tree, sigmas, first = two
    drawn = np.stack([rng.multinomial(50, p) for p in sigmas[0]])
    rows = rows_with_probabilities(game, tree, [drawn])
    learnt = fit_opponent_models(first, rows, 0.01, CloningConfig(10), 0.2, rng)
    assert any(not np.array_equal(learnt[n][0], first[n]) for n in first)
    all_held_out = fit_opponent_models(first, rows, 0.01, CloningConfig(10), 1.0, rng)
    assert all(np.array_equal(all_held_out[n][0], first[n]) for n in first)


def test_a_fit_without_held_out_decisions_trains_all_epochs(two, rng):
    game, tree, sigmas, first = two
    drawn = np.stack([rng.multinomial(50, p) for p in sigmas[0]])
    rows = rows_with_probabilities(game, tree, [drawn])
    found = fit_opponent_models(first, rows, 0.01, CloningConfig(10), 0.0, np.random.default_rng(5))
    learn_rng = np.random.default_rng(5).spawn(2)[1]
    by_hand, _ = clone_behaviour(Adam(repeat(first, 1), 0.01), rows, CloningConfig(10), learn_rng)
    assert all(np.array_equal(found[n], by_hand[n]) for n in first)
    assert any(not np.array_equal(found[n][0], first[n]) for n in first)


def test_the_prior_gives_way_to_observed_actions():
    guess, taken = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0, 0], [0, 8]])
    found = correct_by_counts(guess, taken, 2.0)
    assert np.allclose(found, [[0.5, 0.5], [0.18, 0.82]])  # 1.8 and 8.2 of 10


def test_a_bayesian_estimate_weighs_its_priors_by_the_marginal_likelihood(rng):
    """With two actions the likelihood is beta-binomial: compare with scipy's."""
    priors = np.array([[[0.5, 0.5]] * 3, [[0.9, 0.1], [0.2, 0.8], [1.0, 0.0]]])
    taken = np.array([[[5, 1], [0, 3], [2, 0]], [[2, 2], [4, 4], [0, 0]], [[1, 0], [0, 9], [1, 2]]])
    found = posterior_mean_strategy(taken, priors)
    for counts, estimate in zip(taken, found, strict=True):
        weights, means = [], []
        for prior, concentration in itertools.product(priors, CONCENTRATIONS):
            likelihood = 1.0
            for (a, b), (p, q) in zip(counts, prior, strict=True):
                if q == 0:
                    likelihood *= b == 0
                else:
                    drawn = betabinom(a + b, concentration * p, concentration * q)
                    likelihood *= drawn.pmf(a) / comb(a + b, a)
            weights.append(likelihood)
            means.append(correct_by_counts(prior, counts, concentration))
        assert np.allclose(estimate, np.average(means, axis=0, weights=weights), rtol=1e-9)


def test_a_bayesian_estimate_without_games_is_the_mean_of_the_priors():
    priors = np.array([[[0.5, 0.5, 0.0]], [[0.1, 0.9, 0.0]]])
    assert np.allclose(posterior_mean_strategy(np.zeros((1, 1, 3)), priors), [[[0.3, 0.7, 0]]])


def test_a_bayesian_estimate_extends_a_recognised_prior_to_unseen_decisions(game_and_tree, rng):
    _, tree = game_and_tree("kuhn")
    priors = np.stack([tree.uniform(), cached_exact_equilibrium(GameChoice(name="kuhn"))])
    priors[1] = 0.99 * priors[1] + 0.01 * priors[0]
    for true in priors:
        taken = np.stack([rng.multinomial(200, p) for p in true])[None].astype(float)
        taken[:, ::3] = 0
        found = posterior_mean_strategy(taken, priors)[0]
        assert np.abs(found - true)[::3].max() < 0.01
        assert np.abs(found - true).max() < 0.1


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_the_exact_response_to_a_model_wins_the_best_response_value(
    game_and_tree, rng, random_strategy, name
):
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    won = exact_payoff(tree, best_response.best_responses(tree, sigma), sigma)
    assert abs(won - best_response_payoff(tree, sigma)) < 1e-9


def job(game, **changes):
    content = {
        "trainer": "eom", "game": game, "stop": {"iterations": 10},
        "eom": {"hidden": [16], "random_opponents": 10, "games": 50},
        "evaluate": {"opponents": ["call"], "games": 200, "repeats": 2, "every": 100},
        **changes,
    }  # fmt: skip
    return job_file.parse(content, JOBS, "this test")


def rows_of(content):
    """Train EOM for a few iterations and return its results table."""
    trainer = EomTrainer(content, LocalPool())
    for _ in range(5):
        trainer.step()
    page = TRAINERS["eom"]
    return page.evaluate_model(content, trainer.model(), LocalPool(), np.random.default_rng(0))


@pytest.mark.parametrize("game", ["kuhn", "leduc"])
def test_the_response_to_a_caller_is_soon_optimal(game):
    (row,) = rows_of(job(game))
    assert row["steps"][0] < 0.8 * row["best_response"]
    assert row["share"] > 0.98


def test_ppo_finds_a_response_to_a_model_without_a_tree():
    learnt = {"response": "ppo", "ppo_iterations": 15, "ppo_games": 400, "ppo_learning_rate": 0.01}
    (row,) = rows_of(job("kuhn", model=learnt))
    assert row["steps"][0] < 0.8 * row["best_response"]
    assert row["share"] > 0.9


def test_the_initial_policy_beats_random_opponents_and_the_prior_predicts_them(game_and_tree):
    game, tree = game_and_tree("kuhn")
    trainer = EomTrainer(job("kuhn"), LocalPool())
    losses = [trainer.step()["imitation_loss"] for _ in range(25)]
    assert losses[-1] < losses[0]
    assert losses[-1] < np.log(2)  # cross-entropy of uniform probabilities
    (sigma,) = strategies(game, tree, repeat(unprefixed("policy", trainer.model()), 1))
    assert exact_payoff(tree, sigma, tree.uniform()) > 0.3  # at most 0.458 chips


def test_an_exact_response_is_refused_without_a_tree():
    content = job("holdem", evaluate={"opponents": ["random"]})
    with pytest.raises(UserError, match=r"model.response: exact needs a tree.*set ppo"):
        TRAINERS["eom"].validate(content)
    ppo = {"response": "ppo"}
    TRAINERS["eom"].validate(job("holdem", evaluate={"opponents": ["la"]}, model=ppo))
    unused = job("holdem", evaluate={"opponents": ["la"]}, model={**ppo, "prior_count": 7})
    with pytest.raises(UserError, match=r"model\.prior_count has no effect, as holdem is"):
        TRAINERS["eom"].validate(unused)


def test_a_fit_ends_once_no_network_has_improved_for_as_many_epochs_as_its_patience(
    two, rng, monkeypatch
):
    game, tree, sigmas, first = two
    rows, epochs = rows_with_probabilities(game, tree, sigmas), []
    monkeypatch.setattr(behaviour_cloning, "_epoch", lambda *arguments: epochs.append(1))
    held = np.stack([np.ones_like(sigma) * tree.legal for sigma in sigmas])
    clone_behaviour(Adam(repeat(first, 2), 0.01), rows, CloningConfig(50, patience=3), rng, held)
    assert len(epochs) == 3
