"""What breaks on a cluster: workers, hosts, nodes, disks, the object store, the driver.

The cluster is three nodes on this machine. Every run is `overtrick train` on it, disturbed from
outside after a checkpoint, and must come to the numbers of a run that nobody disturbs.
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
from mlflow import MlflowClient
from outside import COMMAND, PATIENCE
from ray import cloudpickle
from ray.cluster_utils import Cluster
from tiny import TINY, alone

from overtrick.distributed.workers import LocalPool, RayPool, generator
from overtrick.storage import model_files

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])

JOB: dict[str, Any] = {**TINY, "workers": 2, "stop": {"iterations": 40}}
STORE = 80 * 2**20  # bytes of each node's object store
QUICK = {  # a dead node is noticed after seconds
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_health_check_initial_delay_ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that does no work, and three nodes with two CPUs each."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(
            prefix="ray-", dir="/tmp", ignore_cleanup_errors=True
        ) as folder,
    ):  # sockets need a short path
        # the token is this process's own: Ray reads it once, and asks later clusters with it too
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
    """The actors of this title that are alive, and the node of each."""
    found = {}
    for node in cluster.worker_nodes:
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for child in raylet.children():
            try:
                if child.cmdline()[:1] and child.cmdline()[0].startswith(title):
                    found[child] = node
            except psutil.Error:  # it is gone
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
        """Until the driver has heard of so many iterations."""
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
        """The driver's exit code and its answer, which is all that it writes to standard output,
        whatever Ray has to say of a node that has died."""
        said, error = self.driver.communicate(timeout=PATIENCE)
        assert said.count("\n") == 1, (said, error)
        return self.driver.returncode, json.loads(said)


def kill(cluster: Cluster, title: str) -> None:
    os.kill(next(iter(processes(cluster, title))).pid, signal.SIGKILL)


def worker_killed(run: Run) -> None:
    kill(run.cluster, "ray::_Worker")


def host_killed(run: Run) -> None:
    kill(run.cluster, "ray::_Hosting")


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


def limit(process: int, room: int) -> None:
    """No file of another process grows beyond so many bytes."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (room, hard))


def no_room_for_checkpoints(run: Run) -> None:
    (learner,) = processes(run.cluster, "ray::Trial")
    limit(learner.pid, 100)


def no_room_for_the_record(run: Run) -> None:
    limit(run.driver.pid, run.spool.stat().st_size + 1000)
    code, said = run.end()
    assert code == 1
    assert "File too large" in said["error"]
    run.resume()


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, float]], dict[str, Any]]:
    return alone(JOB)


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
def test_a_run_that_is_disturbed_comes_to_the_same_numbers_each_counted_once(
    fault: Callable[[Run], None],
    cluster: Cluster,
    undisturbed: tuple[list[dict[str, float]], dict[str, Any]],
    tmp_path: Path,
) -> None:
    run = Run(cluster, tmp_path)
    run.wait_for(5)
    fault(run)
    code, told = run.end()
    assert code == 0, told
    metrics, weights = undisturbed
    events = [json.loads(line) for line in run.spool.read_text().splitlines()]
    history = [(e["step"], e["metrics"]) for e in events if "metrics" in e]
    assert history == list(enumerate(metrics, start=1))
    assert told["metrics"] == metrics[-1]
    stored = model_files.load(Path(told["model"]), "kuhn").weights
    assert stored.keys() == weights.keys()
    assert all(np.array_equal(stored[name], weights[name]) for name in weights)
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (known,) = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    assert known.info.status == "FINISHED"
    kl = [(m.step, m.value) for m in client.get_metric_history(known.info.run_id, "kl")]
    assert kl == [(i, m["kl"]) for i, m in enumerate(metrics, start=1)]


def large(rng: np.random.Generator, common: np.ndarray, shard: int) -> np.ndarray:
    """As much as a quarter of an object store, which depends on what all shards share."""
    return rng.random(STORE // 4 // 8) * common[shard]


def crowded(address: str) -> list[float]:
    """Sums of shards that come to three times the object store, as does what they share."""
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    crew = RayPool(2)
    common = np.arange(3 * STORE // 8, dtype=np.float64)
    results = crew.map(large, common, [(k,) for k in range(12)], generator(1))
    crew.close()
    ray.shutdown()
    return [float(each.sum()) for each in results]


def test_an_object_store_that_is_too_small_changes_nothing(cluster: Cluster) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sums = pool.submit(crowded, cluster.address).result(PATIENCE)
    common = np.arange(3 * STORE // 8, dtype=np.float64)
    alone = LocalPool().map(large, common, [(k,) for k in range(12)], generator(1))
    assert sums == [float(each.sum()) for each in alone]
