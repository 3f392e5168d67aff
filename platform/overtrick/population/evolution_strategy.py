"""A (mu, lambda) evolution strategy by ask and tell, from the `cma` package, with restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import cma
import numpy as np
from numpy.random import Generator

from overtrick.core import Array

StrategyKind = Literal["csa", "cma"]
KIND_OPTIONS: dict[StrategyKind, dict[str, Any]] = {
    "csa": {"CMA_on": 0, "CMA_diagonal": True},
    "cma": {},
}
"""csa adapts the step size alone (Ostermeier, Gawelczyk and Hansen 1994); cma the covariance
matrix too (Hansen and Ostermeier 2001). Without the diagonal csa is far slower, and no other."""


class EvolutionStrategy:
    """lambda genomes (lambda, P) a generation, of which the better half make the next mean.

    start draws a first mean (P,), for the first run and for each one after it: when a run has
    converged or stagnates, the next begins elsewhere. Every draw comes from rng. What a strategy
    knows follows from the scores that it was told, so these are its whole state: `load` asks and
    tells again, which costs no evaluation.
    """

    def __init__(
        self,
        start: Callable[[Generator], Array],
        step: float,
        size: int,
        kind: StrategyKind,
        rng: Generator,
    ) -> None:
        self.start = start
        self.step = step
        self.size = size
        self.kind: StrategyKind = kind
        self.rng = rng
        self.told: list[Array] = []  # (lambda,) scores of each generation
        self.starts = 0
        self._run: Any = None

    @property
    def spread(self) -> float:
        """The step size, times the initial one's unit; the initial one before the first run."""
        return self.step if self._run is None else float(self._run.sigma)

    def ask(self) -> Array:
        """(lambda, P) genomes to be scored."""
        if self._run is None or self._run.stop():
            self._begin()
        return np.array(self._run.ask())

    def tell(self, genomes: Array, score: Array) -> None:
        """Scores (lambda,) of what was asked for; larger is better."""
        self._run.tell(list(genomes), (-score).tolist())
        self.told.append(np.array(score, np.float64))

    def state(self) -> dict[str, Array]:
        """(generations, lambda) every score so far."""
        return {"told": np.array(self.told).reshape(-1, self.size)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Go through the generations again; the strategy must be as it was made."""
        for score in state["told"]:
            self.tell(self.ask(), score)

    def _begin(self) -> None:
        self.starts += 1
        options = {
            **KIND_OPTIONS[self.kind],
            "popsize": self.size,
            "CMA_mu": max(1, self.size // 2),
            "seed": np.nan,  # a number would seed numpy for the whole process
            "randn": lambda *shape: self.rng.standard_normal(shape),
            "verbose": -9,
        }
        self._run = cma.CMAEvolutionStrategy(self.start(self.rng), self.step, options)
