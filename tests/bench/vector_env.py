"""Compare the vector environment, many games in one batch, with one environment at a time: one seat
of Leduc against a random opponent, random legal actions."""

from __future__ import annotations

import numpy as np
from tests.bench.doors import compared
from tests.bench.doors_single import steps_in_environment
from tests.bench.measure import Result

from overtrick import make
from overtrick.environments.gymnasium_env import single_env
from overtrick.environments.vector_env import BatchVectorEnv

ENVIRONMENTS, STEPS = 50_000, 5


def run() -> Result:
    many, one = BatchVectorEnv(make("leduc"), ENVIRONMENTS), single_env("leduc")
    rng = np.random.default_rng(0)
    many.reset(seed=0)
    return compared(
        "vector_env",
        f"leduc, {ENVIRONMENTS} games in one vector environment",
        lambda: vector_steps(many, rng),
        lambda: steps_in_environment(one, rng),
        "our Gymnasium environment, one game at a time",
        50.0,
    )


def vector_steps(env: BatchVectorEnv, rng: np.random.Generator) -> int:
    """Play some steps in all environments and return their number."""
    _, info = env.reset()
    for _ in range(STEPS):
        weights = rng.random(info["action_mask"].shape, np.float32) * info["action_mask"]
        *_, info = env.step(weights.argmax(axis=1))
    return STEPS * env.num_envs
