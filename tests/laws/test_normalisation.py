"""Normalised inputs and returns: what a network computes does not depend on their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

import overtrick
from overtrick.core import Array, Observations
from overtrick.learners import normalisation
from overtrick.learners.critic import Critic, predict
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.normalisation import RunningMoments
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.policies.forward_pass import Weights, forward_numpy
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

SCALE, SHIFT = np.array([20.0, 0.5, 3.0]), np.array([100.0, -2.0, 0.0])


def moments_of(rows: np.ndarray, least: float = 0.01) -> RunningMoments:
    moments = RunningMoments(rows.shape[1], least)
    moments.add(rows)
    return moments


def weights_for(rng: Generator, outputs: int = 1) -> Weights:
    return initial_weights([3, 16, outputs], rng)


def test_moments_of_pieces_are_those_of_all_rows(rng: Generator) -> None:
    rows = rng.normal(size=(1000, 3)) * SCALE + SHIFT
    moments = RunningMoments(3, 0.01)
    for piece in np.split(rows, [1, 1, 30, 800]):  # one piece is empty
        moments.add(piece)
    assert moments.mean == pytest.approx(rows.mean(axis=0))
    assert moments.std == pytest.approx(rows.std(axis=0))
    normal = moments.normalised(rows)
    assert normal.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-5)
    assert normal.std(axis=0) == pytest.approx(np.ones(3), rel=1e-5)


def test_a_number_that_never_changes_is_not_scaled_up() -> None:
    assert moments_of(np.full((10, 1), 3.0), least=0.1).std == [0.1]
    assert RunningMoments(1, 0.1).std == [1.0]


def test_weights_for_normalised_inputs_and_outputs_compute_the_same(rng: Generator) -> None:
    weights = weights_for(rng, 2)
    rows = (rng.normal(size=(50, 3)) * SCALE + SHIFT).astype(np.float32)
    inputs, outputs = moments_of(rows), moments_of(rng.normal(size=(50, 2)) * 7 + 4)
    expected = forward_numpy(weights, rows)
    size = float(np.abs(expected).max())
    inner = normalisation.for_normalised_inputs(weights, inputs)
    found = forward_numpy(inner, inputs.normalised(rows))
    assert found == pytest.approx(expected, abs=1e-5 * size)
    scaled = normalisation.for_normalised_outputs(inner, outputs)
    found = forward_numpy(scaled, inputs.normalised(rows)) * outputs.std + outputs.mean
    assert found == pytest.approx(expected, abs=1e-5 * size)
    back = normalisation.for_raw_inputs(normalisation.for_raw_outputs(scaled, outputs), inputs)
    for name, value in weights.items():
        assert back[name] == pytest.approx(value, abs=1e-5 * size)


def critic_with(weights: Weights) -> Critic:
    critic = Critic(3, [16], np.random.default_rng(0), 0.01, normalise=True)
    critic.adam.load(weights)
    return critic


def test_new_moments_leave_a_critic_as_it_is(rng: Generator) -> None:
    critic = critic_with(weights_for(rng))
    rows = (rng.normal(size=(600, 3)) * SCALE + SHIFT).astype(np.float32)
    critic.fit(rows, rng.normal(size=600) * 1000 + 5000, rng)
    before = predict(critic.weights, rows)
    other = (10 * rows - 3).astype(np.float32)
    critic.fit(other, rng.normal(size=600) * 3, rng, epochs=0)
    assert predict(critic.weights, rows) == pytest.approx(
        before, abs=1e-4 * float(np.abs(before).max())
    )


def test_a_critic_learns_alike_in_every_unit(rng: Generator) -> None:
    """Inputs and returns in other units, with the same network as a function of them."""
    weights = weights_for(rng)
    rows = rng.normal(size=(2000, 3)).astype(np.float32)
    returns = rows[:, 0] * rows[:, 1]
    units = moments_of(SHIFT + SCALE * np.array([[1.0], [-1.0]]))  # mean SHIFT, deviation SCALE
    points = moments_of(np.array([[57.0], [-43.0]]))  # mean 7, deviation 50
    converted = normalisation.for_raw_outputs(normalisation.for_raw_inputs(weights, units), points)
    plain, other = critic_with(weights), critic_with(converted)
    for critic, x, y in ((plain, rows, returns), (other, rows * SCALE + SHIFT, 50 * returns + 7)):
        for k in range(5):
            critic.fit(x.astype(np.float32), y, np.random.default_rng(k))
    found = predict(other.weights, (rows * SCALE + SHIFT).astype(np.float32))
    expected = predict(plain.weights, rows)
    size = float(np.abs(expected).max())
    assert size > 1
    assert (found - 7) / 50 == pytest.approx(expected, abs=1e-3 * size)


def test_a_critic_restored_from_its_state_goes_on_in_the_same_way(rng: Generator) -> None:
    rows = (rng.normal(size=(300, 3)) * SCALE + SHIFT).astype(np.float32)
    returns = rng.normal(size=300)
    first, second = critic_with(weights_for(rng)), critic_with(weights_for(rng))
    first.fit(rows, returns, np.random.default_rng(1))
    second.load(first.state())
    losses = [c.fit(rows, returns, np.random.default_rng(2)) for c in (first, second)]
    assert losses[0] == losses[1]
    assert all(np.array_equal(v, second.weights[n]) for n, v in first.weights.items())


def test_a_critic_that_normalises_is_not_restored_from_one_that_does_not(rng: Generator) -> None:
    normalising = critic_with(weights_for(rng))
    plain = Critic(3, [16], rng, 0.01)
    for one, other in ((normalising, plain), (plain, normalising)):
        with pytest.raises(ValueError, match="one of the critics normalises"):
            one.load(other.state())


def learner_for(features: Callable[[Observations], Array], policy: Weights, critic: Weights) -> Any:
    value = Critic(len(critic["w0"]), [16], np.random.default_rng(0), 0.01, normalise=True)
    value.adam.load(critic)
    inputs = RunningMoments(len(policy["w0"]), 1e-3)
    return ActorCritic(features, policy, value, Ppo(0.01), 1.0, 0.95, inputs=inputs)


def test_a_policy_learns_alike_in_every_unit(rng: Generator) -> None:
    """Features in other units, with networks that compute the same, lead to the same policy."""
    game = overtrick.make("kuhn")
    batch = play(game, [UniformPolicy()] * 2, 500, rng).batch
    varying = game.features(batch.observations()).std(axis=0) > 0
    size = int(varying.sum())
    policy, critic = (initial_weights([size, 16, outputs], rng) for outputs in (2, 1))
    factor, shift = np.linspace(1, 30, size), np.linspace(-5, 5, size)
    units = moments_of(shift + factor * np.array([[1.0], [-1.0]]))

    def plain(observations: Observations) -> Array:
        return game.features(observations)[:, varying]

    def other(observations: Observations) -> Array:
        return (plain(observations) * factor + shift).astype(np.float32)

    learners = (
        learner_for(plain, policy, critic),
        learner_for(other, *(normalisation.for_raw_inputs(w, units) for w in (policy, critic))),
    )
    for learner in learners:
        for k in range(3):
            learner.learn(batch, np.random.default_rng(k))
    rows = batch.observations()
    first, second = (forward_numpy(each.theta, each.features(rows)) for each in learners)
    change = float(np.abs(first - forward_numpy(policy, plain(rows))).max())
    assert change > 0.1
    assert second == pytest.approx(first, abs=1e-3 * change)


def test_a_learner_restored_from_its_state_goes_on_in_the_same_way(rng: Generator) -> None:
    game = overtrick.make("kuhn")
    batch = play(game, [UniformPolicy()] * 2, 50, rng).batch
    size = game.features(batch.observations()).shape[1]
    policy, critic = (initial_weights([size, 16, outputs], rng) for outputs in (2, 1))
    first, second = (learner_for(game.features, policy, critic) for _ in range(2))
    first.learn(batch, np.random.default_rng(1))
    second.load(first.state())
    for learner in (first, second):
        learner.learn(batch, np.random.default_rng(2))
    expected, found = first.state(), second.state()
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], value) for name, value in expected.items())
