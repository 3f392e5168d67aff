"""Adaptation of weights to an opponent in games without a tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.flow.small_meta_job import TINY
from tests.rounding import assert_float32_close

from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import AdaptationEvaluation, exact_payoff
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.normalisation import (
    RunningMoments,
    for_normalised_inputs,
    stored_moments,
)
from overtrick.learners.policy_gradient import maml
from overtrick.learners.policy_gradient.sample import sample_tensors
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import tensors
from overtrick.policies.network_sizes import input_size
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.training.adaptation import gradient_adaptation
from overtrick.training.adaptation.gradient_samples import adapt, exact_sample, strategies
from overtrick.training.adaptation.meta import MetaTrainer
from overtrick.training.registry import JOBS

KUHN = GameChoice(name="kuhn")


@pytest.mark.parametrize("seed", [0, 1])
def test_simulated_games_give_the_exact_gradient_against_a_well_observed_opponent(
    seed, monkeypatch
):
    """A gradient step against the estimated opponent moves the policy like an exact step on the
    tree against the true opponent."""
    rng = np.random.default_rng(seed)
    game, tree = two_seat_game(KUHN)
    monkeypatch.setattr(gradient_adaptation, "two_seat_game", lambda choice: (game, None))
    theirs = rng.dirichlet([0.7, 0.7], tree.infosets)
    size = input_size(game)
    theta = initial_weights((size, 32, game.actions), rng)
    critic = initial_weights((size, 8, 1), rng, head=0.1)
    how = AdaptationEvaluation(steps=1, games=20_000, repeats=2, learning_rate=1.0)
    start = gradient_adaptation.AdaptingModel(theta, critic, False, 1.0, "opponent_model")
    before, after = gradient_adaptation.adapt_by_gradients(
        rng, start, how, KUHN, TabularPolicy(theirs)
    )

    single = repeat(theta, 1)
    right = strategies(
        game, tree, adapt(single, exact_sample(game, tree, single, theirs[None]), 1.0)
    )
    was = strategies(game, tree, single)[0]
    gained = exact_payoff(tree, right[0], theirs) - exact_payoff(tree, was, theirs)
    assert gained > 0.05
    for first, policy in zip(before, after, strict=True):
        assert_float32_close(first.probs(tree.observations), was)
        now = policy.probs(tree.observations)
        assert np.abs(now - right[0]).max() < 0.2 * np.abs(right[0] - was).max()
        won = exact_payoff(tree, now, theirs) - exact_payoff(tree, was, theirs)
        assert won == pytest.approx(gained, rel=0.1)


def test_a_game_that_is_not_zero_sum_has_no_opponent_model_on_its_tree():
    game, tree = two_seat_game(KUHN)
    shared = replace(tree, gain=np.ones_like(tree.gain))
    for fitting in (tree, None):
        gradient_adaptation.check_estimator("key", "opponent_model", game, fitting)
    with pytest.raises(UserError, match=r"^key: opponent_model needs a zero-sum game"):
        gradient_adaptation.check_estimator("key", "opponent_model", game, shared)


def test_a_damaged_critic_is_refused_where_a_learned_opponent_model_is_simulated(monkeypatch):
    rng = np.random.default_rng(0)
    game, _ = two_seat_game(KUHN)
    monkeypatch.setattr(gradient_adaptation, "two_seat_game", lambda choice: (game, None))
    theta = initial_weights((input_size(game), 8, game.actions), rng)
    damaged = gradient_adaptation.AdaptingModel(theta, {}, False, 1.0, "opponent_model")
    with pytest.raises(UserError, match="the critic of the model"):
        gradient_adaptation.adapt_by_gradients(
            rng, damaged, AdaptationEvaluation(steps=1), KUHN, UniformPolicy()
        )


def test_a_damaged_policy_network_is_refused_before_games_are_played():
    rng = np.random.default_rng(0)
    game, _ = two_seat_game(KUHN)
    theta = initial_weights((input_size(game) + 1, 8, game.actions), rng)
    for damaged in ({}, theta):
        model = gradient_adaptation.AdaptingModel(damaged, {}, False, 1.0, "aivat")
        with pytest.raises(UserError, match="the policy network of the model"):
            gradient_adaptation.adapt_by_gradients(
                rng, model, AdaptationEvaluation(steps=1), KUHN, UniformPolicy()
            )


def test_damaged_moments_of_inputs_are_refused_before_games_are_played():
    rng = np.random.default_rng(0)
    game, _ = two_seat_game(KUHN)
    size = input_size(game)
    theta = initial_weights((size, 8, game.actions), rng)
    critic = initial_weights((size, 8, 1), rng)
    sound = RunningMoments(size, 0.1).state()
    for arrays in ({}, {**sound, "count": np.zeros(2)}, RunningMoments(size + 1, 0.1).state()):
        with pytest.raises(UserError, match=r"^the input moments of the model are damaged"):
            gradient_adaptation.adapt_by_gradients(
                rng,
                gradient_adaptation.AdaptingModel(
                    theta, critic, False, 1.0, "critic", inputs=stored_moments(arrays)
                ),
                AdaptationEvaluation(steps=1),
                KUHN,
                UniformPolicy(),
            )


def test_a_normalising_meta_model_learns_from_the_inner_steps_that_it_played():
    """The policies of its samples are those that the outer update computes from its weights."""
    content = {**TINY, "meta": {**TINY["meta"], "normalise": True}}
    job = job_file.parse(content, JOBS, "this test")
    trainer = MetaTrainer(job, LocalPool())
    decisions = sum(trainer.step()["decisions"] for _ in range(2))
    learner = trainer.learner
    assert 0.4 * decisions < learner.inputs.count < 0.6 * decisions  # those of one seat
    stored = trainer.rebuild_model(job, trainer.model())
    assert np.array_equal(stored.inputs.mean, learner.inputs.mean)
    assert np.array_equal(stored.inputs.std, learner.inputs.std)
    rng = np.random.default_rng(0)
    by_step, *_ = trainer._adapt_to_all(trainer.population.sample(7, rng), rng)
    inner, outer = map(sample_tensors, by_step)
    theta = for_normalised_inputs(learner.theta, learner.inputs)
    params = {n: v.requires_grad_() for n, v in tensors(repeat(theta, 7)).items()}
    adapted = maml.adapt(params, inner, job.meta.inner_lr)
    for sample, weights in ((inner, params), (outer, adapted)):
        ratio = sample.ratio(sample.output(weights))[sample.weight > 0]
        assert ratio.detach().numpy() == pytest.approx(1, abs=1e-3)
    assert any(float((adapted[n] - params[n]).detach().abs().max()) > 0.01 for n in params)


@pytest.mark.parametrize("tree_fits", [True, False])
def test_many_gradient_steps_on_one_set_of_games_follow_as_many_exact_ones(tree_fits, monkeypatch):
    rng = np.random.default_rng(0)
    game, tree = two_seat_game(KUHN)
    if not tree_fits:
        monkeypatch.setattr(gradient_adaptation, "two_seat_game", lambda choice: (game, None))
    theirs = rng.dirichlet([0.7, 0.7], tree.infosets)
    theta = initial_weights((input_size(game), 32, game.actions), rng, head=0.1)
    critic = initial_weights((input_size(game), 8, 1), rng, head=0.1)
    how = AdaptationEvaluation(steps=1, games=5_000, repeats=2, learning_rate=0.3)
    start = gradient_adaptation.AdaptingModel(
        theta, critic, False, 1.0, "opponent_model", gradient_steps=10
    )
    _, after = gradient_adaptation.adapt_by_gradients(rng, start, how, KUHN, TabularPolicy(theirs))

    payoffs, params = [], repeat(theta, 1)
    for _ in range(10):
        params = adapt(params, exact_sample(game, tree, params, theirs[None]), how.learning_rate)
        payoffs.append(exact_payoff(tree, strategies(game, tree, params)[0], theirs))
    assert payoffs[0] < 0.2
    assert payoffs[-1] > 0.28
    for policy in after:
        assert exact_payoff(tree, policy.probs(tree.observations), theirs) == pytest.approx(
            payoffs[-1], rel=0.1
        )
