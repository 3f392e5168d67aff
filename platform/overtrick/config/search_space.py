"""Search spaces of sweeps: the section `search` of a job, and random values drawn from it."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pydantic
from numpy.random import Generator
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler

from overtrick.core import suggestion
from overtrick.storage.old_names import new_key

Range = tuple[float, float]
TrialValues = dict[str, Any]
"""Values of a trial by dotted key of the job."""
FORM = ConfigDict(defer_build=True, frozen=True, extra="forbid", allow_inf_nan=False)
METHODS_OF = {
    "trials": ("random", "asha", "pbt", "tpe", "cmaes"),
    "metric": ("asha", "pbt", "tpe", "cmaes"),
    "batch": ("tpe", "cmaes"),
    "grace_period": ("asha",),
    "reduction_factor": ("asha",),
    "perturbation_interval": ("pbt",),
    "quantile_fraction": ("pbt",),
}
"""For each option of the search, the methods that use it; all methods use other options."""
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  # in the name of a trial
RESAMPLE_PROBABILITY = 0.25  # probability of a new draw, as in Ray Tune
PERTURBATION_FACTORS = (0.8, 1.2)  # if there is no new draw (Jaderberg 2017, 4.1.1)


class ParameterSpace(BaseModel):
    """Values that a sweep tries for one key of a job. Exactly one of the fields is set."""

    model_config = FORM

    grid: tuple[Any, ...] | None = Field(default=None, min_length=1)  # each value in turn
    choice: tuple[Any, ...] | None = Field(default=None, min_length=1)  # one value at random
    uniform: Range | None = None
    loguniform: Range | None = None  # the logarithm is uniform
    randint: tuple[int, int] | None = None  # integers, both ends included

    @pydantic.model_validator(mode="before")
    @classmethod
    def _exactly_one_known_way(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1 or None in value.values():
            raise ValueError("give exactly one of grid, choice, uniform, loguniform and "
                             "randint, such as {grid: [...]}")  # fmt: skip
        if (way := str(next(iter(value)))) not in cls.model_fields:
            raise ValueError(f"unknown '{way}': {suggestion(way, cls.model_fields)}")
        return value

    @pydantic.model_validator(mode="after")
    def _range_is_ordered(self) -> ParameterSpace:
        if self.range is not None:
            low, high = self.range
            if low > high or (self.loguniform and low <= 0):
                least = "0 < low <= high" if self.loguniform else "low <= high"
                raise ValueError(f"[{low:g}, {high:g}] must be [low, high] with {least}")
        return self

    @pydantic.model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {way: value for way, value in handler(self).items() if value is not None}

    @property
    def range(self) -> Range | None:
        """Return the lowest and highest possible number, or None for `grid` and `choice`."""
        return self.uniform or self.loguniform or self.randint

    def draw(self, rng: Generator) -> Any:
        """Return a random value of the space; `grid` spaces are not allowed."""
        if self.choice is not None:
            return self.choice[rng.integers(len(self.choice))]
        if self.randint is not None:
            return int(rng.integers(*self.randint, endpoint=True))
        if self.loguniform is not None:
            low, high = self.loguniform
            return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)
        assert self.uniform is not None
        return float(rng.uniform(*self.uniform))

    def perturb(self, value: Any, rng: Generator) -> Any:
        """Return `value` times 0.8 or 1.2, at random, or with probability 0.25 a new random value.

        A scaled value is clipped to the range of the space. A `choice` is always drawn anew. This
        is the perturbation of population based training.
        """
        resampled = rng.random() < RESAMPLE_PROBABILITY
        factor = PERTURBATION_FACTORS[rng.integers(2)]
        if resampled or self.range is None:
            return self.draw(rng)
        low, high = self.range
        perturbed = value * factor
        if self.randint is not None:
            perturbed = math.floor(perturbed) if factor < 1 else math.ceil(perturbed)
        return min(max(perturbed, low), high)


class Search(BaseModel):
    """Section `search` of a job: the search method, and the values to try for each job key."""

    model_config = FORM | ConfigDict(extra="allow", use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, ParameterSpace] = Field(init=False)

    method: Literal["grid", "random", "asha", "pbt", "tpe", "cmaes"] = "grid"
    """grid: all combinations. random: draws. asha: early stopping of the worse trials. pbt:
    population based training. tpe, cmaes: draws near the better ones so far, by Optuna."""

    trials: Annotated[int, Field(ge=1)] | None = None
    """Number of draws; each is combined with every combination of grid values."""

    metric: str | tuple[str, ...] | None = Field(default=None, min_length=1)
    """Metric by which trials are compared; -NAME if smaller is better; null: the trainer's score.
    tpe: also a list of several metrics, between which it seeks the best compromises."""

    trial_name: str | None = Field(default=None, min_length=1)
    """Name of a trial in MLflow and in the table. {KEY} is replaced by the first value of a key,
    such as {meta.inner_lr}, {trial} by the trial's number, from 0. null: the name of its folder."""

    batch: Annotated[int, Field(ge=1)] = 8
    """tpe, cmaes: draws of a batch. A batch is drawn when all trials of the last one have ended."""

    grace_period: Annotated[int, Field(ge=1)] | None = None
    """asha: iterations before a trial may be stopped."""

    reduction_factor: int = Field(default=3, ge=2)
    """asha: about 1 / reduction_factor of the trials continue after a rung."""

    perturbation_interval: Annotated[int, Field(ge=1)] | None = None
    """pbt: iterations in a round; after it the worst trials copy the best."""

    quantile_fraction: float = Field(default=0.25, gt=0, le=0.5)
    """pbt: fraction q of the trials. The worst q of the trials copy trials from the best q."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _keys_have_spaces(cls, value: Any) -> Any:
        for key, space in value.items() if isinstance(value, Mapping) else ():
            if renamed := new_key(None, f"search.{key}", {}):
                raise ValueError(f"'{key}' is now called '{renamed.removeprefix('search.')}'")
            if key not in cls.model_fields and not isinstance(space, Mapping):
                hint = suggestion(str(key), cls.model_fields)
                raise ValueError(f"unknown option '{key}' (to search a key of the job, write "
                                 f"{key}: {{grid: [...]}}): {hint}")  # fmt: skip
        return value

    @pydantic.model_validator(mode="after")
    def _options_fit_the_method(self) -> Search:
        unused = [
            name for name, methods in METHODS_OF.items()
            if name in self.model_fields_set and self.method not in methods
        ]  # fmt: skip
        if unused:
            raise ValueError(f"method {self.method} does not use {', '.join(unused)}")
        drawn = self.drawn_keys
        if drawn and self.method == "grid":
            raise ValueError(
                f"'{drawn[0]}' is drawn: set search.method to random, asha, pbt, tpe or cmaes"
            )
        if drawn and self.trials is None:
            raise ValueError(f"'{drawn[0]}' is drawn: set search.trials to a number")
        if self.trials is not None and not drawn:
            raise ValueError("every key is a grid, so search.trials has no effect")
        if self.method == "pbt" and self.spaces and not drawn:
            raise ValueError("pbt changes randomly drawn values, but every key is a grid")
        if self.by_optuna and self.spaces and not drawn:
            raise ValueError(f"{self.method} needs a drawn key: for grids only, use method grid")
        if self.objectives > 1 and self.method != "tpe":
            raise ValueError(f"method {self.method} uses one metric: for several, use method tpe")
        chosen = [key for key in drawn if self.spaces[key].choice is not None]
        if self.method == "cmaes" and chosen:
            raise ValueError(f"cmaes draws numbers, but '{chosen[0]}' is a choice: use tpe")
        if self.method == "pbt" and self.trials == 1:
            raise ValueError("pbt needs trials to copy from: set search.trials to 2 or more")
        return self

    @pydantic.model_serializer(mode="wrap")
    def _without_unused_options(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content = handler(self)
        unused = {name for name, methods in METHODS_OF.items() if self.method not in methods}
        unused |= set() if self.drawn_keys else {"trials"}
        return {k: v for k, v in content.items() if k not in unused} if self.spaces else {}

    @property
    def spaces(self) -> dict[str, ParameterSpace]:
        """Return the values to try for each dotted job key."""
        return self.__pydantic_extra__ or {}

    @property
    def by_optuna(self) -> bool:
        """Return whether Optuna draws the values, depending on the scores of earlier trials."""
        return self.method in ("tpe", "cmaes")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics by which trials are compared; empty: by the trainer's score."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric or ()

    @property
    def objectives(self) -> int:
        """Return the number of scores of a trial."""
        return len(self.metrics) or 1

    @property
    def drawn_keys(self) -> list[str]:
        """Return the dotted keys whose values are drawn at random, not listed as a grid."""
        return [key for key, space in self.spaces.items() if space.grid is None]

    def name_of(self, number: int, job: Mapping[str, Any]) -> str | None:
        """Return the name of a trial by `trial_name`; None if that is not set.

        `number`: of the trial. `job`: plain data of its job. Raises ValueError for a key that the
        job does not have.
        """
        if self.trial_name is None:
            return None
        return PLACEHOLDER.sub(
            lambda found: _placeholder_text(found[1], number, job), self.trial_name
        )

    def trial_values(self, rng_of: Callable[[int], Generator]) -> list[TrialValues]:
        """Return the values of all trials: every random draw combined with every grid point.

        Each trial's values are a dictionary by dotted job key. `rng_of`: maps the number of a draw,
        from 0, to its random generator.
        """
        trials = []
        for k in range(self.trials or 1):
            rng = rng_of(k)
            drawn = {key: self.spaces[key].draw(rng) for key in self.drawn_keys}
            trials += self.with_grid(drawn)
        return trials

    def with_grid(self, drawn: TrialValues) -> list[TrialValues]:
        """Return the values of a draw combined with every grid point, by dotted job key."""
        each = [space.grid or (drawn[key],) for key, space in self.spaces.items()]
        return [dict(zip(self.spaces, v, strict=True)) for v in itertools.product(*each)]

    def perturb(self, values: TrialValues, rng: Generator) -> TrialValues:
        """Return a copy of a trial's values; all values that are not from a grid are perturbed."""
        return values | {key: self.spaces[key].perturb(values[key], rng) for key in self.drawn_keys}


def _placeholder_text(key: str, number: int, job: Mapping[str, Any]) -> str:
    """Return what a placeholder in the name of a trial stands for.

    `key`: `trial`, which stands for `number`, or a dotted key of the job. Raises ValueError for any
    other key.
    """
    value: Any = {**job, "trial": number}
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = list(value) if isinstance(value, Mapping) else []
            hint = f": {suggestion(part, known)}" if known else ""
            raise ValueError(f"search.trial_name has {{{key}}}: the job has no key '{key}'{hint}")
        value = value[part]
    if isinstance(value, Mapping):
        raise ValueError(f"search.trial_name has {{{key}}}, which is a section: name a key in it")
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
