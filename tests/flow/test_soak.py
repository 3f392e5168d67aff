"""A run that goes on for long needs no more memory than after its start.

OVERTRICK_SOAK is the time in minutes: 30, or what is set. Memory is what each process holds for
itself (resident less shared: pages of the object store are mapped by all).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from tiny import TINY

MINUTES = float(os.environ.get("OVERTRICK_SOAK", "30"))
WARM = 0.3  # of the time: caches fill, code is compiled
MOST = 1.0  # MB that memory may grow in a minute
STARTED = 4.0  # minutes until all processes must be there
EVERY = 1.0  # seconds between two looks
JOB = {**TINY, "workers": 2, "stop": {"iterations": 10_000_000}}
PARTS = {"driver": "", "learner": "ray::Trial", "workers": "ray::_Worker", "host": "ray::_Hosting"}


def held(driver: psutil.Process) -> dict[str, float]:
    """MB that each part of a run holds, those parts that are there."""
    sizes: dict[str, float] = defaultdict(float)
    for process in [driver, *driver.children(recursive=True)]:
        try:
            title, memory = process.cmdline()[:1], process.memory_info()
        except psutil.Error:  # it is gone
            continue
        for part, start in PARTS.items():
            if process == driver if not start else title and title[0].startswith(start):
                sizes[part] += (memory.rss - memory.shared) / 2**20
    return sizes


def slope(minutes: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """MB a minute by least squares, and its standard error."""
    (grown, _), covariance = np.polyfit(minutes, sizes, 1, cov=True)
    return float(grown), float(np.sqrt(covariance[0, 0]))


def test_growth_is_told_from_noise() -> None:
    rng, minutes = np.random.default_rng(0), np.linspace(0, 20, 1200)
    for leak in (0.0, 3.0):
        grown, error = slope(minutes, 300 + leak * minutes + rng.normal(0, 5, 1200))
        assert abs(grown - leak) < 4 * error < 0.2


@pytest.mark.slow
def test_memory_of_driver_learner_workers_and_host_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(yaml.safe_dump(JOB))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    command = "from overtrick.cli import main; main()"
    with (tmp_path / "log").open("w") as log:
        driver = subprocess.Popen(
            [sys.executable, "-c", command, "train", "soak.yaml"],
            cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    looks: list[tuple[float, dict[str, float]]] = []  # minutes, and what each part held then
    try:
        asked, began = psutil.Process(driver.pid), time.monotonic()
        while not looks or looks[-1][0] - looks[0][0] < MINUTES:
            assert driver.poll() is None, (tmp_path / "log").read_text()
            now = (time.monotonic() - began) / 60
            assert looks or now < STARTED, "the run does not start"
            sizes = held(asked)
            if looks or sizes.keys() == PARTS.keys():
                looks.append((now, sizes))
            time.sleep(EVERY)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    late = [(now, sizes) for now, sizes in looks if now - looks[0][0] > WARM * MINUTES]
    assert all(sizes.keys() == PARTS.keys() for _, sizes in late), "a process died on the way"
    minutes = np.array([now for now, _ in late])
    for part in PARTS:
        grown, error = slope(minutes, np.array([sizes[part] for _, sizes in late]))
        print(f"{part}: {late[-1][1][part]:.0f} MB, {grown:+.2f} ± {error:.2f} MB a minute")
        assert grown - 2 * error < MOST, f"{part} grows by {grown:.2f} ± {error:.2f} MB a minute"
