"""Measure the generation of Mini-Bridge games and learning from them: seconds, memory, and the
effect of merged tables."""

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
    """Run two Ray workers and the learner. The first games compile and are not measured."""
    start_ray([{"CPU": 1.0}] * 2)
    pool = start_pool(2)
    _learn(pool, {**PUBLISHED, "games": 3000}, 1)
    few = [_learn(pool, {**PUBLISHED, "games": GAMES}, seed)[0] for seed in range(ROUNDS)]
    lines = []
    for name, plan in (("unknown hands", PUBLISHED), ("prospects", PROSPECTS)):
        with _Memory() as memory:
            seconds, _ = _learn(pool, {**plan, "games": MANY}, 0)
        lines.append(f"{MANY:,} games, {name}: {seconds:.0f} s, {memory.peak / 2**30:.1f} GiB")
    for name, plan in (("unknown hands", PUBLISHED), ("prospects", PROSPECTS)):
        for games in (GAMES, 10 * GAMES):
            for shards in (1, SHARDS):
                seconds, trainer = _learn(
                    pool, {**plan, "games": games, "merged_tables": shards}, 0
                )
                (row,) = trainer.rows()
                lines.append(
                    f"{games:,} games, {name}, {shards} table(s): {row['made']:.1%} in "
                    f"{seconds:.2f} s"
                )
    pool.close()
    return Result(
        name="minibridge_learning",
        work=f"{GAMES:,} won games generated and learnt by Q-learning (unknown hands), "
        "2 workers; also " + "; ".join(lines),
        ours=median(few),
        peer=REPORT_SECONDS,
        peer_name="the report's about 30 hours",
        unit="s",
        ratio=REPORT_SECONDS / median(few),
        goal=REPORT_SECONDS / 3,
    )


def _learn(pool: WorkerPool, plan: dict[str, Any], seed: int) -> tuple[float, TabularTrainer]:
    """Return the seconds of one iteration without its evaluation, and the trainer."""
    how = {"deals": 1000, "final_deals": DEALS, "every": 2, "double_dummy": False}
    plain = {"trainer": "tabular", "game": "minibridge", "seed": seed, "stop": {"iterations": 2}}
    job = job_file.parse({**plain, "tabular": plan, "evaluate": how}, JOBS, "this bench")
    trainer = TabularTrainer(job, pool)
    began = time.perf_counter()
    trainer.step()
    return time.perf_counter() - began, trainer


class _Memory:
    """Peak memory of this process and all processes that it started; shared pages count once
    (PSS)."""

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
