"""Evolution alone: fitness is the payoff of members against each other."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.learners.initialisation import INITIAL_ACTION_STD
from overtrick.learners.weights import stack
from overtrick.policies.forward_pass import LOG_STD
from overtrick.training.adaptation.evolve import EvolveTrainer, round_robin
from overtrick.training.adaptation.gradient_samples import strategies
from overtrick.training.registry import JOBS, TRAINERS


def trainer(game, seed=0, iterations=60, **section):
    content = {
        "trainer": "evolve", "game": game, "seed": seed, "stop": {"iterations": iterations},
        "evolve": {"hidden": [8], **section},
        "evaluate": {"opponents": ["random"], "repeats": 2, "every": 1000},
    }  # fmt: skip
    return EvolveTrainer(job_file.parse(content, JOBS, "this test"), LocalPool())


def pure(game, action):
    """Return a network that always plays one action of a matrix game."""
    bias = np.full(game.actions, -30, np.float32)
    bias[action] = 30
    return {"b0": bias, "w0": np.zeros((2, game.actions), np.float32)}


def test_fitness_in_biased_rock_paper_scissors_is_the_mean_of_the_payoff_table(game_and_tree, rng):
    """With pure strategies nothing is random: rock loses 25 to paper and wins 50 against scissors,
    paper loses 5 to scissors; 60 pairs are more than one shard."""
    game, _ = game_and_tree("brps")
    played = [0, 1, 2, 1, 0, 2, 2, 1, 1, 2, 0, 1]
    members = stack([pure(game, action) for action in played])
    won = np.array([[0, -25, 50], [25, 0, -5], [-50, 5, 0]])
    expected = [sum(won[a][b] for b in played) / (len(played) - 1) for a in played]
    found = round_robin(job_file.GameChoice(name="brps"), members, 4, LocalPool(), rng)
    assert np.abs(found - expected).max() < 1e-9


def test_fitness_in_kuhn_is_the_mean_payoff_against_the_other_members(rng, game_and_tree):
    one = trainer("kuhn", size=4, head_init_scale=3.0, logit_bias_std=3.0)
    members = one.population.state()
    game, tree = game_and_tree("kuhn")
    sigma = strategies(game, tree, members)
    exact = [
        np.mean([exact_payoff(tree, sigma[i], sigma[j]) for j in range(4) if j != i])
        for i in range(4)
    ]
    games = 20_000
    found = round_robin(one.job.game, members, games, LocalPool(), rng)
    assert np.ptp(exact) > 0.15
    assert np.abs(found - exact).max() < 5 * 2 / np.sqrt(3 * games)  # the largest payoff is 2
    assert abs(found.sum()) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_best_member_of_kuhn_beats_the_initial_population(seed, game_and_tree):
    one = trainer("kuhn", seed, size=20, games=200, head_init_scale=2.0, logit_bias_std=2.0)
    game, tree = game_and_tree("kuhn")
    first = strategies(game, tree, one.population.state())
    for _ in range(40):
        one.step()
    (champion,) = strategies(game, tree, {n: v[:1] for n, v in one.population.state().items()})
    assert np.mean([exact_payoff(tree, champion, other) for other in first]) > 0.25
    # a scripted player; at most 0.5 chips
    assert exact_payoff(tree, champion, tree.uniform()) > 0.25


def test_the_model_is_the_best_of_the_last_generation(rng):
    one = trainer("kuhn", size=6)
    before = one.population.state()
    generator = np.random.default_rng
    one.population.call("next_generation", np.array([0.0, 1, 5, 2, 3, 4]), generator(1))
    for name, value in one.model().items():
        assert np.array_equal(value, before[name.removeprefix("policy.")][2])


def test_the_best_member_is_evaluated_before_and_after_adaptation(rng):
    one = trainer("kuhn", size=4, games=10, iterations=2)
    metrics = [one.step(), one.step()][-1]
    (row,) = TRAINERS["evolve"].evaluate_model(one.job, one.model(), LocalPool(), rng)
    assert len(row["steps"]) == 4
    assert metrics["random/after_0_chip"] == row["steps"][0]
    assert row["steps"][3] > row["steps"][0]


def test_ants_evolve_by_their_matches_against_each_other():
    one = trainer({"name": "sumo", "integrator": "euler", "reward": "result"}, size=4, games=2)
    first = np.exp(one.population.state()[LOG_STD])
    np.testing.assert_allclose(first, np.full((4, 8), INITIAL_ACTION_STD), rtol=1e-6)
    metrics = one.step()
    assert metrics["fitness_best"] > metrics["fitness_worst"]
    assert metrics["fitness_mean"] == pytest.approx(0)
    assert set(one.model()) == {f"policy.{n}" for n in ("b0", "b1", "w0", "w1", LOG_STD)}


def test_a_game_that_is_not_zero_sum_is_refused():
    section = {"trainer": "evolve", "game": "sumo", "evaluate": {"opponents": ["random"]}}
    with pytest.raises(
        UserError, match="payoffs of sumo do not sum to zero: set its reward to result"
    ):
        TRAINERS["evolve"].validate(job_file.parse(section, JOBS, "this test"))
