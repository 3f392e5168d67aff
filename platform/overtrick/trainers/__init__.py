"""Who plays whom, who learns, when to measure. A page each; this is their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overtrick.config import Job
from overtrick.core import Trainer
from overtrick.trainers import coevolve, exploit, meta, solve
from overtrick.trainers.evaluate import Row
from overtrick.workers import Crew


@dataclass(frozen=True)
class Page:
    """A trainer as the rest of the house sees it."""

    job: type[Job]
    trainer: Callable[[Any, Crew], Trainer]
    check: Callable[..., None]  # (job): raises Refused for what would only fail later
    judge: Callable[..., list[Row]]  # (job, weights, crew, rng) -> the table of a stored model


TRAINERS = {
    "coevolve": Page(
        coevolve.CoevolveJob, coevolve.CoevolveTrainer, coevolve.check, coevolve.judge
    ),
    "exploit": Page(exploit.ExploitJob, exploit.ExploitTrainer, exploit.check, exploit.judge),
    "meta": Page(meta.MetaJob, meta.MetaTrainer, meta.check, meta.judge),
    "solve": Page(solve.SolveJob, solve.SolveTrainer, solve.check, solve.judge),
}
JOBS: dict[str, type[Job]] = {name: page.job for name, page in TRAINERS.items()}
