"""Who plays whom in a table, and who is to be trained for it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.comparison.table_job import EXACT, Method, ModelOf, Table
from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import set_value
from overtrick.core import UserError
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.runs import videos
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import server_address
from overtrick.training.registry import JOBS, TRAINERS

UNWATCHED = {"opponents": ("random",), "repeats": 2, "eval_deals": 2, "every": 10**9}
"""The evaluation of a training that nobody looks at: its last iteration has one all the same."""


@dataclass(frozen=True)
class Entry:
    """A player: a method with one seed; an oracle that learns is another for each stranger."""

    method: str
    seed: int
    columns: tuple[int, ...]  # the strangers that it is judged against
    policy: str | None = None  # it plays unchanged, or it is the exact oracle
    job: Job | None = None  # else it is trained, and judged, by this
    trial: int = -1  # its number among those that are trained


@dataclass(frozen=True)
class ComparisonSchedule:
    """Everyone who plays, and against whom."""

    strangers: list[str]  # by column: a name, or the folder of a model
    entries: list[Entry]
    early: int  # so many trials come first: the others meet their models

    @property
    def trials(self) -> list[Entry]:
        """The entries that are trained, in the order of their numbers."""
        trained = [entry for entry in self.entries if entry.job is not None]
        return sorted(trained, key=lambda entry: entry.trial)

    @property
    def jobs(self) -> list[Job]:
        """By which they are judged."""
        return [entry.job for entry in self.trials if entry.job is not None]

    @property
    def cells(self) -> list[tuple[Entry, int]]:
        """Every entry with each stranger, by column, that it is judged against."""
        return [(entry, column) for entry in self.entries for column in entry.columns]


def planned(table: Table, folder: RunFolder) -> ComparisonSchedule:
    """The plan of a table that is worked on in a folder. Raises UserError."""
    trials = [(n, s) for n, m in table.methods.items() if m.job is not None for s in table.seeds]
    met, columns = [], range(len(table.opponents))
    for who in table.opponents.values():
        if isinstance(who, ModelOf):
            number = trials.index((who.method, table.seeds[0]))
            met.append(str(folder.child(number).model))
        else:
            met.append(who)
    entries = []
    for name, method in table.methods.items():
        for seed in table.seeds:
            if method.job is not None:
                job = _job(table, method, name, seed, met)
                number = trials.index((name, seed))
                entries.append(Entry(name, seed, tuple(columns), job=job, trial=number))
            elif method.learnt is None:
                policy = method.policy or EXACT
                entries.append(Entry(name, seed, tuple(columns), policy=policy))
    number = early = len(trials)
    for k in sorted(columns, key=lambda k: k in _trained_for_it(table)):  # these models come last
        for name, method in table.methods.items():
            if method.job is None and method.learnt is not None:
                for seed in table.seeds:
                    job = _job(table, method, name, seed, met, met[k])
                    entries.append(Entry(name, seed, (k,), job=job, trial=number))
                    number += 1
        early = early if k in _trained_for_it(table) else number
    return ComparisonSchedule(met, entries, early)


def _trained_for_it(table: Table) -> list[int]:
    """The columns whose strangers are methods of the table."""
    return [k for k, who in enumerate(table.opponents.values()) if isinstance(who, ModelOf)]


def _job(
    table: Table, method: Method, name: str, seed: int, met: list[str], opponent: str | None = None
) -> Job:
    """By what a method is trained with a seed and then judged: its own job, the table's budget."""
    assert isinstance(method.learnt, dict)
    content = {**copy.deepcopy(method.learnt), "seed": seed, "workers": 0}
    for key in ("checkpoints", "track"):
        content[key] = getattr(table, key).model_dump()
    if opponent is not None:
        set_value(content, method.key, opponent, name)
    if "evaluate" in content:
        section = JOBS[content["trainer"]].model_fields["evaluate"].annotation
        budget = _used_values(section, table.evaluate.model_dump(exclude={"every"}))
        content["evaluate"] = {**content["evaluate"], **budget, "opponents": met}
    return job_file.parse(content, JOBS, f"methods.{name}")


def _used_values(section: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without the keys that have no effect in a job's evaluation section.

    section: the class of the section. A model that never adapts has no number of steps.
    """
    return {key: value for key, value in values.items() if key not in section.never_used_keys()}


def in_training(table: Table, job: Job) -> Job:
    """Return the job with the held-out opponents that exist before any model is trained.

    Without a learning curve (`evaluate.every` of the table) training evaluates as little as it can.
    """
    if not isinstance(job.evaluation, HeldOutEvaluation):
        return job
    existing = tuple(who for who in table.opponents.values() if isinstance(who, str))
    changes = _used_values(type(job.evaluation), UNWATCHED)
    if table.evaluate.every is not None and existing:
        changes = {"opponents": existing, "every": table.evaluate.every}
    return job.model_copy(update={"evaluate": job.evaluation.model_copy(update=changes)})


def check(table: Table) -> int:
    """How much there is to do: iterations of training and cells to judge.

    Raises UserError for what would only fail later.
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
    plan = planned(table, RunFolder(Path("table")))
    for entry in plan.trials[: plan.early]:
        if entry.seed == table.seeds[0] and entry.job is not None:
            try:
                TRAINERS[entry.job.trainer].validate(in_training(table, entry.job))
                videos.check_videos(entry.job)
            except UserError as error:
                raise UserError(f"methods.{entry.method}: {error}") from None
    server_address.check(table.track.uri, experiment=table.track.experiment)
    return sum(job.stop.iterations for job in plan.jobs) + len(plan.cells)
