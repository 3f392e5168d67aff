"""Run groups: sweeps and comparisons, whose child runs are trained at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from overtrick.config.job_file import BaseJob, Job
from overtrick.core import RunError
from overtrick.reports.progress import OnProgress
from overtrick.runs import html_page, lifecycle, mlflow_note, tune_trial
from overtrick.runs.early_stopping import EarlyStopping
from overtrick.runs.listener import Listener, combined
from overtrick.storage import bucket_copy
from overtrick.storage.run_folder import RunFolder, TrialCheckpoints
from overtrick.tracking.mlflow_tracker import Tracker


@dataclass(frozen=True)
class FinishedGroup:
    """A sweep or comparison whose child runs have all ended."""

    folder: RunFolder
    failed: list[str]  # one line for each child run that failed
    seconds: float  # in this process
    undelivered: int  # events that MLflow has not received and that wait on disk


@dataclass(frozen=True)
class ChildRun:
    """One child run of a sweep or comparison."""

    number: int  # from 0; also the number of its Tune trial
    job: Job
    folder: RunFolder
    tracker: Tracker  # its MLflow record
    checkpoints: TrialCheckpoints  # of its trial, in the folder of the group


class RunGroup:
    """A running sweep or comparison: a parent run in MLflow, and its child runs."""

    def __init__(
        self, folder: RunFolder, work: BaseJob, jobs: Sequence[Job],
        name_of: Callable[[int, Job], str | None],
    ) -> None:  # fmt: skip
        """Open the MLflow records of a sweep or comparison, and of its children.

        `name_of`: function from the number and the job of a child to its name in MLflow; None
        stands for the name of its folder.
        """
        self.folder = folder
        self._name_of = name_of
        self.tracker = lifecycle.open_tracker(work, folder)
        self.children: list[ChildRun] = []
        self.errors: list[RunError | None] = []  # error of each failed child
        self.stopped_early: Mapping[int, int] = {}  # by child: its last iteration
        self.undelivered = 0  # number of events on disk, not yet sent to MLflow
        self.add(jobs)

    def add(self, jobs: Sequence[Job]) -> None:
        """Add a child run for each job."""
        first = len(self.children)
        self.children += [self._open(first + k, job) for k, job in enumerate(jobs)]
        self.errors += [None] * len(jobs)

    def _open(self, number: int, job: Job) -> ChildRun:
        folder = self.folder.child(number)
        if not folder.job.exists():
            folder.path.mkdir(exist_ok=True)
            lifecycle.write_job(job, folder)
        name = self._name_of(number, job)
        tracker = lifecycle.open_tracker(job, folder, self.folder, name)
        return ChildRun(number, job, folder, tracker, self.folder.checkpoints(number))

    @property
    def done(self) -> int:
        """Number of finished iterations, summed over all child runs."""
        return sum(min(c.tracker.reported, c.job.stop.iterations) for c in self.children)

    @property
    def failed(self) -> list[str]:
        """One line for each child run that failed: the name of the child run and the error."""
        both = zip(self.children, self.errors, strict=True)
        return [f"{child.folder.name}: {error}" for child, error in both if error]

    def train(
        self,
        jobs: Sequence[Job],
        progress: OnProgress,
        save: Callable[[ChildRun], None],
        early_stopping: EarlyStopping | None = None,
        until: int | None = None,
        starts: Mapping[int, Path | None] = MappingProxyType({}),
        first: int = 0,
    ) -> None:
        """Train the child runs `first` to len(`jobs`) - 1 at the same time.

        - `jobs`: the job of each child run. It may differ from the job in the child's folder, for
          instance in the evaluation settings.
        - `progress`: called after each iteration of a child, with the number of finished
          iterations, summed over all children.
        - `save`: called for each child whose training has reached its last iteration.
        - `early_stopping`: a rule that may end some children earlier.
        - `until`: the iteration at which all children stop; None: the last iteration of each job.
        - `starts`: maps the number of a child to the checkpoint of another child to start from.
        - `first`: the number of the first child to train. Those before it have ended.
        """
        done = self.done

        def count(iteration: int, metrics: dict[str, float]) -> None:
            nonlocal done
            done += 1
            progress(done)

        def listener(job: Job, child: ChildRun) -> Listener:
            tracked = lifecycle.tracked(job, child.checkpoints, child.tracker, until)
            return combined(tracked, count)

        children = self.children[: len(jobs)]
        trials = []
        for job, child in zip(jobs, children, strict=True):
            last = until if child.number >= first else 0
            planned = listener(job, child), child.tracker.reported, last, starts.get(child.number)
            trials.append(tune_trial.PlannedTrial(job, *planned))
        if early_stopping is not None:
            self.stopped_early = early_stopping.stopped_at()
        try:
            errors = tune_trial.train(trials, self.folder, early_stopping)
            self.errors[first : len(jobs)] = errors[first:]
        finally:  # after an interrupt too
            for child in children[first:]:
                if child.checkpoints.iteration() >= child.job.stop.iterations:
                    save(child)

    def close(self, status: str) -> None:
        """Send the final status of the parent run and of each child run to MLflow.

        `status`: MLflow's status of the parent run, which is the sweep or comparison itself, and of
        a child run that neither finished nor failed. Sets `undelivered`. If the disk is full or
        fails for one run, the status of all other runs is sent before the error is raised.
        """
        with ExitStack() as stack:
            for child in reversed(self.children):
                stack.callback(self._close, child, status)
            self.undelivered = self.tracker.close(status)

    def _close(self, child: ChildRun, status: str) -> None:
        """Send the final status of a child run to MLflow.

        The status is FAILED after an error. It is FINISHED if the child has a results table or was
        stopped early. Otherwise it is `status`, MLflow's status of the parent run.
        """
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
        patience = 0.0 if self.undelivered else 30.0  # wait only once for a server without answer
        self.undelivered += child.tracker.close(status, patience)


def save_results(child: ChildRun) -> None:
    """Store the results of a finished child run, unless they are stored already.

    Its page is written last. Without the page a process may have been killed while it stored the
    results, so they are stored again, if there is a checkpoint.
    """
    whole = child.folder.page.exists() or child.checkpoints.newest() is None
    if not (child.folder.table.exists() and whole):
        lifecycle.save_results(child.job, child.folder, child.checkpoints, child.tracker)


@contextmanager
def open_group(
    folder: RunFolder, work: BaseJob, jobs: Sequence[Job],
    name_of: Callable[[int, Job], str | None] = lambda number, job: None,
) -> Iterator[RunGroup]:  # fmt: skip
    """Context manager that locks and opens a sweep or comparison, and closes it afterwards.

    `work`: the job of the sweep or comparison itself. `jobs`: the job of each child run.
    `name_of`: function from the number and the job of a child to its name in MLflow; None stands
    for the name of its folder. Raises UserError if another process works on the same folder.
    """
    with lifecycle.locked(folder):
        group = RunGroup(folder, work, jobs, name_of)
        bucket_copy.push(folder.path)
        with html_page.reporting_failure(folder, group.tracker, group.close):
            yield group
        group.close("FINISHED")
