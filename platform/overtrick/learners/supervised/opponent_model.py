"""An explicit model of an opponent, fitted to its decisions, and a reply learnt against it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Policy, Trajectories
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.supervised.behaviour_cloning import (
    CloningConfig,
    Demonstrations,
    clone_behaviour,
)
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import Weights

Simulate = Callable[[Policy, Generator], Trajectories]
"""A policy's decisions in some games against a fitted model."""


def fit_opponent_models(
    prior: Weights,
    rows: Demonstrations,
    rate: float,
    plan: CloningConfig,
    share: float,
    rng: Generator,
) -> Weights:
    """(M, ...) models of M opponents: a prior network after imitating what each of them did.

    rows: with leading axis M, taken as counts of decisions. rate: Adam's. share: of the decisions
    that are held out, at random, to end the fit before it knows its rows by heart. A model goes
    back to the prior where it has nothing to learn from.
    """
    out_rng, learn_rng = rng.spawn(2)
    held = out_rng.binomial(rows.taken.astype(np.int64), share)
    learnt = Demonstrations(rows.features, rows.legal, rows.taken - held)
    adam = Adam(repeat(prior, len(rows.taken)), rate)
    return clone_behaviour(adam, learnt, plan, learn_rng, held)[0]


def correct_by_counts(guess: Array, taken: Array, trust: float) -> Array:
    """(..., N, A) a model's probabilities by information set, made right by what was seen there.

    The mean of a Dirichlet posterior whose prior is the guess, worth `trust` decisions: seldom
    seen information sets keep the guess, often seen ones their frequencies.
    """
    counts = taken + trust * guess
    return counts / counts.sum(axis=-1, keepdims=True)


def learn_response(
    learner: ActorCritic, simulate: Simulate, iterations: int, rng: Generator
) -> dict[str, float]:
    """Improve a learner against a model for so many iterations of simulated games."""
    metrics: dict[str, float] = {}
    for step_rng in rng.spawn(iterations):
        play_rng, learn_rng = step_rng.spawn(2)
        metrics = learner.learn(simulate(learner.policy(), play_rng), learn_rng)
    return metrics
