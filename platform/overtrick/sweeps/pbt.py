"""Population based training: in rounds, and after each the worst trials go on as others do.

Jaderberg et al. 2017, "Population based training of neural networks". All trials of a population
end a round before any begins the next, so the same job and seed copy the same, whoever was
faster and however often the sweep was killed. Trials that differ in a grid are populations apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from overtrick.config.job_file import Job
from overtrick.config.search_space import Chosen
from overtrick.core import RunError, UserError
from overtrick.core.files import write_text
from overtrick.distributed.workers import RngStream as Key
from overtrick.distributed.workers import generator
from overtrick.runs import tune_trial
from overtrick.runs.group import ChildRun, RunGroup
from overtrick.sweeps.asha import Measure, sound

SCHEDULE = "schedule.json"  # by round and trial: its values, and whom it was copied from
Round = list[dict[str, Any]]


def train(
    job: Job,
    first: Sequence[Chosen],
    job_of: Callable[[Chosen], Job],
    measure: Measure,
    every: int,
    whole: RunGroup,
    progress: Callable[[int], None],
    keep: Callable[[ChildRun], None],
) -> list[Round]:
    """Train the parts of a sweep from their first values on; every round, with what was tried.

    keep is called for each part at the end, with the job by which it ended. Raises UserError if a
    round ends in which nothing was measured.
    """
    file = whole.folder / SCHEDULE
    rounds: list[Round] = [[{"copied": None, "values": dict(chosen)} for chosen in first]]
    if file.exists():
        rounds = json.loads(file.read_text())
    last = job.stop.iterations
    for place, begin in enumerate(range(0, last, every)):
        if place == len(rounds):
            rounds.append(_next(job, rounds, _scores(whole, measure, begin - every, begin)))
            write_text(file, json.dumps(rounds, indent=1) + "\n")
            for part in whole.parts:
                tune_trial.forget(whole.folder, part.number)
        if place + 1 < len(rounds):
            continue  # it is over
        jobs = [job_of(each["values"]) for each in rounds[place]]
        donors = [each["copied"] for each in rounds[place]]

        def keep_as(part: ChildRun, jobs: Sequence[Job] = jobs) -> None:
            keep(replace(part, job=jobs[part.number]))

        starts = {
            number: tune_trial.newest_checkpoint(whole.folder, donor, begin)
            for number, donor in enumerate(donors)
            if donor is not None
        }
        whole.train(jobs, progress, keep_as, until=min(begin + every, last), starts=starts)
    return rounds


def of_trial(rounds: Sequence[Round], number: int, every: int) -> list[dict[str, Any]]:
    """What a trial tried from which iteration on, and whom it had copied then."""
    return [
        {"from": place * every, "copied": told[number]["copied"], **told[number]["values"]}
        for place, told in enumerate(rounds)
        if not place or told[number]["copied"] is not None
    ]


def _scores(whole: RunGroup, measure: Measure, begin: int, end: int) -> list[float]:
    """What each part did last in a round; -inf if it failed, or if that is no number.

    Raises UserError if nothing was told.
    """
    scores = []
    for part, failed in zip(whole.parts, whole.ended, strict=True):
        told = [measure(metrics) for i, metrics in part.tracker.history() if begin < i <= end]
        found = [sound(score) for score in told if score is not None]
        if not found and not failed:
            raise UserError(
                f"nothing was measured by iteration {end}: name another search.metric, or raise "
                "search.perturbation_interval"
            )
        scores.append(found[-1] if found and not failed else -math.inf)
    if all(whole.ended):
        raise RunError(f"every trial failed: {'; '.join(whole.failed)}")
    return scores


def _next(job: Job, rounds: Sequence[Round], scores: Sequence[float]) -> Round:
    """The round that follows: who was worst copies one of the best, and moves its values."""
    search, last = job.search, rounds[-1]
    populations: dict[str, list[int]] = {}
    for number, each in enumerate(last):
        fixed = {key: v for key, v in each["values"].items() if key not in search.drawn}
        populations.setdefault(json.dumps(fixed), []).append(number)
    made: Round = [{"copied": None, "values": each["values"]} for each in last]
    for members in populations.values():
        ranked = sorted(members, key=lambda n: (-scores[n], n))
        few = max(1, int(search.quantile_fraction * len(members)))
        lost = sum(scores[n] == -math.inf for n in members)
        best = ranked[: min(few, len(members) - lost)]
        for number in ranked[-max(few, lost) :]:
            if not best or number in best:
                continue
            rng = generator(job.seed, Key.SEARCH, number, len(rounds))
            donor = best[rng.integers(len(best))]
            values = search.perturbed(last[donor]["values"], rng)
            made[number] = {"copied": donor, "values": values}
    return made
