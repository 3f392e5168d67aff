"""What bounds a run on many nodes: a model, fitted on 1 to 8 nodes of this machine.

`python -m tests.bench.cost_model` prints the tables of docs/scaling.md. The nodes' work is to wait,
so that eight of them fit on two cores: what is measured is what they share, the driver, which sends
every shard, takes its result in and unpacks it. K shards, each W seconds of work and B bytes of
result, last on N nodes

    max(K / N (W + l), K (d + B / r)) seconds

with l seconds between two shards of a node, d seconds of the driver a shard and r bytes a second
that it takes in.
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
MANY = (10, 100, 1_000)  # nodes that nobody has at hand
STORE = 300 * 2**20  # bytes of a node's object store
ROUNDS = 3
UNJUDGED = "evaluate.every=1000000"
WEIGHED = {
    "leduc_meta": (UNJUDGED,),
    "holdem_meta": (UNJUDGED,),
    "coevolve_kuhn_three": (),
    "minibridge_q": (UNJUDGED, "stop.iterations=1000"),
    "minibridge_dqn": (UNJUDGED,),
}
"""Jobs, and what leaves the judging of their last iteration out."""


@dataclass(frozen=True)
class Model:
    """Seconds and bytes a second of the page's formula."""

    between: float  # l
    driver: float  # d
    rate: float  # r
    sending: float  # s

    def seconds(self, nodes: int, shards: int, work: float, size: float) -> float:
        """What shards last on nodes."""
        return shards * max((work + self.between) / nodes, self.driver + size / self.rate)

    def most(self, work: float, size: float) -> float:
        """Nodes that the driver keeps busy."""
        return (work + self.between) / (self.driver + size / self.rate)


def wait(rng: Generator, common: Any, seconds: float, size: int) -> Array:
    """Work that takes no core."""
    time.sleep(seconds)
    return np.zeros(size, np.uint8)


@contextmanager
def nodes(count: int) -> Iterator[WorkerPool]:
    """A crew with a worker on each of so many nodes, and a head that does nothing but drive."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=0, object_store_memory=STORE)
            for _ in range(count):
                cluster.add_node(num_cpus=1, object_store_memory=STORE)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            crew = start_pool(count)
            crew.map(wait, None, [(0.5, 1)] * count, generator(0))  # brings the workers up
            yield crew
        finally:
            ray.shutdown()
            cluster.shutdown()


def lasts(crew: WorkerPool, shards: int, work: float, size: int, sent: int = 0) -> float:
    """Median seconds of so many shards."""
    asked, common = [(work, size)] * shards, np.zeros(sent, np.uint8)
    return median(
        seconds_of(lambda: crew.map(wait, common, asked, generator(0))) for _ in range(ROUNDS)
    )


def fitted() -> tuple[Model, list[tuple[int, float, int, float]]]:
    """The model, and what was measured beside it: nodes, work, bytes, seconds a shard."""
    seen = []
    for count in NODES:
        with nodes(count) as crew:
            if count == 1:
                between = lasts(crew, 10, 0.2, 1_000) / 10 - 0.2
            for size in SIZES:
                seen.append((count, 0.05, size, lasts(crew, 20 * count, 0.05, size) / 20 / count))
            if count == NODES[-1]:
                alone = [lasts(crew, 40, 0.0, size) / 40 for size in SIZES]
                heavy, light = (lasts(crew, count, 0.2, 1, sent) for sent in (SIZES[-1], 0))
    slope, driver = np.polyfit(SIZES, alone, 1, w=1 / np.array(alone))
    sending = NODES[-1] * SIZES[-1] / (heavy - light)
    return Model(between, float(driver), float(1 / slope), sending), seen


@dataclass
class Weighing(LocalPool):
    """Does the work here and notes what would have travelled."""

    shards: list[int] = field(default_factory=list)  # of each call
    work: float = 0.0  # seconds
    sent: int = 0  # bytes, once a node and call
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


def _bytes(thing: Any) -> int:
    """What it weighs on its way."""
    return len(ray.cloudpickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL))


def weighed(name: str, overrides: Sequence[str]) -> tuple[Weighing, float]:
    """What an iteration of a job sends about, and the seconds that it lasts in one process."""
    job = job_file.load(Path("jobs") / f"{name}.yaml", list(overrides), JOBS)
    crew = Weighing()
    trainer = TRAINERS[job.trainer].trainer(job, crew)
    for _ in range(2):  # compiles
        trainer.step()
    crew.shards, crew.work, crew.sent, crew.taken = [], 0.0, 0, 0
    return crew, seconds_of(trainer.step)


def row(*cells: object) -> None:
    """A line of a table."""
    print("|", " | ".join(map(str, cells)), "|")


def head(*cells: object) -> None:
    """Its first two lines."""
    print()
    row(*cells)
    row(*["---"] * len(cells))


def main() -> None:
    model, seen = fitted()
    print(f"l {model.between * 1e3:.1f} ms, d {model.driver * 1e3:.2f} ms,", end=" ")
    print(f"r {model.learning_rate / 1e6:,.0f} MB/s, s {model.sending / 1e6:,.0f} MB/s")
    head("nodes", "work, ms", "result, kB", "ms a shard", "by the model")
    for count, work, size, took in seen:
        told = model.seconds(count, 1, work, size)
        row(count, f"{work * 1e3:g}", f"{size / 1e3:,g}", f"{took * 1e3:.1f}", f"{told * 1e3:.1f}")
    head("work, s", "result, kB", "nodes kept busy", *(f"{n:,} nodes used" for n in MANY))
    for work in (0.2, 1.0, 10.0):
        for size in (10_000, 1_000_000):
            busy = model.most(work, size)
            used = (f"{min(1.0, busy / n):.0%}" for n in MANY)
            row(f"{work:g}", f"{size / 1e3:,g}", f"{busy:,.0f}", *used)
    head("job", "shards", "work, ms", "result, kB", "sent, kB", "rest, ms", "at most")
    for name, overrides in WEIGHED.items():
        crew, seconds = weighed(name, overrides)
        shards, rest = sum(crew.shards), seconds - crew.work
        each = crew.work / shards
        most = seconds / (rest + each * len(crew.shards))
        row(
            name, " + ".join(map(str, crew.shards)), f"{each * 1e3:,.1f}",
            f"{crew.taken / shards / 1e3:,.1f}", f"{crew.sent / 1e3:,.0f}", f"{rest * 1e3:,.0f}",
            f"{most:.1f} times",
        )  # fmt: skip


if __name__ == "__main__":
    main()
