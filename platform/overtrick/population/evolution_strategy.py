"""(mu, lambda) evolution strategies with restarts, by the ask-and-tell interface of `cma`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from overtrick.core import Array

StrategyKind = Literal["csa", "cma"]
KIND_OPTIONS: dict[StrategyKind, dict[str, Any]] = {
    "csa": {"CMA_on": 0, "CMA_diagonal": True},
    "cma": {},
}
"""Options of the `cma` package by kind of evolution strategy.

`csa` adapts the step size only (Ostermeier, Gawelczyk and Hansen 1994); its diagonal option only
makes it faster. `cma` also adapts the covariance matrix (Hansen and Ostermeier 2001).
"""
KINDS = tuple(KIND_OPTIONS)


@dataclass(eq=False)
class EvolutionStrategy:
    """Evolution strategy: samples lambda genomes per generation; the better half sets the mean.

    A genome is a vector of P real numbers; lambda is `size`. `start` draws the initial mean (P,) of
    a search, and `step` is the initial step size. When a search has converged or stagnates, another
    search starts from a new mean. All random draws come from `rng`. A checkpoint holds only the
    fitnesses of all genomes and the settings of each search, because they and the seed determine
    the genomes.
    """

    start: Callable[[Generator], Array]
    step: float
    size: int
    kind: StrategyKind
    rng: Generator
    scores: list[Array] = field(default_factory=list, init=False)  # (lambda,) of each generation
    searches: list[tuple[float, StrategyKind]] = field(default_factory=list, init=False)
    """Initial step size and kind of each search so far."""
    _run: Any = field(default=None, init=False)
    _last: Array | None = field(default=None, init=False)  # the last genomes passed to `tell`

    @property
    def starts(self) -> int:
        """Number of searches so far."""
        return len(self.searches)

    @property
    def step_size(self) -> float:
        """Current step size (sigma): the standard deviation of mutations; at first it is `step`."""
        return self.step if self._run is None else float(self._run.sigma)

    def ask(self) -> Array:
        """Sample the genomes (lambda, P) of the next generation, for evaluation."""
        if self._run is None or self._run.stop():
            self._restart(self.step, self.kind)
        return np.array(self._run.ask())

    def tell(self, genomes: Array, score: Array) -> None:
        """Update the strategy by the fitness of each genome in the current generation.

        `genomes` (lambda, P): the result of the last `ask`. `score` (lambda,): fitness of each
        genome; larger is better.
        """
        self._run.tell(list(genomes), (-score).tolist())
        self.scores.append(np.array(score, np.float64))
        self._last = np.array(genomes)

    def state(self) -> dict[str, Array]:
        """Return the fitnesses passed to `tell`, and the settings of each search.

        The fitnesses are the array `told` (generations, lambda), the initial step sizes of the
        searches `steps` (starts,), and their kinds, as indices in KIND_OPTIONS, `kinds` (starts,).
        Of the genomes only the last generation is stored, `last` (lambda, P), because `load` can
        sample the same genomes again.
        """
        return {
            "told": np.array(self.scores).reshape(-1, self.size),
            "steps": np.array([step for step, _ in self.searches], np.float64),
            "kinds": np.array([KINDS.index(kind) for _, kind in self.searches], np.int64),
            "last": np.zeros((0, 0)) if self._last is None else self._last,
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a state by repeating `ask` and `tell` for each generation's stored fitnesses.

        Call this method on a new strategy, with the seed of the strategy that returned the state.
        Its searches are repeated with their own settings; those of this strategy hold for later
        searches.
        """
        now = self.step, self.kind
        searches = [now] * len(state["told"])  # an earlier version stored no settings
        if "steps" in state:
            kinds = [KINDS[index] for index in state["kinds"]]
            searches = list(zip(state["steps"].tolist(), kinds, strict=True))
        for score in state["told"]:
            self.step, self.kind = searches[min(self.starts, len(searches) - 1)]
            self.tell(self.ask(), score)
        self.step, self.kind = now
        last = state.get("last", np.zeros(0))  # an earlier version stored none
        if self._last is not None and last.size:
            spread, size = last.std(axis=0).max(), np.abs(last).max()
            if not np.allclose(self._last, last, rtol=0, atol=0.01 * spread + 1e-12 * size):
                raise ValueError(
                    "repeating the generations gives other genomes, because this processor or "
                    "version of cma rounds differently: resume where the run began"
                )

    def _restart(self, step: float, kind: StrategyKind) -> None:
        """Start a search with an initial step size and a kind of evolution strategy."""
        import cma

        self.searches.append((step, kind))
        options = {
            **KIND_OPTIONS[kind],
            "popsize": self.size,
            "CMA_mu": max(1, self.size // 2),
            "seed": np.nan,  # a number would seed numpy for the whole process
            "randn": lambda *shape: self.rng.standard_normal(shape),
            "verbose": -9,
        }
        self._run = cma.CMAEvolutionStrategy(self.start(self.rng), step, options)
