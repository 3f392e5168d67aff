"""Fit a model of the speed of a run on many nodes to measurements of 1 to 32 nodes of this machine.

`python -m tests.bench.cost_model` prints the tables of docs/scaling.md, and some rows more. A node
sleeps as its work, so that many nodes fit on two cores. The measured part is the driver, which all
nodes share: it sends every shard, receives its result and unpacks it. K shards, each of W
seconds of work and B bytes of result, take on N nodes that are first sent S bytes each

    N S / s + max(K / N (W + l), K (d + B / r)) seconds

with l seconds between two shards of a node, d seconds of the driver per shard, r bytes per second
that the driver receives, and s bytes per second that it sends.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
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

NODES = (1, 2, 4, 8, 16, 32)
SIZES = (1_000, 100_000, 1_000_000, 10_000_000)  # bytes of a result
FITTED_ON = 8  # nodes; with more of them, their own processes keep both cores busy
ON_ONE_NODE = 100  # workers of a single node
NODE_COUNTS = (10, 100, 1_000)  # node counts beyond this machine
STORE = 300 * 2**20  # bytes of a node's object store
HEAD_STORE = 3 * 2**30  # bytes; the driver keeps the results of a call there
WORK = 0.05  # seconds of a shard
SHARDS = 20  # per worker
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
Waited = tuple[int, float, float, Array]  # process, begin and end of its work, result


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


def wait(rng: Generator, common: Any, seconds: float, size: int) -> Waited:
    """Sleep as the work of a shard, and return a result of `size` bytes."""
    began = time.perf_counter()
    time.sleep(seconds)
    return os.getpid(), began, time.perf_counter(), np.zeros(size, np.uint8)


@contextmanager
def nodes(
    count: int, workers: int = 1, head_store: int = HEAD_STORE, store: int = STORE
) -> Iterator[WorkerPool]:
    """Start a pool with `workers` workers on each of `count` nodes, and a head without workers.

    `head_store`, `store`: bytes of the object stores of the head and of the other nodes.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster(shutdown_at_exit=False)
        try:
            cluster.add_node(num_cpus=0, object_store_memory=head_store, include_dashboard=False)
            for _ in range(count):
                cluster.add_node(num_cpus=workers, object_store_memory=store)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            pool = start_pool(count * workers)
            pool.map(wait, None, [(0.5, 1)] * count * workers, generator(0))  # starts the workers
            yield pool
        finally:
            ray.shutdown()
            cluster.shutdown()


@dataclass(frozen=True)
class WorkerTime:
    """Seconds of a worker per shard, by use; the sum is the number of workers times the seconds of
    the call, divided by the number of shards.

    A worker without work waits for Ray, which delivers its next shard or the last result
    (`waiting`), for the driver, which is busy with another shard (`driver`), or for the end of the
    call, because no shard is left (`end`).
    """

    work: float
    waiting: float
    driver: float
    end: float


class _TimedShards(list[Any]):
    """Shards that record the time at which the pool takes them, to send them to a worker."""

    def __init__(self, shards: Sequence[Any]) -> None:
        super().__init__(shards)
        self.taken = dict[int, float]()

    def __getitem__(self, index: Any) -> Any:
        self.taken[index] = time.perf_counter()
        return super().__getitem__(index)


def timed_map(
    pool: WorkerPool, workers: int, shards: int, work: float, size: int
) -> tuple[float, WorkerTime]:
    """Return the seconds per shard of a call of `map`, and the use of its workers' time."""
    waits: list[tuple[float, float]] = []  # in which the driver waits for results
    timed = _TimedShards([(work, size)] * shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "wait", partial(_timed, ray.wait, waits))
        began = time.perf_counter()
        results: list[Waited] = pool.map(wait, None, timed, generator(0))
        ended = time.perf_counter()
    by_worker = dict[int, list[tuple[float, float, float]]]()
    for number, (worker, first, last, _) in enumerate(results):
        by_worker.setdefault(worker, []).append((first, last, timed.taken[number]))
    worked = waiting = driver = end = 0.0
    for done in by_worker.values():
        free = began
        for first, last, taken in sorted(done):
            sent = min(max(taken, free), first)
            waited = sum(max(0.0, min(sent, w[1]) - max(free, w[0])) for w in waits)
            waiting += first - sent + waited
            driver += sent - free - waited
            worked += last - first
            free = last
        end += ended - free
    end += (workers - len(by_worker)) * (ended - began)
    uses = (each / shards for each in (worked, waiting, driver, end))
    return (ended - began) / shards, WorkerTime(*uses)


def _timed(function: Callable[..., Any], found: list[tuple[float, float]], *args: Any, **kw: Any):
    """Call a function and append the interval of the call to `found`."""
    began = time.perf_counter()
    result = function(*args, **kw)
    found.append((began, time.perf_counter()))
    return result


def median_seconds(pool: WorkerPool, shards: int, work: float, size: int, sent: int = 0) -> float:
    """Return the median seconds of some shards."""
    shards_sent, common = [(work, size)] * shards, np.zeros(sent, np.uint8)
    return median(
        seconds_of(lambda: pool.map(wait, common, shards_sent, generator(0))) for _ in range(ROUNDS)
    )


@dataclass(frozen=True)
class Measured:
    """A call of `map` with shards of WORK seconds: the median of some calls, by their time."""

    nodes: int
    workers: int  # of each node
    size: int  # bytes of a result
    per_shard: float  # seconds
    time: WorkerTime


def measured(pool: WorkerPool, count: int, workers: int) -> Iterator[Measured]:
    """Yield the measurement of each size of results."""
    total = count * workers
    for size in SIZES if workers == 1 else SIZES[:-1]:
        shards = total * (SHARDS if size < SIZES[-1] else SHARDS // 4)
        calls = [timed_map(pool, total, shards, WORK, size) for _ in range(ROUNDS)]
        yield Measured(count, workers, size, *sorted(calls, key=lambda c: c[0])[ROUNDS // 2])


def fitted() -> tuple[Model, list[Measured]]:
    """Return the fitted model and all measurements."""
    found = []
    for count, workers in [*((count, 1) for count in NODES), (1, ON_ONE_NODE)]:
        with nodes(count, workers) as pool:
            if (count, workers) == (1, 1):
                between = median_seconds(pool, 10, 0.2, 1_000) / 10 - 0.2
            found += measured(pool, count, workers)
            if count == FITTED_ON:
                driver_seconds = [median_seconds(pool, 40, 0.0, size) / 40 for size in SIZES]
                heavy, light = (
                    median_seconds(pool, count, 0.2, 1, sent) for sent in (SIZES[-1], 0)
                )
            print(f"measured {count} x {workers}", file=sys.stderr, flush=True)
    slope, driver = np.polyfit(SIZES, driver_seconds, 1, w=1 / np.array(driver_seconds))
    sending = FITTED_ON * SIZES[-1] / (heavy - light)
    return Model(between, float(driver), float(1 / slope), sending), found


@dataclass
class RecordingPool(LocalPool):
    """Pool that works in this process and records the data that a cluster would send."""

    shards: list[int] = field(default_factory=list)  # number of shards of each call
    work: float = 0.0  # seconds
    sent: int = 0  # bytes, once per node and call
    taken: int = 0  # bytes

    def __post_init__(self) -> None:
        super().__init__()

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
    model, calls = fitted()
    print(f"l {model.between * 1e3:.1f} ms, d {model.driver * 1e3:.2f} ms,", end=" ")
    print(f"r {model.rate / 1e6:,.0f} MB/s, s {model.sending / 1e6:,.0f} MB/s")
    head(
        "nodes", "workers", "result, kB", "ms per shard", "by the model", "work", "late",
        "scheduling", "transfer", "driver", "end", "at work",
    )  # fmt: skip
    for call in calls:
        if call.size == SIZES[0]:
            scheduling = call.time.waiting
        use = call.time
        parts = (
            WORK, use.work - WORK, min(scheduling, use.waiting), max(0.0, use.waiting - scheduling),
            use.driver, use.end,
        )  # fmt: skip
        predicted = model.seconds(call.nodes * call.workers, 1, WORK, call.size)
        row(
            call.nodes, call.nodes * call.workers, f"{call.size / 1e3:,g}",
            f"{call.per_shard * 1e3:.1f}", f"{predicted * 1e3:.1f}",
            *(f"{part * 1e3:.1f}" for part in parts), f"{WORK / sum(parts):.0%}",
        )  # fmt: skip
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
