"""OpenTelemetry spans of a job, received by a collector and by MLflow."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_process
import pytest
import ray_head
import yaml
from mlflow import MlflowClient
from numpy.random import Generator
from tests.otlp_collector import Collector, collector

from overtrick.core import tracing
from overtrick.distributed.workers import LocalPool, generator

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"  # example of W3C Trace Context
JOB: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 3},
    "coevolve": {"generations": 2},
}


@pytest.fixture(autouse=True)
def _new_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*tracing.ENDPOINTS, tracing.TRACEPARENT):
        monkeypatch.delenv(name, raising=False)
    tracing._provider.cache_clear()
    tracing._away.clear()
    yield
    if tracing.is_enabled():
        threading.Thread(target=tracing._provider().shutdown, daemon=True).start()
    tracing._provider.cache_clear()
    tracing._away.clear()


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Run a collector that receives the spans of this process."""
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", found.url)
        yield found


def _draw(rng: Generator, common: Any, fails: bool) -> float:
    if fails:
        raise ValueError("reason")
    return float(rng.random())


def test_shards_in_this_process_are_spans_below_the_current_span(
    collected: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tracing.TRACEPARENT, PARENT)
    shards = [(False,), (False,)]
    without = LocalPool().map(_draw, None, shards, generator(0))
    with tracing.span("run", run="kuhn-1") as carrier:
        assert LocalPool().map(_draw, None, shards, generator(0)) == without
    monkeypatch.delenv(tracing.TRACEPARENT)
    with tracing.span("iteration", carrier, iteration=7):
        pass
    tracing.flush()
    of_the_environment, below = collected.spans[:2], collected.spans[2:]
    assert [span.parent.hex() for span in of_the_environment] == [PARENT.split("-")[2]] * 2
    assert [collected.path(span) for span in below] == [
        "run/shard", "run/shard", "run", "run/iteration",
    ]  # fmt: skip
    assert [span.attributes for span in below] == [
        {"overtrick.shard": 0}, {"overtrick.shard": 1}, {"overtrick.run": "kuhn-1"},
        {"overtrick.iteration": 7},
    ]  # fmt: skip
    assert {span.trace.hex() for span in collected.spans} == {PARENT.split("-")[1]}
    assert {span.service for span in collected.spans} == {"overtrick"}
    assert tracing.as_environment(carrier)["TRACEPARENT"].split("-")[2] == below[2].id.hex()


def test_the_span_of_a_failed_shard_ends(collected: Collector) -> None:
    with pytest.raises(ValueError, match="reason"):
        LocalPool().map(_draw, None, [(True,)], generator(0))
    tracing.flush()
    assert [span.name for span in collected.spans] == ["shard"]


def test_without_a_collector_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    with tracing.span("run") as carrier:
        assert (carrier, tracing.carrier(), tracing.as_environment(carrier)) == ({}, {}, {})
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        with tracing.span("run") as carrier:
            assert carrier == {}
        tracing.flush()
        assert found.spans == []


def _command(folder: Path, *arguments: str, **settings: str) -> None:
    """Run a command in a folder with a job, and the settings as environment variables."""
    (folder / "job.yaml").write_text(yaml.safe_dump(JOB))
    environment = command_process.environment() | {"OVERTRICK_RUNS": f"{folder}/runs"} | settings
    subprocess.run([*command_process.COMMAND, *arguments], cwd=folder, env=environment, check=True)


def test_a_process_waits_once_for_a_collector_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(tracing, "PATIENCE", 0.2)  # OpenTelemetry tries for ten seconds
    flushes: list[int] = []
    send = tracing._provider().force_flush
    monkeypatch.setattr(tracing._provider(), "force_flush", lambda: flushes.append(1) or send())
    for number in range(3):
        with tracing.span("iteration", iteration=number):
            pass
        tracing.flush()
    assert flushes == [1]
    assert caplog.text.count("http://127.0.0.1:9 receives no spans") == 1


def test_exporting_can_be_turned_off_by_the_exporters_name(
    collected: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracing.is_enabled()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert not tracing.is_enabled()


def test_the_service_may_be_named(collected: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours")
    with tracing.span("run"):
        pass
    tracing.flush()
    assert [span.service for span in collected.spans] == ["ours"]


def test_without_a_span_above_the_carrier_is_that_of_the_environment(
    collected: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracing.carrier() == {}
    monkeypatch.setenv(tracing.TRACEPARENT, PARENT)
    assert tracing.carrier() == {"traceparent": PARENT}
    with tracing.span("shard", {}):  # as a worker gets it whose driver has no span
        pass
    tracing.flush()
    assert [span.parent.hex() for span in collected.spans] == [PARENT.split("-")[2]]


@pytest.mark.slow
def test_a_submitted_job_is_one_trace_down_to_its_shards(
    collected: Collector, tmp_path: Path
) -> None:
    """Ray's own spans of actors are in it, too, because the head has the hook for them."""
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url}
    token = os.environ[ray_head.TOKEN]
    hook = "overtrick.core.tracing:export_ray_spans"
    with ray_head.started(
        4, token, command_process.environment() | named, tracing_startup_hook=hook
    ) as address:
        _command(
            tmp_path, "cluster", "submit", "job.yaml", "workers=2", "--name", "traced",
            "--address", address, "--follow", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token, **named,
        )  # fmt: skip
    ours = [span for span in collected.spans if any("overtrick" in a for a in span.attributes)]
    assert len({span.trace for span in ours}) == 1
    chain = ["submit", "command", "run", "trial", "iteration", "shard"]
    counted = Counter(span.name for span in ours)
    assert [counted[name] for name in chain[:5]] == [1, 2, 1, 1, 3]
    assert counted["shard"] >= 3
    for span in ours:
        above = [name for name in collected.path(span).split("/") if name in chain]
        if above != ["command"]:  # that of the submission
            assert above == ["command", *chain][: chain.index(span.name) + 2]
    by_id = {span.id: span for span in collected.spans}
    for span in ours:
        if span.name in ("iteration", "shard"):
            (began, ended), (first, last) = span.seconds, by_id[span.parent].seconds
            assert first <= began <= ended <= last
    assert sorted(s.attributes["overtrick.iteration"] for s in ours if s.name == "iteration") == [
        1, 2, 3,
    ]  # fmt: skip
    assert {s.attributes["overtrick.run"] for s in ours if s.name == "run"} == {"traced"}
    assert len(collected.spans) > len(ours)  # those of Ray


@pytest.mark.slow
def test_mlflow_receives_the_trace_of_a_run(tmp_path: Path) -> None:
    (port,) = ray_head.free_ports(1)
    uri = f"http://127.0.0.1:{port}"
    where = ("--backend-store-uri", f"sqlite:///{tmp_path}/server.db",
             "--artifacts-destination", f"{tmp_path}/files")  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.callback(command_process.kill, command_process.mlflow_server(tmp_path, port, *where))
        client = MlflowClient(uri)
        experiment = client.create_experiment("traces")
        _command(
            tmp_path, "train", "job.yaml", f"track.uri={uri}", "workers=1", "--name", "traced",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{uri}/v1/traces",
            OTEL_EXPORTER_OTLP_TRACES_HEADERS=f"x-mlflow-experiment-id={experiment}",
        )  # fmt: skip
        (trace,) = client.search_traces(locations=[experiment])
    counted = Counter(span.name for span in trace.data.spans)
    assert (counted["run"], counted["trial"], counted["iteration"]) == (1, 1, 3)
    assert counted["shard"] >= 3
