"""How weights meet a stranger: one gradient or more after each batch of games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import BehaviouralPolicy, Game, PrivilegedFeatures, Trajectories, UserError
from overtrick.evaluation.evaluate import AdaptationEvaluation
from overtrick.evaluation.game_cache import cached_equilibrium, two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.weights import repeat
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.safe_exploitation import safe_best_response
from overtrick.training.adaptation.opponent_modelling import Modelling, imitations, watched
from overtrick.training.adaptation.rollouts import (
    ON_TREE,
    PRIOR_GAMES,
    GradientEstimator,
    adapt,
    exact_sample,
    meet,
    meet_on_tree,
    networks,
    prior_of,
    thought,
)

IMAGINED = 5000
"""Games against a fitted model for each gradient, where no tree gives it exactly."""


@dataclass(frozen=True)
class Start:
    """What a model of the meta trainer knows when it meets a stranger."""

    theta: Weights
    critic: Weights
    privileged: bool  # the critic knows the whole deal
    discount: float
    gradient_estimator: GradientEstimator
    policy: Literal["network", "best_response"] = "network"  # the policy judged after a step
    gradient_steps: int = 1  # on the games of a step


def check_estimator(
    key: str, estimator: GradientEstimator | None, game: Game, tree: Tree | None
) -> None:
    """Raise UserError for a gradient estimator that the game cannot support, or that needs a game
    tree where there is none. key names the job's key in the message."""
    if estimator == "privileged_critic" and not isinstance(game, PrivilegedFeatures):
        raise UserError(f"{key}: {game.name} has no privileged features: set critic")
    if game.actions is None and estimator == "opponent_model":
        raise UserError(
            f"{key}: opponent_model counts discrete actions, and {game.name} has none: set critic"
        )
    if tree is None and estimator == "aivat":
        raise UserError(
            f"{key}: aivat needs a tree, and {game.name} is too large for one: set critic"
        )


def adapted(
    rng: Generator,
    start: Start,
    how: AdaptationEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """The policies before and after each step of adaptation, `how.draws` of them each.

    Each draw begins at theta and adapts to the opponent on its own sampled games only. Where
    responses are judged, the networks only play those games; where these show little of the
    opponent, it is thought to play an equilibrium, since from that there is nothing to win.
    """
    game, tree = two_seat_game(choice)
    params = repeat(start.theta, how.repeats)
    if tree is None and start.gradient_estimator == "opponent_model":
        return _imagining(rng, start, how, game, params, opponent)
    seen = None
    policies = [networks(game, params)]
    for _ in range(how.steps):
        (step_rng,) = rng.spawn(1)
        if start.gradient_estimator not in ON_TREE:
            met = meet(
                game, params, start.critic, opponent, how.games, start.discount, 1.0, step_rng,
                merge=True, hindsight=start.privileged,
            )  # fmt: skip
        else:
            assert tree is not None
            theirs = best_response.sigma_of(tree, [opponent] * 2)
            them = np.broadcast_to(theirs, (how.repeats, *theirs.shape))
            prior = prior_of(choice, start.gradient_estimator)
            met = meet_on_tree(
                game, tree, params, them, how.games, start.gradient_estimator, prior, step_rng, seen
            )
            seen = met.opponent_counts
        params = adapt(params, met.sample, how.learning_rate)
        for _ in range(start.gradient_steps - 1):
            assert tree is not None
            assert seen is not None
            again = exact_sample(game, tree, params, thought(seen + prior))
            params = adapt(params, again, how.learning_rate)
        if start.policy == "best_response":
            assert tree is not None
            assert seen is not None
            assert how.exploitability_bound is not None
            likely = thought(seen + PRIOR_GAMES["opponent_model"] * cached_equilibrium(choice))
            policies.append(
                [
                    TabularPolicy(safe_best_response(tree, each, how.exploitability_bound))
                    for each in likely
                ]
            )
        else:
            policies.append(networks(game, params))
    return policies


def _imagining(
    rng: Generator,
    start: Start,
    how: AdaptationEvaluation,
    game: Game,
    params: Weights,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """The same without a tree, by the gradient against a model: of the games that were played only
    what the opponent did is used, and the step is learnt from games against who does the same.

    As many of those as one likes cost no interaction, so the gradient has far less noise.
    """
    prior_rng, *step_rngs = rng.spawn(1 + how.steps)
    layers = len(start.theta) // 2
    sizes = (len(start.theta["w0"]), *(len(start.theta[f"b{k}"]) for k in range(layers)))
    prior = initial_weights(sizes, prior_rng, head=0.1)
    seen: Sequence[Trajectories | None] = [None] * how.repeats
    policies = [networks(game, params)]
    for step_rng in step_rngs:
        play_rng, fit_rng, imagine_rng = step_rng.spawn(3)
        seen = watched(game, policies[-1], opponent, how.games, play_rng, seen)
        models = imitations(game, seen, prior, Modelling(), fit_rng)
        for luck in imagine_rng.spawn(start.gradient_steps):
            met = meet(
                game, params, start.critic, BatchedNetworks(game.features, models), IMAGINED,
                start.discount, 1.0, luck, merge=True, hindsight=start.privileged,
            )  # fmt: skip
            params = adapt(params, met.sample, how.learning_rate)
        policies.append(networks(game, params))
    return policies
