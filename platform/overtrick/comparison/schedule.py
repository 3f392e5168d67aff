"""Plan of a comparison: the jobs to train, and the evaluations against each opponent."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.comparison.comparison_job import EXACT, ComparisonJob, ModelOf
from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import set_value
from overtrick.core import UserError
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.runs import videos
from overtrick.storage.bucket_copy import path_or_url
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import server_address
from overtrick.training.registry import JOBS, TRAINERS

MINIMAL_EVALUATION = {"opponents": ("random",), "repeats": 2, "eval_deals": 2, "every": 10**9}
"""Evaluation settings in training without learning curves: evaluate only the last iteration."""


@dataclass(frozen=True)
class Entry:
    """A method with one seed, and the opponents of its evaluation.

    An oracle that is trained (approximate best response) has a separate entry for each opponent.
    """

    method: str
    seed: int
    columns: tuple[int, ...]  # indices of its opponents
    policy: str | None = None  # a policy that is not trained, or EXACT
    job: Job | None = None  # otherwise the job that trains and evaluates it
    trial: int = -1  # its number among the trained entries


@dataclass(frozen=True)
class ComparisonSchedule:
    """Plan of a comparison: the opponents, and every method with every seed as an `Entry`.

    Entries that need training are called trials.
    """

    opponents: list[str]  # by column: a name, or the folder of a model
    entries: list[Entry]
    early: int  # number of trials that are trained first; the others need their models

    @property
    def trials(self) -> list[Entry]:
        """The (method, seed) entries that need training, sorted by trial number."""
        trained = [entry for entry in self.entries if entry.job is not None]
        return sorted(trained, key=lambda entry: entry.trial)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all trials, sorted by trial number.

        A trial trains and evaluates one method with one seed. The jobs contain the settings of the
        final evaluation; `in_training` replaces these settings.
        """
        return [entry.job for entry in self.trials if entry.job is not None]

    @property
    def cells(self) -> list[tuple[Entry, int]]:
        """The evaluations of the comparison, as tuples (entry, column).

        An entry is a method with one seed. A column is the index of an opponent.
        """
        return [(entry, column) for entry in self.entries for column in entry.columns]


def plan_comparison(table: ComparisonJob, folder: RunFolder) -> ComparisonSchedule:
    """Plan the trainings and evaluations of a comparison.

    `folder`: the folder of the comparison, in which training will store the models that serve as
    opponents. Raises UserError.
    """
    trials = [(n, s) for n, m in table.methods.items() if m.job is not None for s in table.seeds]
    opponents, columns = [], range(len(table.opponents))
    for who in table.opponents.values():
        if isinstance(who, ModelOf):
            number = trials.index((who.method, table.seeds[0]))
            opponents.append(path_or_url(folder.child(number).model))
        else:
            opponents.append(who)
    entries = []
    for name, method in table.methods.items():
        for seed in table.seeds:
            if method.job is not None:
                job = _job(table, name, seed, opponents)
                number = trials.index((name, seed))
                entries.append(Entry(name, seed, tuple(columns), job=job, trial=number))
            elif method.training_job is None:
                policy = method.policy or EXACT
                entries.append(Entry(name, seed, tuple(columns), policy=policy))
    number = early = len(trials)
    for k in sorted(columns, key=lambda k: k in _trained_columns(table)):  # trained opponents last
        for name, method in table.methods.items():
            if method.job is None and method.training_job is not None:
                for seed in table.seeds:
                    job = _job(table, name, seed, opponents, opponents[k])
                    entries.append(Entry(name, seed, (k,), job=job, trial=number))
                    number += 1
        early = early if k in _trained_columns(table) else number
    return ComparisonSchedule(opponents, entries, early)


def _trained_columns(table: ComparisonJob) -> list[int]:
    """Return the columns (indices) of the opponents that the comparison itself trains."""
    return [k for k, who in enumerate(table.opponents.values()) if isinstance(who, ModelOf)]


def _job(
    table: ComparisonJob, name: str, seed: int, opponents: list[str], opponent: str | None = None
) -> Job:
    """Return the job that trains and evaluates a method with one seed.

    The job has the evaluation budget of the comparison.

    - `name`: the method.
    - `opponents`: the opponent of each column.
    - `opponent`: for an oracle that is trained (approximate best response), its opponent.
    """
    method = table.methods[name]
    assert isinstance(method.training_job, dict)
    content = {**copy.deepcopy(method.training_job), "seed": seed, "workers": 0}
    for key in ("checkpoints", "track"):
        content[key] = getattr(table, key).model_dump()
    if opponent is not None:
        set_value(content, method.key, opponent, name)
    if "evaluate" in content:
        section = JOBS[content["trainer"]].model_fields["evaluate"].annotation
        budget = _used_values(section, table.evaluate.model_dump(exclude={"every"}))
        content["evaluate"] = {**content["evaluate"], **budget, "opponents": opponents}
    # a complete job, as `comparison_job.load` has validated it, or as an earlier version stored it
    return job_file.parse_stored(content, JOBS, f"methods.{name}")


def _used_values(section: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evaluation settings in `values` that have an effect for a trainer.

    `section`: the class of the trainer's section `evaluate`. For example, the number of adaptation
    steps has no effect for a model that never adapts.
    """
    return {key: value for key, value in values.items() if key not in section.never_used_keys()}


def in_training(table: ComparisonJob, job: Job) -> Job:
    """Replace the final evaluation in a method's job by evaluations during training.

    If the comparison sets `evaluate.every`, the method is evaluated at this interval, for learning
    curves. The opponents are those that exist before training; models that the comparison trains
    are left out. If no opponent remains or `evaluate.every` is not set, the method is evaluated
    only after the last iteration, by a few games against the opponent `random`. A job whose
    evaluation has no held-out opponents is returned unchanged.
    """
    if not isinstance(job.evaluation, HeldOutEvaluation):
        return job
    existing = tuple(who for who in table.opponents.values() if isinstance(who, str))
    changes = _used_values(type(job.evaluation), MINIMAL_EVALUATION)
    if table.evaluate.every is not None and existing:
        changes = {"opponents": existing, "every": table.evaluate.every}
    return job.model_copy(update={"evaluate": job.evaluation.model_copy(update=changes)})


def training_jobs(table: ComparisonJob) -> list[Job]:
    """Return the jobs that a comparison trains, with the evaluation settings used in training.

    Raises UserError.
    """
    plan = plan_comparison(table, RunFolder(Path("table")))
    return [in_training(table, job) for job in plan.jobs]


def check(table: ComparisonJob) -> int:
    """Validate a comparison; return its number of training iterations plus evaluations.

    Raises UserError for a comparison that would otherwise fail later.
    """
    game, tree = two_seat_game(table.game)
    named = {f"opponents.{k}": who for k, who in table.opponents.items() if isinstance(who, str)}
    named |= {f"methods.{k}.policy": m.policy for k, m in table.methods.items() if m.policy}
    for key, who in named.items():
        try:
            reference_opponents.check_opponent(who, game, tree)
        except UserError as error:
            raise UserError(f"{key}: {error}") from None
    for name, method in table.methods.items():
        if method.oracle == EXACT and tree is None:
            raise UserError(
                f"methods.{name}: exact needs a tree, and {game.name} is too large for one: name a "
                "job file that learns a best response"
            )
    plan = plan_comparison(table, RunFolder(Path("table")))
    for entry in plan.trials[: plan.early]:
        if entry.seed == table.seeds[0] and entry.job is not None:
            try:
                TRAINERS[entry.job.trainer].validate(in_training(table, entry.job))
                videos.check_videos(entry.job)
            except UserError as error:
                raise UserError(f"methods.{entry.method}: {error}") from None
    server_address.check(table.track.uri, experiment=table.track.experiment)
    return sum(job.stop.iterations for job in plan.jobs) + len(plan.cells)
