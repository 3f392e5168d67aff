"""Run groups: the child runs of a sweep or a comparison table, trained side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from overtrick.config.job_file import BaseJob, Job
from overtrick.core import RunError
from overtrick.runs import html_page, lifecycle, mlflow_note, tune_trial
from overtrick.runs.early_stopping import EarlyStopping
from overtrick.runs.listener import Listener, combined
from overtrick.storage.run_folder import RunFolder, TrialCheckpoints
from overtrick.tracking.mlflow_tracker import Tracker


@dataclass(frozen=True)
class ChildRun:
    """One run of a group."""

    number: int  # from 0; also the number of its Tune trial
    job: Job
    folder: RunFolder
    tracker: Tracker  # its MLflow record
    checkpoints: TrialCheckpoints  # of its trial, in the folder of the group


class RunGroup:
    """A sweep or a table of methods with its child runs, while this process works on them."""

    def __init__(self, folder: RunFolder, work: BaseJob, jobs: Sequence[Job]) -> None:
        self.folder = folder
        self.tracker = lifecycle.open_tracker(work, folder)
        self.children = [self._open(number, job) for number, job in enumerate(jobs)]
        self.errors: list[RunError | None] = [None] * len(jobs)  # why each child failed
        self.stopped_early: Mapping[int, int] = {}  # by child: the iteration it was stopped at
        self.undelivered = 0  # events that MLflow has not received and that wait on disk

    def _open(self, number: int, job: Job) -> ChildRun:
        folder = self.folder.child(number)
        if not folder.job.exists():
            folder.path.mkdir(exist_ok=True)
            lifecycle.write_job(job, folder)
        tracker = lifecycle.open_tracker(job, folder, parent=self.folder)
        return ChildRun(number, job, folder, tracker, self.folder.checkpoints(number))

    @property
    def done(self) -> int:
        """Iterations of all child runs that have been reported."""
        return sum(min(c.tracker.reported, c.job.stop.iterations) for c in self.children)

    @property
    def failed(self) -> list[str]:
        """One line for each child run that kept failing: its name and why."""
        both = zip(self.children, self.errors, strict=True)
        return [f"{child.folder.name}: {error}" for child, error in both if error]

    def train(
        self,
        jobs: Sequence[Job],
        progress: Callable[[int], None],
        save: Callable[[ChildRun], None],
        early_stopping: EarlyStopping | None = None,
        until: int | None = None,
        starts: Mapping[int, Path | None] = MappingProxyType({}),
    ) -> None:
        """Train the first child runs by these jobs.

        `jobs`: may differ from the children's own jobs, for instance in what they evaluate
        meanwhile. `progress`: receives the number of iterations done by all children, after each.
        `save`: called for each child that has been trained to its last iteration. `early_stopping`:
        a rule that may end some children before that. `until`: the iteration after which all
        children stop; None: their last. `starts`: by child, the checkpoint of another child from
        which it starts.
        """
        done = self.done

        def count(iteration: int, metrics: dict[str, float]) -> None:
            nonlocal done
            done += 1
            progress(done)

        def listener(job: Job, child: ChildRun) -> Listener:
            return combined(lifecycle.tracked(job, child.checkpoints, child.tracker), count)

        children = self.children[: len(jobs)]
        trials = [
            tune_trial.PlannedTrial(
                job, listener(job, child), child.tracker.reported, until, starts.get(child.number)
            )
            for job, child in zip(jobs, children, strict=True)
        ]
        if early_stopping is not None:
            self.stopped_early = early_stopping.stopped_at()
        try:
            self.errors[: len(jobs)] = tune_trial.train(trials, self.folder, early_stopping)
        finally:  # after an interrupt too
            for child in children:
                if child.checkpoints.iteration() >= child.job.stop.iterations:
                    save(child)

    def close(self, status: str) -> None:
        """Report to MLflow how the group and each child ended, even if the disk refuses one.

        `status`: MLflow's status of the group.
        """
        with ExitStack() as stack:
            for child in reversed(self.children):
                stack.callback(self._close, child, status)
            self.undelivered = self.tracker.close(status)

    def _close(self, child: ChildRun, status: str) -> None:
        """Report to MLflow how a child run ended; one that has its table is finished."""
        end = ""
        if error := self.errors[child.number]:
            status, end = "FAILED", mlflow_note.failed(error)
        elif child.folder.table.exists():
            status = "FINISHED"
        elif last := self.stopped_early.get(child.number):
            status, end = "FINISHED", f"It was stopped at iteration {last}: others did better."
        else:
            end = mlflow_note.stopped(self.folder, child.tracker.reported)
        if end:
            html_page.update_description(child.folder, child.tracker, end)
        patience = 0.0 if self.undelivered else 30.0  # wait only once for a server that is away
        self.undelivered += child.tracker.close(status, patience)


@contextmanager
def open_group(folder: RunFolder, work: BaseJob, jobs: Sequence[Job]) -> Iterator[RunGroup]:
    """Lock and open a run group with one child run for each job; close it after the block.

    Raises UserError if another process works on it.
    """
    with lifecycle.locked(folder):
        group = RunGroup(folder, work, jobs)
        with html_page.reporting_failure(folder, group.tracker, group.close):
            yield group
        group.close("FINISHED")
