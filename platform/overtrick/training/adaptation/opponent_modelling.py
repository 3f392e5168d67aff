"""Meeting a stranger with an explicit model of it: after each step of games fit, then reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Fraction, GameChoice, Positive, Section, UnusedKeys
from overtrick.core import (
    Array,
    BehaviouralPolicy,
    Game,
    Policy,
    Trajectories,
    concatenate_trajectories,
)
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.critic import Critic
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.supervised.behaviour_cloning import CloningConfig, Demonstrations
from overtrick.learners.supervised.opponent_model import (
    correct_by_counts,
    fit_opponent_models,
    learn_response,
)
from overtrick.policies.forward_pass import Weights, pad, pad_slots
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.rollout import play, random_seating
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.training.adaptation.rollouts import networks, strategies


class Modelling(Section):
    """Fit of an opponent model, and the response to it."""

    unused_keys = (
        UnusedKeys(
            {"response": ("exact",)},
            ("ppo_iterations", "ppo_games", "ppo_learning_rate", "ppo_entropy_coef"),
        ),
    )

    learning_rate: Positive = Field(default=0.003, description="Adam's rate of the fit")
    epochs: Count = Field(default=200, description="passes of the fit over all games, at most")
    holdout_share: Fraction = Field(
        default=0.2, description="share of decisions held out to end the fit early"
    )
    prior_count: Positive = Field(
        default=2.0,
        description="decisions that the network's guess counts as where information sets are "
        "numbered, beside those seen there",
    )
    response: Literal["exact", "ppo"] = Field(
        default="exact",
        description="exact: the best response to the model, which needs a tree. ppo: learnt in "
        "simulated games, from the policy that has just played",
    )
    ppo_iterations: Count = Field(default=20, description="PPO iterations of each reply")
    ppo_games: Count = Field(default=500, description="simulated games of each iteration")
    ppo_learning_rate: Positive = Field(default=0.001, description="Adam's rate of PPO")
    ppo_entropy_coef: float = Field(default=0.0, ge=0, description="its bonus in points a nat")


@dataclass(frozen=True)
class Knows:
    """What was learnt before the stranger came."""

    first: Weights  # of the policy that plays the first games
    critic: Weights
    prior: Weights  # of the network that guesses opponents
    plan: Modelling


def modelled(
    rng: Generator,
    knows: Knows,
    how: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """The first policy, and the replies after each step, `how.draws` of them each.

    Each draw plays `how.games` games a step with its latest policy, fits a model to all the
    opponent's decisions so far, and replies to it. It sees what the opponent held when it
    decided, in every finished game: as everyone may whose gradients take luck out by AIVAT.
    """
    game, tree = two_seat_game(choice)
    policies: list[BehaviouralPolicy] = [NetworkPolicy(game.features, knows.first)] * how.repeats
    weights = [knows.first] * how.repeats  # of PPO's replies
    seen: Sequence[Trajectories | None] = [None] * how.repeats
    out = [policies]
    for step_rng in rng.spawn(how.steps):
        play_rng, fit_rng, reply_rng = step_rng.spawn(3)
        seen = watched(game, policies, opponent, how.games, play_rng, seen)
        models = fit(game, tree, seen, knows, fit_rng)
        if knows.plan.response == "exact":
            assert tree is not None
            policies = [
                TabularPolicy(best_reply(tree, best_response.sigma_of(tree, [m] * 2)))
                for m in models
            ]
        else:
            weights = [
                _learnt(game, start, model, knows, luck)
                for start, model, luck in zip(
                    weights, models, reply_rng.spawn(how.repeats), strict=True
                )
            ]
            policies = [NetworkPolicy(game.features, each) for each in weights]
        out.append(policies)
    return out


def watched(
    game: Game, policies: Sequence[Policy], opponent: Policy, games: int, rng: Generator,
    seen: Sequence[Trajectories | None],
) -> list[Trajectories]:  # fmt: skip
    """What an opponent decided in so many games against each of some policies, in random seats, and
    what each of them had seen of it before."""
    shown = []
    for past, policy, luck in zip(seen, policies, rng.spawn(len(policies)), strict=True):
        seat_rng, games_rng = luck.spawn(2)
        seating = random_seating(games, seat_rng)
        new = play(game, (policy, opponent), games, games_rng, seating, recorded=[1]).batch
        shown.append(new if past is None else concatenate_trajectories([past, new]))
    return shown


def fit(
    game: Game, tree: Tree | None, batches: Sequence[Trajectories], knows: Knows, rng: Generator
) -> list[BehaviouralPolicy]:
    """A model for each of some opponents, from their decisions."""
    plan = knows.plan
    if tree is None:
        return networks(game, imitations(game, batches, knows.prior, plan, rng))
    taken = np.stack([_counts(tree, batch) for batch in batches])
    features, legal = (
        np.repeat(each[None], len(taken), axis=0)
        for each in (game.features(tree.observations), tree.legal)
    )
    rows = Demonstrations(features, legal, taken)
    guess = strategies(game, tree, _imitated(knows.prior, rows, plan, rng))
    return [TabularPolicy(sigma) for sigma in correct_by_counts(guess, taken, plan.prior_count)]


def imitations(
    game: Game, batches: Sequence[Trajectories], prior: Weights, plan: Modelling, rng: Generator
) -> Weights:
    """(M, ...) networks that do what M opponents did: the prior, fitted to each one's decisions."""
    rows = _side_by_side([rows_of(game, batch) for batch in batches])
    return _imitated(prior, rows, plan, rng)


def _imitated(prior: Weights, rows: Demonstrations, plan: Modelling, rng: Generator) -> Weights:
    whole = CloningConfig(plan.epochs, batch=2**30)
    return fit_opponent_models(prior, rows, plan.learning_rate, whole, plan.holdout_share, rng)


def best_reply(tree: Tree, opponent: Array) -> Array:
    """(N, A) a best response to an opponent (N, A) in whichever seat one sits."""
    reply = opponent.copy()
    for seat in range(tree.seats):
        mine = tree.observations.seat == seat
        reply[mine] = best_response.best_response(tree, opponent, seat)[1][mine]
    return reply


def rows_of(game: Game, batch: Trajectories) -> Demonstrations:
    """Decisions as rows to be imitated, one each."""
    assert batch.legal is not None
    taken = np.zeros(batch.legal.shape)
    taken[np.arange(len(batch)), batch.action] = 1
    return Demonstrations(game.features(batch.observations()), batch.legal, taken)


def _counts(tree: Tree, batch: Trajectories) -> Array:
    """(N, A) how often each action was taken."""
    assert batch.infoset is not None
    taken = np.zeros(tree.legal.shape)
    np.add.at(taken, (batch.infoset, batch.action), 1)
    return taken


def _side_by_side(parts: list[Demonstrations]) -> Demonstrations:
    """The rows of M opponents with M in front; what fills up the shorter ones is never taken."""
    member = np.repeat(np.arange(len(parts)), [len(rows.taken) for rows in parts])
    slot = pad_slots(member, len(parts))

    def place(name: str) -> Array:
        return pad(np.concatenate([getattr(r, name) for r in parts]), member, slot, len(parts))

    legal = place("legal")
    legal[~legal.any(axis=-1)] = True
    return Demonstrations(place("features"), legal, place("taken"))


def _learnt(
    game: Game, start: Weights, model: BehaviouralPolicy, knows: Knows, rng: Generator
) -> Weights:
    """A reply to a model that PPO learns in simulated games, from where it starts."""
    plan = knows.plan
    critic_rng, reply_rng = rng.spawn(2)
    hidden = [len(knows.critic[f"b{k}"]) for k in range(len(knows.critic) // 2 - 1)]
    critic = Critic(len(knows.critic["w0"]), hidden, critic_rng, plan.ppo_learning_rate)
    critic.adam = Adam(knows.critic, plan.ppo_learning_rate)
    ppo = Ppo(plan.ppo_learning_rate, plan.ppo_entropy_coef)
    learner = ActorCritic(game.features, start, critic, ppo, 1.0, 0.95)

    def simulate(policy: Policy, luck: Generator) -> Trajectories:
        seat_rng, play_rng = luck.spawn(2)
        seating = random_seating(plan.ppo_games, seat_rng)
        return play(game, (policy, model), plan.ppo_games, play_rng, seating, recorded=[0]).batch

    learn_response(learner, simulate, plan.ppo_iterations, reply_rng)
    return learner.theta
