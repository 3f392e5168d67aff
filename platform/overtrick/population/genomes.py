"""How a vector of real numbers becomes a strategy; M genomes (M, P) at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError

SURE = 20.0
"""Beyond this an output changes no strategy (a sigmoid of 2e-9), but products of such
probabilities would become subnormal numbers, with which a processor is very slow."""


class GenomeEncoding(Protocol):
    """A way to read genes (M, P) as strategies (M, N, A)."""

    genes: int  # P

    def strategies(self, genomes: Array) -> Array:
        """(M, N, A) probabilities, 0 where illegal. Raises UserError for a wrong genome length."""

    def start(self, rng: Generator) -> Array:
        """(P,) where a search may begin."""


class DirectEncoding:
    """A gene for each legal action, squared and normalised within its information set.

    Samothrakis and Lucas 2011, eq. 5; squares keep weights from going below 0. legal (N, A).
    """

    def __init__(self, legal: Array) -> None:
        self.legal = legal
        self.genes = int(legal.sum())

    def strategies(self, genomes: Array) -> Array:
        check_genomes(genomes, self.genes)
        weights = np.zeros((len(genomes), *self.legal.shape))
        weights[:, self.legal] = genomes**2
        return normalise_weights(weights, self.legal)

    def start(self, rng: Generator) -> Array:
        return rng.normal(size=self.genes)


class PerceptronEncoding:
    """One hidden layer of tanh units, a sigmoid output an action, normalised.

    Samothrakis and Lucas 2011, eq. 6 and then 5; the same network answers at every information
    set. inputs (N, F), legal (N, A). Genes: hidden weights (F, H) and biases (H,), then output
    weights (H, A) and biases (A,).
    """

    def __init__(self, inputs: Array, legal: Array, hidden: int) -> None:
        self.inputs = inputs
        self.legal = legal
        self.shapes = (
            (inputs.shape[1], hidden),
            (1, hidden),
            (hidden, legal.shape[1]),
            (1, legal.shape[1]),
        )
        self.genes = sum(rows * columns for rows, columns in self.shapes)

    def strategies(self, genomes: Array) -> Array:
        check_genomes(genomes, self.genes)
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = np.split(genomes, ends[:-1], axis=1)
        w0, b0, w1, b1 = (
            part.reshape(len(genomes), *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        )
        outputs = np.clip(np.tanh(self.inputs @ w0 + b0) @ w1 + b1, -SURE, SURE)
        return normalise_weights(self.legal / (1 + np.exp(-outputs)), self.legal)

    def start(self, rng: Generator) -> Array:
        return rng.normal(size=self.genes)


def normalise_weights(weights: Array, legal: Array) -> Array:
    """(M, N, A) weights as probabilities; uniform where an information set has none (eq. 5)."""
    total = weights.sum(axis=-1, keepdims=True)
    some = total > np.finfo(float).tiny
    uniform = legal / legal.sum(axis=-1, keepdims=True)
    return np.where(some, weights / np.where(some, total, 1), uniform)


def check_genomes(genomes: Array, genes: int) -> None:
    """Raise UserError unless genomes are (M, genes)."""
    if genomes.ndim != 2 or genomes.shape[1] != genes:
        raise UserError(f"a genome of {genes} numbers is needed, not one of {genomes.shape[-1]}")
