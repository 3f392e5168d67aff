"""Measure steps of sumo per second on two MuJoCo threads, beside one."""

from __future__ import annotations

import numpy as np
from tests.bench.measure import Result, in_turns
from tests.bench.sumo_steps import MATCHES, ROUNDS, STEPS, play

import overtrick


def run() -> Result:
    """Simulate the same matches; results are equal to the last bit."""
    two, one = (overtrick.make("sumo", threads=n) for n in (2, 1))
    begin = one.start(one.deal(MATCHES, np.random.default_rng(0)))
    ours, peer = in_turns(lambda: play(two, begin), lambda: play(one, begin), ROUNDS)
    return Result(
        name="sumo_threads",
        work=f"{MATCHES} matches of {STEPS} steps as in sumo_steps, two threads; peer one thread",
        ours=MATCHES * STEPS / ours,
        peer=MATCHES * STEPS / peer,
        peer_name="one thread",
        unit="steps/s",
        ratio=peer / ours,
        goal=1.5,
    )
