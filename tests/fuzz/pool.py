"""Run inputs in child processes, so that a death, a hang or a full memory belongs to one input."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

import psutil
from tests.fuzz.inputs import Files
from tests.fuzz.target import Outcome

PROCESSES = 2
CHUNK = 50  # inputs that a process gets at once
LONGEST = 10.0  # CPU seconds of one input
SLOWEST = 60.0  # seconds of one input, in some of which a busy machine lets it wait
START = 600.0  # seconds in which a process imports the package or compiles a target's kernels
MOST_MEMORY = 2 << 30  # bytes of one process
LARGE = 3 << 29  # bytes after which a process is replaced between two inputs


class Batch(NamedTuple):
    """Consecutive inputs of one target, which a process receives together."""

    target: str
    seed: int
    first: int
    count: int


Report = Callable[[str, int, Outcome, Files | None], None]
"""Called with each target, number of the input, outcome, and the files of a finding."""
INPUT = ".input"  # suffix of the file with the last input of a process
WARM = "warm"  # message of a process that is about to feed mutated inputs


class _Child:
    """The parent's handle of a child process that feeds inputs to fuzz targets."""

    def __init__(self, folder: Path, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.log = folder / f"{number}.log"
        self.input = self.log.with_suffix(INPUT)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, str(self.log)), daemon=True)
        self.process.start()
        theirs.close()
        self.batch: Batch | None = None
        self.done = 0
        self.ready = self.warm = False
        self.heard = time.monotonic()
        self.used = 0.0  # CPU seconds until then

    def memory(self) -> int:
        """Return the resident memory of the process in bytes; 0 if it has ended."""
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(self.process.pid).memory_info().rss)
        return 0

    def last_input_files(self) -> Files:
        """Return the files of the last input that the process received."""
        return pickle.loads(self.input.read_bytes())

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the process and its ended children have used so far."""
        with contextlib.suppress(psutil.Error):
            return float(sum(psutil.Process(self.process.pid).cpu_times()[:4]))
        return 0.0

    def last_frame(self) -> str:
        """Return the innermost frame of this project when the process hung or died."""
        if self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGUSR1)
            time.sleep(0.5)
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File")]
        ours = [frame for frame in frames if "overtrick" in frame] or frames
        return ours[0].rpartition("/overtrick/")[2] if ours else "?"

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(batches: list[Batch], report: Report, processes: int = PROCESSES) -> None:
    """Feed all inputs in child processes; call `report` for each.

    If a process dies, takes too long or needs more than MOST_MEMORY, its last input is a finding,
    and another process goes on with the next input.
    """
    left = list(reversed(batches))
    started = 0
    with tempfile.TemporaryDirectory() as folder:
        children = list[_Child]()
        try:
            while left or any(child.batch for child in children):
                while len(children) < min(processes, len(left) + len(children)):
                    children.append(_Child(Path(folder), started))
                    started += 1
                for child in children:
                    if child.ready and child.batch is None and left:
                        _give(child, left.pop())
                wait([child.pipe for child in children], timeout=0.2)
                for child in list(children):
                    _listen(child, report)
                    if (problem := _problem(child)) is not None:
                        problem = f"{problem} at {child.last_frame()}"
                        children.remove(child)
                        child.kill()
                        if child.batch is None or not child.warm:
                            raise RuntimeError(f"without mutated input: {problem}: {child.batch}")
                        target, seed, first, count = child.batch
                        at = first + child.done
                        report(target, at, Outcome("finding", problem), child.last_input_files())
                        if child.done + 1 < count:
                            left.append(Batch(target, seed, at + 1, count - child.done - 1))
                    elif child.batch is None and child.ready and child.memory() > LARGE:
                        children.remove(child)
                        child.kill()
        finally:
            for child in children:
                child.kill()


def _give(child: _Child, batch: Batch) -> None:
    child.batch, child.done, child.heard, child.warm = batch, 0, time.monotonic(), False
    with contextlib.suppress(OSError):  # it has died, which `_problem` reports
        child.pipe.send(batch)


def _listen(child: _Child, report: Report) -> None:
    """Receive the outcomes that a process has sent."""
    try:
        while child.pipe.poll():
            message = child.pipe.recv()
            child.heard, child.used = time.monotonic(), child.cpu_seconds()
            child.warm = child.warm or message == WARM
            if not child.ready or message == WARM:
                child.ready = True
                continue
            assert child.batch is not None
            report(child.batch.target, child.batch.first + child.done, *message)
            child.done += 1
            if child.done == child.batch.count:
                child.batch = None
    except (EOFError, OSError):
        child.process.join(5)


def _problem(child: _Child) -> str | None:
    """Return what is wrong with a process; None if nothing is."""
    code = child.process.exitcode
    if code is not None:
        return f"the process died ({code})"
    silent = time.monotonic() - child.heard
    if not child.ready or (child.batch is not None and not child.warm):
        return f"more than {START:g} s" if silent > START else None
    if child.batch is None:
        return None
    if silent > LONGEST and (silent > SLOWEST or child.cpu_seconds() - child.used > LONGEST):
        return f"more than {LONGEST:g} s"
    return "more than 2 GiB" if child.memory() > MOST_MEMORY else None


def _serve(pipe: Connection, log: str) -> None:
    """Feed inputs until the pipe is closed; the function of a child process."""
    file = open(log, "w")  # noqa: SIM115 - faulthandler writes to it until the process ends
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file, all_threads=False)
    with _quiet():
        from tests.fuzz import target as single
        from tests.fuzz.targets import TARGETS

        valid: dict[str, list[Files]] = {}
        size = psutil.Process().memory_info().vms + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pipe.send(None)
        while True:
            try:
                batch = pipe.recv()
            except EOFError:
                return
            chosen = TARGETS[batch.target]
            if batch.target not in valid:
                valid[batch.target] = single.valid_inputs(chosen)
            pipe.send(WARM)
            for number in range(batch.first, batch.first + batch.count):
                files = single.make_input(chosen, valid[batch.target], batch.seed, number)
                Path(log).with_suffix(INPUT).write_bytes(pickle.dumps(files))
                outcome = single.feed(chosen, files)
                pipe.send((outcome, files if outcome.status == "finding" else None))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Context manager that drops what libraries print, and warnings."""
    with open(os.devnull, "w") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
        warnings.simplefilter("ignore")
        yield
