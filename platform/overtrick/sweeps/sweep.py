"""Sweeps: train one job in many variants, given by the `search` section of its job file."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import set_value
from overtrick.config.search_space import TrialValues
from overtrick.core import RunError, UserError
from overtrick.distributed.workers import LocalPool, RngStream, generator
from overtrick.games import registry
from overtrick.reports import bar_charts, figures, learning_curves
from overtrick.reports.metric_names import SCORE, History, opponent_label
from overtrick.reports.progress import OnProgress
from overtrick.runs import folder_kind, lifecycle
from overtrick.runs.child_runs import ChildRun, FinishedGroup, RunGroup, open_group, save_results
from overtrick.storage.run_folder import RunFolder
from overtrick.sweeps import pbt
from overtrick.sweeps.asha import Asha
from overtrick.training import scores
from overtrick.training.registry import JOBS, TRAINERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from overtrick.sweeps.optuna_search import BatchedStudy, Scores

SHARED = ("trainer", "checkpoints", "track", "search")
"""Job keys that cannot differ between the trials of a sweep."""
LONGEST_NAME = 250  # characters of the name of a run in MLflow
STUDY = "study.json"  # the file of Optuna's draws in a sweep's folder
DECISIONS = "halving.jsonl"  # the file of ASHA's decisions in a sweep's folder


@dataclass(frozen=True)
class FinishedSweep(FinishedGroup):
    """The result of a sweep whose trials have all ended."""

    rows: list[dict[str, Any]]  # trial, values tried, score; best first, failed trials last

    @property
    def median(self) -> float | None:
        """The median score, counting failed trials as -inf; None if the median is -inf."""
        scores = [-math.inf if row["score"] is None else row["score"] for row in self.rows]
        return median(scores) if math.isfinite(median(scores)) else None


def check(job: Job, source: str, stored: bool = False) -> int:
    """Validate a sweep and return the total number of iterations of its trials.

    For tpe and cmaes, validate the first batch, and its first trial with both ends of every range.
    `source`: names the job file in errors. `stored`: the job is that of a sweep that has begun,
    maybe by an earlier version with other defaults. Raises UserError for a sweep that would
    otherwise fail later.
    """
    search = job.search
    for key in search.spaces:
        if key.partition(".")[0] in SHARED:
            raise UserError(f"search of '{key}' in {source}: all trials of a sweep share it")
    if "stop.iterations" in search.spaces and search.method not in ("grid", "random"):
        raise UserError(
            f"search.method {search.method} in {source} compares trials at equal iterations: leave "
            "out stop.iterations"
        )
    if search.method in ("asha", "pbt"):
        _check_comparable(job, source)
    trials = trials_of(job, source, stored)
    for number, (_, trial) in enumerate(trials):
        _trial_name(job, source, number, trial)
        lifecycle.check_job(trial)
    if search.method == "pbt":
        _check_copies(job, [trial for _, trial in trials], source)
    if search.by_optuna:
        first = trials[0][0]
        for key, end in ((k, e) for k in search.drawn_keys for e in search.spaces[k].range or ()):
            _job_of(job, source, stored, first | {key: end})
        return job.stop.iterations * len(search.with_grid(first)) * (search.trials or 0)
    return sum(trial.stop.iterations for _, trial in trials)


def _check_comparable(job: Job, source: str) -> None:
    """Raise UserError unless ASHA or PBT can compare the trials during training.

    - The trainer must measure a score during training, or the job must name a `search.metric`.
    - The first comparison must be no earlier than the first score, and before the last iteration.
    """
    search = job.search
    method = f"search.method {search.method} in {source}"
    if search.metric is None and TRAINERS[job.trainer].progress_score is None:
        problem = f"{job.trainer} measures no score during training"
        raise UserError(f"{method}: {problem}: name a search.metric")
    asha = search.method == "asha"
    name = "grace_period" if asha else "perturbation_interval"
    first = _grace_period(job) if asha else _perturbation_interval(job)
    least = 1 if search.metric else _measured_every(job)
    if not least <= first < job.stop.iterations:
        raise UserError(
            f"search.{name} {first} in {source} must be {least} (evaluate.every, or 1) to "
            f"{job.stop.iterations - 1} (below stop.iterations)"
        )


def _check_copies(job: Job, jobs: Sequence[Job], source: str) -> None:
    """Raise UserError if PBT's trials could not copy each other's trainer state.

    This is so if arrays of their states differ in shape. `jobs`: the job of each trial.
    """
    first: dict[str, tuple[int, ...]] | None = None
    for each in jobs:
        trainer = TRAINERS[each.trainer].trainer(each, LocalPool())
        shapes = {name: array.shape for name, array in trainer.state().items()}
        trainer.close()
        first = first or shapes
        if shapes != first:
            raise UserError(
                f"search.method pbt in {source}: {' and '.join(job.search.drawn_keys)} make "
                "trainers of different shapes, which cannot copy each other: use random or asha"
            )


def trials_of(job: Job, source: str, stored: bool = False) -> list[tuple[TrialValues, Job]]:
    """Return for each trial of a sweep its values by job key, and the job with these values.

    Random values are drawn with the job's seed. Of a search by Optuna only the trials of the first
    batch are known. `source`: names the job file in errors. `stored`: the sweep was checked when it
    was stored, maybe by an earlier version with other defaults. Raises UserError for an empty
    search, or for values that make an invalid job.
    """
    if not job.search.spaces:
        raise UserError(f"{source} has no search: name keys, such as 'seed: {{grid: [0, 1]}}'")
    if job.search.by_optuna:
        first = _study(job, None).ask()
        drawn = [chosen for values in first for chosen in job.search.with_grid(values)]
    else:
        drawn = job.search.trial_values(lambda k: generator(job.seed, RngStream.SEARCH, k))
    return [(chosen, _job_of(job, source, stored, chosen)) for chosen in drawn]


def _study(job: Job, file: Path | None) -> BatchedStudy:
    """Open the Optuna study of a sweep. `file`: see BatchedStudy."""
    from overtrick.sweeps.optuna_search import BatchedStudy  # Optuna takes a second to import

    seed = int(generator(job.seed, RngStream.SEARCH).integers(2**31))
    return BatchedStudy(job.search, seed, file)


def _job_of(job: Job, source: str, stored: bool, chosen: TrialValues) -> Job:
    """Return a copy of a job with the values in `chosen` set at their dotted keys.

    Raises UserError if the resulting job is invalid. `source`: names the job file in errors.
    `stored`: see `trials_of`.
    """
    content = _as_written(job) | {"search": {}}
    for key, value in chosen.items():
        set_value(content, key, value, f"search of '{key}' in {source}")
    return job_file.parse(content, JOBS, f"{source} with {chosen}", stored)


def run(folder: RunFolder, progress: OnProgress) -> FinishedSweep:
    """Train the unfinished trials of a sweep, each as a child run, and store the results table.

    `progress`: called with the number of finished iterations of all trials. Raises UserError if the
    folder is not a sweep or another process works on it.
    """
    folder_kind.check_kind(folder, "sweep")
    job = lifecycle.read_job(folder)
    source = str(folder.job)
    began = time.perf_counter()
    name_of = functools.partial(_trial_name, job, source)
    if job.search.by_optuna:
        with open_group(folder, job, [], name_of) as group:
            rows = _train_by_optuna(job, source, group, progress)
            _save(job, rows, group)
    else:
        trials = trials_of(job, source, stored=True)
        with open_group(folder, job, [trial for _, trial in trials], name_of) as group:
            rows = _train(job, source, [chosen for chosen, _ in trials], group, progress)
            _save(job, rows, group)
    seconds = time.perf_counter() - began
    return FinishedSweep(folder, group.failed, seconds, group.undelivered, rows)


def _as_written(job: Job) -> dict[str, Any]:
    """Return the plain data of a job with the game's options beside its name, as in a job file."""
    return job.model_dump(mode="json") | {"game": {"name": job.game.name, **job.game.options}}


def _trial_name(job: Job, source: str, number: int, trial: Job) -> str | None:
    """Return the name of a trial in MLflow; None if the sweep does not name its trials.

    `job`: of the sweep. `source`: names its job file in errors. `number`: of the trial. `trial`:
    its job. Raises UserError for a name with an unknown key, and for one that is too long.
    """
    try:
        name = job.search.name_of(number, _as_written(trial))
    except ValueError as error:
        raise UserError(f"{source}: {error}") from None
    if name is not None and len(name) > LONGEST_NAME:
        raise UserError(
            f"{source}: search.trial_name makes a name of {len(name)} characters, and MLflow takes "
            f"{LONGEST_NAME}: leave out keys"
        )
    return name


def _train(
    job: Job, source: str, tried: Sequence[TrialValues], group: RunGroup, progress: OnProgress
) -> list[dict[str, Any]]:
    """Train the trials by the sweep's search method; return a row for each trial, the best first.

    `source`: names the job file in errors. `tried`: the initial values of each trial by job key;
    PBT changes these values during training.
    """
    search, jobs = job.search, [child.job for child in group.children]
    measure = TRAINERS[job.trainer].progress_score or (lambda metrics: None)
    if search.metrics:
        measure = scores.named(search.metrics[0])
    more: Sequence[dict[str, Any]] = [{} for _ in tried]
    if search.method == "pbt":
        job_of = functools.partial(_job_of, job, source, True)
        interval = _perturbation_interval(job)
        rounds = pbt.train(job, tried, job_of, measure, interval, group, progress)
        tried = [each["values"] for each in rounds[-1]]
        more = [{"schedule": pbt.trial_schedule(rounds, n, interval)} for n in range(len(tried))]
    elif search.method == "asha":
        file = group.folder.path / DECISIONS
        grace = _grace_period(job)
        asha = Asha(file, grace, search.reduction_factor, job.stop.iterations, measure)
        group.train(jobs, progress, save_results, asha)
        more = [
            {"iterations": child.tracker.reported, "stopped": child.number in asha.stopped_at()}
            for child in group.children
        ]
    else:
        group.train(jobs, progress, save_results)
    return _rows(job, tried, group, more)


def _train_by_optuna(
    job: Job, source: str, group: RunGroup, progress: OnProgress
) -> list[dict[str, Any]]:
    """Train the batches of a search by Optuna; return a row for each trial, the best first.

    `source`: names the job file in errors. A batch starts when all trials of the last one have
    ended. With several objectives, the rows of draws on the Pareto front come first.
    """
    search, study = job.search, _study(job, group.folder.path / STUDY)
    tried = [chosen for values in study.values for chosen in search.with_grid(values)]
    group.add([_job_of(job, source, True, chosen) for chosen in tried])
    for child in group.children:  # of batches that ended before this process began
        if child.checkpoints.iteration() >= child.job.stop.iterations:
            save_results(child)
        elif not child.folder.table.exists():
            group.errors[child.number] = RunError("it failed before the sweep was resumed")
    while batch := study.ask():
        first = len(tried)
        tried += [chosen for values in batch for chosen in search.with_grid(values)]
        group.add([_job_of(job, source, True, chosen) for chosen in tried[first:]])
        jobs = [child.job for child in group.children]
        group.train(jobs, progress, save_results, first=first)
        found = [_objectives(job, child) for child in group.children[first:]]
        each = len(found) // len(batch)
        study.tell([_mean(found[k : k + each]) for k in range(0, len(found), each)])
    each = len(tried) // max(1, len(study.values))
    front = set(study.pareto_front()) if search.objectives > 1 else set()
    columns = []
    for child in group.children:
        scored: Sequence[float | None] = _objectives(job, child) or [None] * search.objectives
        named = dict(zip(search.metrics, scored, strict=False))
        pareto = {"pareto": child.number // each in front} if search.objectives > 1 else {}
        columns.append(named | pareto)
    return _rows(job, tried, group, columns)


def _objectives(job: Job, child: ChildRun) -> Scores:
    """Return the scores of a finished trial; None if it failed or a score is not finite.

    They are the last values of the metrics that the search names, or else the trainer's score.
    Raises UserError if the trial has not measured such a metric.
    """
    if not child.folder.table.exists():
        return None
    history = child.folder.history()
    last = []
    for name in job.search.metrics:
        measured = [v for _, metrics in history if (v := scores.named(name)(metrics)) is not None]
        if not measured:
            known = sorted({metric for _, metrics in history for metric in metrics})
            raise UserError(
                f"search.metric '{name}' was not measured in {child.folder.name}: name one of "
                f"{', '.join(known) or 'the metrics of its trainer'}"
            )
        last.append(measured[-1])
    last = last or [_final_score(job.trainer, child.folder)]
    return last if all(map(math.isfinite, last)) else None


def _mean(found: Sequence[Scores]) -> Scores:
    """Return the mean of each score over the trials of a draw; None if one of them failed."""
    if any(each is None for each in found):
        return None
    return list(map(mean, zip(*(each for each in found if each is not None), strict=True)))


def _measured_every(job: Job) -> int:
    """Return the number of iterations between measurements of the trainer's score."""
    return job.evaluation.every if job.evaluation is not None else 1


def _grace_period(job: Job) -> int:
    """Return the iterations before ASHA's first rung; by default one evaluation interval."""
    return job.search.grace_period or _measured_every(job)


def _perturbation_interval(job: Job) -> int:
    """Return the iterations in a round of PBT; by default a tenth of all iterations."""
    tenth = max(_measured_every(job), job.stop.iterations // 10, 1)
    return job.search.perturbation_interval or tenth


def _rows(
    job: Job, tried: Sequence[TrialValues], group: RunGroup, more: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the results table of a sweep: one row for each trial, the best score first.

    A row has the trial's number, its name if the sweep names its trials, its values and its score:
    the last value of the first metric that the search names, or else the trainer's score. The score
    is None if the trial failed, was stopped, or ended with a score that is not finite. Trials that
    no other trial dominates, if marked, come first.
    `tried`: values of each trial by job key. `more`: additional columns of each trial.
    """
    rows = []
    for chosen, child, columns in zip(tried, group.children, more, strict=True):
        scored = _objectives(job, child)
        score = None if scored is None else scored[0]
        name = {"name": child.tracker.name} if job.search.trial_name else {}
        rows.append({"trial": child.number, **name, **chosen, **columns, "score": score})
    rows.sort(
        key=lambda r: (
            not r.get("pareto", True),
            r["score"] is None,
            -(r["score"] or 0.0),
            -r.get("iterations", 0),
        )
    )
    return rows


def _final_score(trainer: str, run: RunFolder) -> float:
    """Return the score of a finished trial from its results table.

    Raises UserError if the table lacks what the trainer's score is computed from.
    """
    rows = run.read_table()
    try:
        return TRAINERS[trainer].table_score(rows)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise UserError(
            f"{run.table} is not a results table of {trainer}: {run.table_remedy}"
        ) from None


def _save(job: Job, rows: list[dict[str, Any]], group: RunGroup) -> None:
    """Store the results table and the figures of a sweep, in its folder and in MLflow."""
    lifecycle.save_table(group.folder, rows, group.tracker)
    if scored := [row for row in rows if row["score"] is not None]:
        group.tracker.result({SCORE: scored[0]["score"]})  # of the best trial
        shown = [row for row in rows if row["score"] is not None or row.get("stopped")]
        drawn = {"parallel": figures.parallel_coordinates(shown, list(job.search.spaces))}
        if job.search.by_optuna or job.search.method == "random":
            from overtrick.sweeps.optuna_search import importances

            if shares := importances(rows, job.search):
                column = "share of the score's variance"
                bars = [{"key": key, column: share} for key, share in shares.items()]
                drawn["importance"] = bar_charts.grouped_shares(bars, "key", [column])
        if job.search.method != "pbt":  # PBT changes a trial's values during training
            drawn |= _curves(job, scored, group)
        lifecycle.save_figures(drawn, group.folder, group.tracker)


def _curves(job: Job, scored: list[dict[str, Any]], group: RunGroup) -> dict[str, Figure]:
    """Draw learning curves of a sweep, averaged over seeds; return figures by name.

    `scored`: the rows of the results table that have a score. Trials that differ only in their seed
    share a curve. The figures are:

    - bands: learning curves of the payoff, with one curve for each combination of searched values.
    - by_value: final payoff by searched value, if one key besides the seed is searched and its
      values are numbers.
    - figures of the trainer, if it has any.

    If the search does not vary the seed, only the trainer's figures are drawn.
    """
    others = [key for key in job.search.spaces if key != "seed"]
    unit = registry.payoff_unit(job.game.name, job.game.options)
    histories: dict[str, list[History]] = {}
    payoffs: dict[str, dict[float, list[float]]] = {}
    for row in sorted(scored, key=lambda row: row["trial"]):
        child = group.children[row["trial"]]
        label = ", ".join(f"{key.rpartition('.')[2]} {row[key]}" for key in others)
        histories.setdefault(label, []).append(child.folder.history())
        for result in child.folder.read_table():
            value = row[others[0]] if len(others) == 1 else None
            if "steps" in result and isinstance(value, (int, float)):
                by_value = payoffs.setdefault(opponent_label(result["stranger"]), {})
                by_value.setdefault(value, []).append(result["steps"][-1])
    drawn = TRAINERS[job.trainer].sweep_figures(job, histories)
    if "seed" not in job.search.spaces:
        return drawn
    if learning_curves.payoff_curves(histories, unit):
        drawn["bands"] = learning_curves.payoff_by_iteration(histories, unit)
    if payoffs:
        drawn["by_value"] = learning_curves.payoff_by_value(payoffs, others[0], unit)
    return drawn
