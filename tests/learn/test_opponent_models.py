"""Imitation finds the probabilities that it is shown; a model of an opponent is replied to."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.learners.checkpoint_keys import unprefixed
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.supervised.behaviour_cloning import (
    CloningConfig,
    Demonstrations,
    clone_behaviour,
    cross_entropy,
)
from overtrick.learners.supervised.opponent_model import correct_by_counts, fit_opponent_models
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import tensors
from overtrick.training.adaptation.eom import EomTrainer
from overtrick.training.adaptation.gradient_samples import strategies
from overtrick.training.adaptation.opponent_modelling import best_response_strategy
from overtrick.training.registry import JOBS, TRAINERS


def entropy(sigma):
    """Mean nats of a row's choice: the least cross-entropy that imitating it can have."""
    return -(sigma * np.log(np.where(sigma > 0, sigma, 1))).sum(axis=1).mean()


def shown(game, tree, sigmas):
    """Rows of as many networks as there are strategies, each shown the probabilities of one."""
    features = np.stack([game.features(tree.observations)] * len(sigmas))
    return Demonstrations(features, np.stack([tree.legal] * len(sigmas)), np.stack(sigmas))


@pytest.fixture
def two(whole, rng, random_strategy):
    """Kuhn, its tree, two strategies, and a first network."""
    game, tree = whole("kuhn")
    sigmas = [random_strategy(tree, rng) for _ in range(2)]
    wide = game.features(tree.observations).shape[1]
    return game, tree, sigmas, initial_weights((wide, 32, game.actions), rng)


@pytest.mark.parametrize("batch", [2**20, 5])
def test_networks_side_by_side_learn_the_probabilities_that_each_is_shown(two, rng, batch):
    game, tree, sigmas, first = two
    adam = Adam(repeat(first, 2), 0.01)
    plan = CloningConfig(epochs=700 if batch > 5 else 500, batch=batch)
    weights, loss = clone_behaviour(adam, shown(game, tree, sigmas), plan, rng)
    for found, sigma, nats in zip(strategies(game, tree, weights), sigmas, loss, strict=True):
        assert entropy(sigma) - 1e-6 < nats < entropy(sigma) + 0.001
        assert np.abs(found - sigma).max() < 0.05


def test_one_network_is_imitated_as_the_same_network_among_others(two, rng):
    game, tree, sigmas, first = two
    rows = shown(game, tree, sigmas)
    plan = CloningConfig(epochs=20)
    both, _ = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, plan, rng)
    for k in range(2):
        mine = Demonstrations(rows.features[k], rows.legal[k], rows.taken[k])
        alone, loss = clone_behaviour(Adam(first, 0.01), mine, plan, rng)
        assert loss.shape == ()
        assert all(np.allclose(alone[n], both[n][k], atol=1e-5) for n in alone)


def test_what_is_held_out_ends_the_fit_before_it_knows_its_rows_by_heart(two, rng):
    game, tree, sigmas, first = two
    drawn = [np.stack([rng.multinomial(3, p) for p in sigma]) for sigma in sigmas]
    held = np.stack([np.stack([rng.multinomial(50, p) for p in sigma]) for sigma in sigmas])
    rows = shown(game, tree, drawn)
    shared = [torch.from_numpy(a) for a in (rows.features, rows.legal, held.astype(np.float32))]
    early, loss = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, CloningConfig(500), rng, held)
    late, _ = clone_behaviour(Adam(repeat(first, 2), 0.01), rows, CloningConfig(500), rng)
    found = cross_entropy(tensors(early), *shared).numpy()
    assert np.allclose(found, loss, atol=1e-6)
    assert (found + 0.01 < cross_entropy(tensors(late), *shared).numpy()).all()


def test_a_model_of_nothing_is_the_prior(two, rng):
    game, tree, _, first = two
    rows = shown(game, tree, [np.zeros(tree.legal.shape)])
    model = fit_opponent_models(first, rows, 0.01, CloningConfig(10), 0.2, rng)
    assert all(np.array_equal(model[n][0], first[n]) for n in first)


def test_a_guess_gives_way_to_what_was_seen():
    guess, taken = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0, 0], [0, 8]])
    found = correct_by_counts(guess, taken, 2.0)
    assert np.allclose(found, [[0.5, 0.5], [0.18, 0.82]])  # 1.8 and 8.2 of 10


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_the_best_reply_to_a_model_wins_what_a_best_response_wins(
    whole, rng, random_strategy, name
):
    _, tree = whole(name)
    sigma = random_strategy(tree, rng)
    won = exact_payoff(tree, best_response_strategy(tree, sigma), sigma)
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
    """What EOM wins after a few iterations of training."""
    trainer = EomTrainer(content, LocalPool())
    for _ in range(5):
        trainer.step()
    page = TRAINERS["eom"]
    return page.evaluate_model(content, trainer.model(), LocalPool(), np.random.default_rng(0))


@pytest.mark.parametrize("game", ["kuhn", "leduc"])
def test_a_caller_is_soon_replied_to_as_well_as_can_be(game):
    (row,) = rows_of(job(game))
    assert row["steps"][0] < 0.8 * row["best_response"]
    assert row["share"] > 0.98


def test_ppo_finds_a_reply_to_a_model_where_no_tree_is_asked_for():
    learnt = {"response": "ppo", "ppo_iterations": 15, "ppo_games": 400, "ppo_learning_rate": 0.01}
    (row,) = rows_of(job("kuhn", model=learnt))
    assert row["steps"][0] < 0.8 * row["best_response"]
    assert row["share"] > 0.9


def test_the_first_policy_learns_to_win_from_newcomers_and_the_prior_what_they_do(whole):
    game, tree = whole("kuhn")
    trainer = EomTrainer(job("kuhn"), LocalPool())
    losses = [trainer.step()["imitation_loss"] for _ in range(25)]
    assert losses[-1] < losses[0]
    assert losses[-1] < np.log(2)  # what a coin would be told by
    (sigma,) = strategies(game, tree, repeat(unprefixed("policy", trainer.model()), 1))
    assert exact_payoff(tree, sigma, tree.uniform()) > 0.3  # at most 0.458 chips


def test_without_a_tree_an_exact_reply_is_refused():
    content = job("holdem", evaluate={"opponents": ["random"]})
    with pytest.raises(UserError, match=r"model.response: exact needs a tree.*set ppo"):
        TRAINERS["eom"].validate(content)
    TRAINERS["eom"].validate(
        job("holdem", evaluate={"opponents": ["la"]}, model={"response": "ppo"})
    )
