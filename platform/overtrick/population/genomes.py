"""Encodings of strategies as genomes: vectors of P real numbers; M genomes are (M, P)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError

MAX_LOGIT = 20.0
"""Largest absolute output before the sigmoid.

Larger outputs do not change a strategy (the sigmoid is 2e-9). Products of such small probabilities
become subnormal numbers, which are very slow.
"""


class GenomeEncoding(ABC):
    """Encoding of M strategies (M, N, A) as genomes (M, P): vectors of P real numbers."""

    legal: Array  # (N, A) bool
    genes: int  # P, the length of a genome

    @abstractmethod
    def weights(self, genomes: Array) -> Array:
        """Decode genomes (M, P) to unnormalised action weights (M, N, A), 0 for illegal actions."""

    def strategies(self, genomes: Array) -> Array:
        """Decode genomes (M, P) to strategies (M, N, A), 0 at illegal actions.

        An information set whose action weights are all 0 gets the uniform strategy. Source:
        Samothrakis and Lucas 2011, eq. 5. Raises UserError if the genomes have a wrong length.
        """
        if genomes.ndim != 2 or genomes.shape[1] != self.genes:
            raise UserError(f"a genome must have {self.genes} numbers, not {genomes.shape[-1]}")
        weights = self.weights(genomes)
        total = weights.sum(axis=-1, keepdims=True)
        positive = total > np.finfo(float).tiny
        uniform = self.legal / self.legal.sum(axis=-1, keepdims=True)
        return np.where(positive, weights / np.where(positive, total, 1), uniform)

    def start(self, rng: Generator) -> Array:
        """Draw an initial genome (P,)."""
        return rng.normal(size=self.genes)


class DirectEncoding(GenomeEncoding):
    """Encoding with one gene for each legal action; squared genes are normalised to probabilities.

    Squares avoid negative weights. `legal` is the mask (N, A) of legal actions. Source: Samothrakis
    and Lucas 2011, eq. 5.
    """

    def __init__(self, legal: Array) -> None:
        self.legal = legal
        self.genes = int(legal.sum())

    def weights(self, genomes: Array) -> Array:
        """Return squared genes as unnormalised action weights (M, N, A), 0 for illegal actions."""
        weights = np.zeros((len(genomes), *self.legal.shape))
        weights[:, self.legal] = genomes**2
        return weights


class PerceptronEncoding(GenomeEncoding):
    """Encoding as weights of a network with one tanh layer and a sigmoid output for each action.

    The network is evaluated at every information set, and its outputs are normalised over the legal
    actions. `inputs` (N, F) are the features of the information sets, `legal` is the mask (N, A),
    `hidden` the number H of hidden units. The genes are hidden weights (F, H) and biases (H,), then
    output weights (H, A) and biases (A,). Source: Samothrakis and Lucas 2011, eqs. 5 and 6.
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

    def weights(self, genomes: Array) -> Array:
        """Evaluate the networks of genomes (M, P): return unnormalised action weights (M, N, A).

        The weights are the sigmoid outputs, 0 for illegal actions.
        """
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = np.split(genomes, ends[:-1], axis=1)
        w0, b0, w1, b1 = (
            part.reshape(len(genomes), *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        )
        outputs = np.clip(np.tanh(self.inputs @ w0 + b0) @ w1 + b1, -MAX_LOGIT, MAX_LOGIT)
        return self.legal / (1 + np.exp(-outputs))
