"""Measure the peak memory and the time of the demo with all its processes: training, Ray,
MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

import psutil
from tests.bench.measure import Result

JOB = Path("jobs/leduc_meta.yaml")
EVERY = 0.25  # seconds between samples
# set in the environment of the demo and inherited by its processes, also by detached ones
MARK = "OVERTRICK_BENCH_RUN"
MIB = 2**20


def run() -> Result:
    """Run the demo once in its own folder. No other library has a comparable program."""
    with tempfile.TemporaryDirectory(prefix="overtrick-bench-") as folder:
        peak, seconds = _watch(Path(folder))
    return Result(
        name="demo_memory",
        work=f"overtrick train {JOB}: peak proportional set size of all its processes; "
        f"{seconds:.0f} s in all",
        ours=peak / MIB,
        peer=None,
        peer_name="",
        unit="MiB",
        ratio=None,
        goal=None,
    )


def _watch(folder: Path) -> tuple[int, float]:
    """Run the demo in a folder. Return the peak memory in bytes and the seconds. Raises
    RuntimeError."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark, "OVERTRICK_RUNS": str(folder / "runs")}
    command = [str(Path(sys.executable).with_name("overtrick")), "train", str(JOB.absolute())]
    command.append(f"track.uri=sqlite:///{folder / 'mlflow.db'}")
    log = folder / "log"
    began = time.perf_counter()
    with log.open("w") as output:
        demo = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        family, peak = ProcessGroup(mark), 0
        try:
            while demo.poll() is None:
                peak = max(peak, family.memory())
                time.sleep(EVERY)
        finally:
            seconds = time.perf_counter() - began
            family.end()
    if demo.returncode:
        raise RuntimeError(f"the demo failed: {log.read_text().strip()[-2000:]}")
    return peak, seconds


class ProcessGroup:
    """All processes with a mark in their environment, and all processes that these have started."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        # processes are equal if their pid and start time are
        self._members: set[psutil.Process] = set()

    def members(self) -> set[psutil.Process]:
        """Return the members that are alive. Members are remembered, because Ray overwrites the
        environment of its workers."""
        alive = set(psutil.process_iter())
        self._members &= alive
        pids = {process.pid for process in self._members}
        for process in sorted(alive - self._members, key=lambda p: p.create_time()):
            if self._carries(process) or self._parent(process) in pids:
                self._members.add(process)
                pids.add(process.pid)
        return self._members

    def memory(self) -> int:
        """Return the bytes in use, with shared pages counted once (PSS)."""
        total = 0
        for process in self.members():
            with suppress(psutil.Error):  # it has just ended
                total += process.memory_full_info().pss
        return total

    def end(self) -> None:
        """End the members that still run."""
        for process in self.members():
            with suppress(psutil.Error):
                process.kill()

    def _carries(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            return process.environ().get(MARK) == self.mark
        return False

    def _parent(self, process: psutil.Process) -> int | None:
        with suppress(psutil.Error):
            return process.ppid()
        return None
