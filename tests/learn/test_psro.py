"""PSRO and extensive-form double oracle: known equilibria, exact payoffs, resumed runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool, generator
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.policies.rollout import play
from overtrick.solvers import sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.meta_game import MetaGame
from overtrick.solvers.extensive.restricted_tree import restrict
from overtrick.storage import model_files
from overtrick.training.equilibrium import oracles, restricted_games
from overtrick.training.equilibrium import psro as psro_trainer
from overtrick.training.equilibrium.oracles import Mixture
from overtrick.training.equilibrium.psro_job import Psro
from overtrick.training.equilibrium.restricted_games import NormalFormBySampling, NormalFormOnTree
from overtrick.training.held_out_trainer import HeldOutTrainer
from overtrick.training.registry import JOBS, TRAINERS

SMALL_PPO = {"iterations": 3, "games": 200, "hidden": [8]}
SMALL_DQN = {"iterations": 3, "games": 50, "hidden": [8], "replay_capacity": 5000}


def psro(game: Any, rounds: int, **sections: Any) -> Any:
    content = {
        "trainer": "psro", "game": game, "stop": {"iterations": rounds},
        "evaluate": {"every": 1000}, **sections,
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["psro"].validate(job)
    return TRAINERS["psro"].trainer(job, LocalPool())


def nash_convs(trainer: Any) -> list[float]:
    return [trainer.step()["nash_conv"] for _ in range(trainer.job.stop.iterations)]


def test_exact_responses_and_nash_solve_kuhn_in_ten_rounds():
    assert nash_convs(psro("kuhn", 10))[-1] < 1e-9


def test_exact_responses_and_nash_approach_the_equilibrium_of_leduc():
    found = nash_convs(psro("leduc_textbook", 100))
    assert found[59] <= 1.0
    assert found[99] <= 0.5


def test_the_extensive_form_double_oracle_solves_leduc_in_fifteen_rounds():
    assert min(nash_convs(psro("leduc_textbook", 15, psro={"form": "sequence"}))) < 1e-3


def test_cfr_plus_solves_the_restricted_games_of_three_seats():
    section = {"form": "sequence", "meta_solver": "regret_matching", "meta_solver_steps": 3000}
    found = nash_convs(psro("kuhn_three", 12, psro=section))
    assert found[-1] < 0.01 < found[0]


@pytest.mark.parametrize("solver", ["regret_matching", "projected_replicator_dynamics"])
def test_meta_solvers_of_any_game_lower_the_nash_conv_of_three_seats(solver):
    found = nash_convs(psro("kuhn_three", 12, psro={"meta_solver": solver}))
    assert found[-1] < 0.1 < found[0]


@pytest.mark.parametrize("solver", ["uniform", "alpha_rank"])
def test_other_meta_solvers_lower_the_nash_conv_of_kuhn(solver):
    found = nash_convs(psro("kuhn", 20, psro={"meta_solver": solver}))
    assert found[-1] < found[0] / 2


def test_the_decisions_of_oracles_and_of_payoff_estimates_are_counted(monkeypatch):
    """Uniform play of hold'em estimates payoffs before the first round, too."""
    counted = []

    def play_and_count(*arguments: Any, **named: Any) -> Any:
        played = play(*arguments, **named)
        counted.append(played.decision_count)
        return played

    for module in (oracles, restricted_games):
        monkeypatch.setattr(module, "play", play_and_count)
    trainer = psro(
        "holdem", 2, psro={"oracle": "ppo", "payoff_games": 5}, ppo={**SMALL_PPO, "games": 10}
    )
    assert trainer.step()["decisions"] == sum(counted)
    first = sum(counted)
    assert trainer.step()["decisions"] == sum(counted) - first


def test_a_mixture_is_evaluated_exactly_in_a_phantom_game(monkeypatch):
    trainer = psro("dark_hex_3", 1, psro={"oracle": "ppo", "payoff_games": 5}, ppo=SMALL_PPO)
    assert trainer.mixture.networks
    found = SimpleNamespace(nash_conv=0.5, exploitability=0.25)
    asked = []

    def evaluate(game: Any, mixtures: Any, pool: Any) -> Any:
        asked.append([(len(each.mixture), each.weights["w0"].shape[0]) for each in mixtures])
        return found

    monkeypatch.setattr(psro_trainer, "evaluate_mixtures", evaluate)
    monkeypatch.setattr(HeldOutTrainer, "evaluate", lambda self: {})
    metrics = trainer.evaluate()
    assert metrics == {"nash_conv": 0.5, "exploitability_game/mixture": 0.25}
    assert asked == [[(1, 1), (1, 1)]]


def test_search_responds_as_well_as_the_exact_oracle_if_it_searches_all_decisions():
    assert nash_convs(psro("kuhn", 10, psro={"oracle": "search"}))[-1] < 1e-9


def test_networks_trained_by_ppo_find_the_equilibrium_of_kuhn():
    ppo = {"iterations": 40, "games": 300, "hidden": [16], "learning_rate": 0.02}
    assert min(nash_convs(psro("kuhn", 7, psro={"oracle": "ppo"}, ppo=ppo))) < 0.1


def test_networks_trained_by_q_learning_find_the_equilibrium_of_kuhn():
    dqn = {
        "iterations": 60, "games": 100, "hidden": [16], "gradient_steps": 8, "batch_size": 128,
        "learning_rate": 0.01, "target_update_interval": 30, "replay_capacity": 20_000,
    }  # fmt: skip
    assert min(nash_convs(psro("kuhn", 8, psro={"oracle": "dqn"}, dqn=dqn))) < 0.1


def pure_strategies(tree, count, rng):
    """Return random pure strategies (count, N, A) of a tree."""
    drawn = np.where(tree.legal, rng.random((count, *tree.legal.shape)), -1).argmax(axis=2)
    return np.eye(tree.legal.shape[1])[drawn]


@pytest.mark.parametrize("name", ["kuhn", "leduc", "kuhn_three"])
def test_payoffs_of_the_meta_game_are_those_of_its_policies(game_and_tree, rng, name):
    _, tree = game_and_tree(name)
    strategies = pure_strategies(tree, 3, rng)
    meta_game = MetaGame(tree)
    for sigma in strategies:
        meta_game.add(sigma)
    owner, rows = tree.observations.seat, np.arange(tree.infosets)
    for profile in rng.integers(3, size=(5, tree.seats)):
        sigma = strategies[profile[owner], rows]
        expected = best_response.expected(tree, sigma)
        assert meta_game.payoffs[(slice(None), *profile)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["leduc", "kuhn_three"])
def test_a_mixture_has_the_payoff_of_drawing_policies_before_the_game(game_and_tree, rng, name):
    _, tree = game_and_tree(name)
    meta_game = MetaGame(tree)
    for sigma in pure_strategies(tree, 3, rng):
        meta_game.add(sigma)
    shares = list(rng.dirichlet(np.ones(3), size=tree.seats))
    drawn = meta_game.payoffs
    for mixture in reversed(shares):
        drawn = drawn @ mixture
    expected = best_response.expected(tree, meta_game.equivalent_strategy(shares))
    assert expected == pytest.approx(drawn, abs=1e-12)


@pytest.mark.parametrize("name", ["leduc", "liars_dice"])
def test_a_restricted_game_with_all_actions_is_the_whole_game(game_and_tree, name):
    _, tree = game_and_tree(name)
    same = restrict(tree, tree.legal)
    assert (same.tree.nodes, same.tree.infosets) == (tree.nodes, tree.infosets)
    sigma = tree.uniform()
    assert best_response.nash_conv(same.tree, sigma) == best_response.nash_conv(tree, sigma)


def test_a_seat_without_choice_loses_what_a_best_response_wins_from_it(game_and_tree, rng):
    _, tree = game_and_tree("leduc")
    (sigma,) = pure_strategies(tree, 1, rng)
    owner = tree.observations.seat[:, None]
    restricted = restrict(tree, np.where(owner == 1, sigma > 0, tree.legal))
    value, strategy = sequence_form.equilibrium(restricted.tree)
    assert value == pytest.approx(best_response.best_response(tree, sigma, 0)[0], abs=1e-9)
    assert best_response.expected(tree, restricted.extend(strategy))[0] == pytest.approx(value)


@pytest.mark.parametrize(
    ("game", "sections"),
    [
        ("kuhn", {}),
        ("kuhn", {"psro": {"form": "sequence"}}),
        ("kuhn", {"psro": {"oracle": "search"}, "lookahead": {"depth": 1, "simulations": 20}}),
        ("kuhn", {"psro": {"oracle": "dqn"}, "dqn": SMALL_DQN}),
        ("kuhn_three", {"psro": {"oracle": "ppo", "meta_solver": "uniform"}, "ppo": SMALL_PPO}),
        ("holdem", {"psro": {"oracle": "ppo", "payoff_games": 20}, "ppo": SMALL_PPO}),
    ],
)
def test_a_loaded_trainer_continues_with_identical_results(game, sections):
    whole, first, second = (psro(game, 4, **sections) for _ in range(3))
    expected = [whole.step() for _ in range(3)]
    found = [first.step(), first.step()]
    second.load(first.state())
    found.append(second.step())
    assert found == expected
    ours, theirs = second.state(), whole.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", ["kuhn", "kuhn_three"])
def test_sampled_payoffs_are_those_of_the_tree(game_and_tree, rng, name):
    game, tree = game_and_tree(name)
    section = Psro(meta_solver="uniform", payoff_games=4000)
    choice = job_file.GameChoice(name=name)
    sampled = NormalFormBySampling(choice, game, section, LocalPool())
    exact = NormalFormOnTree(game, tree, section)
    for _ in range(3):
        networks = [initial_policy_weights(game, (8,), rng, 4.0) for _ in range(game.seats)]
        member = {f"seat_{s}.{n}": v for s, each in enumerate(networks) for n, v in each.items()}
        sampled.add(member, rng)
        exact.add(member, rng)
    assert sampled.payoffs == pytest.approx(exact.meta_game.payoffs, abs=0.16)  # 5 standard errors
    shares = list(rng.dirichlet(np.ones(3), size=game.seats))
    played = play(game, Mixture(None, sampled._networks(), shares).policies(game), 40_000, rng)
    expected = best_response.expected(tree, exact.meta_game.equivalent_strategy(shares))
    assert played.payoff.mean(axis=0) == pytest.approx(expected, abs=0.05)


def test_a_population_without_a_tree_is_stored_and_plays(tmp_path):
    trainer = psro("holdem", 2, psro={"oracle": "ppo", "payoff_games": 20}, ppo=SMALL_PPO)
    assert "nash_conv" not in trainer.step()
    assert trainer.restricted.payoffs.sum(axis=0) == pytest.approx(0, abs=1e-12)
    model = model_files.Model(trainer.model(), "holdem", trainer.job.model_dump(mode="json"))
    model_files.save(model, tmp_path / "model")
    policy = model_files.policy(tmp_path / "model", trainer.game)
    deals = trainer.game.deal(50, generator(0))
    played = play(trainer.game, [policy] * 2, deals, generator(1))
    assert played.payoff.sum() == pytest.approx(0)
    broken = {**trainer.model(), "shares": np.ones((2, 5)) / 5}
    model_files.save(model_files.Model(broken, "holdem", model.job), tmp_path / "broken")
    with pytest.raises(UserError, match="is damaged: shares"):
        model_files.policy(tmp_path / "broken", trainer.game)


@pytest.mark.parametrize(
    ("game", "sections", "message"),
    [
        ("holdem", {}, "psro.oracle: exact needs a tree"),
        ("holdem", {"psro": {"oracle": "ppo", "form": "sequence"}}, "psro.form: sequence needs a"),
        ("kuhn", {"psro": {"oracle": "ppo", "form": "sequence"}}, "needs pure strategies"),
        ("kuhn", {"psro": {"form": "sequence", "meta_solver": "uniform"}}, "mixes whole policies"),
        ("kuhn_three", {}, "psro.meta_solver: nash needs a zero-sum game of two seats"),
        ("kuhn", {"psro": {"meta_solver": "alpha_rank"}}, "alpha_rank takes at most 69 rounds"),
        ("sumo", {"psro": {"oracle": "ppo"}}, "continuous actions"),
        ("kuhn", {"ppo": {"games": 9}}, "ppo has no effect with psro.oracle exact"),
        ("kuhn", {"psro": {"payoff_games": 9}}, "psro.payoff_games has no effect"),
        (
            "kuhn",
            {"psro": {"oracle": "search", "form": "sequence"}, "lookahead": {"depth": 0}},
            "leave out lookahead.depth",
        ),
        (
            "kuhn",
            {"psro": {"oracle": "rllib/PPO"}, "rllib": {"env_steps": 9}},
            "minibatch_size is more than rllib.env_steps",
        ),
    ],
)
def test_a_game_or_key_that_does_not_fit_is_refused_in_one_line(game, sections, message):
    with pytest.raises(UserError, match=message):
        psro(game, 100, **sections)
