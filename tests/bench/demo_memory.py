"""Peak memory and time of the demo: training, Ray, MLflow and all, as a person would start it."""

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
MARK = "OVERTRICK_BENCH_RUN"  # inherited by all that the demo starts, also by what detaches itself
MIB = 2**20


def run() -> Result:
    """One whole run in a folder of its own; there is no peer that does the same."""
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
    """Run the demo in a folder: peak memory in bytes, and seconds. Raises RuntimeError."""
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
        family, peak = Family(mark), 0
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


class Family:
    """All processes that carry a mark in their environment, and all that these have started."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self._members: set[psutil.Process] = set()  # equal if pid and start time are

    def members(self) -> set[psutil.Process]:
        """Those alive now. Who was a member stays one: Ray overwrites its workers' environment."""
        alive = set(psutil.process_iter())
        self._members &= alive
        pids = {process.pid for process in self._members}
        for process in sorted(alive - self._members, key=lambda p: p.create_time()):
            if self._carries(process) or self._parent(process) in pids:
                self._members.add(process)
                pids.add(process.pid)
        return self._members

    def memory(self) -> int:
        """Bytes held now: pages that processes share are counted once (PSS)."""
        total = 0
        for process in self.members():
            with suppress(psutil.Error):  # it has just ended
                total += process.memory_full_info().pss
        return total

    def end(self) -> None:
        """End what is still running."""
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
