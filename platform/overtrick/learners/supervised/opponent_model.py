"""Opponent models: networks trained on opponents' decisions, and Bayesian estimates from counts.

The prior of a Bayesian estimate is a Dirichlet distribution at each information set, as in Southey
et al. 2005 (Bayes' Bluff). Its mean is a network's prediction (`correct_by_counts`), or is chosen
by the counts themselves among given strategies (`posterior_mean_strategy`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
from numpy.random import Generator

from overtrick.core import Array
from overtrick.learners.optimisers import Adam
from overtrick.learners.supervised import behaviour_cloning as cloning
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import Weights

CONCENTRATIONS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Weights of a prior strategy, in pseudo-counts of decisions at each information set."""


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


def posterior_mean_strategy(taken: Array, priors: Array) -> Array:
    """Estimate opponents' strategies (M, N, A) from action counts, with a hierarchical prior.

    - `taken` (M, N, A): how often each of M opponents took each action at each information set.
    - `priors` (P, N, A): strategies to which an opponent may be similar; 0 exactly at illegal
      actions.

    An opponent draws one of the priors and one of CONCENTRATIONS, all with equal probability, and
    then its action probabilities at each information set from the Dirichlet distribution with this
    mean and concentration. The result is the exact posterior mean: the mean over priors and
    concentrations of the smoothed frequencies, weighted by the marginal likelihood of all counts
    (the Dirichlet-multinomial distribution). An opponent that plays as one of the priors is thus
    recognised, also at information sets that were not visited.
    """
    likelihoods, means = [], []
    decisions = taken.sum(axis=-1)
    gammaln = scipy.special.gammaln
    for prior in priors:
        for weight in CONCENTRATIONS:
            pseudo = weight * np.where(prior > 0, prior, 1)
            actions = np.where(prior > 0, gammaln(pseudo + taken) - gammaln(pseudo), 0)
            rest = gammaln(weight) - gammaln(weight + decisions)
            likelihoods.append((actions.sum(axis=-1) + rest).sum(axis=-1))
            means.append((taken + weight * prior) / (decisions + weight)[..., None])
    posterior = scipy.special.softmax(np.stack(likelihoods), axis=0)
    return np.einsum("cm,cmna->mna", posterior, np.stack(means))
