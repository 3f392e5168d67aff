"""Opponents in training: strategies of families, policies of stored runs, and deviations."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count, Fraction, ModelPath, Section, UnusedKeys
from overtrick.core import Array
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.game_cache import game_with_tree
from overtrick.policies import model_kinds
from overtrick.policies.forward_pass import Weights
from overtrick.solvers.extensive.tree import Tree
from overtrick.training.adaptation import opponent_population
from overtrick.training.adaptation.gradient_samples import batch_strategies

StrategyGroups = tuple[Array, ...]
"""Strategies (K, N, A) of groups of opponents: first those of families, then of stored runs."""

MIXED_SEATS_SHARE = 0.1  # of opponents that follow one member in seat 0 and another in seat 1
CONCENTRATIONS = (1.0, 64.0)  # smallest and largest, of opponents that deviate
UNIFORM_SHARE = 0.02  # of uniform play in the mean of deviations, so that all actions are possible


class TrainingOpponents(Section):
    """Settings of the opponents that an in-context learner meets in training."""

    unused_keys = (UnusedKeys({"psro": (None,), "league": (None,)}, ("stored_share",)),)

    size: Count = 4000
    """Strategies in the population. They are drawn from the families of opponents for training, as
    for the player population_posterior of a board."""

    seed: int = Field(default=1, ge=0)
    """Random seed of the population."""

    deviating_share: Fraction = 0.35
    """Share of opponents that deviate at random from their member of the population or stored
    policy. At each information set the action probabilities are drawn from a Dirichlet distribution
    with that strategy as mean. Its concentration is drawn log-uniformly from 1 to 64, once for each
    opponent.
    """

    psro: ModelPath | None = None
    """Stored run of PSRO, or the folder of its model. Its policies join the opponents."""

    league: ModelPath | None = None
    """Stored run of a league, or the folder of its model. Its policies join the opponents."""

    stored_share: Fraction = 0.3
    """Share of opponents that are policies of the stored runs, the same of each run, before
    deviations."""


def read_members(choice: GameChoice, section: TrainingOpponents) -> StrategyGroups:
    """Draw the population of families, and read the policies of stored runs.

    Raises UserError if a stored run is missing, damaged or of another game.
    """
    game, tree = game_with_tree(choice)
    rng = np.random.default_rng(section.seed)
    families = board_evaluation.families(choice).draw_training(section.size, rng)
    stored = read_stored(choice, section.psro, section.league, "opponents.")
    return (families, *(batch_strategies(game, tree, batch) for batch in stored))


def read_stored(
    choice: GameChoice, psro: str | None, league: str | None, section: str = ""
) -> list[Weights]:
    """Read the policies of stored runs: a batch (see policies/policy_batch.py) for each run.

    `psro`, `league`: runs of these trainers, or None. `section`: prefix of the keys psro and league
    in error messages, such as `opponents.`. Raises UserError if a run is missing, damaged or of
    another game.
    """
    remedy = "use the key with the name of the run's trainer, psro or league"
    found = []
    for kind, model in (("psro", psro), ("league", league)):
        if model is not None:
            key = f"{section}{kind}"
            stored = opponent_population.stored_population(choice, kind, model, key, remedy)
            found.append({name: v for name, v in stored.items() if name != model_kinds.SHARES})
    return found


def draw_opponents(
    tree: Tree, members: StrategyGroups, section: TrainingOpponents, count: int, rng: Generator
) -> Array:
    """Draw the strategies (count, N, A) of training opponents."""
    families, stored = members[0], members[1:]
    found = families[rng.integers(len(families), size=count)]
    if stored:
        by_run = np.stack([each[rng.integers(len(each), size=count)] for each in stored])
        drawn = by_run[rng.integers(len(stored), size=count), np.arange(count)]
        from_runs = rng.random(count) < section.stored_share
        found = np.where(from_runs[:, None, None], drawn, found)
    other = families[rng.integers(len(families), size=count)]
    swapped = (rng.random(count) < MIXED_SEATS_SHARE)[:, None] & (tree.observations.seat == 1)
    found = np.where(swapped[:, :, None], other, found)
    deviates = rng.random(count) < section.deviating_share
    low, high = np.log(CONCENTRATIONS)
    concentration = np.exp(rng.uniform(low, high, count))[:, None, None]
    mean = (1 - UNIFORM_SHARE) * found + UNIFORM_SHARE * tree.uniform()
    weights = (rng.gamma(concentration * mean) + np.finfo(float).tiny) * tree.legal
    deviated = weights / weights.sum(axis=2, keepdims=True)
    return np.where(deviates[:, None, None], deviated, found)
