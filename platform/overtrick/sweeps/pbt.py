"""Population based training (PBT): after each round the worst trials copy the best ones.

Jaderberg et al. 2017, "Population based training of neural networks". Differences:

| here | paper, and Ray Tune |
|---|---|
| all trials finish a round before the next, so results depend only on the seed | asynchronous |
| trials with different grid values form separate populations | one population |
| a trial that failed, or whose score is not finite, copies another | not specified |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, TypeAdapter

from overtrick.config.job_file import Job
from overtrick.config.search_space import TrialValues
from overtrick.core import RunError, UserError
from overtrick.core.files import write_text
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.distributed.workers import RngStream, generator
from overtrick.reports.progress import OnProgress
from overtrick.runs.child_runs import ChildRun, RunGroup, save_results
from overtrick.storage import bucket_copy
from overtrick.sweeps.asha import Measure, finite_or_worst

SCHEDULE = "schedule.json"  # by round and trial: its values, and the trial it was copied from
Round = list[dict[str, Any]]
"""One entry a trial: `values` by job key, and `copied`, the number of the copied trial or None."""


class TrialEntry(ClosedRecord):
    """Schema of one trial's entry in a round of population based training."""

    copied: Annotated[int, Field(ge=0)] | None
    values: dict[str, JsonValue]


ROUNDS: TypeAdapter[Any] = TypeAdapter(Annotated[list[list[TrialEntry]], Field(min_length=1)])


def train(
    job: Job,
    first: Sequence[TrialValues],
    job_of: Callable[[TrialValues], Job],
    measure: Measure,
    interval: int,
    group: RunGroup,
    progress: OnProgress,
) -> list[Round]:
    """Train the trials of a sweep by PBT and return its rounds.

    - `first`: the initial hyperparameters of each trial, by job key.
    - `job_of`: function from a trial's values to its job.
    - `measure`: function from an iteration's metrics to the score.
    - `interval`: the number of iterations in a round.
    - `group`: the child runs, one for each trial.

    The results of a finished trial are stored with its hyperparameters of the last round. Raises
    UserError if no score was measured in a round; RunError if every trial failed.
    """
    file = group.folder.path / SCHEDULE
    last = job.stop.iterations
    begins = range(0, last, interval)  # the iterations before each round
    rounds: list[Round] = [[{"copied": None, "values": dict(chosen)} for chosen in first]]
    if file.exists():
        rounds = read_rounds(file, first, len(begins))
    for number, begin in enumerate(begins):
        if number == len(rounds):
            rounds.append(_next(job, rounds, _scores(group, measure, begin - interval, begin)))
            write_text(file, json.dumps(rounds, indent=1) + "\n")
            bucket_copy.push(file)
            for child in group.children:
                child.checkpoints.delete_older()
        if number + 1 < len(rounds):
            continue  # this round is over
        jobs = [job_of(each["values"]) for each in rounds[number]]

        def save_with_job(child: ChildRun, jobs: Sequence[Job] = jobs) -> None:
            save_results(replace(child, job=jobs[child.number]))

        starts = {
            trial: group.folder.checkpoints(each["copied"]).newest(begin)
            for trial, each in enumerate(rounds[number])
            if each["copied"] is not None
        }
        until = min(begin + interval, last)
        group.train(jobs, progress, save_with_job, until=until, starts=starts)
    return rounds


def read_rounds(file: Path, first: Sequence[TrialValues], most: int) -> list[Round]:
    """Read the rounds of an interrupted sweep.

    `first`: the initial hyperparameters of each trial, by job key. `most`: the number of rounds of
    the whole sweep. Raises UserError if the file is damaged.
    """
    remedy = "restore it, or start the sweep again"
    rounds = read_json(file, ROUNDS, remedy)
    if len(rounds) > most:
        raise UserError(f"{file} is damaged ({len(rounds)} rounds instead of {most}): {remedy}")
    kinds = [_numeric(chosen) for chosen in first]
    for each in rounds:
        copied = [entry["copied"] or 0 for entry in each]
        if [_numeric(entry["values"]) for entry in each] != kinds or max(copied) >= len(first):
            raise UserError(f"{file} is damaged (its rounds have other trials): {remedy}")
    return rounds


def _numeric(values: TrialValues) -> dict[str, bool]:
    """Return, by job key, whether a hyperparameter is a number or a boolean."""
    return {key: isinstance(value, int | float) for key, value in values.items()}


def trial_schedule(rounds: Sequence[Round], trial: int, interval: int) -> list[dict[str, Any]]:
    """Return the hyperparameters that a trial used over time, one entry for each change.

    `rounds`: as returned by `train`. `interval`: the number of iterations in a round. An entry has
    the values by job key, the iteration from which they were used (`from`), and the number of the
    trial that was copied (`copied`; None at the start).
    """
    return [
        {"from": number * interval, "copied": each[trial]["copied"], **each[trial]["values"]}
        for number, each in enumerate(rounds)
        if not number or each[trial]["copied"] is not None
    ]


def _scores(group: RunGroup, measure: Measure, begin: int, end: int) -> list[float]:
    """Return each trial's last score after iteration `begin` and up to iteration `end`.

    `measure`: function from an iteration's metrics to the score, or to None if it has none. The
    score is -inf for a trial that failed, or whose score is not finite. Raises UserError if a trial
    that did not fail has no score, and RunError if every trial failed.
    """
    scores = []
    for child, failed in zip(group.children, group.errors, strict=True):
        measured = [measure(metrics) for i, metrics in child.folder.history() if begin < i <= end]
        found = [finite_or_worst(score) for score in measured if score is not None]
        if not found and not failed:
            raise UserError(
                f"nothing was measured by iteration {end}: name another search.metric, or raise "
                "search.perturbation_interval"
            )
        scores.append(found[-1] if found and not failed else -math.inf)
    if all(group.errors):
        raise RunError(f"every trial failed: {'; '.join(group.failed)}")
    return scores


def _next(job: Job, rounds: Sequence[Round], scores: Sequence[float]) -> Round:
    """Plan the next round: each of the worst trials copies a random one of the best trials.

    The copying trial then perturbs the copied hyperparameters, except those searched on a grid.
    `scores`: the score of each trial in the last of the `rounds`.
    """
    search, last = job.search, rounds[-1]
    populations: dict[str, list[int]] = {}
    for trial, each in enumerate(last):
        fixed = {key: v for key, v in each["values"].items() if key not in search.drawn_keys}
        populations.setdefault(json.dumps(fixed), []).append(trial)
    planned: Round = [{"copied": None, "values": each["values"]} for each in last]
    for members in populations.values():
        ranked = sorted(members, key=lambda n: (-scores[n], n))
        quantile = max(1, int(search.quantile_fraction * len(members)))
        failed = sum(scores[n] == -math.inf for n in members)
        best = ranked[: min(quantile, len(members) - failed)]
        for trial in ranked[-max(quantile, failed) :]:
            if not best or trial in best:
                continue
            rng = generator(job.seed, RngStream.SEARCH, trial, len(rounds))
            donor = best[rng.integers(len(best))]
            values = search.perturb(last[donor]["values"], rng)
            planned[trial] = {"copied": donor, "values": values}
    return planned
