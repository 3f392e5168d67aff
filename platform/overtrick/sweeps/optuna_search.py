"""Search by Optuna, in batches: TPE (Bergstra et al. 2011) or CMA-ES (Hansen and Ostermeier 2001).

| here | usual Optuna |
|---|---|
| a batch is drawn at once, and reported in order when all trials have ended | each trial alone |
| a draw is trained with every combination of grid values; the mean score counts | one training |
| the study is a JSON file; resuming repeats its draws | a database with pickled attributes |
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState
from pydantic import JsonValue, TypeAdapter

from overtrick.config.search_space import ParameterSpace, Search, TrialValues
from overtrick.core import UserError
from overtrick.core.files import write_text
from overtrick.core.json_files import ClosedRecord, read_json

Scores = list[float] | None
"""Scores of a draw, one for each objective; larger is better. None: its training failed."""


class Draw(ClosedRecord):
    """Schema of one draw in the file of a study."""

    values: dict[str, JsonValue]
    scores: list[float] | None


DRAWS: TypeAdapter[Any] = TypeAdapter(list[Draw])


class BatchedStudy:
    """An Optuna study whose draws are asked for, and reported, in batches of fixed size.

    `search`: the section `search` of a job. `seed`: of the sampler; the same seed and scores give
    the same draws. `file`: keeps draws and scores; an interrupted study continues from it. Raises
    UserError if the file is damaged, or if this version of Optuna draws other values than those in
    the file.
    """

    def __init__(self, search: Search, seed: int, file: Path) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._search, self._file = search, file
        self._spaces = {key: search.spaces[key] for key in search.drawn_keys}
        self._distributions = {key: _distribution(space) for key, space in self._spaces.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._study = optuna.create_study(
                sampler=_sampler(search.method, seed), directions=["maximize"] * search.objectives
            )
        self._asked: list[optuna.Trial] = []
        self.draws: list[dict[str, Any]] = []  # with the keys of Draw, once their scores are known
        stored = read_json(file, DRAWS, "start the sweep again") if file.exists() else []
        while len(self.draws) < len(stored):
            batch = stored[len(self.draws) : len(self.draws) + search.batch]
            if self.ask() != [each["values"] for each in batch]:
                raise UserError(
                    f"{file}: Optuna {optuna.__version__} draws other values than the version that "
                    "began this sweep: install that one, or start the sweep again"
                )
            self._tell([each["scores"] for each in batch])

    def ask(self) -> list[TrialValues]:
        """Draw the next batch: the values of each draw by job key; empty after the last batch."""
        left = (self._search.trials or 0) - len(self.draws)
        count = min(self._search.batch, left)
        self._asked = [self._study.ask(self._distributions) for _ in range(count)]
        return [self._values(trial) for trial in self._asked]

    def tell(self, scores: Sequence[Scores]) -> None:
        """Report the scores of each draw of the last batch, and write the file of the study."""
        self._tell(scores)
        write_text(self._file, json.dumps(self.draws, indent=1) + "\n")

    def _tell(self, scores: Sequence[Scores]) -> None:
        for trial, found in zip(self._asked, scores, strict=True):
            if found is None:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                self._study.tell(trial, found)
            self.draws.append({"values": self._values(trial), "scores": found})

    def _values(self, trial: optuna.Trial) -> TrialValues:
        """Return a trial's values by job key; Optuna knows a `choice` by its position."""
        return {
            key: space.choice[trial.params[key]] if space.choice else trial.params[key]
            for key, space in self._spaces.items()
        }

    def pareto_front(self) -> list[int]:
        """Return the numbers of the draws to which no other is better in every objective."""
        return [trial.number for trial in self._study.best_trials]


def importances(rows: Sequence[Mapping[str, Any]], search: Search) -> dict[str, float]:
    """Return the share of the score's variance that each searched key explains, by fANOVA.

    `rows`: a sweep's results table. Only drawn keys, and rows with a score, count. The result is
    empty if there are fewer than two such keys, fewer than four such rows, or equal scores.

    Source: Hutter, Hoos and Leyton-Brown 2014, "An efficient approach for assessing hyperparameter
    importance".
    """
    scored = [row for row in rows if row["score"] is not None]
    keys = search.drawn_keys
    if len(keys) < 2 or len(scored) < 4 or len({row["score"] for row in scored}) == 1:
        return {}
    study = optuna.create_study(direction="maximize")
    spaces = {key: search.spaces[key] for key in keys}
    for row in sorted(scored, key=lambda row: int(row["trial"])):
        study.add_trial(
            optuna.trial.create_trial(
                params={
                    key: space.choice.index(row[key]) if space.choice else row[key]
                    for key, space in spaces.items()
                },
                distributions={key: _distribution(space) for key, space in spaces.items()},
                value=row["score"],
            )
        )
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {key: float(share) for key, share in found.items() if math.isfinite(share)}


def _sampler(method: str, seed: int) -> optuna.samplers.BaseSampler:
    if method == "tpe":
        # a liar would give the unfinished draws of a batch bad scores: 40 trials end worse so
        return optuna.samplers.TPESampler(seed=seed, constant_liar=False)
    return optuna.samplers.CmaEsSampler(seed=seed)


def _distribution(space: ParameterSpace) -> BaseDistribution:
    """Convert a parameter space to Optuna's distribution; a `choice` becomes its positions."""
    if space.choice is not None:
        return CategoricalDistribution(range(len(space.choice)))
    if space.randint is not None:
        return IntDistribution(*space.randint)
    if space.loguniform is not None:
        return FloatDistribution(*space.loguniform, log=True)
    assert space.uniform is not None
    return FloatDistribution(*space.uniform)
