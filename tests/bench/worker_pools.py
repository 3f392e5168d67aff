"""Play games in worker pools, for benches that compare one pool with another."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import ray
from numpy.random import Generator
from tests.bench.measure import Result, in_turns, seconds_of

from overtrick import make
from overtrick.core import Array
from overtrick.distributed.workers import Work, WorkerPool, generator, start_pool, start_ray
from overtrick.evaluation import cardplay
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

HOLDEM = make("holdem")
MINIBRIDGE = make("minibridge")
SMALL = 4_096  # games of the smallest shard that is worth a message
LONG = 0.2  # seconds of work per shard
SHARDS, ROUNDS = 20, 5


def play_holdem(rng: Generator, common: Any, games: int) -> Array:
    """Return the points (G, S) of random limit hold'em."""
    return play(HOLDEM, (UniformPolicy(), UniformPolicy()), games, rng, recorded=()).payoff


def make_cardplay(rng: Generator, common: Any, games: int) -> Any:
    """Return games of card play that a random declarer won against defenders by rules, as
    `overtrick generate minibridge` stores them."""
    return cardplay.random_games(MINIBRIDGE, games, "rules", False, rng)


def games_per_long_shard(work: Work) -> int:
    """Return the games of a shard that takes LONG seconds in this process, a power of two."""
    took, games = 0.0, SMALL // 2
    while took < LONG:
        games *= 2
        took = median(seconds_of(partial(work, generator(0), None, games)) for _ in range(3))
    return games


def two_against_one(name: str, games_name: str, work: Work) -> Result:
    """Compare the games per second of two workers and of one."""
    games = games_per_long_shard(work)
    two, one = seconds_with((2, 1), work, games, SHARDS)
    total = games * SHARDS
    return Result(
        name=name,
        work=f"{total:,} {games_name} in {SHARDS} shards; ours two Ray workers, peer one",
        ours=total / two,
        peer=total / one,
        peer_name="one worker",
        unit="games/s",
        ratio=one / two,
        goal=1.8,
    )


def one_against_none(name: str, games: int, goal: float | None) -> Result:
    """Compare the seconds of one worker with those of this process."""
    on_ray, here = seconds_with((1, 0), play_holdem, games, SHARDS)
    return Result(
        name=name,
        work=f"{SHARDS} shards of {games:,} games of random limit hold'em each; ours one Ray "
        "worker, peer this process; ratio = seconds in process / seconds with Ray",
        ours=on_ray,
        peer=here,
        peer_name="workers: 0",
        unit="s",
        ratio=here / on_ray,
        goal=goal,
    )


def seconds_with(
    worker_counts: tuple[int, int], work: Work, games: int, shards: int
) -> tuple[float, float]:
    """Return the median seconds for some shards with pools of some worker counts, run in turns."""
    start_ray([{"CPU": 1.0}] * sum(worker_counts))
    pools = [start_pool(workers) for workers in worker_counts]

    def run(pool: WorkerPool) -> None:
        pool.map(work, None, [(games,)] * shards, generator(0))

    try:
        return in_turns(lambda: run(pools[0]), lambda: run(pools[1]), ROUNDS)
    finally:
        for pool in pools:
            pool.close()
        ray.shutdown()  # so that it does not run beside the next bench
