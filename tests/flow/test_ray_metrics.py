"""Metrics that Ray exports for our workers, and the queries of the Grafana dashboard."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import ray
from numpy.random import Generator
from ray import cloudpickle

import overtrick
from overtrick.distributed.workers import RayPool, generator
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "cluster" / "grafana" / "overtrick.json"
NAME = re.compile(r"\bray_\w+")
PATIENCE = 60  # seconds that a busy machine may take to export


def queries() -> list[str]:
    """Return the Prometheus queries of the panels of the Grafana file."""
    return [
        t["expr"] for panel in json.loads(BOARD.read_text())["panels"] for t in panel["targets"]
    ]


def exported() -> str:
    """Return the metrics that the nodes of this Ray export to Prometheus."""
    exported_lines = []
    for node in ray.nodes():
        url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            exported_lines.append(answer.read().decode())
    return "\n".join(exported_lines)


def of_workers(name: str, text: str, workers: set[str]) -> float:
    """Return the sum of a metric over some workers."""
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.split()[-1]) for line in lines if any(w in line for w in workers))


def _some_games(rng: Generator, common: Any, games: int) -> str:
    play(overtrick.make("kuhn"), [UniformPolicy()] * 2, games, rng)
    return ray.get_runtime_context().get_worker_id()


@pytest.mark.usefixtures("local_ray")
def test_a_node_exports_the_metrics_of_its_workers_and_all_metrics_of_the_dashboard() -> None:
    shards = [(10,), (20,), (30,), (40,), (50,)]
    pool = RayPool(2)
    try:
        workers = set(pool.map(_some_games, None, shards, generator(0)))
        wanted = {name for query in queries() for name in NAME.findall(query)}
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = exported()
            missing = wanted - {re.split(r"[{ ]", line)[0] for line in text.splitlines()}
            exported_lines = [
                of_workers(f"ray_overtrick_{name}", text, workers)
                for name in ("games_total", "shard_seconds_count")
            ]
            if not missing and exported_lines == [150, 5]:
                break
            time.sleep(0.5)
        assert missing == set()
        assert exported_lines == [150, 5]
        for name in ("shard_seconds_sum", "idle_seconds_total"):
            assert of_workers(f"ray_overtrick_{name}", text, workers) > 0
    finally:
        pool.close()


def test_every_panel_has_a_query() -> None:
    assert all(NAME.search(query) for query in queries())
    ours = {name for query in queries() for name in NAME.findall(query) if "overtrick" in name}
    assert {"ray_overtrick_games_total", "ray_overtrick_idle_seconds_total"} <= ours
    assert "ray_object_store_used_memory" in " ".join(queries())
