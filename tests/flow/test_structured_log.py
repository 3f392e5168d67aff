"""Log messages as JSON lines name the run and the trial that they belong to."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_meta_job import TINY

from overtrick.cli import print_result
from overtrick.config import job_file
from overtrick.core import UserError, structured_log
from overtrick.runs import lifecycle
from overtrick.training.registry import JOBS


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configure this process; undo it afterwards."""
    monkeypatch.setenv(structured_log.VARIABLE, "json")
    monkeypatch.setattr(structured_log, "_labels", {"run": None, "trial": None})
    logger = logging.getLogger(structured_log.PACKAGE)
    level, disabled = logger.level, logging.root.manager.disable
    logging.disable(logging.NOTSET)  # the client of a cluster has disabled messages of Ray
    structured_log.configure()
    structured_log.configure()  # no second handler
    (added,) = [h for h in logger.handlers if isinstance(h.formatter, structured_log.JsonFormatter)]
    yield
    logger.removeHandler(added)
    logger.setLevel(level)
    logging.disable(disabled)
    logger.propagate = True


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_message_is_one_object_with_its_run_and_trial(as_json: None, capsys) -> None:
    log = logging.getLogger("overtrick.tests")
    log.warning("two\nlines of %s", "text")
    structured_log.label("my run", 3)
    try:
        raise ValueError("reason")
    except ValueError:
        log.exception("failed", extra={"iteration": 7})
    first, second = lines(capsys.readouterr().err)
    assert (first["level"], first["message"], first["run"]) == (
        "WARNING",
        "two\nlines of text",
        None,
    )
    assert first["time"].endswith("+00:00")
    assert (second["run"], second["trial"], second["iteration"]) == ("my run", 3, 7)
    assert "ValueError: reason" in second["error"]


def test_a_run_logs_each_iteration(
    as_json: None, local_ray: None, tmp_path: Path, store: str, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    job = job_file.parse({**TINY, "track": {"uri": store}}, JOBS, "tiny")
    run = lifecycle.open_folder(job, "tiny")
    lifecycle.train(run, lambda iteration, metrics: None)
    logged = [line for line in lines(capsys.readouterr().err) if "iteration" in line]
    assert [(line["run"], line["iteration"]) for line in logged] == [
        (run.name, k) for k in range(1, TINY["stop"]["iterations"] + 1)
    ]
    for line, (_, metrics) in zip(logged, run.history(), strict=True):
        assert metrics.items() <= line["metrics"].items()
        assert line["metrics"]["speed/iteration_seconds"] > 0
        assert line["metrics"]["speed/games_per_second"] > 0


def test_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(structured_log.VARIABLE, "xml")
    with pytest.raises(UserError, match=r"^OVERTRICK_LOG must be plain or json, not 'xml'"):
        structured_log.configure()


def test_json_results_have_null_for_numbers_that_are_not_finite(capsys) -> None:
    print_result(True, scores=[float("nan"), 1.5], best={"gap": float("inf"), "run": "a"})
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown == {"scores": [None, 1.5], "best": {"gap": None, "run": "a"}}
