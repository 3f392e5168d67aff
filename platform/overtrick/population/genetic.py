"""Genetic algorithm on stacked network weights (Wu et al. 2022, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.policies.forward_pass import LOG_STD, Weights


@dataclass(frozen=True)
class EvolutionConfig:
    """Hyperparameters of selection and mutation."""

    elite_share: float  # share of the population copied unchanged, 0 to 1
    mutation_rate: float  # probability that a member outside the elite mutates
    mutation_strength: float  # noise as a multiple of a layer's RMS weight; absolute for LOG_STD


def select(fitness: Array, count: int) -> Array:
    """Return (count,) the indices of the fittest members of a population, best first.

    Ties go to the first member.
    """
    return np.argsort(-fitness, kind="stable")[:count]


def elite_count(members: int, elite_share: float) -> int:
    """Return the number of elite members in a population of `members`, at least 1."""
    return max(1, round(members * elite_share))


def evolve(weights: Weights, fitness: Array, config: EvolutionConfig, rng: Generator) -> Weights:
    """Return the weights (M, ...) of a population's next generation, the elite first.

    `weights` (M, ...) and `fitness` (M,) are those of the M present members. The elite, a share
    `elite_share` of the members, is copied. For every other member an elite member is drawn at
    random as its mate, and each weight is taken from the member or the mate with equal probability.
    With probability `mutation_rate` the member then gets Gaussian noise on every weight.
    """
    members = len(fitness)
    order = select(fitness, members)
    elite = elite_count(members, config.elite_share)
    mates = rng.integers(elite, size=members)
    mutates = rng.random(members) < config.mutation_rate
    offspring = np.arange(members) >= elite
    next_generation: Weights = {}
    for name, value in weights.items():
        genes = value[order]
        per_gene = (members,) + (1,) * (genes.ndim - 1)
        crossed = rng.random(genes.shape) < 0.5
        child = np.where(crossed & offspring.reshape(per_gene), genes[mates], genes)
        # biases start at 0, so the scale of their noise is that of the layer's weights
        layer = weights[name.replace("b", "w", 1)][order]
        square = (layer.reshape(members, -1) ** 2).mean(axis=1)
        scale = 1.0 if name == LOG_STD else np.sqrt(square).reshape(per_gene)
        noise = rng.normal(size=genes.shape) * config.mutation_strength * scale
        child = child + noise * (mutates & offspring).reshape(per_gene)
        next_generation[name] = child.astype(value.dtype)
    return next_generation
