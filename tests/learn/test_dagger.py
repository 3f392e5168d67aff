"""DAgger: labels, the likelihood beside torch's, and what the network learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from overtrick import make
from overtrick.config import job_file
from overtrick.core import Actions, UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.supervised.dagger import negative_log_likelihood
from overtrick.policies.dagger import TEACHER_ACTION, DaggerPolicy
from overtrick.policies.forward_pass import LOG_STD, forward, tensors
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.training.registry import JOBS, TRAINERS


def dagger(game: Any, iterations: int, teacher: str, **section: Any) -> Any:
    content = {
        "trainer": "dagger", "game": game, "stop": {"iterations": iterations},
        "dagger": {"teacher": teacher, "hidden": [16], **section},
        "evaluate": {"every": 1000, "opponents": ["random"], "eval_deals": 4},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["dagger"].validate(job)
    return TRAINERS["dagger"].trainer(job, LocalPool())


class Counter:
    """Teacher that remembers how often it has acted in each game, and calls this its action."""

    remembers = True

    def start(self, games, rng):
        session = Counter()
        session.count = np.zeros(games, np.int64)
        return session

    def act(self, rows):
        self.count[rows.game] += 1
        return Actions(self.count[rows.game] % 2, np.zeros(len(rows)))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_teacher_labels_every_decision_and_plays_its_share_of_the_games(share):
    game = make("kuhn")
    labelled = DaggerPolicy(UniformPolicy(), Counter(), share)
    batch = play(game, (labelled, UniformPolicy()), 2000, np.random.default_rng(1), None, [0]).batch
    order = np.concatenate([np.arange(n) for n in np.unique(batch.game, return_counts=True)[1]])
    label = batch.extras[TEACHER_ACTION]
    assert (label == (order + 1) % 2).all()  # its memory has the student's decisions, too
    taught = batch.logp == 0
    assert (batch.action[taught] == label[taught]).all()
    assert len(np.unique(batch.game[taught])) / 2000 == pytest.approx(share, abs=0.05)
    assert np.exp(batch.logp[~taught]) == pytest.approx(0.5)


def test_the_likelihood_of_actions_equals_that_of_torch(rng):
    game = make("leduc")
    batch = play(game, (UniformPolicy(),) * 2, 20, rng).batch
    weights = tensors(initial_policy_weights(game, [8], rng))
    features = torch.as_tensor(game.features(batch.observations()))
    found = negative_log_likelihood(weights, features, batch.action, batch.legal)
    logits = forward(weights, features).masked_fill(~torch.as_tensor(batch.legal), -torch.inf)
    expected = -Categorical(logits=logits).log_prob(torch.as_tensor(batch.action)).mean()
    assert float(found) == pytest.approx(float(expected), rel=1e-5)

    weights = tensors(initial_policy_weights(make("sumo"), [8], rng))
    weights[LOG_STD] = torch.linspace(-2, 1, 8)
    features = torch.as_tensor(rng.normal(0, 1, (30, 120)).astype(np.float32))
    label = rng.normal(0, 1, (30, 8))
    found = negative_log_likelihood(weights, features, label, None)
    normal = Independent(Normal(forward(weights, features), weights[LOG_STD].exp()), 1)
    expected = -normal.log_prob(torch.as_tensor(label.astype(np.float32))).mean()
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_the_student_plays_as_its_teacher_at_every_information_set_that_they_reach():
    one = dagger("kuhn", 30, "cfr", games=400, learning_rate=0.01, teacher_iterations=5)
    for _ in range(30):
        one.step()
    game = make("kuhn")
    tree = build(game)
    teacher = best_response.sigma_of(tree, [make_opponent("cfr", game, tree)] * 2)
    student = best_response.sigma_of(
        tree, [network_policy(game.features, one.learner.weights())] * 2
    )
    visited = reached(tree, teacher)
    assert visited.sum() >= 10
    assert student[visited] == pytest.approx(teacher[visited], abs=0.1)


def reached(tree: Any, sigma: np.ndarray) -> np.ndarray:
    """Return which information sets play with `sigma` reaches in at least 2 % of games."""
    batch = play(make("kuhn"), (TabularPolicy(sigma),) * 2, 20_000, np.random.default_rng(3)).batch
    return np.bincount(batch.infoset, minlength=tree.infosets) > 400


def test_an_ant_learns_to_keep_still():
    """The likelihood also narrows the distribution around the teacher's actions."""
    one = dagger(
        {"name": "sumo", "integrator": "euler", "view": "ahead_left"}, 3, "motionless", games=4,
        opponent="random", learning_rate=0.01,
    )  # fmt: skip
    metrics = [one.step() for _ in range(3)]
    assert [m["teacher_share"] for m in metrics] == pytest.approx([1, 0.9, 0.8])
    assert metrics[-1]["diverged_games"] == 0
    assert metrics[-1]["loss_nats"] < metrics[0]["loss_nats"] - 1
    assert (np.exp(one.learner.weights()[LOG_STD]) < 0.25).all()  # 0.5 at the start


def test_a_shard_without_a_decision_of_the_student_is_left_out():
    """The opponent may fold before the student acts: in these games there is nothing to learn."""
    section = {"games": 1, "gradient_steps": 1, "batch_size": 4}
    alone = dagger("leduc", 40, "call", opponent="random", **section)
    learnt = ["loss_nats" in alone.step() for _ in range(40)]
    assert 20 < sum(learnt) < 40
    many = dagger("leduc", 6, "call", opponent="random", **section | {"games": 41})  # 20, 20, 1
    assert all("loss_nats" in many.step() for _ in range(6))


def test_a_loaded_trainer_continues_with_identical_results():
    whole, first, second = (dagger("leduc", 4, "call", games=30) for _ in range(3))
    expected = [whole.step() for _ in range(4)]
    found = [first.step() for _ in range(2)]
    second.load(first.state())
    assert found + [second.step() for _ in range(2)] == expected
    ours, theirs = second.state(), whole.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("game", "section", "message"),
    [
        ("kuhn_three", {"teacher": "random"}, "two-seat game"),
        ("kuhn", {"teacher": "cfrr"}, "unknown opponent 'cfrr'"),
        ("kuhn", {"teacher": "cfr", "opponent": "nobody"}, "unknown opponent 'nobody'"),
    ],
)
def test_an_unknown_teacher_or_opponent_is_refused(game, section, message):
    with pytest.raises(UserError, match=message):
        dagger(game, 1, **section)
