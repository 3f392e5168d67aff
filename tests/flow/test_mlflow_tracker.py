"""MLflow receives every event once and in order, and training never waits for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import logged_metrics
import pytest
from mlflow import MlflowClient

from overtrick.reports.metric_names import GAMES_PER_SECOND, ITERATION_SECONDS
from overtrick.tracking import event_delivery, mlflow_tracker


def open_tracker(store: str, folder: Path) -> mlflow_tracker.Tracker:
    folder.mkdir(exist_ok=True)
    return mlflow_tracker.Tracker(store, "tests", folder.name, folder, {"overtrick.game": "kuhn"})


def test_a_run_is_recorded_completely(store: str, tmp_path: Path) -> None:
    tracker = open_tracker(store, tmp_path / "whole")
    tracker.params({"meta.inner_lr": 0.1, "long": "x" * 10_000})
    (tmp_path / "table.json").write_text("[]")
    tracker.artifact(tmp_path / "table.json", "tables")
    for step in range(1, 451):  # more than two batches
        tracker.metrics(step, {"payoff": step / 2})
    assert tracker.close("FINISHED") == 0
    client = MlflowClient(store)
    run = client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["meta.inner_lr"] == "0.1"
    assert len(run.data.params["long"]) == mlflow_tracker.PARAM_LENGTH
    assert run.data.tags["overtrick.game"] == "kuhn"
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {
        "payoff": [(s, s / 2) for s in range(1, 451)]
    }
    assert [f.path for f in client.list_artifacts(tracker.run_id, "tables")] == [
        "tables/table.json"
    ]


def test_events_wait_for_an_unreachable_server_and_arrive_once_and_in_order(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, calls = event_delivery.send, []

    def flaky(client: object, run_id: str, events: list[object], folder: Path) -> None:
        calls.append(len(events))
        if len(calls) == 2:
            send(client, run_id, events, folder)  # it arrives, but the answer is lost
        if len(calls) <= 3:
            raise ConnectionError("the server is away")
        send(client, run_id, events, folder)

    monkeypatch.setattr(event_delivery, "send", flaky)
    monkeypatch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
    tracker = open_tracker(store, tmp_path / "flaky")
    for step in range(1, 31):
        tracker.metrics(step, {"payoff": float(step)})
    while len(calls) < 4:
        tracker._thread.join(0.01)
    assert tracker.close("FINISHED") == 0
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {
        "payoff": [(s, float(s)) for s in range(1, 31)]
    }


def test_speeds_are_logged_but_are_not_part_of_the_history(store: str, tmp_path: Path) -> None:
    tracker = open_tracker(store, tmp_path / "fast")
    tracker.metrics(1, {"payoff": 1.0, ITERATION_SECONDS: 0.5, GAMES_PER_SECOND: 80.0})
    assert tracker.close("FINISHED") == 0
    assert mlflow_tracker.history(tmp_path / "fast") == [(1, {"payoff": 1.0})]
    logged = MlflowClient(store).get_run(tracker.run_id).data.metrics
    assert logged == {"payoff": 1.0, ITERATION_SECONDS: 0.5, GAMES_PER_SECOND: 80.0}


def test_a_table_is_that_of_mlflow_and_is_delivered_twice_without_harm(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"opponent": "call", "steps": [0.5, 0.75]}, {"opponent": "cfr", "steps": [-0.25, 0]}]
    tracker = open_tracker(store, tmp_path / "table")
    tracker.table("evaluation.json", rows)
    tracker.table("evaluation.json", rows)
    assert tracker.close("FINISHED") == 0
    client = MlflowClient(store)
    experiment = client.get_run(tracker.run_id).info.experiment_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)  # MLflow's function searches there
    found = client.load_table(experiment, "evaluation.json", [tracker.run_id])
    assert found.to_dict("records") == rows


def test_the_use_of_the_machine_is_recorded_if_it_is_asked_for(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "1")
    (folder := tmp_path / "measured").mkdir()
    tracker = mlflow_tracker.Tracker(store, "tests", "measured", folder, {}, system_metrics=True)
    tracker.metrics(1, {"payoff": 1.0})
    client, name = MlflowClient(store), "system/cpu_utilization_percentage"
    deadline = time.monotonic() + 60
    while not tracker.run_id or name not in client.get_run(tracker.run_id).data.metrics:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert tracker.close("FINISHED") == 0
    assert 0 <= client.get_run(tracker.run_id).data.metrics[name] <= 100


def test_another_mlflow_gets_the_whole_run(store: str, tmp_path: Path) -> None:
    """As after the loss of a machine with its database."""
    folder = tmp_path / "moved"
    first = open_tracker(store, folder)
    first.params({"seed": 1})
    (folder / "figure.txt").write_text("a figure")
    first.artifact(folder / "figure.txt")
    first.metrics(1, {"payoff": 1.0})
    assert first.close("KILLED") == 0
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)  # the paths of events are relative to the run's folder
    other = f"sqlite:///{tmp_path}/other.db"
    second = mlflow_tracker.Tracker(other, "tests", "moved", elsewhere, {"tag": "kept"})
    second.metrics(2, {"payoff": 2.0})
    assert second.close("FINISHED") == 0
    assert second.run_id != first.run_id
    client = MlflowClient(other)
    run = client.get_run(second.run_id)
    assert (run.info.status, run.data.params, run.data.tags["tag"]) == (
        "FINISHED", {"seed": "1"}, "kept",
    )  # fmt: skip
    assert logged_metrics.in_mlflow(client, second.run_id) == {"payoff": [(1, 1.0), (2, 2.0)]}
    assert [file.path for file in client.list_artifacts(second.run_id)] == ["figure.txt"]


def test_a_run_is_created_once_though_the_answer_is_lost(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, calls = MlflowClient.create_run, []

    def lost(*arguments: object) -> object:
        calls.append(create(*arguments))
        raise ConnectionError("the server is away")

    monkeypatch.setattr(MlflowClient, "create_run", lost)
    monkeypatch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
    tracker = open_tracker(store, tmp_path / "lost")
    tracker.metrics(1, {"payoff": 1.0})
    assert tracker.close("FINISHED") == 0
    (made,) = calls
    assert tracker.run_id == made.info.run_id
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {"payoff": [(1, 1.0)]}


def test_undelivered_events_are_delivered_when_a_run_is_opened_again(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("the server is away")

    with monkeypatch.context() as patch:
        patch.setattr(event_delivery, "send", away)
        patch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
        first = open_tracker(store, tmp_path / "again")
        first.metrics(1, {"payoff": 1.0})
        first.metrics(2, {"payoff": 2.0})
        assert first.close("FAILED", patience=0.1) == 3
        assert first.error == "the server is away"
    run_id = first.run_id
    second = open_tracker(store, tmp_path / "again")
    assert second.reported == 2
    second.metrics(2, {"payoff": -1.0})  # reported before: skipped
    second.metrics(3, {"payoff": 3.0})
    assert mlflow_tracker.history(tmp_path / "again") == [
        (s, {"payoff": float(s)}) for s in (1, 2, 3)
    ]
    assert second.close("FINISHED") == 0
    assert second.run_id == run_id
    assert logged_metrics.in_mlflow(MlflowClient(store), run_id) == {
        "payoff": [(1, 1.0), (2, 2.0), (3, 3.0)]
    }
    assert MlflowClient(store).get_run(run_id).info.status == "FINISHED"


def test_a_partial_line_after_a_kill_is_dropped(store: str, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    first = open_tracker(store, folder)
    first.metrics(1, {"payoff": 1.0})
    first.close("KILLED")
    with (folder / "track.jsonl").open("a") as spool:
        spool.write(json.dumps({"step": 2, "metrics": {"payoff": 2.0}, "time": 1})[:-9])
    second = open_tracker(store, folder)
    assert second.reported == 1
    second.metrics(2, {"payoff": 2.5})
    assert second.close("FINISHED") == 0
    assert logged_metrics.in_mlflow(MlflowClient(store), second.run_id) == {
        "payoff": [(1, 1.0), (2, 2.5)]
    }


def test_an_event_that_mlflow_refuses_is_stored_and_the_others_arrive(
    store: str, tmp_path: Path
) -> None:
    folder = tmp_path / "refused"
    tracker = open_tracker(store, folder)
    tracker.metrics(1, {"payoff": 1.0})
    tracker.metrics(2, {"no (such) name!": 2.0})
    tracker.artifact(tmp_path / "deleted")
    tracker.metrics(3, {"payoff": 3.0})
    assert tracker.close("FINISHED") == 0
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {
        "payoff": [(1, 1.0), (3, 3.0)]
    }
    assert tracker.rejected == 2
    name, file = map(json.loads, (folder / "track.rejected").read_text().splitlines())
    assert name["metrics"] == {"no (such) name!": 2.0}
    assert file["error"] == f"{tmp_path}/deleted does not exist"


def test_a_closing_run_retries_after_errors_of_the_server(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, calls = event_delivery.send, []

    def fails_sometimes(*arguments: object) -> None:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("database is locked")
        send(*arguments)

    monkeypatch.setattr(event_delivery, "send", fails_sometimes)
    monkeypatch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
    tracker = open_tracker(store, tmp_path / "stumbling")
    tracker.metrics(1, {"payoff": 1.0})
    assert tracker.close("FINISHED") == 0
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {"payoff": [(1, 1.0)]}
