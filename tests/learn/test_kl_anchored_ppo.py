"""KL-anchored PPO: a pretrained policy improves its return within a penalty on the distance to
it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.rounding import assert_float32_close

from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.kl_anchored_ppo import KlAnchoredLearner
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import padded_sample, sample_tensors
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.supervised.classifier import ClassifierConfig
from overtrick.policies.forward_pass import forward, masked_log_softmax, tensors

PLAN = ClassifierConfig("leaky_relu", "adam", 0.01, bfloat16=False)
GAMES, ACTIONS, WORTH = 600, 4, 2


@pytest.fixture
def rows(rng):
    """Return one decision per game: features and legal actions; the last action is never legal."""
    legal = np.ones((GAMES, ACTIONS), bool)
    legal[:, -1] = False
    return rng.random((GAMES, 5)).astype(np.float32), legal


def probs(weights, features, legal):
    output = forward(tensors(weights), torch.from_numpy(features), PLAN.activation)
    return masked_log_softmax(output, torch.from_numpy(legal)).exp().numpy()


def solver(kl_coef):
    return Ppo(0.02, epochs=2, teacher_kl_coef=kl_coef)


def train(rows, rng, kl_coef, iterations=20, every=False):
    """Train where one action has return 1 and the others 0; return the metrics and the final
    policy. every: give credits of all actions, not only of sampled ones."""
    features, legal = rows
    learner = KlAnchoredLearner(initial_weights((5, 16, ACTIONS), rng), PLAN, solver(kl_coef), 4)
    metrics = []
    for _ in range(iterations):
        chance = probs(learner.theta, features, legal)
        if every:
            credit = chance * ((np.arange(ACTIONS) == WORTH) - chance[:, [WORTH]])
        else:
            action = (rng.random((GAMES, 1)) >= chance.cumsum(axis=1)).sum(axis=1)
            credit = np.eye(ACTIONS)[action] * ((action == WORTH) - chance[:, WORTH])[:, None]
        metrics.append(learner.learn(*rows, credit, np.arange(GAMES), GAMES, rng))
    return metrics, learner


def test_the_best_action_is_found_and_the_kl_penalty_limits_the_change(rows, rng):
    free, learner = train(rows, rng, kl_coef=0.0)
    assert probs(learner.theta, *rows)[:, WORTH].mean() > 0.9
    assert free[0]["teacher_kl_nats"] == 0
    assert free[-1]["entropy_nats"] < 0.5 * free[0]["entropy_nats"]
    far = free[-1]["teacher_kl_nats"]
    near = train(rows, rng, kl_coef=1.0)[0][-1]["teacher_kl_nats"]
    nearer = train(rows, rng, kl_coef=10.0)[0][-1]["teacher_kl_nats"]
    assert far > 3 * near > 9 * nearer > 0


@pytest.mark.parametrize("every", [False, True])
def test_the_optimum_with_kl_penalty_has_its_closed_form(rows, rng, every):
    """The maximum of return minus kl_coef times the divergence is the teacher's probability times
    e^(return / kl_coef), normalised."""
    features, legal = np.repeat(rows[0][:1], GAMES, axis=0), rows[1]
    _, learner = train((features, legal), rng, kl_coef=1.0, iterations=40, every=every)
    teacher_probs = probs({n: v.numpy() for n, v in learner.teacher.items()}, features, legal)[0]
    wanted = teacher_probs * np.exp(np.arange(ACTIONS) == WORTH)
    assert probs(learner.theta, features, legal)[0] == pytest.approx(
        wanted / wanted.sum(), abs=0.03
    )


def test_the_kl_gradient_is_zero_at_the_teacher_and_grows_with_distance(rows, rng):
    features, legal = rows
    weights = initial_weights((5, 16, ACTIONS), rng)
    none = np.zeros(legal.shape)
    sample = sample_tensors(
        padded_sample(features, legal, none, none, np.ones(GAMES), 0 * legal[:, 0], 1)
    )
    params = Adam(weights, 0.01).params

    def output(theta):
        return masked_log_softmax(forward(theta, sample.features, PLAN.activation), sample.legal)

    surrogate = Surrogate(sample, output, teacher=output(tensors(weights)))
    torch.autograd.backward(surrogate.teacher_kl(output(params)))
    for each in params.values():
        assert_float32_close(each.grad, np.zeros(each.shape))
    moved = {n: v + 0.1 for n, v in tensors(weights).items()}
    other = {n: v * 1.5 for n, v in tensors(weights).items()}
    apart = [float(surrogate.teacher_kl(output(theta))) for theta in (moved, other)]
    assert min(apart) > 1e-4
    chance, before = output(other).exp(), surrogate.teacher.exp()
    wanted = (chance * (chance / before.clamp(min=1e-9)).clamp(min=1e-9).log()).sum(-1).mean()
    assert apart[1] == pytest.approx(float(wanted), rel=1e-4)


def test_a_learner_resumes_from_its_state(rows, rng):
    _, first = train(rows, rng, kl_coef=1.0, iterations=2)
    teacher_probs = {name: value.numpy() for name, value in first.teacher.items()}
    second = KlAnchoredLearner(teacher_probs, PLAN, solver(1.0), 4)
    second.load({name: value.copy() for name, value in first.state().items()})
    credit = np.eye(ACTIONS)[rng.integers(ACTIONS - 1, size=GAMES)]
    metrics = [
        each.learn(*rows, credit, np.arange(GAMES), GAMES, np.random.default_rng(1))
        for each in (first, second)
    ]
    assert metrics[0] == metrics[1]
    assert all(np.array_equal(v, second.theta[n]) for n, v in first.theta.items())
