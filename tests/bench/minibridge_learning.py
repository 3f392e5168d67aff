"""Games of Mini-Bridge made and learnt: the seconds, the memory, and what merging tables costs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from statistics import median
from typing import Any

import psutil
from tests.bench.measure import Result

from overtrick.config import job_file
from overtrick.distributed.workers import WorkerPool, start_pool, start_ray
from overtrick.training.cardplay.tabular import TabularTrainer
from overtrick.training.registry import JOBS

GAMES, MANY, SHARDS, DEALS, ROUNDS = 15_000, 1_000_000, 8, 10_000, 5
REPORT_SECONDS = 30 * 3600  # Hadjur 2018, section 5.1
PUBLISHED: dict[str, Any] = {"state_abstraction": "unknown_hands", "update": "q"}
PROSPECTS: dict[str, Any] = {
    "learning_rate": None, "discount": 0.0, "neighbour_share": 0.0, "learn_lost_games": True,
}  # fmt: skip


def run() -> Result:
    """Two Ray workers and the learner; the first games compile and are not counted."""
    start_ray([{"CPU": 1.0}] * 2)
    crew = start_pool(2)
    _learn(crew, {**PUBLISHED, "games": 3000}, 1)
    few = [_learn(crew, {**PUBLISHED, "games": GAMES}, seed)[0] for seed in range(ROUNDS)]
    said = []
    for name, plan in (("unknown hands", PUBLISHED), ("prospects", PROSPECTS)):
        with _Memory() as memory:
            seconds, _ = _learn(crew, {**plan, "games": MANY}, 0)
        said.append(f"{MANY:,} games, {name}: {seconds:.0f} s, {memory.peak / 2**30:.1f} GiB")
    for name, plan in (("unknown hands", PUBLISHED), ("prospects", PROSPECTS)):
        for games in (GAMES, 10 * GAMES):
            for shards in (1, SHARDS):
                seconds, trainer = _learn(
                    crew, {**plan, "games": games, "merged_tables": shards}, 0
                )
                (row,) = trainer.rows()
                said.append(
                    f"{games:,} games, {name}, {shards} table(s): {row['made']:.1%} in "
                    f"{seconds:.2f} s"
                )
    crew.close()
    return Result(
        name="minibridge_learning",
        work=f"{GAMES:,} won games made and learnt by Q-learning (unknown hands), 2 workers; also "
        + "; ".join(said),
        ours=median(few),
        peer=REPORT_SECONDS,
        peer_name="the report's about 30 hours",
        unit="s",
        ratio=REPORT_SECONDS / median(few),
        goal=REPORT_SECONDS / 3,
    )


def _learn(crew: WorkerPool, plan: dict[str, Any], seed: int) -> tuple[float, TabularTrainer]:
    """Seconds of one iteration without its judging, and who has learnt."""
    how = {"deals": 1000, "final_deals": DEALS, "every": 2, "double_dummy": False}
    plain = {"trainer": "tabular", "game": "minibridge", "seed": seed, "stop": {"iterations": 2}}
    job = job_file.parse({**plain, "tabular": plan, "evaluate": how}, JOBS, "this bench")
    trainer = TabularTrainer(job, crew)
    began = time.perf_counter()
    trainer.step()
    return time.perf_counter() - began, trainer


class _Memory:
    """The most that this process and all that it started hold: shared pages count once (PSS)."""

    def __enter__(self) -> _Memory:
        self.peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.25):
            held = 0
            for process in (me, *me.children(recursive=True)):
                with suppress(psutil.Error):  # it has just ended
                    held += process.memory_full_info().pss
            self.peak = max(self.peak, held)
