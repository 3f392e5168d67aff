"""A batch of equal networks meets opponents: in sampled games, or exactly."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Enumerable, Game, Policy
from overtrick.evaluation.game_cache import cached_equilibrium, game_with_tree
from overtrick.learners.critic import predict
from overtrick.learners.policy_gradient import maml
from overtrick.learners.policy_gradient.advantages import (
    discounted_returns,
    generalised_advantages,
    subtract_leave_one_out_mean,
)
from overtrick.learners.policy_gradient.sample import (
    ContinuousSample,
    DiscreteSample,
    padded_sample,
    rollout_sample,
    sample_tensors,
)
from overtrick.learners.weights import to_arrays
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax, tensors
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import PRIVILEGED, play, random_seating
from overtrick.solvers import aivat
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

log = logging.getLogger(__name__)

GradientEstimator = Literal["critic", "privileged_critic", "aivat", "opponent_model"]
"""What the gradient of a step is made of: sampled returns less the baseline of a critic that sees
what the learner sees, or in hindsight the whole deal; sampled decisions without their luck, on the
tree; or all decisions, against the opponent that the games have shown."""

ON_TREE: tuple[GradientEstimator, ...] = ("aivat", "opponent_model")
PRIOR_GAMES = {"critic": 3.0, "aivat": 3.0, "opponent_model": 0.25}
"""Games at an information set after which a sample knows more than what was thought before it."""


@dataclass(frozen=True)
class OpponentRollouts:
    """What M learners brought home from their games."""

    sample: DiscreteSample | ContinuousSample  # M tasks
    features: Array  # (D, F) what the critic sees of every decision
    returns: Array  # (D,) discounted points that followed
    payoff: Array  # (M,) mean points a game
    opponent_counts: Array | None = None  # (M, N, A) what the opponents did so far, if that is kept
    diverged_games: int = 0  # games that a simulator could not follow


def meet(
    game: Game,
    params: Weights,
    critic: Weights,
    opponents: Policy,
    games: int,
    gamma: float,
    lam: float,
    rng: Generator,
    merge: bool = False,
    hindsight: bool = False,
) -> OpponentRollouts:
    """M learners (weights with leading axis M) play so many games each, in random seats.

    opponents must seat M * games games, learner m's at m * games onwards. gamma and lam are the
    discount and lambda of the advantages over the critic's baseline, to which the sample adds its
    own where information sets are numbered; merge is `of_games`'s. A critic with hindsight knows
    the whole deal, which no action can change, so no bias comes in.
    """
    members = len(params["w0"])
    seat_rng, play_rng = rng.spawn(2)
    seating = random_seating(members * games, seat_rng)
    both = (BatchedNetworks(game.features, params), opponents)
    played = play(game, both, members * games, play_rng, seating, [0], hindsight)
    batch = played.batch
    member = batch.game // games
    features = game.features(batch.observations())
    judged = batch.extras[PRIVILEGED] if hindsight else features
    advantage = generalised_advantages(batch, predict(critic, judged), gamma, lam)
    if batch.infoset is not None:
        advantage = subtract_leave_one_out_mean(
            advantage, batch.infoset, member, PRIOR_GAMES["critic"]
        )
    sample = rollout_sample(params, batch, features, advantage, games, member, merge)
    won = np.where(seating == 0, played.payoff, 0).sum(axis=1).reshape(members, games)
    returns = discounted_returns(batch, gamma)
    return OpponentRollouts(
        sample, judged, returns, won.mean(axis=1), diverged_games=played.diverged_games
    )


def astray_games(game: Game, count: int) -> dict[str, float]:
    """The metric of games that a simulator could not follow, where one runs the game. Told here as
    well, for what is logged where games are played stays with Ray."""
    if game.actions is not None:
        return {}
    if count:
        log.warning("the simulator lost %d games of this iteration: they count as draws", count)
    return {"astray_games": float(count)}


def meet_on_tree(
    game: Enumerable,
    tree: Tree,
    params: Weights,
    opponents: Array,
    games: int,
    estimator: GradientEstimator,
    prior: Array,
    rng: Generator,
    seen: Array | None = None,
) -> OpponentRollouts:
    """The same on the tree, without a critic; opponents (M, N, A) are the strategies to be met.

    seen (M, N, A) is what the opponents did in earlier games, to which prior (N, A) is added:
    `prior_of` the credit. With aivat the sample has a row for each information set that was come
    to, credited by what was thought before these games. With model it has all of them, and is
    exact against what is thought after these games.
    """
    sigma = strategies(game, tree, params)
    seen = np.zeros(sigma.shape) if seen is None else seen
    guesses = thought(seen + prior)
    weight, share = np.zeros(sigma.shape[:2]), np.zeros(sigma.shape)
    returns, payoff, seen = np.zeros(weight.shape), np.zeros(len(sigma)), seen.copy()
    for m, luck in enumerate(rng.spawn(len(sigma))):
        first = luck.binomial(games, 0.5)  # games in seat 0
        for seat, count in enumerate((first, games - first)):
            own = (tree.observations.seat == seat)[:, None]
            real, guess = (np.where(own, sigma[m], other[m]) for other in (opponents, guesses))
            met = aivat.sample_rollouts(tree, real, guess, seat, count, luck)
            weight[m] += np.where(own, met.taken, 0).sum(axis=1) / games
            share[m] += met.credit / games
            returns[m] += met.returns / games
            payoff[m] += met.payoff / games
            seen[m] += np.where(own, 0, met.taken)
    member, row = np.nonzero(weight)
    features, come = game.features(tree.observations)[row], weight[member, row]
    if estimator == "opponent_model":
        sample = exact_sample(game, tree, params, thought(seen + prior))
    else:
        sample = padded_sample(
            features, tree.legal[row], _logp(tree, sigma)[member, row], share[member, row], come,
            member, len(sigma),
        )  # fmt: skip
    return OpponentRollouts(sample, features, returns[member, row] / come, payoff, seen)


def prior_of(choice: GameChoice, estimator: GradientEstimator) -> Array:
    """Return prior counts (N, A) of the opponent's actions, in decisions.

    With opponent_model, unvisited information sets use the prior: half uniform play, half
    equilibrium. With aivat the prior is uniform play; it changes the variance only. Raises
    UserError for a game without a tree.
    """
    _, tree = game_with_tree(choice)
    guess = tree.uniform()
    if estimator == "opponent_model":
        guess = (guess + cached_equilibrium(choice)) / 2
    return PRIOR_GAMES[estimator] * guess


def thought(counts: Array) -> Array:
    """(M, N, A) how opponents are thought to play, by how often they took each action."""
    return counts / counts.sum(axis=-1, keepdims=True)


def adapt(params: Weights, sample: DiscreteSample | ContinuousSample, step: float) -> Weights:
    """One inner step of each member on its own sample."""
    leaves = {n: v.requires_grad_() for n, v in tensors(params).items()}
    return to_arrays(maml.adapt(leaves, sample_tensors(sample), step))


def strategies(game: Game, tree: Tree, params: Weights) -> Array:
    """(M, N, A) what each of M networks does at every information set."""
    with torch.inference_mode():
        logits = forward(tensors(params), torch.from_numpy(game.features(tree.observations)))
        logp = masked_log_softmax(logits, torch.from_numpy(tree.legal))
        return logp.double().exp().numpy()


def visits(tree: Tree, sigma: Array, opponent: Array) -> Array:
    """(N,) how often a strategy comes to each information set, the mean over both seats."""
    come = np.zeros(tree.infosets)
    for seat in range(2):
        mine = (tree.observations.seat == seat)[:, None]
        come += best_response.policy_gradient(tree, np.where(mine, sigma, opponent), seat)[0] / 2
    return come


def exact_sample(game: Enumerable, tree: Tree, params: Weights, opponents: Array) -> DiscreteSample:
    """Every information set, weighted by how often M learners come to it.

    opponents (M, N, A) are the strategies that the learners meet, in both seats with equal
    probability. Credit and weights are exact, so a policy gradient on it has no variance.
    """
    sigma = strategies(game, tree, params)
    weight, credit = np.zeros(sigma.shape[:2]), np.zeros(sigma.shape)
    for m, (mine, theirs) in enumerate(zip(sigma, opponents, strict=True)):
        for seat in range(2):
            own = (tree.observations.seat == seat)[:, None]
            come, advantage = best_response.policy_gradient(tree, np.where(own, mine, theirs), seat)
            weight[m] += come / 2
            credit[m] += come[:, None] / 2 * mine * advantage
    features = game.features(tree.observations)
    return DiscreteSample(
        np.repeat(features[None], len(sigma), axis=0),
        np.broadcast_to(tree.legal, sigma.shape).copy(),
        _logp(tree, sigma),
        credit.astype(np.float32),
        weight.astype(np.float32),
    )


def _logp(tree: Tree, sigma: Array) -> Array:
    """Log-probabilities of strategies (M, N, A), float32; -inf if illegal."""
    with np.errstate(divide="ignore"):
        logp = np.log(sigma).clip(min=-100)  # a probability may underflow to 0
    return np.where(tree.legal, logp, -np.inf).astype(np.float32)


def networks(game: Game, params: Weights) -> list[Any]:
    """M policies from weights with leading axis M; Mixed, unless moves are real vectors."""
    members = len(params["w0"])
    return [
        network_policy(game.features, {n: v[m] for n, v in params.items()}) for m in range(members)
    ]


def fitness(game: Game, members: Weights, opponent: Policy, games: int, rng: Generator) -> Array:
    """(M,) mean points a game of M networks against one opponent, in random seats."""
    count = len(members["w0"])
    seat_rng, play_rng = rng.spawn(2)
    seating = random_seating(count * games, seat_rng)
    both = (BatchedNetworks(game.features, members), opponent)
    payoff = play(game, both, count * games, play_rng, seating, recorded=()).payoff
    return np.where(seating == 0, payoff, 0).sum(axis=1).reshape(count, games).mean(axis=1)
