"""Measure where an iteration of the league of ants spends its time, beside bare physics."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import ray
from tests.bench.measure import Result

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool, start_pool, start_ray
from overtrick.games.sumo.game import Sumo
from overtrick.games.sumo.physics import Physics
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.policies.batched_networks import BatchedNetworksSession
from overtrick.training.registry import JOBS, TRAINERS

JOB = "jobs/sumo_league_small.yaml"
WARM_UP, ITERATIONS = 5, 20
PARTS = {
    "physics": (Physics, "advance"),
    "rules": (Sumo, "step"),
    "observations": (Sumo, "observe"),
    "network inputs": (Sumo, "features"),
    "policies": (BatchedNetworksSession, "act"),
    "learner": (ActorCritic, "learn"),
}
"""The method that does each part. A nested method's time counts for the nested part only."""


def run() -> Result:
    """Train without workers, then the same with one Ray worker, then with the games on two."""
    spent: dict[str, float] = defaultdict(float)
    with timed(spent):
        here, steps = train(LocalPool(), spent)
    on_one, _ = train_on_ray(1)
    bare, _ = train(LocalPool(), {})
    on_two, _ = train_on_ray(2, "league.game_shards=2")
    spent["rest"] = here - sum(spent.values())
    shares = ", ".join(f"{name} {seconds / here:.0%}" for name, seconds in spent.items())
    return Result(
        name="sumo_iteration",
        work=f"{ITERATIONS} iterations of {JOB}, one process, no evaluation: "
        f"{shares}; with a Ray worker {on_one / bare - 1:+.0%} time, with two workers and "
        f"game_shards=2 {on_two / bare - 1:+.0%}; peer: the physics alone",
        ours=steps / here,
        peer=steps / spent["physics"],
        peer_name="physics of the same steps",
        unit="steps/s",
        ratio=spent["physics"] / here,
        goal=None,
    )


def train_on_ray(workers: int, *overrides: str) -> tuple[float, float]:
    """Return the seconds and steps of `train` on a Ray that is started for it."""
    start_ray([{"CPU": 1.0}] * workers)
    pool = start_pool(workers)
    try:
        return train(pool, {}, *overrides)
    finally:
        pool.close()
        ray.shutdown()


def train(pool: Any, spent: dict[str, float], *overrides: str) -> tuple[float, float]:
    """Return the seconds of ITERATIONS iterations and the steps of their matches.

    `spent` is cleared after the warm-up. `overrides`: settings of the job, KEY=VALUE.
    """
    endless = ["stop.iterations=1000000", "evaluate.every=1000000"]
    job = job_file.load(JOB, [*endless, *overrides], JOBS)
    trainer = TRAINERS["league"].trainer(job, pool)
    for _ in range(WARM_UP):
        trainer.step()
    spent.clear()
    began, decisions = time.perf_counter(), 0.0
    for _ in range(ITERATIONS):
        decisions += trainer.step()["decisions"]
    return time.perf_counter() - began, decisions / 2


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Add the seconds in the methods of PARTS to `spent`, by part."""
    running: list[float] = []  # seconds in nested parts, of each part that is running

    def wrapper(part: str, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            running.append(0.0)
            began = time.perf_counter()
            result = method(*arguments, **named)
            whole = time.perf_counter() - began
            spent[part] += whole - running.pop()
            if running:
                running[-1] += whole
            return result

        return call

    patches = [
        patch.object(owner, name, wrapper(part, getattr(owner, name)))
        for part, (owner, name) in PARTS.items()
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
