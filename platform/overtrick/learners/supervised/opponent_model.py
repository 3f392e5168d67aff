"""Opponent models: fit networks to opponents' decisions, and correct them by counts of actions."""

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
    """Fit M opponent models (M, ...): copies of a network, each trained on one opponent.

    `prior` holds the weights of the network before training.
    `decisions` has a leading axis M and counts of actions. `learning_rate` is Adam's. A random
    share `held_out_share` of the decisions is kept out of training, for early stopping. A model
    without decisions equals the prior.
    """
    split_rng, learn_rng = rng.spawn(2)
    held_out = split_rng.binomial(decisions.taken.astype(np.int64), held_out_share)
    training = replace(decisions, taken=decisions.taken - held_out)
    adam = Adam(repeat(prior, len(decisions.taken)), learning_rate)
    return cloning.clone_behaviour(adam, training, config, learn_rng, held_out)[0]


def correct_by_counts(prediction: Array, taken: Array, prior_decisions: float) -> Array:
    """Combine predicted action probabilities (..., N, A) with observed counts of actions.

    Returns the mean of a Dirichlet posterior. Its prior is the prediction, with the weight of
    `prior_decisions` decisions. Rarely observed information sets stay near the prediction; often
    observed ones approach the observed frequencies.
    """
    counts = taken + prior_decisions * prediction
    return counts / counts.sum(axis=-1, keepdims=True)
