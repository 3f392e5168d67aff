"""Opponent models: networks trained on opponents' decisions, and smoothed action frequencies.

The smoothing is a Dirichlet posterior whose prior is a network's prediction.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.learners.optimisers import Adam
from overtrick.learners.supervised import behaviour_cloning as cloning
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import Weights


def fit_opponent_models(
    prior: Weights,
    decisions: cloning.Demonstrations,
    learning_rate: float,
    config: cloning.CloningConfig,
    held_out_share: float,
    rng: Generator,
) -> Weights:
    """Fit models of M opponents: copies of one network, each trained on one opponent's decisions.

    - `prior`: the network's weights before training. The model of an opponent without decisions
      keeps these weights.
    - `decisions`: R distinct network inputs for each opponent, with the number of times that the
      opponent took each action; arrays (M, R, ...).
    - `learning_rate`: Adam's learning rate.
    - `held_out_share`: share of the decisions, chosen at random, that is not trained on and serves
      for early stopping.

    Returns the models' weights (M, ...).
    """
    split_rng, learn_rng = rng.spawn(2)
    held_out = split_rng.binomial(decisions.taken.astype(np.int64), held_out_share)
    training = replace(decisions, taken=decisions.taken - held_out)
    adam = Adam(repeat(prior, len(decisions.taken)), learning_rate)
    return cloning.clone_behaviour(adam, training, config, learn_rng, held_out)[0]


def correct_by_counts(prediction: Array, taken: Array, prior_decisions: float) -> Array:
    """Update predicted action probabilities (..., N, A) with observed action counts.

    `taken` (..., N, A): how often each action was observed at each information set. Returns the
    mean of a Dirichlet posterior, whose prior is the prediction with a weight of `prior_decisions`
    pseudo-counts.
    """
    counts = taken + prior_decisions * prediction
    return counts / counts.sum(axis=-1, keepdims=True)
