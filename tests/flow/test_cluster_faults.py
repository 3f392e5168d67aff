"""Failures on a cluster: workers, remote objects, nodes, disks, the object store, the driver.

The cluster has three nodes on this machine. Every run is `overtrick train` on it, is disturbed
after a checkpoint, and must give the numbers of an undisturbed run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
import yaml
from command_process import COMMAND, PATIENCE
from mlflow import MlflowClient
from ray import cloudpickle
from ray.cluster_utils import Cluster
from small_meta_job import TINY, local_run

from overtrick.distributed.workers import LocalPool, RayPool, generator
from overtrick.storage import model_files

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])

JOB: dict[str, Any] = {**TINY, "workers": 2, "stop": {"iterations": 40}}
STORE = 80 * 2**20  # bytes of each node's object store
QUICK = {  # dead nodes are detected within seconds
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_health_check_initial_delay_ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a head without workers, and three nodes with two CPUs each."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(
            prefix="ray-", dir="/tmp", ignore_cleanup_errors=True
        ) as folder,
    ):  # paths of sockets must be short
        # the token of this process: Ray reads it once and uses it for later clusters too
        for name, value in {**QUICK, "RAY_TMPDIR": folder}.items():
            patch.setenv(name, value)
        made = Cluster(shutdown_at_exit=False)
        try:
            made.add_node(num_cpus=0, include_dashboard=False, object_store_memory=STORE)
            for _ in range(3):
                add_node(made)
            yield made
        finally:
            made.shutdown()


def add_node(cluster: Cluster) -> None:
    cluster.add_node(num_cpus=2, object_store_memory=STORE)


def processes(cluster: Cluster, title: str) -> dict[psutil.Process, Any]:
    """Return the live actors with a title, and the node of each."""
    found = {}
    for node in cluster.worker_nodes:
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for child in raylet.children():
            try:
                if child.cmdline()[:1] and child.cmdline()[0].startswith(title):
                    found[child] = node
            except psutil.Error:  # the process has ended
                continue
    return found


class Run:
    """One `overtrick train` on the cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "tiny.yaml").write_text(yaml.safe_dump(JOB))
        self.driver = self.start("tiny.yaml")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "train", *arguments, "--json"],
            cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "RAY_ADDRESS": self.cluster.address}, start_new_session=True,
        )  # fmt: skip

    @property
    def spool(self) -> Path:
        (found,) = self.folder.glob("runs/*/track.jsonl")
        return found

    def wait_for(self, iteration: int) -> None:
        """Wait until the driver has recorded an iteration."""
        deadline = time.monotonic() + PATIENCE
        while not list(self.folder.glob("runs/*/track.jsonl")) or (
            f'"step": {iteration},' not in self.spool.read_text()
        ):
            assert self.driver.poll() is None, self.driver.communicate()
            assert time.monotonic() < deadline, "no iteration came"
            time.sleep(0.02)

    def resume(self) -> None:
        self.driver = self.start("--resume", self.spool.parent.name)

    def end(self) -> tuple[int, dict[str, Any]]:
        """Return the driver's exit code and its answer, which is all of its standard output
        whatever Ray reports about dead nodes."""
        output, error = self.driver.communicate(timeout=PATIENCE)
        assert output.count("\n") == 1, (output, error)
        return self.driver.returncode, json.loads(output)


def kill(cluster: Cluster, title: str) -> None:
    os.kill(next(iter(processes(cluster, title))).pid, signal.SIGKILL)


def worker_killed(run: Run) -> None:
    kill(run.cluster, "ray::_Worker")


def host_killed(run: Run) -> None:
    kill(run.cluster, "ray::_HostActor")


def learner_killed(run: Run) -> None:
    kill(run.cluster, "ray::Trial")


def lose(cluster: Cluster, node: Any) -> None:
    cluster.remove_node(node, allow_graceful=False)
    add_node(cluster)


def node_of_the_learner_killed(run: Run) -> None:
    lose(run.cluster, next(iter(processes(run.cluster, "ray::Trial").values())))


def node_of_workers_killed(run: Run) -> None:
    learners = set(processes(run.cluster, "ray::Trial").values())
    lose(
        run.cluster,
        next(n for n in processes(run.cluster, "ray::_Worker").values() if n not in learners),
    )


def driver_killed(run: Run) -> None:
    os.killpg(run.driver.pid, signal.SIGKILL)
    run.driver.wait()
    run.resume()


def limit_file_size(process: int, most_bytes: int) -> None:
    """Limit the size of files that another process writes."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most_bytes, hard))


def no_room_for_checkpoints(run: Run) -> None:
    (learner,) = processes(run.cluster, "ray::Trial")
    limit_file_size(learner.pid, 100)


def no_room_for_the_record(run: Run) -> None:
    limit_file_size(run.driver.pid, run.spool.stat().st_size + 1000)
    code, output = run.end()
    assert code == 1
    assert "File too large" in output["error"]
    run.resume()


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, float]], dict[str, Any]]:
    return local_run(JOB)


@pytest.mark.parametrize(
    "fault",
    [
        worker_killed,
        host_killed,
        learner_killed,
        node_of_workers_killed,
        node_of_the_learner_killed,
        driver_killed,
        no_room_for_checkpoints,
        no_room_for_the_record,
    ],
)
def test_a_disturbed_run_gives_the_same_numbers_and_records_each_once(
    fault: Callable[[Run], None],
    cluster: Cluster,
    undisturbed: tuple[list[dict[str, float]], dict[str, Any]],
    tmp_path: Path,
) -> None:
    run = Run(cluster, tmp_path)
    run.wait_for(5)
    fault(run)
    code, answer = run.end()
    assert code == 0, answer
    metrics, weights = undisturbed
    events = [json.loads(line) for line in run.spool.read_text().splitlines()]
    history = [(e["step"], e["metrics"]) for e in events if "metrics" in e]
    assert history == list(enumerate(metrics, start=1))
    assert answer["metrics"] == metrics[-1]
    stored = model_files.load(Path(answer["model"]), "kuhn").weights
    assert stored.keys() == weights.keys()
    assert all(np.array_equal(stored[name], weights[name]) for name in weights)
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (recorded,) = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    assert recorded.info.status == "FINISHED"
    kl = [(m.step, m.value) for m in client.get_metric_history(recorded.info.run_id, "kl")]
    assert kl == [(i, m["kl"]) for i, m in enumerate(metrics, start=1)]


def large(rng: np.random.Generator, common: np.ndarray, shard: int) -> np.ndarray:
    """Return a quarter of an object store, which depends on the data that all shards share."""
    return rng.random(STORE // 4 // 8) * common[shard]


def sums_over_full_store(address: str) -> list[float]:
    """Return sums of shards with three times the bytes of the object store, as have their shared
    data."""
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    ray_workers = RayPool(2)
    common = np.arange(3 * STORE // 8, dtype=np.float64)
    results = ray_workers.map(large, common, [(k,) for k in range(12)], generator(1))
    ray_workers.close()
    ray.shutdown()
    return [float(each.sum()) for each in results]


def test_an_object_store_that_is_too_small_changes_nothing(cluster: Cluster) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sums = pool.submit(sums_over_full_store, cluster.address).result(PATIENCE)
    common = np.arange(3 * STORE // 8, dtype=np.float64)
    local_run = LocalPool().map(large, common, [(k,) for k in range(12)], generator(1))
    assert sums == [float(each.sum()) for each in local_run]
