"""Fit a model of the speed of a run on many nodes to measurements of 1 to 8 nodes of this machine.

`python -m tests.bench.cost_model` prints the tables of docs/scaling.md. The work of a node is to
sleep, so that eight nodes fit on two cores. The measured part is the driver, which all nodes share:
it sends every shard, receives its result and unpacks it. K shards, each of W seconds of work and B
bytes of result, take on N nodes

    max(K / N (W + l), K (d + B / r)) seconds

with l seconds between two shards of a node, d seconds of the driver per shard, and r bytes per
second that the driver receives.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from overtrick import startup

startup.prepare()  # before numpy and Ray are imported

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import ray  # noqa: E402
from numpy.random import Generator  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from tests.bench.measure import seconds_of  # noqa: E402

from overtrick.config import job_file  # noqa: E402
from overtrick.core import Array  # noqa: E402
from overtrick.distributed.workers import (  # noqa: E402
    LocalPool,
    OnResult,
    Shard,
    Work,
    WorkerPool,
    generator,
    start_pool,
)
from overtrick.training.registry import JOBS, TRAINERS  # noqa: E402

NODES = (1, 2, 4, 8)
SIZES = (1_000, 100_000, 1_000_000, 10_000_000)  # bytes of a result
NODE_COUNTS = (10, 100, 1_000)  # node counts beyond this machine
STORE = 300 * 2**20  # bytes of a node's object store
ROUNDS = 3
NO_EVALUATION = "evaluate.every=1000000"
JOB_OVERRIDES = {
    "leduc_meta_paper": (NO_EVALUATION,),
    "holdem_meta": (NO_EVALUATION,),
    "coevolve_kuhn_three": (),
    "minibridge_q": (NO_EVALUATION, "stop.iterations=1000"),
    "minibridge_dqn": (NO_EVALUATION,),
}
"""Jobs, and overrides that skip the evaluation of their last iteration."""


@dataclass(frozen=True)
class Model:
    """Parameters of the formula, in seconds and bytes per second."""

    between: float  # l
    driver: float  # d
    rate: float  # r
    sending: float  # s

    def seconds(self, nodes: int, shards: int, work: float, size: float) -> float:
        """Return the seconds that shards take on some nodes."""
        return shards * max((work + self.between) / nodes, self.driver + size / self.rate)

    def most_nodes(self, work: float, size: float) -> float:
        """Return the number of nodes that the driver can keep busy."""
        return (work + self.between) / (self.driver + size / self.rate)


def wait(rng: Generator, common: Any, seconds: float, size: int) -> Array:
    """Sleep as the work of a shard, and return a result of `size` bytes."""
    time.sleep(seconds)
    return np.zeros(size, np.uint8)


@contextmanager
def nodes(count: int) -> Iterator[WorkerPool]:
    """Start a pool with one worker on each of `count` nodes, and a head without workers."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=0, object_store_memory=STORE)
            for _ in range(count):
                cluster.add_node(num_cpus=1, object_store_memory=STORE)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            pool = start_pool(count)
            pool.map(wait, None, [(0.5, 1)] * count, generator(0))  # starts the worker processes
            yield pool
        finally:
            ray.shutdown()
            cluster.shutdown()


def median_seconds(pool: WorkerPool, shards: int, work: float, size: int, sent: int = 0) -> float:
    """Return the median seconds of some shards."""
    shards_sent, common = [(work, size)] * shards, np.zeros(sent, np.uint8)
    return median(
        seconds_of(lambda: pool.map(wait, common, shards_sent, generator(0))) for _ in range(ROUNDS)
    )


def fitted() -> tuple[Model, list[tuple[int, float, int, float]]]:
    """Return the fitted model and its measurements: nodes, work, bytes, seconds per shard."""
    measured = []
    for count in NODES:
        with nodes(count) as pool:
            if count == 1:
                between = median_seconds(pool, 10, 0.2, 1_000) / 10 - 0.2
            for size in SIZES:
                measured.append(
                    (count, 0.05, size, median_seconds(pool, 20 * count, 0.05, size) / 20 / count)
                )
            if count == NODES[-1]:
                driver_seconds = [median_seconds(pool, 40, 0.0, size) / 40 for size in SIZES]
                heavy, light = (
                    median_seconds(pool, count, 0.2, 1, sent) for sent in (SIZES[-1], 0)
                )
    slope, driver = np.polyfit(SIZES, driver_seconds, 1, w=1 / np.array(driver_seconds))
    sending = NODES[-1] * SIZES[-1] / (heavy - light)
    return Model(between, float(driver), float(1 / slope), sending), measured


@dataclass
class RecordingPool(LocalPool):
    """Pool that works in this process and records the data that a cluster would send."""

    shards: list[int] = field(default_factory=list)  # number of shards of each call
    work: float = 0.0  # seconds
    sent: int = 0  # bytes, once per node and call
    taken: int = 0  # bytes

    def map(
        self,
        work: Work,
        common: Any,
        shards: Sequence[Shard],
        rng: Generator,
        on_result: OnResult | None = None,
    ) -> list[Any]:
        began = time.perf_counter()
        results = super().map(work, common, shards, rng)
        self.work += time.perf_counter() - began
        for k, result in enumerate(results):
            if on_result is not None:
                on_result(k, result)
            self.taken += _bytes(result)
        self.sent += _bytes(common)
        self.shards.append(len(shards))
        return results


def _bytes(value: Any) -> int:
    """Return the pickled size of an object in bytes."""
    return len(ray.cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def recorded_iteration(name: str, overrides: Sequence[str]) -> tuple[RecordingPool, float]:
    """Return the record of one iteration of a job, and its seconds in one process."""
    job = job_file.load(Path("jobs") / f"{name}.yaml", list(overrides), JOBS)
    pool = RecordingPool()
    trainer = TRAINERS[job.trainer].trainer(job, pool)
    for _ in range(2):  # compiles
        trainer.step()
    pool.shards, pool.work, pool.sent, pool.taken = [], 0.0, 0, 0
    return pool, seconds_of(trainer.step)


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("|", " | ".join(map(str, cells)), "|")


def head(*cells: object) -> None:
    """Print the header of a table."""
    print()
    row(*cells)
    row(*["---"] * len(cells))


def main() -> None:
    model, measured = fitted()
    print(f"l {model.between * 1e3:.1f} ms, d {model.driver * 1e3:.2f} ms,", end=" ")
    print(f"r {model.rate / 1e6:,.0f} MB/s, s {model.sending / 1e6:,.0f} MB/s")
    head("nodes", "work, ms", "result, kB", "ms per shard", "by the model")
    for count, work, size, took in measured:
        predicted = model.seconds(count, 1, work, size)
        row(
            count,
            f"{work * 1e3:g}",
            f"{size / 1e3:,g}",
            f"{took * 1e3:.1f}",
            f"{predicted * 1e3:.1f}",
        )
    head("work, s", "result, kB", "nodes kept busy", *(f"{n:,} nodes used" for n in NODE_COUNTS))
    for work in (0.2, 1.0, 10.0):
        for size in (10_000, 1_000_000):
            busy = model.most_nodes(work, size)
            used = (f"{min(1.0, busy / n):.0%}" for n in NODE_COUNTS)
            row(f"{work:g}", f"{size / 1e3:,g}", f"{busy:,.0f}", *used)
    head("job", "shards", "work, ms", "result, kB", "sent, kB", "rest, ms", "speed-up, at most")
    for name, overrides in JOB_OVERRIDES.items():
        pool, seconds = recorded_iteration(name, overrides)
        shards, rest = sum(pool.shards), seconds - pool.work
        each = pool.work / shards
        most_nodes = seconds / (rest + each * len(pool.shards))
        row(
            name, " + ".join(map(str, pool.shards)), f"{each * 1e3:,.1f}",
            f"{pool.taken / shards / 1e3:,.1f}", f"{pool.sent / 1e3:,.0f}", f"{rest * 1e3:,.0f}",
            f"{most_nodes:.1f} times",
        )  # fmt: skip


if __name__ == "__main__":
    main()
