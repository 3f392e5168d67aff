"""Response oracles of PSRO: an approximate or exact best response of one seat to a mixture.

The oracle's response is a strategy (N, A), or the weights of a policy network. A network learns
from sampled games only. On a game tree its opponents play the strategy that is equivalent to the
mixture (Kuhn's theorem); elsewhere each draws one network of the mixture before every game.

| here | the usual implementation |
|---|---|
| the response of a Q-network is a softmax of its values at a small temperature | greedy |
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Game
from overtrick.evaluation.game_cache import playable_game
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.value_based.dqn import Dqn
from overtrick.policies.batched_networks import NetworkMixture
from overtrick.policies.by_seat import PolicyWithMemoryBySeat
from overtrick.policies.forward_pass import Weights, layer_count
from overtrick.policies.policy_batch import SEAT
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.lookahead import expectimax_mcts
from overtrick.training.equilibrium.psro_job import DqnOracle, LookaheadOracle, PpoOracle, PsroJob
from overtrick.training.rllib.rllib_trainer import mean_game_length
from overtrick.training.shared_sections import HEAD_SCALE

TEMPERATURE = 0.001  # points, of the softmax of a Q-network's values
OFF_PATH = 1e-9
"""Share of uniform play in the mixture to which `form: sequence` responds.

It makes the response optimal also where the mixture never leads, so that no action enters the
restricted game by a tie.
"""


@dataclass(frozen=True)
class Mixture:
    """Mixture of a population, to which the oracles respond."""

    sigma: Array | None  # (N, A) the equivalent strategy; None without a tree
    networks: list[Weights]  # for each seat the weights (K, ...); empty with a tree
    shares: list[Array]  # for each seat the probabilities (K,) of its policies; empty with a tree

    def policies(self, game: Game) -> list[Any]:
        """Return the policy of each seat."""
        if self.sigma is not None:
            return [TabularPolicy(self.sigma)] * game.seats
        pairs = zip(self.networks, self.shares, strict=True)
        return [NetworkMixture(game.features, weights, shares) for weights, shares in pairs]


def first_network(game: Game, job: PsroJob) -> Weights:
    """Return the weights of the population's first network, which plays uniformly at random."""
    layers = {"ppo": job.ppo.hidden, "dqn": job.dqn.hidden}
    hidden = layers.get(job.psro.oracle, job.rllib.hidden)
    return initial_policy_weights(game, hidden, np.random.default_rng(0), 0.0)


def respond(rng: Generator, common: Any, seat: int) -> tuple[Any, int]:
    """Find a response of one seat: a strategy (N, A), or the weights of a network.

    Also returns the number of decisions that all seats made in the oracle's games.

    `common`: the tuple (game, oracle's name, settings of the oracle, form of the restricted game,
    `Mixture`). With the oracle exact or search the response replaces the seat's rows of the
    mixture's strategy.
    """
    choice, oracle, section, form, mixture = common
    game, tree = playable_game(choice)
    if oracle == "ppo":
        return _train_ppo(game, section, mixture.policies(game), seat, rng)
    if oracle == "dqn":
        return _train_dqn(game, section, mixture.policies(game), seat, rng)
    assert tree is not None  # checked when the job is validated
    sigma = mixture.sigma
    if form == "sequence":
        sigma = (1 - OFF_PATH) * sigma + OFF_PATH * tree.uniform()
    if oracle == "exact":
        return best_response.best_response(tree, sigma, seat)[1], 0
    return _search(tree, section, sigma, seat, rng), 0


def _search(tree: Tree, section: LookaheadOracle, sigma: Array, seat: int, rng: Generator) -> Array:
    """Search a response by expectimax and Monte Carlo tree search (Samothrakis and Lucas 2011)."""
    depth = tree.max_decisions(seat) if section.depth is None else section.depth
    return expectimax_mcts.expectimax(tree, sigma, seat, depth, section.simulations, rng).sigma


def _train_ppo(
    game: Game, section: PpoOracle, policies: list[Any], seat: int, rng: Generator
) -> tuple[Weights, int]:
    """Train a policy network by PPO in one seat; `policies` has the policy of each other seat.

    Returns its weights, and the number of decisions of all seats in its games.
    """
    decisions = 0
    start_rng, *rngs = rng.spawn(1 + section.iterations)
    learner = section.learner(game, section.learning_rate, start_rng)
    for k, iteration_rng in enumerate(rngs):
        play_rng, learn_rng = iteration_rng.spawn(2)
        learner.optimizer.step_size = section.learning_rate * (1 - k / section.iterations)
        seats = [learner.policy() if s == seat else each for s, each in enumerate(policies)]
        played = play(game, seats, section.games, play_rng, recorded=[seat])
        learner.learn(played.batch, learn_rng)
        decisions += played.decision_count
    return learner.theta, decisions


def _train_dqn(
    game: Game, section: DqnOracle, policies: list[Any], seat: int, rng: Generator
) -> tuple[Weights, int]:
    """Train a Q-network in one seat; `policies` has the policy of each other seat.

    Returns the weights of a policy network whose logits are the Q-values, divided by TEMPERATURE,
    and the number of decisions of all seats in its games.
    """
    decisions = 0
    start_rng, *rngs = rng.spawn(1 + section.iterations)
    weights = initial_policy_weights(game, section.hidden, start_rng, HEAD_SCALE)
    learner = Dqn(game.features, weights, section.config())
    for k, iteration_rng in enumerate(rngs):
        play_rng, learn_rng = iteration_rng.spawn(2)
        progress = k / section.iterations
        learner.adam.set_learning_rate(section.learning_rate * (1 - progress))
        epsilon = section.epsilon_at(progress)
        own = learner.policy(explore=True, epsilon=epsilon)
        seats = [own if s == seat else each for s, each in enumerate(policies)]
        played = play(game, seats, section.games, play_rng, recorded=[seat])
        learner.learn(played.batch, learn_rng)
        decisions += played.decision_count
    return _softmax_of_values(learner.weights()), decisions


def _softmax_of_values(weights: Weights) -> Weights:
    """Return the policy network whose logits are the values of a Q-network, over TEMPERATURE."""
    last = layer_count(weights) - 1
    return {
        name: value / np.float32(TEMPERATURE) if name in (f"w{last}", f"b{last}") else value
        for name, value in weights.items()
    }


def respond_by_rllib(rng: Generator, common: Any) -> list[Weights]:
    """Train a network for each seat by an algorithm of RLlib, all in one run; return the weights.

    In every game one seat learns, and the mixture plays the others. `common`: the tuple (game, name
    of the algorithm, settings, `Mixture`). Ray must be running.
    """
    from overtrick.rllib import algorithm_config, algorithm_runner  # takes seconds

    choice, algorithm, section, mixture = common
    game, _ = playable_game(choice)
    length_rng, seed_rng = rng.spawn(2)
    first, *seeds = (int(s) for s in seed_rng.integers(2**31, size=1 + section.iterations))
    setup = algorithm_config.MultiAgentSetup(
        algorithm=algorithm,
        game=choice.name,
        options=choice.options,
        seats=game.seats,
        canonical=False,
        seed=first,
        workers=0,
        cpus=1.0,
        gpus=0.0,
        env_steps=section.env_steps,
        game_length=mean_game_length(game, length_rng),
        hidden=section.hidden,
        learning_rate=section.learning_rate,
        discount=section.discount,
        by_seat=True,
        past_selves=0,
        opponents=(partial(_mixture_policy, choice, mixture),),
        opponent_share=1.0,
        section=(section.ppo if algorithm == "PPO" else section.dqn).model_dump(),
    )
    with closing(algorithm_runner.AlgorithmRunner(setup)) as runner:
        for k, seed in enumerate(seeds):
            runner.step(seed, section.dqn.epsilon_at(k / section.iterations))
        networks = algorithm_runner.policy_networks(runner.state(), algorithm)
    by_seat = [networks[SEAT.format(seat)] for seat in range(game.seats)]
    return by_seat if algorithm == "PPO" else [_softmax_of_values(each) for each in by_seat]


def _mixture_policy(choice: GameChoice, mixture: Mixture) -> Any:
    """Return the policy that plays the mixture in every seat."""
    game, _ = playable_game(choice)
    if mixture.sigma is not None:
        return TabularPolicy(mixture.sigma)
    return PolicyWithMemoryBySeat(mixture.policies(game))
