"""Measure training on a GPU beside training on two cores: `make bench ONLY=gpu`, on a machine with
a GPU that torch finds.

Every workload is a whole iteration of a trainer, games included, in one process on two cores. The
games are played on the CPU on both sides. The share of the device is the time in which it computes,
from torch's profiler.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import yaml
from tests.bench import bidding_training
from tests.bench.measure import Result, seconds_of

from overtrick.config import job_file
from overtrick.core import UserError, devices
from overtrick.distributed.workers import LocalPool
from overtrick.training import registry
from overtrick.training.base_trainer import BaseTrainer

CORES, SECONDS, GOAL = 2, 4.0, 20.0
BOARDS, BATCHES = 2000, (512, 8192)
TASKS = (40, 400, 4000)
EXAMPLES = Path("build/bench_examples")
MATRIX = 8192  # rows and columns of the product that measures the device's peak
NEVER = {"every": 10**6}


@dataclass(frozen=True)
class Speed:
    """Speed of a trainer on one device."""

    rate: float  # units per second
    learning: float  # share of the time in the learner's gradient steps
    busy: float = 0.0  # share of the time in which the GPU computes
    memory: float = 0.0  # peak memory on the GPU, GiB


class StopWatch:
    """Callable that adds up the seconds of the calls of a function, and the rows of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds, self.rows = 0.0, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        synchronise()
        began = time.perf_counter()
        found = self._function(*args, **kwargs)
        synchronise()
        self.seconds += time.perf_counter() - began
        self.rows += len(args[1]) if len(args) > 1 and hasattr(args[1], "__len__") else 0
        return found


def run() -> Result:
    """Measure every workload on both devices. The result is about the bidding network."""
    if not torch.cuda.is_available():
        raise UserError("torch finds no GPU on this machine: this bench compares one with the CPU")
    usable, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, cores()[:CORES])
    torch.set_num_threads(CORES)
    try:
        return _measure()
    finally:
        os.sched_setaffinity(0, usable)
        torch.set_num_threads(threads)


def _measure() -> Result:
    peak = peak_flops()
    lines = [f"{torch.cuda.get_device_name()}, {peak / 1e12:.0f} TFLOP/s in bfloat16"]
    ours = peer = 0.0
    for name, unit, content in workloads():
        cpu, gpu = (speed(content, unit, wanted) for wanted in (False, True))
        line = (
            f"{name}: {gpu.rate:,.0f} {unit}/s, {CORES} cores {cpu.rate:,.0f} (ratio "
            f"{gpu.rate / cpu.rate:.2f}); share of learning {gpu.learning:.0%}, on the cores "
            f"{cpu.learning:.0%}; device busy {gpu.busy:.0%}, {gpu.memory:.2f} GiB"
        )
        if name == "bidding 4 x 2048 bfloat16, batches of 512":
            ours, peer = gpu.rate, cpu.rate
        if unit == "rows":
            line += f", {gpu.rate * row_flops(content) / peak:.1%} of the device's peak"
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    return Result(
        name="gpu",
        work="; ".join(lines),
        ours=ours,
        peer=peer,
        peer_name=f"the same trainer on {CORES} cores",
        unit="rows/s",
        ratio=ours / peer,
        goal=GOAL,
    )


def cores() -> list[int]:
    """Return one logical CPU of each core that this process may use."""
    usable, found = os.sched_getaffinity(0), dict[str, int]()
    for cpu in sorted(usable):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text(), cpu)
    return list(found.values())


def workloads() -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, unit and job of every workload."""
    if not EXAMPLES.exists():
        half_made = EXAMPLES.with_name(f"{EXAMPLES.name}.part")
        shutil.rmtree(half_made, ignore_errors=True)
        bidding_training.generate_examples(half_made, BOARDS)
        half_made.rename(EXAMPLES)
    found = []
    for batch in BATCHES:
        for half in (True, False):
            content = bidding_training.job_content(EXAMPLES, (2048,) * 4, half, batch)
            name = f"bidding 4 x 2048 {'bfloat16' if half else 'float32'}, batches of {batch}"
            found.append((name, "rows", content))
    dqn = changed(read("minibridge_dqn"), dqn={"games": 100})
    found.append(("minibridge_dqn, batches of 512", "transitions", dqn))
    wide = changed(
        dqn, dqn={"hidden": [1024, 1024]}, values={"batch_size": 8192, "gradient_steps": 10}
    )
    found.append(("minibridge_dqn, 1024 x 2, batches of 8192", "transitions", wide))
    sumo = changed(
        read("sumo_meta_small"), meta={"tasks": 10, "minibatches": 10},
        population={"every": 10**6},
    )  # fmt: skip
    found.append(("sumo_meta_small by PPO", "decisions", sumo))
    for job in ("leduc_meta", "holdem_meta"):
        for tasks in TASKS:
            meta = changed(read(job), meta={"tasks": tasks, "games": 20})
            found.append((f"{job}, {tasks} tasks of 20 games", "tasks", meta))
    return found


def read(name: str) -> dict[str, Any]:
    """Return the content of the job file jobs/NAME.yaml without evaluations."""
    content: dict[str, Any] = yaml.safe_load(Path(f"jobs/{name}.yaml").read_text())
    return changed(content, stop={"iterations": 10**6}, evaluate=NEVER)


def changed(content: Mapping[str, Any], **sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with some keys of some sections changed."""
    return {**content, **{name: content.get(name, {}) | keys for name, keys in sections.items()}}


def speed(content: dict[str, Any], unit: str, on_gpu: bool) -> Speed:
    """Train on one device for some seconds; the first iteration counts only if it is long."""
    devices.use_gpu(on_gpu)
    try:
        job = job_file.parse(content, registry.JOBS, "the bench")
        trainer = registry.TRAINERS[job.trainer].trainer(job, LocalPool())
        torch.set_num_threads(CORES)  # a trainer may have set another number
        method = "improve" if unit in ("tasks", "decisions") else "learn"
        watch = StopWatch(getattr(trainer.learner, method))
        setattr(trainer.learner, method, watch)
        seconds = [seconds_of(trainer.step)]
        if on_gpu or seconds[0] < 4 * SECONDS:  # otherwise its compilation weighs little
            watch.seconds, watch.rows, seconds = 0.0, 0, []
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        while sum(seconds) < SECONDS:
            seconds.append(seconds_of(lambda: (trainer.step(), synchronise())))
        amount = {
            "rows": lambda: len(trainer.examples),
            "transitions": lambda: job.values.gradient_steps * job.values.batch_size,
            "decisions": lambda: watch.rows / len(seconds),
            "tasks": lambda: job.meta.tasks,
        }[unit]()
        rate, learning = amount / median(seconds), watch.seconds / sum(seconds)
        if not on_gpu:
            return Speed(rate, learning)
        memory = torch.cuda.max_memory_allocated() / 2**30
        return Speed(rate, learning, busy_share(trainer), memory)
    finally:
        devices.use_gpu(False)


def busy_share(trainer: BaseTrainer[Any]) -> float:
    """Return the share of an iteration's time in which the GPU computes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        seconds = seconds_of(lambda: (trainer.step(), synchronise()))
    return sum(event.self_device_time_total for event in profile.key_averages()) / 1e6 / seconds


def row_flops(content: Mapping[str, Any]) -> float:
    """Return the floating-point operations of a row's training: six per weight."""
    job = job_file.parse(dict(content), registry.JOBS, "the bench")
    trainer = registry.TRAINERS[job.trainer].trainer(job, LocalPool())
    return 6.0 * sum(v.size for n, v in trainer.learner.weights().items() if v.ndim == 2)


def peak_flops() -> float:
    """Return the operations per second of a large product of random matrices in bfloat16."""
    ours, other = (torch.randn(MATRIX, MATRIX, device="cuda").bfloat16() for _ in range(2))
    for _ in range(3):
        ours @ other
    synchronise()
    took = median(seconds_of(lambda: (ours @ other, synchronise())) for _ in range(10))
    return 2 * MATRIX**3 / took


def synchronise() -> None:
    """Wait until the GPU has done everything, if this process uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
