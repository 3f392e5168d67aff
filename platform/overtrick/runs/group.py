"""Runs that are parts of one run: trained side by side, each with its own folder and record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from overtrick.config.job_file import BaseJob, Job
from overtrick.core import RunError
from overtrick.runs import html_page, lifecycle, mlflow_note, tune_trial, videos
from overtrick.runs.early_stopping import EarlyStopping
from overtrick.storage import locate
from overtrick.tracking import mlflow_tracker


@dataclass(frozen=True)
class ChildRun:
    """One of the runs."""

    number: int
    job: Job
    place: Path  # its folder
    tracker: mlflow_tracker.Tracker  # its record in MLflow


class RunGroup:
    """A run and its parts, while they are worked on."""

    def __init__(self, folder: Path, work: BaseJob, jobs: Sequence[Job]) -> None:
        self.folder = folder
        self.tracker = lifecycle.tracker_of(work, folder)
        self.parts = [self._open(number, job) for number, job in enumerate(jobs)]
        self.ended: list[RunError | None] = [None] * len(jobs)
        self.stopped_early: Mapping[int, int] = {}  # by part: the iteration that it was stopped at
        self.undelivered = 0  # events that wait for MLflow in the folders

    def _open(self, number: int, job: Job) -> ChildRun:
        place = place_of(self.folder, number)
        if not (place / "job.json").exists():
            place.mkdir(exist_ok=True)
            lifecycle.write_job(job, place)
        return ChildRun(number, job, place, lifecycle.tracker_of(job, place, parent=self.folder))

    @property
    def done(self) -> int:
        """Iterations of all parts that have been told."""
        return sum(min(p.tracker.reported, p.job.stop.iterations) for p in self.parts)

    @property
    def failed(self) -> list[str]:
        """Why parts kept failing, a line each."""
        return [f"{p.place.name}: {e}" for p, e in zip(self.parts, self.ended, strict=True) if e]

    def train(
        self,
        jobs: Sequence[Job],
        progress: Callable[[int], None],
        keep: Callable[[ChildRun], None],
        early_stopping: EarlyStopping | None = None,
        until: int | None = None,
        starts: Mapping[int, Path | None] = MappingProxyType({}),
    ) -> None:
        """Train the first parts by these jobs; keep is called for each that is trained.

        A job may differ from its part's in what it looks at meanwhile. progress is told of the
        iterations done by all parts. Early stopping may end some; all may stop at an iteration
        that is not their last; starts: checkpoints of others that parts begin from.
        """
        told = self.done

        def listener(job: Job, part: ChildRun) -> tune_trial.Listener:
            tell = videos.listener(job, self.folder, part.number, part.tracker)

            def listen(iteration: int, metrics: dict[str, float]) -> None:
                nonlocal told
                told += 1
                tell(iteration, metrics)
                progress(told)

            return listen

        parts = self.parts[: len(jobs)]
        plans = [
            tune_trial.Planned(
                job, listener(job, part), part.tracker.reported, until, starts.get(part.number)
            )
            for job, part in zip(jobs, parts, strict=True)
        ]
        if early_stopping is not None:
            self.stopped_early = early_stopping.stopped_at()
        try:
            self.ended[: len(jobs)] = tune_trial.train(plans, self.folder, early_stopping)
        finally:  # also if it was stopped
            for part in parts:
                if tune_trial.finished(part.job, self.folder, part.number):
                    keep(part)

    def close(self, status: str) -> None:
        """Tell MLflow how it and its parts ended: all of them, though the disk may refuse one."""
        with ExitStack() as rest:
            for part in reversed(self.parts):
                rest.callback(self._close, part, status)
            self.undelivered = self.tracker.close(status)

    def _close(self, part: ChildRun, status: str) -> None:
        """Tell MLflow how a part ended; one that has its table has come to its end."""
        end = ""
        if failed := self.ended[part.number]:
            status, end = "FAILED", mlflow_note.failed(failed)
        elif (part.place / lifecycle.TABLE).exists():
            status = "FINISHED"
        elif last := self.stopped_early.get(part.number):
            status, end = "FINISHED", f"It was stopped at iteration {last}: others did better."
        else:
            end = mlflow_note.stopped(self.folder, part.tracker.reported)
        if end:
            html_page.tell(part.place, part.tracker, end)
        patience = 0.0 if self.undelivered else 30.0  # the server is away: wait for it once
        self.undelivered += part.tracker.close(status, patience)


@contextmanager
def at_work(folder: Path, work: BaseJob, jobs: Sequence[Job]) -> Iterator[RunGroup]:
    """A run and its parts, one for each job. Raises Refused if another process is at it."""
    with lifecycle.locked(folder):
        whole = RunGroup(folder, work, jobs)
        with html_page.ending(folder, whole.tracker, whole.close):
            yield whole
        whole.close("FINISHED")


def place_of(folder: Path, number: int) -> Path:
    """The folder of a part."""
    return folder / locate.TRIALS / f"{folder.name}-{number:03d}"
