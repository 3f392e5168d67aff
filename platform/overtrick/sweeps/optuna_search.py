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
from statistics import mean
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
from overtrick.storage import bucket_copy

optuna.logging.set_verbosity(optuna.logging.ERROR)
STARTUP_DRAWS = 8
"""Draws with a score before TPE draws by them; the first ones are random."""
LEAST_POPULATION = 4  # of CMA-ES

Scores = list[float] | None
"""Scores of a draw, one for each objective; larger is better. None: its training failed."""


class Batch(ClosedRecord):
    """Schema of one batch in the file of a study: its values, and its scores once it has ended."""

    values: list[dict[str, JsonValue]]
    scores: list[list[float] | None] | None


BATCHES: TypeAdapter[Any] = TypeAdapter(list[Batch])


class BatchedStudy:
    """An Optuna study whose draws are asked for, and reported, in batches of fixed size.

    `search`: the section `search` of a job. `seed`: of the sampler; the same seed and scores give
    the same draws. `file`: keeps every batch before it is trained, and its scores afterwards; an
    interrupted study continues from it. None: keep nothing. Raises UserError if the file is
    damaged, or if Optuna now draws other values than those in the file.
    """

    def __init__(self, search: Search, seed: int, file: Path | None) -> None:
        self._search, self._file = search, file
        self._spaces = {key: search.spaces[key] for key in search.drawn_keys}
        self._distributions = {key: _distribution(space) for key, space in self._spaces.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._study = optuna.create_study(
                sampler=_sampler(search, seed), directions=["maximize"] * search.objectives
            )
        self._asked: list[optuna.Trial] = []
        self._batches: list[dict[str, Any]] = []
        self.ended = 0  # batches whose scores are known
        if file is not None and file.exists():
            self._batches = read_json(file, BATCHES, "restore it, or start the sweep again")
            self._check_shapes()
        while self.ended < len(self._batches) and self._batches[self.ended]["scores"] is not None:
            self.ask()
            self._report()

    @property
    def values(self) -> list[TrialValues]:
        """Return the values of each draw of the ended batches, by job key."""
        return [values for batch in self._batches[: self.ended] for values in batch["values"]]

    @property
    def scores(self) -> list[Scores]:
        """Return the scores of each draw of the ended batches."""
        return [scores for batch in self._batches[: self.ended] for scores in batch["scores"]]

    def ask(self) -> list[TrialValues]:
        """Draw the next batch: the values of each draw by job key; empty after the last batch."""
        known = self._batches[self.ended]["values"] if self.ended < len(self._batches) else None
        left = (self._search.trials or 0) - len(self.values)
        count = min(self._search.batch, left) if known is None else len(known)
        self._asked = [self._study.ask(self._distributions) for _ in range(count)]
        drawn = [self._values(trial) for trial in self._asked]
        if known is None:
            if drawn:
                self._batches.append({"values": drawn, "scores": None})
                self._write()
        elif not all(map(_equal, drawn, known)):
            raise UserError(
                f"{self._file}: Optuna {optuna.__version__} draws other values on this machine "
                "than those of the sweep so far: continue it where it began, or start it again"
            )
        return drawn if known is None else known

    def tell(self, scores: Sequence[Scores]) -> None:
        """Report the scores of each draw of the last batch, and write the file of the study."""
        self._batches[self.ended]["scores"] = list(scores)
        self._report()
        self._write()

    def _report(self) -> None:
        """Tell Optuna the scores of the batch that was asked for last, and count it as ended.

        A score of None is that of a failed trial.
        """
        for trial, found in zip(self._asked, self._batches[self.ended]["scores"], strict=True):
            if found is None:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                self._study.tell(trial, found)
        self.ended += 1

    def _write(self) -> None:
        if self._file is not None:
            write_text(self._file, json.dumps(self._batches, indent=1) + "\n")
            bucket_copy.push(self._file)

    def _check_shapes(self) -> None:
        """Raise UserError if a stored batch has not one list of scores a draw, for all objectives.

        Only the last batch may have none.
        """
        for number, batch in enumerate(self._batches):
            values, scores = batch["values"], batch["scores"]
            pending = scores is None and number == len(self._batches) - 1
            lengths = {len(each) for each in scores or () if each is not None}
            if (
                not values
                or not (pending or (scores and len(scores) == len(values)))
                or (lengths - {self._search.objectives})
            ):
                raise UserError(
                    f"{self._file} is damaged (batch {number}): restore it, or start the sweep "
                    "again"
                )

    def _values(self, trial: optuna.Trial) -> TrialValues:
        """Return a trial's values by job key; Optuna knows a `choice` by its position."""
        return {
            key: space.choice[trial.params[key]] if space.choice else trial.params[key]
            for key, space in self._spaces.items()
        }

    def pareto_front(self) -> list[int]:
        """Return the numbers of the draws that no other draw dominates.

        A draw dominates another if it is at least as good in all objectives and better in one.
        """
        return [trial.number for trial in self._study.best_trials]


def _equal(drawn: TrialValues, known: TrialValues) -> bool:
    """Return whether two draws are equal, apart from the rounding of another processor."""
    return drawn.keys() == known.keys() and all(
        math.isclose(value, known[key], rel_tol=1e-6)
        if isinstance(value, float) and isinstance(known[key], float)
        else value == known[key]
        for key, value in drawn.items()
    )


def importances(rows: Sequence[Mapping[str, Any]], search: Search) -> dict[str, float]:
    """Return the share of the score's variance that each drawn key explains, by fANOVA.

    `rows`: a sweep's results table. Rows of the same draw count with their mean score, rows without
    a score not at all. The result is empty if fewer than two keys vary, or if there are fewer than
    four draws or only equal scores.

    Source: Hutter, Hoos and Leyton-Brown 2014, "An efficient approach for assessing hyperparameter
    importance".
    """
    scores: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["trial"])):
        if row["score"] is not None:
            draw = json.dumps([row[key] for key in search.drawn_keys])
            scores.setdefault(draw, []).append(row["score"])
    draws = [(json.loads(draw), mean(found)) for draw, found in scores.items()]
    varied = [
        k for k in range(len(search.drawn_keys))
        if len({json.dumps(values[k]) for values, _ in draws}) > 1
    ]  # fmt: skip
    if len(varied) < 2 or len(draws) < 4 or len({score for _, score in draws}) == 1:
        return {}
    study = optuna.create_study(direction="maximize")
    keys = [search.drawn_keys[k] for k in varied]
    spaces = [search.spaces[key] for key in keys]
    for values, score in draws:
        chosen = zip(keys, spaces, (values[k] for k in varied), strict=True)
        params = {
            key: list(space.choice).index(value) if space.choice else value
            for key, space, value in chosen
        }
        distributions = {k: _distribution(s) for k, s in zip(keys, spaces, strict=True)}
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=distributions, value=score)
        )
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {key: float(share) for key, share in found.items()}


def _sampler(search: Search, seed: int) -> optuna.samplers.BaseSampler:
    if search.method == "tpe":
        # constant_liar would give the unfinished draws of a batch the worst score; measured, the
        # best of 40 draws is worse with it
        return optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP_DRAWS, constant_liar=False
        )
    size = search.batch if search.batch >= LEAST_POPULATION else None  # a batch is a generation
    return optuna.samplers.CmaEsSampler(seed=seed, popsize=size)


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
