"""Stored models on boards: networks that read games, fixed policies, a model for each seed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import overtrick as ot
from overtrick.comparison import board_job, board_opponents, board_players
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.storage.champions import FOLDER
from overtrick.training.registry import JOBS, TRAINERS

LEDUC = GameChoice(name="leduc")


def board(methods: dict[str, Any], **changes: Any) -> board_job.BoardJob:
    """Return the job of a board of Leduc."""
    content = {"trainer": "board", "game": "leduc", "seeds": [0], "methods": methods, **changes}
    return job_file.parse(content, {"board": board_job.BoardJob}, "board")


@pytest.fixture
def match_network(tmp_path: Path) -> str:
    """Store a match network with random weights; return its folder."""
    content = {
        "trainer": "in_context", "game": "leduc", "opponents": {"size": 5},
        "in_context": {"hypotheses": 4, "queries": 4, "hidden": 8},
    }  # fmt: skip
    trainer = TRAINERS["in_context"].trainer(job_file.parse(content, JOBS, "job"), LocalPool())
    job = trainer.job.model_dump(mode="json")
    model_files.save(model_files.Model(trainer.model(), "leduc", job), tmp_path / "network")
    return str(tmp_path / "network")


def test_a_match_network_stands_on_the_board(match_network: str) -> None:
    player = {"player": "in_context", "model": match_network, "told": ["own_cards"]}
    methods = {"free": player, "safe": {**player, "exploitability_bound": 0.1}}
    job = board(methods, budgets=[4, 12])
    board_opponents.check_methods(job)
    opponents = board_evaluation.read_opponents(LEDUC, "development")
    (changing,) = (each for each in opponents if each.changes)
    rng = np.random.default_rng(0)
    for name, worst in (("free", None), ("safe", 0.1)):
        result = board_players.evaluate_method(rng, job, name, "own_cards", opponents[0])
        (match,) = result["matches"]
        gaps = [each["exploitability"] for each in match["checkpoints"]]
        assert match["checkpoints"][0]["payoff"] != match["checkpoints"][1]["payoff"]
        assert (min(gaps) > 0.3) if worst is None else (max(gaps) == pytest.approx(worst, abs=1e-5))
    result = board_players.evaluate_method(rng, job, "free", "own_cards", changing)
    assert result["matches"][0]["checkpoints"][0]["online"] is not None
    for changes, message in (
        ({"told": ["all_cards"]}, r"was told own_cards in training: set told to \[own_cards\]"),
        ({"model": "champion:leduc_adapting"}, "is of trainer meta, not in_context"),
    ):
        job = board({"a": {**player, **changes}})
        with pytest.raises(UserError, match=message):
            board_opponents.check_methods(job)


def test_a_model_that_never_adapts_plays_its_policy(tmp_path: Path) -> None:
    content = {"trainer": "nfsp", "game": "leduc", "nfsp": {"hidden": [4]}}
    trainer = TRAINERS["nfsp"].trainer(job_file.parse(content, JOBS, "job"), LocalPool())
    stored = model_files.Model(trainer.model(), "leduc", trainer.job.model_dump(mode="json"))
    model_files.save(stored, tmp_path / "model")
    method = {"player": "model", "model": str(tmp_path / "model"), "told": ["own_cards"]}
    job = board({"a": method}, budgets=[1, 9])
    board_opponents.check_methods(job)
    opponent = board_evaluation.read_opponents(LEDUC, "development")[0]
    rng = np.random.default_rng(0)
    result = board_players.evaluate_method(rng, job, "a", "own_cards", opponent)
    tree = board_evaluation.setting(LEDUC, "own_cards").tree
    policy = ot.load(str(tmp_path / "model")).policy()
    strategy = best_response.sigma_of(tree, [policy] * 2)
    expected = exact_payoff(tree, strategy, opponent.phases[0])
    found = [each["payoff"] for each in result["matches"][0]["checkpoints"]]
    assert found == pytest.approx([expected, expected], rel=1e-6)


def test_a_method_may_have_a_model_for_each_seed(
    match_network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network of seed 1 is the champion; that of seed 0 has random weights."""
    champion = FOLDER / "leduc_in_context"
    for seed, source in enumerate((Path(match_network), champion)):
        shutil.copytree(source, tmp_path / f"net{seed}" / "model")
    (tmp_path / "runs").mkdir()
    for seed in range(2):
        (tmp_path / f"net{seed}").rename(tmp_path / "runs" / f"net{seed}")
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    method = {"player": "model", "model": "net{seed}/model", "told": ["own_cards"]}
    file = tmp_path / "board.yaml"
    content = {"trainer": "board", "game": "leduc", "seeds": [0, 1], "budgets": [30]}
    file.write_text(yaml.safe_dump({**content, "methods": {"a": method}}))
    monkeypatch.chdir(tmp_path / "runs")
    job = board_job.load(file, [])
    monkeypatch.chdir("/")
    assert job.methods["a"].model == str(tmp_path / "runs" / "net{seed}" / "model")
    board_opponents.check_methods(job)
    assert list(job.methods["a"].models(job.seeds)) == ["seed 0", "seed 1"]
    opponent = board_evaluation.read_opponents(LEDUC, "development")[0]
    rng = np.random.default_rng(0)
    result = board_players.evaluate_method(rng, job, "a", "own_cards", opponent)
    first, second = (match["checkpoints"][0]["payoff"] for match in result["matches"])
    assert second > first + 0.5
    before = board_opponents.players_sha256(job)
    (tmp_path / "runs" / "net1" / "model" / "model.json").write_text("{}")
    assert board_opponents.players_sha256(job) != before
    with pytest.raises(UserError, match=r"methods\.a: .*net1"):
        board_opponents.check_methods(job)
