"""Opponent models: networks trained on opponents' decisions, and Bayesian estimates from counts.

The prior of a Bayesian estimate is a Dirichlet distribution at each information set, as in Southey
et al. 2005 (Bayes' Bluff). Its mean is a network's prediction (`correct_by_counts`), or one of
several given strategies, weighted by their posterior probabilities (`posterior_mean_strategy`).
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
"""Concentrations of the Dirichlet prior: pseudo-counts of decisions at each information set."""


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
      keeps these weights, and so does one of whose decisions none happens to be held out.
    - `decisions`: R distinct network inputs for each opponent, with the number of times that the
      opponent took each action; arrays (M, R, ...).
    - `learning_rate`: Adam's learning rate.
    - `held_out_share`: share of the decisions, chosen at random, that is not trained on and serves
      for early stopping. 0: train on all decisions for all epochs.

    Returns the models' weights (M, ...).
    """
    split_rng, learn_rng = rng.spawn(2)
    held_out = split_rng.binomial(decisions.taken.astype(np.int64), held_out_share)
    training = replace(decisions, taken=decisions.taken - held_out)
    adam = Adam(repeat(prior, len(decisions.taken)), learning_rate)
    validation = held_out if held_out_share else None
    return cloning.clone_behaviour(adam, training, config, learn_rng, validation)[0]


def correct_by_counts(prediction: Array, taken: Array, prior_decisions: float) -> Array:
    """Update predicted action probabilities (..., N, A) with observed action counts.

    `taken` (..., N, A): how often each action was observed at each information set. Returns the
    mean of a Dirichlet posterior, whose prior is the prediction with a weight of `prior_decisions`
    pseudo-counts.
    """
    counts = taken + prior_decisions * prediction
    return counts / counts.sum(axis=-1, keepdims=True)


def posterior_mean_strategy(taken: Array, prior_means: Array) -> Array:
    """Estimate opponents' strategies (M, N, A) from action counts, with a hierarchical prior.

    - `taken` (M, N, A): how often each of M opponents took each action at each information set.
    - `prior_means` (P, N, A): strategies to which an opponent may be similar. At least one of them
      must be positive at all legal actions.

    Assume that an opponent's prior mean and its concentration, one of CONCENTRATIONS, are drawn
    uniformly. At each information set the action probabilities are then drawn from the Dirichlet
    distribution with this mean and concentration. The result is the exact posterior mean: the
    smoothed frequencies, averaged over means and concentrations with their posterior probabilities,
    which are proportional to the Dirichlet-multinomial likelihood of all counts. An opponent that
    plays like one of the prior means is thus recognised after some games, also at information sets
    that were not reached.
    """
    gammaln = scipy.special.gammaln
    decisions = taken.sum(axis=-1)
    concentration = np.array(CONCENTRATIONS)
    member, infoset, action = np.nonzero(taken)
    seen, reached = taken[member, infoset, action], np.nonzero(decisions)
    log_likelihood = np.zeros((len(prior_means), len(concentration), len(taken)))
    for c, strength in enumerate(concentration):
        per_decision = gammaln(strength) - gammaln(strength + decisions[reached])
        normaliser = np.bincount(reached[0], per_decision, len(taken))
        for p, mean in enumerate(prior_means):
            pseudo = strength * mean[infoset, action]  # 0: the mean excludes a seen action
            per_action = gammaln(pseudo + seen) - gammaln(pseudo)
            log_likelihood[p, c] = normaliser + np.bincount(member, per_action, len(taken))
    posterior = scipy.special.softmax(log_likelihood, axis=(0, 1))
    # (taken + c * mean) / (decisions + c), averaged over concentrations c and means
    total = decisions[..., None] + concentration
    found = taken * (posterior.sum(axis=0).T[:, None] / total).sum(axis=-1)[..., None]
    for p, mean in enumerate(prior_means):
        weight = ((posterior[p] * concentration[:, None]).T[:, None] / total).sum(axis=-1)
        found += weight[..., None] * mean
    return found
