"""Base class of the trainers of a declarer.

It evaluates the declarer and draws learning curves as in Hadjur 2018, Figs 5.1 and 5.2.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy
from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.core import Array, BehaviouralPolicy
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import RecognisesStates
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.reports import learning_curves
from overtrick.reports.learning_curves import CONFIDENCE, Curves
from overtrick.reports.metric_names import GAMES, MADE, RECOGNISED
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JobT = TypeVar("JobT", bound=Job)
Players = tuple[BehaviouralPolicy, BehaviouralPolicy | None, RecognisesStates | None]
"""Players of a stored model.

- The declarer.
- The defenders' policy; None if the trainer never trains defenders.
- A function that returns a mask of the observations whose states are in the declarer's Q-table;
  None if the declarer has no Q-table.
"""


class DeclarerTrainer(BaseTrainer[JobT]):
    """Base of trainers whose model is a declarer, evaluated on deals that training never uses.

    The section `evaluate` of the job is a `CardplayEvaluation`.
    """

    @staticmethod
    @abstractmethod
    def players(job: Any, weights: Mapping[str, Array]) -> Players:
        """Restore the players of a stored model.

        Returns a tuple with these entries:

        - the declarer;
        - the defenders' policy, or None if the trainer never trains defenders;
        - a function that returns a mask of the observations whose states are in the declarer's
          Q-table, or None if the declarer has no Q-table.
        """

    @classmethod
    def _table(cls, job: Any, weights: Mapping[str, Array], pool: WorkerPool, deals: int) -> Rows:
        declarer, learned, known = cls.players(job, weights)
        defence: dict[str, Any] = {
            name: learned if name == "learned" else cached_opponent(job.game, name)
            for name in job.evaluate.defenders
        }
        return cardplay.evaluate_declarer(
            job.game, declarer, defence, known, job.evaluate, deals, job.seed, pool
        )

    def evaluate(self) -> Metrics:
        """Return the share of contracts made against each of the job's defenders."""
        job: Any = self.job
        return cardplay.flat_metrics(self._table(job, self.model(), self.pool, job.evaluate.deals))

    @classmethod
    def evaluate_model(
        cls, job: Any, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the share of contracts that a stored declarer makes on unseen deals.

        Returns a row for each of the job's defenders.
        """
        return cls._table(job, weights, pool, job.evaluate.final_deals)

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the share of contracts made by number of training games.

        If the declarer has a Q-table, also draw the share of decisions whose states are in it.
        """
        job: Any = self.job
        return {"learning_curve": cardplay_curves({"": [history]}, job.evaluate.deals)}

    @staticmethod
    def sweep_figures(job: Any, groups: Mapping[str, Sequence[History]]) -> dict[str, Figure]:
        """Draw the learning curves of a sweep, one line for each group of runs.

        `groups`: maps the label of each group of runs to the histories of its runs. The runs of a
        group differ only by seed.
        """
        return {"recognition": cardplay_curves(groups, job.evaluate.deals)}


def cardplay_curves(groups: Mapping[str, Sequence[History]], deals: int) -> Figure:
    """Draw learning curves of a declarer over the number of training games.

    One chart for each policy of the defenders shows the share of contracts made. If the declarer
    has a Q-table, another chart shows the share of decisions whose states are in the table.

    `groups`: maps the label of each group of runs to the histories of its runs. The runs of a group
    differ only by seed, and their mean is one line. `deals`: number of deals of an evaluation, from
    which the confidence band of a single run is computed.
    """
    every = [entry for histories in groups.values() for each in histories for entry in each]
    names = sorted({n for _, m in every for n in m if n.startswith(MADE) or n == RECOGNISED})
    drawn: Curves = {name: {} for name in names or ["made"]}  # a damaged record may lack all
    for name, (label, histories) in itertools.product(names, groups.items()):
        seeds = [
            {m[GAMES]: m[name] for _, m in each if {name, GAMES} <= m.keys()} for each in histories
        ]
        curve = learning_curves.seed_curve(seeds)
        if curve is None:
            continue
        games, mean, half = curve
        if len(seeds) == 1:
            half = scipy.special.ndtri((1 + CONFIDENCE) / 2) * np.sqrt(mean * (1 - mean) / deals)
        drawn[name][label] = games, mean, half
    return learning_curves.draw_curves(drawn, "games played", "share", marker="o")
