"""A meta-model trains against the policies of a stored run of PSRO or of a league."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from overtrick.comparison import board_players, board_population
from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.core.checkpoints import load_state
from overtrick.distributed.workers import LocalPool, generator
from overtrick.learners.initialisation import initial_weights
from overtrick.policies import policy_batch
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.training.adaptation import gradient_samples, training_opponents
from overtrick.training.registry import JOBS, TRAINERS

PPO = {"iterations": 3, "games": 200, "hidden": [8]}
LEAGUE = {"games": 100, "hidden": [8], "snapshot_interval": 1}
SOURCES: dict[str, dict[str, Any]] = {
    "tables": {"trainer": "psro"},
    "networks for each seat": {"trainer": "psro", "psro": {"oracle": "ppo"}, "ppo": PPO},
    "networks": {"trainer": "league", "league": LEAGUE},
    "sequence form": {"trainer": "psro", "psro": {"form": "sequence"}},
}


@pytest.fixture(scope="module", params=SOURCES)
def model(request: Any, tmp_path_factory: Any) -> tuple[str, str]:
    """Train a small population of Kuhn poker; return its trainer's name and its model's folder."""
    content = {**SOURCES[request.param], "game": "kuhn", "stop": {"iterations": 3}}
    job = job_file.parse(content, JOBS, "this test")
    trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    for _ in range(3):
        trainer.step()
    folder = tmp_path_factory.mktemp("population") / "model"
    model_files.save(
        model_files.Model(trainer.model(), "kuhn", job.model_dump(mode="json")), folder
    )
    return job.trainer, str(folder)


def meta_job(kind: str, folder: str, **changes: Any) -> Any:
    content = {
        "trainer": "meta", "game": "kuhn", "stop": {"iterations": 2},
        "meta": {"hidden": [8], "tasks": 6, "games": 20},
        "population": {"kind": kind, "model": folder},
        "evaluate": {"opponents": ["random"], "every": 10}, **changes,
    }  # fmt: skip
    return job_file.parse(content, JOBS, "this test")


@pytest.mark.parametrize("estimator", ["critic", "aivat"])
def test_a_meta_model_trains_against_them(model: tuple[str, str], estimator: str) -> None:
    sections = {
        "meta": {
            "hidden": [8], "tasks": 6, "games": 20, "gradient_estimator": estimator,
            "objective": "sampled" if estimator == "critic" else "exact",
        },
        "adaptation": {"gradient_estimator": None},
    }  # fmt: skip
    job = meta_job(*model, **sections)
    TRAINERS["meta"].validate(job)
    whole, first, second = (TRAINERS["meta"].trainer(job, LocalPool()) for _ in range(3))
    expected = [whole.step(), whole.step()]
    found = [first.step()]
    second.load(first.state())
    assert [*found, second.step()] == expected


def test_a_run_goes_on_after_its_model_has_changed(model: tuple[str, str], tmp_path: Any) -> None:
    trainer, folder = model
    stored = model_files.load(Path(folder))
    moved = tmp_path / "model"
    model_files.save(stored, moved)
    first = TRAINERS["meta"].trainer(meta_job(trainer, str(moved)), LocalPool())
    first.step()
    state = first.state()
    expected = first.step()
    fewer = dict(stored.weights)
    for name, value in fewer.items():
        if name.startswith("member."):
            fewer[name] = value[:2]
    if "shares" in fewer:
        fewer["shares"] = fewer["shares"][:, :2].copy()
    model_files.save(model_files.Model(fewer, stored.game, stored.job), moved)
    second = TRAINERS["meta"].trainer(meta_job(trainer, str(moved)), LocalPool())
    second.load(state)
    assert second.step() == expected


def in_context_job(kind: str, folder: str) -> Any:
    content = {
        "trainer": "in_context", "game": "kuhn", "stop": {"iterations": 2},
        "in_context": {
            "hypotheses": 4, "queries": 3, "hidden": 8, "matches": 6, "stages": 2, "updates": 2,
        },
        "opponents": {"size": 10, kind: folder, "stored_share": 1, "deviating_share": 0},
        "evaluate": {"opponents": ["random"], "every": 10, "repeats": 2},
    }  # fmt: skip
    return job_file.parse(content, JOBS, "this test")


def test_an_in_context_learner_meets_them(model: tuple[str, str], rng: Generator) -> None:
    """It meets only them, or half of one and half of a member of its own population."""
    job = in_context_job(*model)
    TRAINERS["in_context"].validate(job)
    whole, first = (TRAINERS["in_context"].trainer(job, LocalPool()) for _ in range(2))
    drawn = training_opponents.draw_opponents(whole.tree, whole.members, job.opponents, 30, rng)
    own = whole.tree.observations.seat == 0
    stored = whole.members[1]
    assert all(any(np.array_equal(one[own], s[own]) for s in stored) for one in drawn)
    expected = [whole.step(), whole.step()]
    found, state = [first.step()], first.state()
    job = in_context_job(*model)
    second = TRAINERS["in_context"].trainer(job, LocalPool())
    second.members = (second.members[0], stored[:1])  # as if the stored run had changed
    second.load(state)
    assert [*found, second.step()] == expected
    with pytest.raises(UserError, match="the checkpoint does not fit the job"):
        load_state(second, {**state, "stored.0": stored[:, :3]})


def test_they_join_the_population_of_a_bayesian_player(model: tuple[str, str]) -> None:
    kind, folder = model
    choice = GameChoice(name="kuhn")
    method = BoardMethod(player="population_posterior", population_size=5, **{kind: folder})
    alone = BoardMethod(player="population_posterior", population_size=5)
    joined, few = (
        board_population.posterior_players(choice, "own_cards", each).prior
        for each in (method, alone)
    )
    assert np.array_equal(joined.members[:5], few.members)
    section = training_opponents.TrainingOpponents(size=5, **{kind: folder})
    (stored,) = training_opponents.read_members(choice, section)[1:]
    assert np.array_equal(joined.members[5:], stored)


def test_a_model_of_another_trainer_is_refused(model: tuple[str, str]) -> None:
    trainer, folder = model
    other = "league" if trainer == "psro" else "psro"
    jobs = {
        "population.model": meta_job(other, folder),
        f"opponents.{other}": in_context_job(other, folder),
    }
    for key, job in jobs.items():
        with pytest.raises(UserError, match=rf"{key}: .* is a model of trainer {trainer}"):
            TRAINERS[job.trainer].validate(job)
    method = BoardMethod(player="population_posterior", **{other: folder})
    board = {"trainer": "board", "game": "kuhn", "methods": {"a": method.model_dump()}}
    board_job = job_file.parse(board, {"board": BoardJob}, "this test")
    with pytest.raises(UserError, match=f"^{other}: .* is a model of trainer {trainer}"):
        board_players.check_method(board_job, method)


def test_a_missing_model_or_an_unused_key_is_refused() -> None:
    with pytest.raises(UserError, match=r"set population\.model"):
        TRAINERS["meta"].validate(meta_job("psro", "x", population={"kind": "psro"}))
    with pytest.raises(UserError, match=r"size has no effect with population\.kind psro"):
        meta_job("psro", "x", population={"kind": "psro", "size": 9})
    with pytest.raises(UserError, match=r"model has no effect with population\.kind evolving"):
        meta_job("evolving", "/x")


def batches(game: Any, tree: Any, rng: Generator) -> dict[str, dict[str, np.ndarray]]:
    """Return a batch of three policies of each kind."""
    sizes = (input_size(game), 8, game.actions)
    networks = [initial_weights(sizes, rng, 3.0) for _ in range(6)]
    stacked = [
        {n: np.stack([w[n] for w in three]) for n in three[0]}
        for three in (networks[:3], networks[3:])
    ]
    weight = rng.random((3, *tree.legal.shape)) * tree.legal
    return {
        "tables": {"sigma": weight / weight.sum(axis=2, keepdims=True)},
        "networks": stacked[0],
        "by seat": {f"seat_{s}.{n}": v for s in range(2) for n, v in stacked[s].items()},
    }


@pytest.mark.parametrize("kind", ["tables", "networks", "by seat"])
def test_a_batch_plays_as_its_strategies_say(game_and_tree: Any, rng: Generator, kind: str) -> None:
    game, tree = game_and_tree("leduc")
    batch = batches(game, tree, rng)[kind]
    assert policy_batch.batch_size(batch) == 3
    sigmas = gradient_samples.batch_strategies(game, tree, batch)
    assert sigmas.shape == (3, *tree.legal.shape)
    games = 4000
    policy = policy_batch.batch_policy(game, batch)
    payoff = play(game, [policy] * 2, 3 * games, generator(1), recorded=()).payoff
    means = payoff.reshape(3, games, 2).mean(axis=1)
    expected = best_response.expected_batch(tree, sigmas)
    assert means == pytest.approx(expected, abs=0.25)  # five standard errors
    one = {name: value[1] for name, value in batch.items()}
    if kind == "networks":
        table = best_response.sigma_of(tree, [NetworkPolicy(game.features, one)] * 2)
        assert sigmas[1] == pytest.approx(table, abs=1e-6)
    if kind == "tables":
        assert (TabularPolicy(one["sigma"]).probs(tree.observations) == sigmas[1]).all()


@pytest.mark.parametrize("kind", ["tables", "networks", "by seat"])
def test_policies_are_drawn_by_their_shares(game_and_tree: Any, rng: Generator, kind: str) -> None:
    game, tree = game_and_tree("leduc")
    batch = batches(game, tree, rng)[kind]
    shares = np.array([[0, 1, 0], [0, 0, 1.0]])
    drawn = policy_batch.draw_policies(batch, shares, tree.observations.seat, 5, rng)
    assert policy_batch.batch_size(drawn) == 5
    sigmas = gradient_samples.batch_strategies(game, tree, batch)
    second = 1 if kind == "networks" else 2  # networks of all seats are drawn once
    expected = np.where((tree.observations.seat == 0)[:, None], sigmas[1], sigmas[second])
    for sigma in gradient_samples.batch_strategies(game, tree, drawn):
        assert sigma == pytest.approx(expected, abs=1e-6)
