"""Training opponents of an in-context learner, and its matches with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import Array
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.board.sampled_matches import MatchSampler
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.learners.policy_gradient.match_network import match_strategies
from overtrick.learners.policy_gradient.sample import DiscreteSample, join_samples
from overtrick.policies.forward_pass import Weights
from overtrick.solvers import aivat
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.training.adaptation.gradient_samples import log_probs

GradientName = Literal["exact", "ppo"]


class MatchSample(NamedTuple):
    """Policy-gradient sample of decisions at C stages of matches, and the games before each."""

    counts: Array  # (C, D) float32 number of games with each end observation
    sample: DiscreteSample  # its first axis are the stages, its second the N information sets
    payoff: Array  # (matches, 2) exact points per game at the first and at the last stage


@lru_cache(maxsize=4)
def _sampler(choice: str, told: Told) -> MatchSampler:
    return MatchSampler(board_evaluation.setting(GameChoice.model_validate_json(choice), told))


def match_sampler(choice: GameChoice, told: Told) -> MatchSampler:
    """Return the sampler of matches in a setting; each process makes it once."""
    return _sampler(choice.model_dump_json(), told)


def play_matches(rng: Generator, common: Any, opponents: Array) -> MatchSample:
    """Play a match with each of M opponents, and build a policy-gradient sample of all stages.

    A match has `section.stages` stages, the first before its first game. Between two stages a
    random number of games is played, log-uniform from `section.shortest_block` to `longest_block`,
    with the strategy of the earlier stage mixed with uniform play (`section.exploration`).

    `common`: the tuple (game, section `in_context`, weights, epsilon). The gradient is that of the
    strategy mixed with a share epsilon of uniform play. `opponents`: (M, N, A) strategies.
    """
    choice, section, weights, epsilon = common
    sampler = match_sampler(choice, section.told)
    tree = sampler.setting.tree
    counts = np.zeros((len(opponents), sampler.observation_count))
    seen, credits, reaches, logs, payoffs = [], [], [], [], []
    low, high = np.log([section.shortest_block, section.longest_block + 1])
    uniform = tree.uniform()
    for stage in range(section.stages):
        strategies = match_strategies(weights, counts, tree.legal)
        seen.append(counts.astype(np.float32))
        for m, (ours, theirs) in enumerate(zip(strategies, opponents, strict=True)):
            perturbed = (1 - epsilon) * ours + epsilon * uniform
            if section.gradient == "exact":
                credit, reach = counterfactual_advantages(tree, perturbed, theirs)
                credit *= ours
            else:
                credit, reach = sampled_advantages(tree, perturbed, theirs, section.games, rng)
                # the sample's ratios are relative to `ours`
                credit *= np.divide(ours, perturbed, out=np.zeros_like(ours), where=perturbed > 0)
            if stage in (0, section.stages - 1):
                payoffs.append(exact_payoff(tree, ours, theirs))
            credits.append(credit)
            reaches.append(reach)
            if stage < section.stages - 1:
                games = int(np.exp(rng.uniform(low, high)))
                share = section.exploration
                played = (1 - share) * ours + share * uniform
                counts[m] += sampler.sample(played, theirs, _games_by_seat(games, rng), rng)
        logs.append(log_probs(tree, strategies))
    tasks = len(credits)
    sample = DiscreteSample(
        np.zeros((tasks, tree.infosets, 0), np.float32),
        np.broadcast_to(tree.legal, (tasks, *tree.legal.shape)).copy(),
        np.concatenate(logs),
        np.stack(credits).astype(np.float32),
        np.stack(reaches).astype(np.float32),
    )
    payoff = np.reshape(payoffs, (2, len(opponents))).T
    return MatchSample(np.concatenate(seen), sample, payoff)


def counterfactual_advantages(tree: Tree, ours: Array, theirs: Array) -> tuple[Array, Array]:
    """Compute the counterfactual advantages of a player that sits in each seat half of the time.

    Returns for each action (N, A) its advantage in points times the counterfactual reach of the
    information set; and this reach (N,): the probability that chance and the opponent lead there,
    times 1/2 for the seat. Without the player's own probability of getting there, rarely reached
    decisions are learned as fast as others (Srinivasan et al. 2018).
    """
    credit, reach = np.zeros(ours.shape), np.zeros(len(ours))
    for seat in range(2):
        own = (tree.observations.seat == seat)[:, None]
        both = np.where(own, ours, theirs)
        values, others = best_response.seat_counterfactual_values(tree, both, seat)
        reach += others / 2
        values = values / 2
        mean = (both * values).sum(axis=1, keepdims=True)
        credit += np.where(own & tree.legal, values - mean, 0)
    return credit, reach


def sampled_advantages(
    tree: Tree, ours: Array, theirs: Array, games: int, rng: Generator
) -> tuple[Array, Array]:
    """Estimate the advantages of a player's actions from sampled games, half of them in each seat.

    Returns, per game, the sum of the AIVAT advantages of each action (N, A) in points, and the
    number of visits to each information set (N,). The values of AIVAT are those of the true
    strategies of both sides.
    """
    credit, visits = np.zeros(ours.shape), np.zeros(len(ours))
    for seat, count in enumerate(_games_by_seat(games, rng)):
        own = (tree.observations.seat == seat)[:, None]
        both = np.where(own, ours, theirs)
        rolled = aivat.sample_rollouts(tree, both, both, seat, count, rng)
        credit += np.where(own, rolled.credit, 0) / games
        visits += np.where(own, rolled.taken, 0).sum(axis=1) / games
    return credit, visits


def _games_by_seat(games: int, rng: Generator) -> tuple[int, int]:
    """Divide games between seats 0 and 1; the seat of an odd game is random."""
    first = games // 2 + games % 2 * int(rng.integers(2))
    return first, games - first


def join(parts: Sequence[MatchSample]) -> MatchSample:
    """Join the samples of several shards of opponents."""
    sample = join_samples([part.sample for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    return MatchSample(counts, sample, np.concatenate([part.payoff for part in parts]))


def continue_matches(
    sampler: MatchSampler,
    weights: Weights,
    counts: Array,
    theirs: Array,
    games: int,
    rng: Generator,
) -> Array:
    """Play more games of M matches against one opponent; return the new counts (M, D).

    After n games, the strategies are computed again max(2, n // 10) games later. `counts` (M, D):
    numbers of games with each end observation. `theirs` (N, A): strategy of the opponent. `games`:
    number of games to add to each match.
    """
    tree, counts, left = sampler.setting.tree, counts.copy(), games
    while left:
        block = min(max(2, int(counts[0].sum()) // 10), left)
        strategies = match_strategies(weights, counts, tree.legal)
        for m, ours in enumerate(strategies):
            counts[m] += sampler.sample(ours, theirs, _games_by_seat(block, rng), rng)
        left -= block
    return counts
