"""DRON, which observes statistics of its opponent, must respond to each opponent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.rounding import assert_float32_close

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.learners.value_based.dron import (
    OPPONENT,
    PRIOR_DECISIONS,
    initial_experts,
    mixture_of_experts,
    opponent_profile,
)
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.forward_pass import forward, tensors
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.training import registry
from overtrick.training.adaptation import dron

BIASED = {"rocky": (0.5, 0.25, 0.25), "sharp": (0.25, 0.25, 0.5)}
"""Two policies in biased rock, paper, scissors: paper wins 11.25 against the first, rock 18.75
against the second, and no single policy wins three quarters of both."""


@pytest.fixture
def biased(tmp_path):
    """Store models that play these policies."""
    for name, mixture_ in BIASED.items():
        weights = {
            "policy.w0": np.zeros((2, 3), np.float32),
            "policy.b0": np.log(np.array(mixture_)).astype(np.float32),
        }
        model_files.save(model_files.Model(weights, "brps", {}), tmp_path / name)
    return [str(tmp_path / name) for name in BIASED]


def trained(plain):
    """Train a trainer to its end; return it and the metrics of its last iteration."""
    job = job_file.parse(plain, registry.JOBS, "this test")
    trainer = registry.TRAINERS["dron"].trainer(job, LocalPool())
    for _ in range(job.stop.iterations):
        metrics = trainer.step()
    return trainer, metrics


def test_the_opponents_statistics_determine_the_best_response(biased):
    trainer, metrics = trained(
        {
            "trainer": "dron",
            "game": "brps",
            "seed": 0,
            "stop": {"iterations": 60},
            "dron": {
                "hidden": [16], "gate_hidden": [32], "experts": 4, "random_opponents": 40,
                "adaptation_steps": 1,
                "games": 100, "opponent_hidden": [8],
            },
            "values": {
                "learning_rate": 0.01, "gradient_steps": 30, "batch_size": 128,
                "replay_capacity": 80_000, "target_update_interval": 30,
                "epsilon": 0.5, "epsilon_end": 0.5,
            },
            "evaluate": {"opponents": biased, "steps": 2, "games": 300, "repeats": 10},
        }
    )  # fmt: skip
    rows = registry.TRAINERS["dron"].evaluate_model(
        trainer.job, trainer.model(), trainer.pool, np.random.default_rng(0)
    )
    assert [round(row["best_response"], 2) for row in rows] == [11.25, 18.75]
    assert all(row["share"] > 0.97 for row in rows)
    assert min(row["steps"][0] / row["best_response"] for row in rows) < 0.6  # no game observed yet
    assert metrics["sharp/after_2_point"] == rows[1]["steps"][-1]


def test_no_single_policy_wins_as_much_against_both(game_and_tree, biased):
    """So the payoff in the test above needs the opponent's statistics."""
    _, tree = game_and_tree("brps")
    sigmas = [np.tile(p, (2, 1)) for p in BIASED.values()]
    best = [best_response_payoff(tree, sigma) for sigma in sigmas]
    grid = [np.array([i, j, 20 - i - j]) / 20 for i in range(21) for j in range(21 - i)]
    shares = [
        min(
            exact_payoff(tree, np.tile(p, (2, 1)), s) / b for s, b in zip(sigmas, best, strict=True)
        )
        for p in grid
    ]
    assert max(shares) < 0.75


@pytest.mark.parametrize("name", ["brps", "kuhn", "leduc", "holdem"])
def test_a_profile_is_the_opponents_action_frequencies_by_public_situation(name, rng):
    game, _ = two_seat_game(job_file.GameChoice(name=name))
    batch = play(game, [UniformPolicy(), UniformPolicy()], 300, rng).batch
    situation = game.public_situation(batch.observations())
    assert 0 <= situation.min() <= situation.max() < game.public_situations
    counts = np.zeros((1, game.public_situations, game.actions))
    np.add.at(counts, (0, situation, batch.action), 1)
    profile = opponent_profile(counts).reshape(counts.shape)
    totals = counts.sum(axis=-1)
    assert np.allclose(profile.sum(axis=-1), totals / (totals + PRIOR_DECISIONS))
    assert not profile[counts == 0].any()
    # a public situation has one set of legal actions, whatever the cards
    for one in np.unique(situation):
        assert len(np.unique(batch.legal[situation == one], axis=0)) == 1


def test_the_profile_is_empty_before_the_first_game():
    assert not opponent_profile(np.zeros((3, 4, 2))).any()


def test_a_gate_with_all_weight_on_one_expert_gives_its_values(rng):
    weights = initial_experts(5, (8,), 3, 4, (), 6, rng)
    weights["gate.w0"][:] = 0
    features, profile = (torch.from_numpy(rng.random((7, k), np.float32)) for k in (5, 4))
    state = {n.removeprefix("state."): v for n, v in weights.items() if n.startswith("state.")}
    each = forward(tensors(state), features).reshape(7, 6, 3)
    even = mixture_of_experts(tensors(weights), features, {OPPONENT: profile})
    assert_float32_close(even, each.mean(dim=1))
    weights["gate.b0"][2] = 50
    sure = mixture_of_experts(tensors(weights), features, {OPPONENT: profile})
    assert_float32_close(sure, each[:, 2])


def test_the_profile_of_each_opponent_comes_from_its_own_games(rng):
    """A caller beside a random player: only the caller never raises."""
    game, tree = two_seat_game(job_file.GameChoice(name="leduc"))
    job = job_file.parse({"trainer": "dron", "game": "leduc"}, registry.JOBS, "this test")
    weights = registry.TRAINERS["dron"].trainer(job, LocalPool()).learner.weights()

    class Both:
        """Policy of which the caller plays the first half of the games."""

        def start(self, games, rng):
            self.players = [
                each.start(games, rng)
                for each in (make_opponent("call", game, tree), UniformPolicy())
            ]
            self.half = games // 2
            return self

        def probs(self, observations):
            call, any_ = (player.policy.probs(observations) for player in self.players)
            return np.where((observations.game < self.half)[:, None], call, any_)

        def act(self, observations):
            return sample_actions(
                self.probs(observations), np.random.default_rng(len(observations))
            )

    first, second = dron.play_adaptation_steps(game, weights, 1.0, Both(), 2, 100, 1, rng)
    assert not first[0].any()
    raises = second[0].reshape(2, -1, game.actions)[..., game.action_names.index("raise")]
    assert not raises[0].any()
    assert raises[1].max() > 0.2
    for profile, batch, _ in (first, second):
        assert (batch.extras[OPPONENT] == profile[batch.game // 100]).all()


def test_a_game_without_public_situations_is_refused(monkeypatch):
    monkeypatch.delattr("overtrick.games.matrix.Matrix.public_situation")
    job = job_file.parse({"trainer": "dron", "game": "brps"}, registry.JOBS, "this test")
    with pytest.raises(UserError, match="brps has no public situations"):
        registry.TRAINERS["dron"].validate(job)


def test_a_stored_model_can_be_evaluated_but_not_used_as_an_opponent(tmp_path):
    plain = {
        "trainer": "dron",
        "game": "kuhn",
        "stop": {"iterations": 1},
        "dron": {
            "hidden": [4],
            "gate_hidden": [4],
            "random_opponents": 2,
            "games": 5,
            "adaptation_steps": 1,
        },
        "evaluate": {"opponents": ["call"], "games": 5, "repeats": 2},
    }
    trainer, metrics = trained(plain)
    stored = model_files.Model(trainer.model(), "kuhn", trainer.job.model_dump(mode="json"))
    model_files.save(stored, tmp_path / "watcher")
    (row,), game, _ = lifecycle.evaluate_stored(str(tmp_path / "watcher"), 0)
    assert game == "kuhn"
    assert row["steps"][-1] == metrics["call/after_3_chip"]
    with pytest.raises(UserError, match="it must search, or observe its opponent"):
        model_files.policy(tmp_path / "watcher", two_seat_game(trainer.job.game)[0])
    fewer = {n: v[..., :-1] for n, v in trainer.model().items()}
    with pytest.raises(UserError, match="the layers of the model do not fit its job"):
        dron.DronTrainer.evaluate_model(trainer.job, fewer, LocalPool(), np.random.default_rng(0))
