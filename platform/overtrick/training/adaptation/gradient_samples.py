"""Policy-gradient batches of M networks against opponents, from played games or the game tree.

A batch (type `Sample`) holds decisions of the networks with the advantages of the actions. Wu et
al. 2022 estimate all gradients from played games with a critic as baseline. The other gradient
estimators are additions: a critic that sees the whole deal, AIVAT, and an opponent model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Enumerable, Game, Policy
from overtrick.core.checkpoints import unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.evaluation.game_cache import cached_exact_equilibrium, game_with_tree
from overtrick.learners.critic import predict
from overtrick.learners.normalisation import (
    RunningMoments,
    for_normalised_inputs,
    for_raw_inputs,
)
from overtrick.learners.policy_gradient import advantages, maml
from overtrick.learners.policy_gradient import sample as samples
from overtrick.learners.supervised.opponent_model import (
    correct_by_counts,
    posterior_mean_strategy,
)
from overtrick.learners.weights import to_arrays
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax, tensors
from overtrick.policies.network import network_policy
from overtrick.policies.policy_batch import SEAT, SIGMA
from overtrick.policies.rollout import PRIVILEGED, play, random_seating
from overtrick.reports import metric_names
from overtrick.solvers import aivat
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

log = logging.getLogger(__name__)

GradientEstimator = Literal["critic", "privileged_critic", "aivat", "opponent_model"]
"""Estimator of a policy gradient.

- critic: sampled returns minus the baseline of a critic that sees the learner's observations.
- privileged_critic: sampled returns minus the baseline of a critic that sees the whole deal.
- aivat: sampled decisions with AIVAT advantages from the tree.
- opponent_model: all decisions of the tree, with exact advantages against the estimated opponent.
"""

ON_TREE: tuple[GradientEstimator, ...] = ("aivat", "opponent_model")
PRIOR_WEIGHT = {"critic": 3.0, "aivat": 3.0}
"""For each gradient estimator: number of decisions for which the prior of its baseline counts.

They are counted at each information set. For critic the prior is a mean advantage of 0. For aivat
it is uniform play of the opponent.
"""
EQUILIBRIUM_SHARES = (0.0, 0.25, 0.5, 0.75, 0.99)
"""Each prior mean of an opponent model mixes an equilibrium, with this share, and uniform play.

No share is 1, so that every legal action is possible.
"""


@dataclass(frozen=True)
class OpponentRollouts:
    """Results of games of M networks against opponents, for policy-gradient and critic updates.

    `features` and `returns` are D training examples of the critic. `play_opponents` gives one
    example for each decision. `play_opponents_on_tree` gives one for each information set that a
    network visited, with the mean return.
    """

    sample: samples.Sample  # policy-gradient sample of M tasks, one for each network
    features: Array  # (D, F) inputs of the critic
    returns: Array  # (D,) discounted points won from each decision onwards
    payoff: Array  # (M,) mean points per game
    opponent_counts: Array | None = None  # (M, N, A) opponents' actions so far; None without a tree
    estimate: Array | None = None  # (M, N, A) of their strategies; only with opponent_model
    diverged_games: int = 0  # games that ended because a simulator diverged
    decision_count: int = 0  # decisions of both seats in the games; not counted on a tree


def play_opponents(
    game: Game,
    params: Weights,
    critic: Weights,
    opponents: Policy,
    games: int,
    gamma: float,
    lam: float,
    rng: Generator,
    merge: bool = False,
    privileged: bool = False,
    inputs: RunningMoments | None = None,
) -> OpponentRollouts:
    """Play games of M networks against opponents in random seats, and estimate advantages with GAE.

    If the game numbers its information sets, a leave-one-out baseline for each network and
    information set is subtracted from the advantages.

    - `params`: weights of the M networks, with leading axis M.
    - `critic`: weights of the critic that serves as baseline.
    - `opponents`: one policy for all M * `games` games.
    - `games`: games of each network; network m plays games m * `games` to (m + 1) * `games` - 1.
    - `gamma`, `lam`: discount, and lambda of GAE.
    - `merge`: combine all decisions of a network at an information set into one row of the
      policy-gradient sample.
    - `privileged`: the critic sees the whole deal. The deal does not depend on any action, so the
      gradient stays unbiased.
    - `inputs`: moments with which the policy-gradient sample normalises the network inputs; None:
      the sample has raw inputs. The critic's inputs are always raw.
    """
    members = len(params["w0"])
    seat_rng, play_rng = rng.spawn(2)
    seating = random_seating(members * games, seat_rng)
    both = (BatchedNetworks(game.features, params), opponents)
    played = play(game, both, members * games, play_rng, seating, [0], privileged)
    batch = played.batch
    member = batch.game // games
    features = game.features(batch.observations())
    critic_inputs = batch.extras[PRIVILEGED] if privileged else features
    baseline = predict(critic, critic_inputs)
    advantage = advantages.generalised_advantages(batch, baseline, gamma, lam)
    if batch.infoset is not None:
        advantage = advantages.subtract_leave_one_out_mean(
            advantage, batch.infoset, member, PRIOR_WEIGHT["critic"]
        )
    if inputs is not None:
        features = inputs.normalised(features)
        params = for_normalised_inputs(params, inputs)
    return OpponentRollouts(
        samples.rollout_sample(params, batch, features, advantage, games, member, merge),
        critic_inputs,
        advantages.discounted_returns(batch, gamma),
        learner_payoffs(played.payoff, seating, members).mean(axis=1),
        diverged_games=played.diverged_games,
        decision_count=played.decision_count,
    )


def learner_payoffs(payoff: Array, seating: Array, members: int) -> Array:
    """Return the learner's points (M, games) in M equal blocks of games; the learner is policy 0.

    `payoff` (M * games, 2): points of both seats. `seating` (M * games, 2): index of the policy in
    each seat. `members`: the number M of blocks.
    """
    return np.where(seating == 0, payoff, 0).sum(axis=1).reshape(members, -1)


def payoff_metrics(payoffs: Iterable[Array], unit: str) -> dict[str, float]:
    """Return as metrics the mean payoffs against training opponents, one for each adaptation step.

    `payoffs`: for each step an array of points; the first array is from before adaptation. `unit`:
    unit of the points, which is part of the metrics' names.
    """
    return {
        metric_names.payoff_name(metric_names.OPPONENTS, step, unit): float(payoff.mean())
        for step, payoff in enumerate(payoffs)
    }


def diverged_games_metric(game: Game, count: int) -> dict[str, float]:
    """Return as a metric the number `count` of games whose simulation diverged; warn if above 0.

    Games with discrete actions have no simulator, and get no metric. Workers' warnings appear only
    in Ray's log, so this process logs the warning.
    """
    if game.actions is not None:
        return {}
    if count:
        log.warning("the simulation of %d games diverged: they count as draws", count)
    return {"diverged_games": float(count)}


def play_opponents_on_tree(
    choice: GameChoice,
    params: Weights,
    opponents: Array,
    games: int,
    estimator: GradientEstimator,
    rng: Generator,
    counts: Array | None = None,
) -> OpponentRollouts:
    """Sample games of M networks on the game tree, and compute advantages without a critic.

    An opponent model for each network, estimated from action counts, takes the critic's place.

    Arguments:

    - `estimator` "aivat": return AIVAT advantages at the information sets visited in these games.
      The opponent models are estimated from earlier games only.
    - `estimator` "opponent_model": return exact advantages against the opponent models at all
      information sets. The opponent models are estimated from earlier games and these games.
    - `params`: weights of the M networks, with leading axis M.
    - `opponents` (M, N, A): true strategies of the opponents.
    - `games`: games of each network.
    - `counts` (M, N, A): how often each opponent took each action in earlier games; None: there
      were no earlier games.
    """
    game, tree = game_with_tree(choice)
    sigma = strategies(game, tree, params)
    counts = np.zeros(sigma.shape) if counts is None else counts
    # expected play of the opponents, by which AIVAT reduces the variance
    expected = correct_by_counts(tree.uniform(), counts, PRIOR_WEIGHT["aivat"])
    weight, credit = np.zeros(sigma.shape[:2]), np.zeros(sigma.shape)
    returns, payoff, counts = np.zeros(weight.shape), np.zeros(len(sigma)), counts.copy()
    for m, member_rng in enumerate(rng.spawn(len(sigma))):
        first = member_rng.binomial(games, 0.5)  # games in seat 0
        for seat, count in enumerate((first, games - first)):
            own = (tree.observations.seat == seat)[:, None]
            real, guess = (np.where(own, sigma[m], other[m]) for other in (opponents, expected))
            rolled = aivat.sample_rollouts(tree, real, guess, seat, count, member_rng)
            weight[m] += np.where(own, rolled.taken, 0).sum(axis=1) / games
            credit[m] += rolled.credit / games
            returns[m] += rolled.returns / games
            payoff[m] += rolled.payoff / games
            counts[m] += np.where(own, 0, rolled.taken)
    member, row = np.nonzero(weight)
    features, visited = game.features(tree.observations)[row], weight[member, row]
    estimate = None
    if estimator == "opponent_model":
        estimate = estimate_opponents(choice, counts)
        sample = exact_sample(game, tree, params, estimate)
    else:
        sample = samples.padded_sample(
            features, tree.legal[row], log_probs(tree, sigma)[member, row], credit[member, row],
            visited, member, len(sigma),
        )  # fmt: skip
    returned = returns[member, row] / visited
    return OpponentRollouts(sample, features, returned, payoff, counts, estimate)


def estimate_opponents(choice: GameChoice, counts: Array) -> Array:
    """Estimate the strategies (M, N, A) of opponents from counts (M, N, A) of their actions.

    The estimate is the posterior mean of `posterior_mean_strategy`. Its prior means are mixtures of
    uniform play and an equilibrium with the shares EQUILIBRIUM_SHARES. Raises UserError unless the
    game has a tree and two seats and is zero-sum.
    """
    share = np.array(EQUILIBRIUM_SHARES)[:, None, None]
    uniform = game_with_tree(choice)[1].uniform()
    return posterior_mean_strategy(
        counts, share * cached_exact_equilibrium(choice) + (1 - share) * uniform
    )


def adapt(
    params: Weights, sample: samples.Sample, step: float, inputs: RunningMoments | None = None
) -> Weights:
    """Take one inner gradient step of MAML with each of M networks; return their new weights.

    Network m follows the policy gradient of task m of `sample`. `params`: weights for raw inputs,
    with leading axis M. `step`: step size. `inputs`: moments with which the sample's inputs are
    normalised; the step is then one of the weights for normalised inputs.
    """
    if inputs is not None:
        params = for_normalised_inputs(params, inputs)
    leaves = {n: v.requires_grad_() for n, v in tensors(params).items()}
    adapted = to_arrays(maml.adapt(leaves, samples.sample_tensors(sample), step))
    return adapted if inputs is None else for_raw_inputs(adapted, inputs)


def strategies(game: Game, tree: Tree, params: Weights) -> Array:
    """Return the strategies (M, N, A) of M networks at all information sets of the tree.

    `params`: weights with leading axis M.
    """
    with torch.inference_mode():
        logits = forward(tensors(params), torch.as_tensor(game.features(tree.observations)))
        logp = masked_log_softmax(logits, torch.as_tensor(tree.legal))
        return logp.double().exp().numpy(force=True)


def batch_strategies(game: Game, tree: Tree, batch: Mapping[str, Array]) -> Array:
    """Return the strategies (M, N, A) of a batch of policies (see policies/policy_batch.py)."""
    if SIGMA in batch:
        return batch[SIGMA]
    by_seat = [unprefixed(SEAT.format(seat), batch) for seat in range(tree.seats)]
    if not by_seat[0]:
        return strategies(game, tree, dict(batch))
    found = np.stack([strategies(game, tree, weights) for weights in by_seat])  # (S, M, N, A)
    return found[tree.observations.seat, :, np.arange(tree.infosets)].swapaxes(0, 1)


def visit_probabilities(tree: Tree, sigma: Array, opponent: Array) -> Array:
    """Return (N,) the probability that a player in a random seat visits each information set.

    An information set belongs to one seat, so that the probability is at most 1/2. `sigma` (N, A):
    the player's strategy. `opponent` (N, A): the strategy in the other seat.
    """
    reach = np.zeros(tree.infosets)
    for seat in range(2):
        own = (tree.observations.seat == seat)[:, None]
        reach += best_response.policy_gradient(tree, np.where(own, sigma, opponent), seat)[0] / 2
    return reach


def exact_sample(
    game: Enumerable, tree: Tree, params: Weights, opponents: Array
) -> samples.DiscreteSample:
    """Compute the exact policy-gradient sample of M networks, with a row for each information set.

    `params`: weights of the networks. `opponents` (M, N, A): strategies of their opponents. Each
    network plays both seats with equal probability. The rows have exact advantages and are weighted
    by their visit probability, so that the policy gradient of the sample is exact.
    """
    sigma = strategies(game, tree, params)
    weight, credit = np.zeros(sigma.shape[:2]), np.zeros(sigma.shape)
    for m, (mine, theirs) in enumerate(zip(sigma, opponents, strict=True)):
        for seat in range(2):
            own = (tree.observations.seat == seat)[:, None]
            reach, advantage = best_response.policy_gradient(
                tree, np.where(own, mine, theirs), seat
            )
            weight[m] += reach / 2
            credit[m] += reach[:, None] / 2 * mine * advantage
    features = game.features(tree.observations)
    return samples.DiscreteSample(
        np.repeat(features[None], len(sigma), axis=0),
        np.broadcast_to(tree.legal, sigma.shape).copy(),
        log_probs(tree, sigma),
        credit.astype(np.float32),
        weight.astype(np.float32),
    )


def log_probs(tree: Tree, sigma: Array) -> Array:
    """Return float32 log-probabilities (M, N, A) of strategies `sigma`; -inf at illegal actions."""
    with np.errstate(divide="ignore"):
        logp = np.log(sigma).clip(min=-100)  # a probability may underflow to 0
    return np.where(tree.legal, logp, -np.inf).astype(np.float32)


def network_policies(game: Game, params: Weights) -> list[Any]:
    """Return M policies, one for each network; `params` are weights with leading axis M."""
    members = len(params["w0"])
    return [
        network_policy(game.features, {n: v[m] for n, v in params.items()}) for m in range(members)
    ]


def mean_payoffs(
    game: Game, members: Weights, opponent: Policy, games: int, rng: Generator
) -> Array:
    """Play M networks in random seats against a policy; return (M,) their mean points per game.

    - `members`: weights of the networks, with leading axis M.
    - `opponent`: the policy in the other seat. A `BatchedNetworks` gives each network an opponent
      of its own.
    - `games`: games of each network.
    """
    count = len(members["w0"])
    seat_rng, play_rng = rng.spawn(2)
    seating = random_seating(count * games, seat_rng)
    both = (BatchedNetworks(game.features, members), opponent)
    payoff = play(game, both, count * games, play_rng, seating, recorded=()).payoff
    return learner_payoffs(payoff, seating, count).mean(axis=1)
