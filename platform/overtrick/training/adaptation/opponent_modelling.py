"""Adaptation by an explicit opponent model: after each step fit the model, then respond to it.

The model is a network that clones the opponent's behaviour; on a game tree its predictions are
combined with action counts. The response is the best response on the tree, or is trained by PPO in
simulated games.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count, Positive, Section, UnusedKeys
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
from overtrick.learners.supervised import opponent_model
from overtrick.learners.supervised.behaviour_cloning import CloningConfig, Demonstrations
from overtrick.policies.forward_pass import Weights, pad, pad_slots
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.rollout import play, random_seating
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.training.adaptation.gradient_samples import network_policies, strategies
from overtrick.training.shared_sections import EntropyCoef


class OpponentModelling(Section):
    """Settings of the fit of an opponent model, and of the response to the model."""

    unused_keys = (
        UnusedKeys(
            {"response": ("exact",)},
            ("ppo_iterations", "ppo_games", "ppo_learning_rate", "ppo_entropy_coef"),
        ),
    )

    learning_rate: Positive = 0.003
    """Adam's learning rate of the fit."""

    epochs: Count = 200
    """Largest number of epochs of the fit."""

    holdout_share: float = Field(default=0.2, ge=0, lt=1)
    """Share of decisions kept out of the fit for early stopping; 0: fit all decisions for all
    epochs.
    """

    prior_count: Positive = 2.0
    """Weight of the network's prediction at each information set, as a pseudo-count of decisions
    that is added to the observed actions; for games with a tree.
    """

    response: Literal["exact", "ppo"] = "exact"
    """Response to the model. exact: the best response, which needs a tree. ppo: trained in
    simulated games, starting from the policy of the last step.
    """

    ppo_iterations: Count = 20
    """PPO iterations per response."""

    ppo_games: Count = 500
    """Simulated games per PPO iteration."""

    ppo_learning_rate: Positive = 0.001
    """Adam's learning rate of PPO."""

    ppo_entropy_coef: EntropyCoef = 0.0


@dataclass(frozen=True)
class EomModel:
    """Networks before adaptation, and settings of explicit opponent modelling (EOM)."""

    policy: Weights  # initial policy, which plays before adaptation
    critic: Weights  # critic of this policy
    prior: Weights  # pretrained opponent model, of which a copy is fitted to each opponent
    section: OpponentModelling  # settings of fit and response


def adapt_by_modelling(
    rng: Generator,
    trained: EomModel,
    section: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """Adapt to one opponent by an explicit model; return the policies of each adaptation step.

    Element k of the result holds the policies after k steps, for k = 0 to `section.steps`: one
    policy for each of `section.repeats` independent repetitions of the adaptation. In each step
    every repetition plays `section.games` games with its latest policy, fits a model to all
    observed decisions of the opponent, and responds to the model. The fit sees the opponent's
    private cards. `trained`: the networks before adaptation, and the settings of fit and response.
    """
    game, tree = two_seat_game(choice)
    first = NetworkPolicy(game.features, trained.policy)
    policies: list[BehaviouralPolicy] = [first] * section.repeats
    weights = [trained.policy] * section.repeats  # responses trained by PPO
    observed: Sequence[Trajectories | None] = [None] * section.repeats
    by_step = [policies]
    for step_rng in rng.spawn(section.steps):
        play_rng, fit_rng, response_rng = step_rng.spawn(3)
        observed = observe_opponent(game, policies, opponent, section.games, play_rng, observed)
        models = _fit_models(game, tree, observed, trained, fit_rng)
        if trained.section.response == "exact":
            assert tree is not None
            sigmas = [best_response.sigma_of(tree, [model] * 2) for model in models]
            policies = [
                TabularPolicy(best_response.best_responses(tree, sigma)) for sigma in sigmas
            ]
        else:
            rngs = response_rng.spawn(section.repeats)
            weights = [
                _learn_response(game, start, model, trained, each)
                for start, model, each in zip(weights, models, rngs, strict=True)
            ]
            policies = [NetworkPolicy(game.features, each) for each in weights]
        by_step.append(policies)
    return by_step


def observe_opponent(
    game: Game, policies: Sequence[Policy], opponent: Policy, games: int, rng: Generator,
    earlier: Sequence[Trajectories | None],
) -> list[Trajectories]:  # fmt: skip
    """Play games of each policy against an opponent and return the opponent's decisions.

    The result has one batch of decisions for each policy. `games`: number of games of each policy,
    in random seats. `earlier`: for each policy the opponent's decisions in earlier games (None:
    there were none), which come first in the result.
    """
    observed = []
    for past, policy, policy_rng in zip(earlier, policies, rng.spawn(len(policies)), strict=True):
        seat_rng, games_rng = policy_rng.spawn(2)
        seating = random_seating(games, seat_rng)
        new = play(game, (policy, opponent), games, games_rng, seating, recorded=[1]).batch
        observed.append(new if past is None else concatenate_trajectories([past, new]))
    return observed


def _fit_models(
    game: Game,
    tree: Tree | None,
    observed: Sequence[Trajectories],
    trained: EomModel,
    rng: Generator,
) -> list[BehaviouralPolicy]:
    """Fit an opponent model to each batch of opponents' decisions; return the models as policies.

    A model is a copy of the network `trained.prior`, trained on the batch. If the game has a tree,
    the model's predictions are combined with the action counts at each information set.
    """
    section = trained.section
    if tree is None:
        return network_policies(game, clone_opponents(game, observed, trained.prior, section, rng))
    counts = np.stack([_action_counts(tree, batch) for batch in observed])
    features, legal = (
        np.repeat(each[None], len(counts), axis=0)
        for each in (game.features(tree.observations), tree.legal)
    )
    clones = _clone(trained.prior, Demonstrations(features, legal, counts), section, rng)
    predicted = strategies(game, tree, clones)
    return [
        TabularPolicy(sigma)
        for sigma in opponent_model.correct_by_counts(predicted, counts, section.prior_count)
    ]


def clone_opponents(
    game: Game,
    observed: Sequence[Trajectories],
    prior: Weights,
    section: OpponentModelling,
    rng: Generator,
) -> Weights:
    """Train M copies of a network to imitate M opponents; return their weights (M, ...).

    `observed`: the decisions of each opponent. `prior`: weights of the network before training.
    `section`: settings of the fit.
    """
    batched = _batch_demonstrations([demonstrations(game, batch) for batch in observed])
    return _clone(prior, batched, section, rng)


def _clone(
    prior: Weights, batched: Demonstrations, section: OpponentModelling, rng: Generator
) -> Weights:
    """Train M copies of a network on demonstrations (M, R, ...); return their weights (M, ...).

    `prior`: weights of the network before training. The training takes full-batch gradient steps
    with early stopping.
    """
    config = CloningConfig(section.epochs, batch=2**30)
    return opponent_model.fit_opponent_models(
        prior, batched, section.learning_rate, config, section.holdout_share, rng
    )


def demonstrations(game: Game, batch: Trajectories) -> Demonstrations:
    """Convert the D decisions of a batch to D rows for behaviour cloning."""
    assert batch.legal is not None
    taken = np.zeros(batch.legal.shape)
    taken[np.arange(len(batch)), batch.action] = 1
    return Demonstrations(game.features(batch.observations()), batch.legal, taken)


def _action_counts(tree: Tree, batch: Trajectories) -> Array:
    """Count the actions of a batch of decisions at each information set; return (N, A) counts."""
    assert batch.infoset is not None
    counts = np.zeros(tree.legal.shape)
    np.add.at(counts, (batch.infoset, batch.action), 1)
    return counts


def _batch_demonstrations(rows: list[Demonstrations]) -> Demonstrations:
    """Pad the demonstrations of M opponents to the longest; return one batch (M, R, ...).

    Padding rows have action counts of 0.
    """
    member = np.repeat(np.arange(len(rows)), [len(each.taken) for each in rows])
    slot = pad_slots(member, len(rows))

    def place(name: str) -> Array:
        column = np.concatenate([getattr(each, name) for each in rows])
        return pad(column, member, slot, len(rows))

    legal = place("legal")
    legal[~legal.any(axis=-1)] = True
    return Demonstrations(place("features"), legal, place("taken"))


def _learn_response(
    game: Game, start: Weights, model: BehaviouralPolicy, trained: EomModel, rng: Generator
) -> Weights:
    """Train a response to an opponent model by PPO in simulated games; return its weights.

    `start`: weights of the policy before training. `model`: the opponent model as a policy.
    `trained`: the critic before training, and the settings.
    """
    section = trained.section
    critic_rng, response_rng = rng.spawn(2)
    hidden = [len(trained.critic[f"b{k}"]) for k in range(len(trained.critic) // 2 - 1)]
    critic = Critic(len(trained.critic["w0"]), hidden, critic_rng, section.ppo_learning_rate)
    critic.adam = Adam(trained.critic, section.ppo_learning_rate)
    ppo = Ppo(section.ppo_learning_rate, section.ppo_entropy_coef)
    learner = ActorCritic(game.features, start, critic, ppo, 1.0, 0.95)

    for step_rng in response_rng.spawn(section.ppo_iterations):
        simulation_rng, learn_rng = step_rng.spawn(2)
        seat_rng, play_rng = simulation_rng.spawn(2)
        seating = random_seating(section.ppo_games, seat_rng)
        both = (learner.policy(), model)
        played = play(game, both, section.ppo_games, play_rng, seating, recorded=[0])
        learner.learn(played.batch, learn_rng)
    return learner.theta
