"""Population of networks that evolves by the fitness of its members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.checkpoints import check_shapes
from overtrick.policies.forward_pass import Weights
from overtrick.population.genetic import EvolutionConfig, evolve, select


@dataclass(eq=False)
class Population:
    """M networks as one batch of weights, evolved by a genetic algorithm.

    It is a plain object, so that a worker pool can hold it in an actor.
    """

    weights: Weights  # (M, ...) each
    config: EvolutionConfig

    @property
    def size(self) -> int:
        """The number of members, M."""
        return len(next(iter(self.weights.values())))

    def replace_worst(self, candidate: Weights, fitness: Array, rng: Generator) -> dict[str, float]:
        """Add a candidate, remove the least fit of all M + 1 members, and evolve the M others.

        `candidate`: weights of one network. `fitness` (M + 1,): fitness of the M members, then of
        the candidate. Returns the best, mean and worst fitness.
        """
        survivors = np.sort(select(fitness, self.size))
        joined = {n: v[survivors] for n, v in with_candidate(self.weights, candidate).items()}
        self.weights = evolve(joined, fitness[survivors], self.config, rng)
        return _summary(fitness)

    def next_generation(self, fitness: Array, rng: Generator) -> dict[str, float]:
        """Replace the members by their next generation, given their fitness (M,).

        Returns the best, mean and worst fitness.
        """
        self.weights = evolve(self.weights, fitness, self.config, rng)
        return _summary(fitness)

    def replace(self, state: Mapping[str, Array]) -> None:
        """Replace all members by others, which may have other shapes."""
        self.weights = dict(state)

    def state(self) -> dict[str, Array]:
        """Return the members' weights (M, ...) by name."""
        return dict(self.weights)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the members' weights by a result of `state()`. Raises ValueError for others."""
        check_shapes(state, self.weights)
        self.weights = dict(state)


def _summary(fitness: Array) -> dict[str, float]:
    return {
        "fitness_best": float(fitness.max()),
        "fitness_mean": float(fitness.mean()),
        "fitness_worst": float(fitness.min()),
    }


def with_candidate(members: Weights, candidate: Weights) -> Weights:
    """Append one network to a population of M networks; return weights (M + 1, ...)."""
    return {n: np.concatenate([v, candidate[n][None]]) for n, v in members.items()}
