"""Measure sumo with `engine=warp` on a GPU beside `engine=mujoco` on one core of the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from tests.bench.measure import Result, in_turns

import overtrick
from overtrick.core import UserError, select_rows
from overtrick.games.sumo.game import Sumo

GPU_MATCHES, CPU_MATCHES, STEPS, ROUNDS = 4096, 64, 20, 5


def run() -> Result:
    """Simulate matches under random torques; both sides compute observations and rewards."""
    if not torch.cuda.is_available():
        raise UserError("torch finds no GPU on this machine: this bench compares one with the CPU")
    seconds = in_turns(
        matches(overtrick.make("sumo", engine="warp"), GPU_MATCHES),
        matches(overtrick.make("sumo"), CPU_MATCHES),
        ROUNDS,
    )
    ours, peer = (
        count * STEPS / each
        for count, each in zip((GPU_MATCHES, CPU_MATCHES), seconds, strict=True)
    )
    return Result(
        name="sumo_warp",
        work=f"{STEPS} steps of {GPU_MATCHES:,} matches on {torch.cuda.get_device_name()}, peer "
        f"{CPU_MATCHES} matches; RK4, with observations, forces and rewards",
        ours=ours,
        peer=peer,
        peer_name="engine=mujoco on one core",
        unit="steps/s",
        ratio=ours / peer,
        goal=None,
    )


def matches(game: Sumo, count: int) -> Callable[[], None]:
    """Return a function that plays the first steps of `count` matches."""
    begin = game.start(game.deal(count, np.random.default_rng(0)))
    torques = np.random.default_rng(1).uniform(-1, 1, (STEPS, count, 16))

    def play() -> None:
        state = select_rows(begin, np.arange(count))
        for control in torques:
            game.step(state, game.observe(state), control.reshape(-1, 8))
        assert not state.over.any()

    return play
