"""Define a small job that uses every kind of work."""

from __future__ import annotations

from typing import Any

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.training import registry
from overtrick.training.adaptation import meta

TINY: dict[str, Any] = {
    "trainer": "meta",
    "game": "kuhn",
    "seed": 5,
    "stop": {"iterations": 6},
    "meta": {
        "hidden": [8], "tasks": 7, "games": 20, "inner_steps": 1,
        "gradient_estimator": "critic", "objective": "sampled", "second_order": False,
    },
    "adaptation": {"gradient_estimator": None},
    "population": {"size": 6, "fitness_games": 10, "immigrants": 1},
    "evaluate": {
        "opponents": ["random", "call"],
        "steps": 2,
        "games": 20,
        "repeats": 3,
        "every": 3,
    },
    "checkpoints": {"every": 1, "keep": 2},
}  # fmt: skip
"""Every kind of work has two shards."""


def local_run(job: dict[str, Any]) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """Train a job in this process. Return the metrics of its iterations, and its model."""
    read = job_file.parse(job, registry.JOBS, "tiny")
    trainer = meta.MetaTrainer(read, LocalPool())
    metrics = [trainer.step() for _ in range(read.stop.iterations)]
    return metrics, trainer.model()
