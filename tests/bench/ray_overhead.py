"""Measure the overhead of Ray: the same meta-training in this process and on one Ray worker."""

from __future__ import annotations

import ray
from tests.bench.measure import Result, in_turns

from overtrick.config import job_file
from overtrick.distributed import workers
from overtrick.training.adaptation.meta import MetaTrainer
from overtrick.training.adaptation.meta_job import MetaJob
from overtrick.training.registry import JOBS

JOB = "jobs/leduc_meta_paper.yaml"
TURN, ROUNDS = 4, 5  # 20 iterations each, after a first turn that is not measured


def run() -> Result:
    """Run two trainers of one job in turns, a few iterations each.

    Evaluation is left out: it runs only every few iterations and would hide the cost of a call.
    """
    job = job_file.load(JOB, ["evaluate.every=1000000", "stop.iterations=1000000"], JOBS)
    assert isinstance(job, MetaJob)
    workers.start_ray([{"CPU": 1.0}] * 2)
    here = MetaTrainer(job, workers.start_pool(0))
    on_ray = MetaTrainer(job, workers.start_pool(1))
    try:
        ray_seconds, local_seconds = in_turns(
            lambda: _steps(on_ray, TURN), lambda: _steps(here, TURN), ROUNDS
        )
    finally:
        on_ray.close()
        here.close()
        ray.shutdown()  # so that it does not run beside the next bench
    return Result(
        name="ray_overhead",
        work=f"an iteration of {JOB} without evaluation ({TURN * ROUNDS} each); ours with one Ray "
        "worker, peer in this process; ratio = seconds in process / seconds with Ray",
        ours=ray_seconds / TURN,
        peer=local_seconds / TURN,
        peer_name="workers: 0",
        unit="s/iteration",
        ratio=local_seconds / ray_seconds,
        goal=0.7,
    )


def _steps(trainer: MetaTrainer, iterations: int) -> None:
    for _ in range(iterations):
        trainer.step()
