"""What the `search` of a job says: how trials are chosen, and what is tried for each key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from numpy.random import Generator
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from overtrick.core import nearest

Ends = tuple[float, float]
Chosen = dict[str, Any]
"""A trial's values by dotted key."""
FORM = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
OF = {"trials": ("random", "asha", "pbt"), "metric": ("asha", "pbt"), "grace_period": ("asha",),
      "reduction_factor": ("asha",), "perturbation_interval": ("pbt",),
      "quantile_fraction": ("pbt",)}  # fmt: skip
"""Options of some methods only."""
RESAMPLED = 0.25  # the chance that a perturbed value is drawn anew (Tune has the same)
STEPS = (0.8, 1.2)  # else a number is multiplied by one of these (Jaderberg et al. 2017, 4.1.1)


class Tries(BaseModel):
    """What is tried for one key, in one of these ways."""

    model_config = FORM

    grid: tuple[Any, ...] | None = Field(default=None, min_length=1)  # each of these
    choice: tuple[Any, ...] | None = Field(default=None, min_length=1)  # one of these
    uniform: Ends | None = None
    loguniform: Ends | None = None  # the logarithm is uniform
    randint: tuple[int, int] | None = None  # whole numbers, both ends included

    @model_validator(mode="before")
    @classmethod
    def _one_known_way(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ValueError("say how, in one way: {grid: [...]} or one of choice, uniform, "
                             "loguniform, randint")  # fmt: skip
        if (way := str(next(iter(value)))) not in cls.model_fields:
            raise ValueError(f"unknown '{way}': did you mean '{nearest(way, cls.model_fields)}'?")
        return value

    @model_validator(mode="after")
    def _ends_in_order(self) -> Tries:
        if self.between is not None:
            low, high = self.between
            if low > high or (self.loguniform and low <= 0):
                least = "0 < low <= high" if self.loguniform else "low <= high"
                raise ValueError(f"[{low:g}, {high:g}] must be [low, high] with {least}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {way: value for way, value in handler(self).items() if value is not None}

    @property
    def between(self) -> Ends | None:
        """The ends of what numbers are drawn from."""
        return self.uniform or self.loguniform or self.randint

    def draw(self, rng: Generator) -> Any:
        """One value of what is not a grid."""
        if self.choice is not None:
            return self.choice[rng.integers(len(self.choice))]
        if self.randint is not None:
            return int(rng.integers(*self.randint, endpoint=True))
        if self.loguniform is not None:
            low, high = self.loguniform
            return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)
        assert self.uniform is not None
        return float(rng.uniform(*self.uniform))

    def perturbed(self, value: Any, rng: Generator) -> Any:
        """A value near this one, within the ends, or another draw."""
        anew, step = rng.random() < RESAMPLED, STEPS[rng.integers(2)]
        if anew or self.between is None:
            return self.draw(rng)
        low, high = self.between
        moved = value * step
        if self.randint is not None:
            moved = math.floor(moved) if step < 1 else math.ceil(moved)
        return min(max(moved, low), high)


class Search(BaseModel):
    """How a sweep chooses its trials; every further key is a dotted key of the job to try."""

    model_config = FORM | ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Tries] = Field(init=False)

    method: Literal["grid", "random", "asha", "pbt"] = Field(
        default="grid", description="who is trained, and who goes on"
    )
    trials: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="draws; each meets every value of a grid"
    )
    metric: str | None = Field(
        default=None, description="what they go by before the end; -NAME if less is better"
    )
    grace_period: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="iterations before the first may be stopped, with asha"
    )
    reduction_factor: int = Field(
        default=3, ge=2, description="of as many trials at a rung about one goes on, with asha"
    )
    perturbation_interval: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="iterations between copies, with pbt"
    )
    quantile_fraction: float = Field(
        default=0.25, gt=0, le=0.5, description="of the trials copies one as good, with pbt"
    )

    @model_validator(mode="before")
    @classmethod
    def _keys_are_tried(cls, value: Any) -> Any:
        for key, tried in value.items() if isinstance(value, Mapping) else ():
            if key not in cls.model_fields and not isinstance(tried, Mapping):
                near = nearest(str(key), cls.model_fields)
                raise ValueError(f"unknown option '{key}': did you mean '{near}'? Of a key of the "
                                 f"job say what to try, as {key}: {{grid: [...]}}")  # fmt: skip
        return value

    @model_validator(mode="after")
    def _options_of_the_method(self) -> Search:
        idle = [
            name for name in OF if name in self.model_fields_set and self.method not in OF[name]
        ]
        if idle:
            raise ValueError(f"method {self.method} has no use for {', '.join(idle)}")
        if self.method == "grid" and self.drawn:
            raise ValueError(f"'{self.drawn[0]}' is drawn: set search.method to random, asha or "
                             "pbt")  # fmt: skip
        if self.drawn and self.trials is None:
            raise ValueError(f"'{self.drawn[0]}' is drawn: say how often with search.trials")
        if self.trials is not None and not self.drawn:
            raise ValueError("every key is a grid, so trials has no use")
        if self.method == "pbt" and self.tries and not self.drawn:
            raise ValueError("pbt moves what is drawn, and every key is a grid")
        if self.method == "pbt" and self.trials == 1:
            raise ValueError("pbt needs trials to copy from: set search.trials to 2 or more")
        return self

    @model_serializer(mode="wrap")
    def _none_is_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        whole = handler(self)
        idle = {name for name, methods in OF.items() if self.method not in methods}
        idle |= set() if self.drawn else {"trials"}
        return {k: v for k, v in whole.items() if k not in idle} if self.tries else {}

    @property
    def tries(self) -> dict[str, Tries]:
        """What is tried, by dotted key."""
        return self.__pydantic_extra__ or {}

    @property
    def drawn(self) -> list[str]:
        """The keys whose values are drawn."""
        return [key for key, tried in self.tries.items() if tried.grid is None]

    def chosen(self, rng_of: Callable[[int], Generator]) -> list[Chosen]:
        """Every trial's values: each draw k, made by rng_of(k), with every combination of grids."""
        made = []
        for k in range(self.trials or 1):
            rng = rng_of(k)
            each = [tried.grid or (tried.draw(rng),) for tried in self.tries.values()]
            made += [dict(zip(self.tries, v, strict=True)) for v in itertools.product(*each)]
        return made

    def perturbed(self, chosen: Chosen, rng: Generator) -> Chosen:
        """The values of a trial after what is drawn has moved."""
        moved = {key: self.tries[key].perturbed(chosen[key], rng) for key in self.drawn}
        return {**chosen, **moved}
