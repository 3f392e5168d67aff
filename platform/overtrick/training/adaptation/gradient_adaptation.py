"""Adaptation of a policy network to one opponent: gradient steps, each after a batch of games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import BehaviouralPolicy, Game, PrivilegedFeatures, Trajectories, UserError
from overtrick.evaluation.evaluate import AdaptationEvaluation
from overtrick.evaluation.game_cache import check_tree, two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.normalisation import DAMAGED_MOMENTS, RunningMoments
from overtrick.learners.weights import repeat
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights, layer_count
from overtrick.policies.model_kinds import check_network
from overtrick.policies.network_sizes import check_layers, input_size, privileged_input_size
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.safe_exploitation import safe_best_response
from overtrick.solvers.sequence_form import check_two_player_zero_sum
from overtrick.training.adaptation import gradient_samples as samples
from overtrick.training.adaptation import opponent_modelling as modelling
from overtrick.training.adaptation.gradient_samples import ON_TREE, GradientEstimator

SIMULATED_GAMES = 5000
"""Simulated games against an opponent model for each gradient, in games without a tree."""


@dataclass(frozen=True)
class AdaptingModel:
    """Weights of a trained model before adaptation to an opponent, with the adaptation settings."""

    theta: Weights  # policy network
    critic: Weights  # critic network, the baseline of the gradient
    privileged: bool  # the critic sees the whole deal
    discount: float
    gradient_estimator: GradientEstimator
    policy: Literal["network", "best_response"] = "network"  # the policy evaluated after a step
    gradient_steps: int = 1  # gradient steps from the games of one adaptation step
    inputs: RunningMoments | None = None  # normalise the inputs of gradient steps; None: raw inputs


def check_estimator(
    key: str, estimator: GradientEstimator | None, game: Game, tree: Tree | None
) -> None:
    """Raise UserError for a gradient estimator that the game does not support.

    `key`: name of the setting in the message, such as `meta.gradient_estimator`. `estimator`: None
    is always accepted. `tree`: the game's tree, None if the game is too large for one.
    """
    if estimator == "privileged_critic" and not isinstance(game, PrivilegedFeatures):
        raise UserError(f"{key}: {game.name} has no privileged features: set critic")
    if game.actions is None and estimator == "opponent_model":
        raise UserError(
            f"{key}: opponent_model counts discrete actions, and {game.name} has none: set critic"
        )
    if estimator == "aivat":
        check_tree(key, "aivat", game, tree, "set critic")
    if estimator == "opponent_model" and tree is not None:
        check_two_player_zero_sum(tree, f"{key}: opponent_model")


def adapt_by_gradients(
    rng: Generator,
    model: AdaptingModel,
    section: AdaptationEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """Adapt a model to one opponent by gradient steps; return the policies of each adaptation step.

    Element k of the result holds the policies after k steps, for k = 0 to `section.steps`: one
    policy for each of `section.repeats` independent repetitions of the adaptation. Every repetition
    starts from the model's weights. In each step it plays `section.games` games against the
    opponent and takes `model.gradient_steps` gradient steps of size `section.learning_rate`.

    If `model.policy` is "best_response", the adapted networks only collect data, as the behaviour
    policies of these games. The policies returned for k > 0 are then safe best responses to an
    estimate of the opponent's strategy: best responses under the constraint that their
    exploitability is at most `section.exploitability_bound` (see `samples.estimate_opponents`).

    Raises UserError if the policy network, the moments of its inputs, or a critic that the
    adaptation uses is damaged.
    """
    game, tree = two_seat_game(choice)
    check_network(model.theta, game, "the policy network of the model")
    if model.inputs is not None and len(model.inputs.mean) != input_size(game):
        raise UserError(DAMAGED_MOMENTS)
    params = repeat(model.theta, section.repeats)
    if tree is None or model.gradient_estimator not in ON_TREE:
        inputs = privileged_input_size(game) if model.privileged else input_size(game)
        check_layers(model.critic, inputs, 1, "the critic of the model", game.name)
    if tree is None and model.gradient_estimator == "opponent_model":
        return _adapt_by_simulation(rng, model, section, game, params, opponent)
    counts = None
    policies = [samples.network_policies(game, params)]
    for _ in range(section.steps):
        (step_rng,) = rng.spawn(1)
        if model.gradient_estimator not in ON_TREE:
            rollouts = samples.play_opponents(
                game, params, model.critic, opponent, section.games, model.discount, 1.0, step_rng,
                merge=True, privileged=model.privileged, inputs=model.inputs,
            )  # fmt: skip
        else:
            assert tree is not None
            sigma = best_response.sigma_of(tree, [opponent] * 2)
            opponents = np.broadcast_to(sigma, (section.repeats, *sigma.shape))
            rollouts = samples.play_opponents_on_tree(
                choice, params, opponents, section.games, model.gradient_estimator, step_rng, counts
            )
            counts = rollouts.opponent_counts
        params = samples.adapt(params, rollouts.sample, section.learning_rate, model.inputs)
        if model.policy == "network" and model.gradient_steps == 1:
            policies.append(samples.network_policies(game, params))
            continue
        assert tree is not None
        assert counts is not None
        estimate = rollouts.estimate
        if estimate is None:  # the gradient estimator is aivat
            estimate = samples.estimate_opponents(choice, counts)
        for _ in range(model.gradient_steps - 1):
            again = samples.exact_sample(game, tree, params, estimate)
            params = samples.adapt(params, again, section.learning_rate)
        if model.policy == "network":
            policies.append(samples.network_policies(game, params))
        else:
            bound = section.exploitability_bound
            assert bound is not None
            policies.append([TabularPolicy(safe_best_response(tree, s, bound)) for s in estimate])
    return policies


def _adapt_by_simulation(
    rng: Generator,
    model: AdaptingModel,
    section: AdaptationEvaluation,
    game: Game,
    params: Weights,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """Adapt a model by policy gradient in simulated games against a learned opponent model.

    Each adaptation step has three parts:

    - Play `section.games` real games against the opponent.
    - Train the opponent model, a network, to imitate all decisions of the opponent so far.
    - Take `model.gradient_steps` gradient steps, estimated from simulated games against the
      opponent model.

    `params`: weights (M, ...), one copy of the model's weights for each of the M =
    `section.repeats` independent repetitions of the adaptation. Returns the same as
    `adapt_by_gradients`.
    """
    prior_rng, *step_rngs = rng.spawn(1 + section.steps)
    layers = layer_count(model.theta)
    sizes = (len(model.theta["w0"]), *(len(model.theta[f"b{k}"]) for k in range(layers)))
    prior = initial_weights(sizes, prior_rng, head=0.1)
    observed: Sequence[Trajectories | None] = [None] * section.repeats
    policies = [samples.network_policies(game, params)]
    for step_rng in step_rngs:
        play_rng, fit_rng, simulation_rng = step_rng.spawn(3)
        observed = modelling.observe_opponent(
            game, policies[-1], opponent, section.games, play_rng, observed
        )
        clones = modelling.clone_opponents(
            game, observed, prior, modelling.OpponentModelling(), fit_rng
        )
        for gradient_rng in simulation_rng.spawn(model.gradient_steps):
            rollouts = samples.play_opponents(
                game, params, model.critic, BatchedNetworks(game.features, clones), SIMULATED_GAMES,
                model.discount, 1.0, gradient_rng, merge=True, privileged=model.privileged,
            )  # fmt: skip
            params = samples.adapt(params, rollouts.sample, section.learning_rate)
        policies.append(samples.network_policies(game, params))
    return policies
