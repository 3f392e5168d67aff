"""Games made by crews, for the benches that set one crew beside another."""

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
LONG = 0.2  # seconds of work of a shard
SHARDS, ROUNDS = 20, 5


def play_holdem(rng: Generator, common: Any, games: int) -> Array:
    """(G, S) points of random limit hold'em."""
    return play(HOLDEM, (UniformPolicy(), UniformPolicy()), games, rng, recorded=()).payoff


def make_cardplay(rng: Generator, common: Any, games: int) -> Any:
    """Games of card play that a random declarer won against defenders by rules, as
    `overtrick generate minibridge` keeps them."""
    return cardplay.random_games(MINIBRIDGE, games, "rules", False, rng)


def long_enough(work: Work) -> int:
    """Games of a shard that takes LONG seconds in this process, a power of two."""
    took, games = 0.0, SMALL // 2
    while took < LONG:
        games *= 2
        took = median(seconds_of(partial(work, generator(0), None, games)) for _ in range(3))
    return games


def two_against_one(name: str, what: str, work: Work) -> Result:
    """Games a second of two workers beside those of one."""
    games = long_enough(work)
    two, one = seconds_with((2, 1), work, games, SHARDS)
    made = games * SHARDS
    return Result(
        name=name,
        work=f"{made:,} {what} in {SHARDS} shards; ours two Ray workers, peer one",
        ours=made / two,
        peer=made / one,
        peer_name="one worker",
        unit="games/s",
        ratio=one / two,
        goal=1.8,
    )


def one_against_none(name: str, games: int, goal: float | None) -> Result:
    """Seconds of one worker beside those of this process."""
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
    crews: tuple[int, int], work: Work, games: int, shards: int
) -> tuple[float, float]:
    """Median seconds for so many shards by crews of so many workers, which take turns."""
    start_ray([{"CPU": 1.0}] * sum(crews))
    hired = [start_pool(workers) for workers in crews]

    def by(crew: WorkerPool) -> None:
        crew.map(work, None, [(games,)] * shards, generator(0))

    try:
        return in_turns(lambda: by(hired[0]), lambda: by(hired[1]), ROUNDS)
    finally:
        for crew in hired:
            crew.close()
        ray.shutdown()  # or it would stand beside the next bench
