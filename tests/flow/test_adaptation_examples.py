"""Example games of a run's page: decisions before and after adaptation, and commands to go on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.game_cache import cached_opponent, playable_game
from overtrick.runs import adaptation_examples, html_page
from overtrick.runs.next_commands import next_commands
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import JOBS, TRAINERS

BET = 1


def parsed(**changes):
    return job_file.parse({**TINY, **changes}, JOBS, "this test")


def test_an_example_is_the_game_in_which_adaptation_gained_most():
    choice = parsed(game="kuhn").game
    game, tree = playable_game(choice)
    call = best_response.sigma_of(tree, [cached_opponent(choice, "call")] * 2)
    uniform = tree.legal / tree.legal.sum(axis=1, keepdims=True)
    _, reply = best_response.best_response(tree, call, 0)
    sigmas = (uniform, reply, call)
    example = adaptation_examples.find_example(game, tree, "call", sigmas, np.random.default_rng(0))
    # whoever holds the king bets and wins 2; passing wins 1 from a caller, who never bets
    (decision,) = example.decisions
    assert decision.action == BET
    assert (decision.before[BET], decision.after[BET]) == (0.5, 1)
    assert decision.value.tolist() == pytest.approx([1, 2])
    assert decision.gain == pytest.approx(0.5)
    assert example.payoff == 2
    article = adaptation_examples._article(example, game, "3 steps of 9 games")
    assert 'you hold <span class="card">K</span>' in article
    assert "raised bet from 50% to 100%: +0.50 chips expected, because bet has the" in article
    assert "bet (taken)</td><td>50%</td><td>100%</td><td>+2.00" in article


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Return the folder of a finished run of an untrained adapting model."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    adaptation = {"gradient_estimator": "critic"}
    evaluation = {"opponents": ["call"], "games": 20, "steps": 1}
    job = parsed(game="kuhn", evaluate=evaluation, adaptation=adaptation)
    run = RunFolder(tmp_path / "tiny-1")
    run.path.mkdir()
    run.job.write_text(json.dumps(job.model_dump(mode="json")))
    weights = TRAINERS["meta"].trainer(job, LocalPool()).model()
    model_files.save(model_files.Model(weights, "kuhn", job.model_dump(mode="json")), run.model)
    row = {"stranger": "call", "steps": [0.1, 0.2], "standard_error": [0, 0],
           "exploitability": None, "best_response": 0.5, "share": 0.4}  # fmt: skip
    run.table.write_text(json.dumps([row]))
    return run


def test_the_page_of_an_adapting_model_shows_games_and_commands(finished):
    page = html_page.run_page(finished)
    assert "Against call, after 1 step of 20 games" in page
    assert "overtrick play kuhn --against tiny-1" in page
    assert "Adaptation sees only its own observations of finished games." in page


def test_the_page_of_a_damaged_model_says_so(finished):
    (finished.model / model_files.CARD).write_text("{")
    assert "model.json is damaged" in html_page.run_page(finished)


def test_the_next_commands_fit_the_model(finished):
    job = job_file.load_stored(finished, JOBS)
    commands = [command for command, _ in next_commands(finished, job)]
    assert commands == [
        "play kuhn --against tiny-1", "match tiny-1 champion:kuhn", "evaluate tiny-1",
        "safety tiny-1", "dashboard --run tiny-1",
    ]  # fmt: skip


def test_a_model_that_does_not_adapt_has_no_examples():
    job = job_file.parse({"trainer": "solve", "game": "kuhn"}, JOBS, "this test")
    assert adaptation_examples.examples_section(job, {}) is None
    job = job_file.parse({"trainer": "nfsp", "game": "kuhn"}, JOBS, "this test")
    assert adaptation_examples.examples_section(job, {}) is None
