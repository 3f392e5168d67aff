"""The members of a population, their results, and whom to meet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.policies.forward_pass import Weights
from overtrick.population.genetic import EvolutionConfig, evolve, select


class Population:
    """M networks as one batch of weights.

    A plain object: the host of `workers` is this class behind an actor.
    """

    def __init__(self, weights: Weights, plan: EvolutionConfig) -> None:
        self.weights = weights  # (M, ...) each
        self.plan = plan

    @property
    def size(self) -> int:
        return len(next(iter(self.weights.values())))

    def advance(self, guest: Weights, fitness: Array, rng: Generator) -> dict[str, float]:
        """Let the guest join, the worst leave, and the rest evolve.

        fitness (M + 1,) of the members and the guest. Returns the generation's summary.
        """
        stay = np.sort(select(fitness, self.size))
        joined = {n: v[stay] for n, v in with_candidate(self.weights, guest).items()}
        self.weights = evolve(joined, fitness[stay], self.plan, rng)
        return _summary(fitness)

    def breed(self, fitness: Array, rng: Generator) -> dict[str, float]:
        """The next generation, the fittest first, from this one's fitness (M,); its summary."""
        self.weights = evolve(self.weights, fitness, self.plan, rng)
        return _summary(fitness)

    def state(self) -> dict[str, Array]:
        return dict(self.weights)

    def load(self, state: Mapping[str, Array]) -> None:
        self.weights = dict(state)


def _summary(fitness: Array) -> dict[str, float]:
    return {
        "fitness_best": float(fitness.max()),
        "fitness_mean": float(fitness.mean()),
        "fitness_worst": float(fitness.min()),
    }


def with_candidate(members: Weights, guest: Weights) -> Weights:
    """(M + 1, ...) the members and one guest, who comes last."""
    return {n: np.concatenate([v, guest[n][None]]) for n, v in members.items()}
