"""Selection, crossover and mutation of a population of networks (Wu et al. 2022, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.policies.forward_pass import LOG_STD, Weights


@dataclass(frozen=True)
class EvolutionConfig:
    """The operators' settings."""

    elite_share: float  # share of the population that is kept unchanged, 0 to 1
    mutation_rate: float  # probability that a member outside the elite mutates
    mutation_strength: float  # noise as a multiple of the root mean square of a layer's weights; of
    # standard deviations, on their logarithm


def select(fitness: Array, keep: int) -> Array:
    """(keep,) the fittest members, best first; of equals, the earlier one."""
    return np.argsort(-fitness, kind="stable")[:keep]


def elite_count(members: int, elite_share: float) -> int:
    """How many of a population are elite; never none."""
    return max(1, round(members * elite_share))


def evolve(weights: Weights, fitness: Array, plan: EvolutionConfig, rng: Generator) -> Weights:
    """The next generation of M members (weights with leading axis M, best first).

    The elite stays as it is. Every other member takes each gene (weight) from itself or from
    one elite member drawn for it, with equal probability, and then, with the mutation rate,
    gets Gaussian noise on every gene.
    """
    members = len(fitness)
    order = select(fitness, members)
    elite = elite_count(members, plan.elite_share)
    mates = rng.integers(elite, size=members)
    mutates = rng.random(members) < plan.mutation_rate
    rest = np.arange(members) >= elite
    following: Weights = {}
    for name, value in weights.items():
        genes = value[order]
        per_gene = (members,) + (1,) * (genes.ndim - 1)
        crossed = rng.random(genes.shape) < 0.5
        child = np.where(crossed & rest.reshape(per_gene), genes[mates], genes)
        # a layer's biases start at 0, so they go by the scale of its weights
        layer = weights[name.replace("b", "w", 1)][order]
        square = (layer.reshape(members, -1) ** 2).mean(axis=1)
        scale = 1.0 if name == LOG_STD else np.sqrt(square).reshape(per_gene)
        noise = rng.normal(size=genes.shape) * plan.mutation_strength * scale
        child = child + noise * (mutates & rest).reshape(per_gene)
        following[name] = child.astype(value.dtype)
    return following
