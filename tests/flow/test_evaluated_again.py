"""The table stored with a run equals the one that `overtrick evaluate RUN` computes from its
model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bench.small_jobs import SMALL_JOBS
from tests.bidding_files import RULES_OF_OLD_RUNS

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import evaluate
from overtrick.games.bridge.system import loader
from overtrick.policies.tabular import TabularPolicy
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.training.registry import JOBS, TRAINERS

BEFORE = Path(__file__).parents[1] / "fixtures" / "runs_before_house"
HELD_OUT = {"opponents": ["random", "call"], "every": 2, "eval_deals": 20}
ADAPTS = {**HELD_OUT, "steps": 1, "games": 10, "repeats": 2}
HOLDEM = {
    "dron": {"evaluate": ADAPTS},
    "eom": {
        "evaluate": {**ADAPTS, "steps": 1},
        "model": {"epochs": 1, "response": "ppo", "ppo_iterations": 1, "ppo_games": 10},
    },
    "evolve": {"evaluate": ADAPTS},
    "meta": {"evaluate": ADAPTS},
    "nfsp": {"evaluate": HELD_OUT},
    "psro": {"evaluate": HELD_OUT, "psro": {"oracle": "ppo", "payoff_games": 20}},
    "league": {"evaluate": HELD_OUT},
    "policy_gradient_self_play": {"evaluate": HELD_OUT},
}
"""Changes that turn jobs of a game with a tree into jobs of one without."""


def cases() -> list[Any]:
    """List the small jobs, and those that can also run on a game without a tree."""
    slow = {"bidder", "selfplay_bidding", "rllib", "sampling"}
    found = [
        pytest.param(name, {}, id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name in SMALL_JOBS
    ]
    found += [
        pytest.param(name, {"game": "holdem", **more}, id=f"{name}-holdem")
        for name, more in HOLDEM.items()
    ]
    return [*found, pytest.param("exploit", {"game": "leduc"}, id="exploit-leduc")]


@pytest.mark.parametrize(("name", "change"), cases())
def test_the_stored_table_is_the_evaluated_one_and_the_last_iteration_is_evaluated(
    name, change, tmp_path, monkeypatch, request
):
    if name == "rllib":
        request.getfixturevalue("local_ray")
    for each in ("data", "bidding", "bidding_imps", "double_dummy"):
        shutil.copytree(BEFORE / each, tmp_path / each)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, "fingerprint", lambda rules: RULES_OF_OLD_RUNS[rules.name])
    job = job_file.parse({**SMALL_JOBS[name], **change}, JOBS, name)
    spec = TRAINERS[job.trainer]
    trainer = spec.trainer(job, LocalPool())
    history = [(k + 1, trainer.step()) for k in range(job.stop.iterations)]
    stored = trainer.report(history).rows
    model = model_files.Model(trainer.model(), job.game.name, job.model_dump(mode="json"))
    trainer.close()
    model_files.save(model, tmp_path / "model")
    again, game, _ = lifecycle.evaluate_stored(str(tmp_path / "model"), 0)
    assert again == stored
    assert game == job.game.name
    if spec.progress_score is not None:
        assert spec.progress_score(history[-1][1]) is not None


def three_policies(rng: Any, model: Any, section: Any, choice: Any, opponent: Any) -> Any:
    """Adapt a model of strategies (3, N, A) to no opponent: one policy for each repetition."""
    return [[TabularPolicy(sigma) for sigma in model]]


def test_the_standard_error_of_repetitions_is_that_of_their_mean(
    game_and_tree: Any, random_strategy: Any, rng: Any
) -> None:
    """On a tree each payoff is exact, so only the policies differ."""
    _, tree = game_and_tree("kuhn")
    sigmas = np.stack([random_strategy(tree, rng) for _ in range(3)])
    section = evaluate.HeldOutEvaluation(opponents=("random",))
    choice = job_file.GameChoice(name="kuhn")
    (row,) = evaluate.evaluate(choice, three_policies, sigmas, section, LocalPool(), rng)
    paid = [evaluate.exact_payoff(tree, sigma, tree.uniform()) for sigma in sigmas]
    mean = sum(paid) / 3
    assert row["steps"] == pytest.approx([mean])
    error = (sum((each - mean) ** 2 for each in paid) / 2 / 3) ** 0.5
    assert row["standard_error"] == pytest.approx([error])
