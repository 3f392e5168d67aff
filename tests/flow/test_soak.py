"""The memory of a long run stays constant.

OVERTRICK_SOAK is the time in minutes: 30 by default, 8 at least. Memory is the resident less the
shared memory of each process: pages of the object store are mapped by all. Only the second half of
the time counts: caches grow in the first half, and leaks grow throughout.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from command_process import COMMAND, environment
from small_meta_job import TINY

MINUTES = float(os.environ.get("OVERTRICK_SOAK", "30"))
MOST = 1.0  # MB per minute that memory may grow, except for one step
STEP = 20.0  # MB that it may grow in one minute of the second half
"""Python's table of interned names doubles once, after some 250,000 names: 15 MB."""
STARTED = 4.0  # minutes until all processes must run
EVERY = 1.0  # seconds between measurements
JOB = {**TINY, "workers": 2, "stop": {"iterations": 10_000_000}}
PARTS = {
    "driver": "", "learner": "ray::Trial", "workers": "ray::_Worker", "host": "ray::_HostActor",
}  # fmt: skip


def memory_by_process(driver: psutil.Process) -> dict[str, float]:
    """Return the MB of each process of a run that exists."""
    sizes: dict[str, float] = defaultdict(float)
    for process in [driver, *driver.children(recursive=True)]:
        try:
            title, memory = process.cmdline()[:1], process.memory_info()
        except psutil.Error:  # the process has ended
            continue
        for part, start in PARTS.items():
            if process == driver if not start else title and title[0].startswith(start):
                sizes[part] += (memory.rss - memory.shared) / 2**20
    return sizes


def growth(minutes: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Return the growth in MB of the mean memory of a minute over the minute before: on average
    without the largest, and the largest."""
    whole = (minutes - minutes[0]).astype(int)
    means = np.array([sizes[whole == minute].mean() for minute in range(whole[-1])])
    *others, largest = sorted(np.diff(means))
    return float(np.mean(others)), float(largest)


def test_growth_is_distinguished_from_noise_and_from_a_step() -> None:
    rng, minutes = np.random.default_rng(0), np.linspace(0, 20, 1200)
    for leak, step in ((0.0, 0.0), (3.0, 0.0), (0.0, 15.0)):
        sizes = 300 + leak * minutes + step * (minutes > 8) + rng.normal(0, 1, 1200)
        usual, largest = growth(minutes, sizes)
        assert abs(usual - leak) < 0.1
        assert abs(largest - leak - step) < 0.6


@pytest.mark.slow
def test_memory_of_driver_learner_workers_and_population_stays_constant(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(yaml.safe_dump(JOB))
    with (tmp_path / "log").open("w") as log:
        driver = subprocess.Popen(
            [*COMMAND, "train", "soak.yaml"],
            cwd=tmp_path, env=environment(), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    looks: list[tuple[float, dict[str, float]]] = []  # minutes, and the memory of each process then
    try:
        driver_process, began = psutil.Process(driver.pid), time.monotonic()
        while not looks or looks[-1][0] - looks[0][0] < MINUTES:
            assert driver.poll() is None, (tmp_path / "log").read_text()
            now = (time.monotonic() - began) / 60
            assert looks or now < STARTED, "the run does not start"
            sizes = memory_by_process(driver_process)
            if looks or sizes.keys() == PARTS.keys():
                looks.append((now, sizes))
            time.sleep(EVERY)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    middle = (looks[0][0] + looks[-1][0]) / 2
    early, late = ([look for look in looks if (look[0] > middle) == half] for half in (False, True))
    assert all(sizes.keys() == PARTS.keys() for _, sizes in late), "a process died on the way"
    (spool,) = tmp_path.glob("runs/*/track.jsonl")
    print(f"{spool.read_text().count('metrics')} iterations in {looks[-1][0]:.0f} minutes")
    grows = []
    for part in PARTS:
        (before, _), (usual, largest) = (
            growth(np.array([now for now, _ in half]), np.array([s[part] for _, s in half]))
            for half in (early, late)
        )
        print(
            f"{part}: {late[-1][1][part]:.0f} MB, {before:+.2f} MB a minute in the first half, "
            f"{usual:+.2f} in the second but for one of {largest:+.1f}"
        )
        grows += [part] if usual > MOST or largest > STEP else []
    assert grows == []
