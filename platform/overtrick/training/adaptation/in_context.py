"""Trainer `in_context`: a network that reads the finished games of a match and adapts its strategy.

At test it takes no gradient step. It is trained in matches against opponents of many families, so
as to win the most at several stages of each match.

| here | in-context reinforcement learning with recurrent networks (RL^2, Duan et al. 2016) |
|---|---|
| the network reads counts of end observations, see `match_network.py` | a sequence of steps |
| exact policy gradient on the tree (`gradient: exact`), or PPO | policy gradient of sampled games |
| the gain of exploration in later games is no part of the gradient | it is a part |
| a share of uniform play in training matches | the policy explores by itself |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import GameChoice, GpuJob
from overtrick.config.sections import Count, Fraction, Positive, Section, UnusedKeys
from overtrick.core import Array, BehaviouralPolicy, PublicActionGame, UserError
from overtrick.core.checkpoints import check_shapes, prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.policy_gradient.match_learner import MatchLearner
from overtrick.learners.policy_gradient.match_network import (
    STORED,
    MatchNetworkSizes,
    initial_match_weights,
    match_strategies,
    match_weight_shapes,
)
from overtrick.policies.forward_pass import Weights
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.training import scores
from overtrick.training.adaptation import in_context_matches as training
from overtrick.training.adaptation.gradient_samples import payoff_metrics
from overtrick.training.adaptation.training_opponents import (
    TrainingOpponents,
    draw_opponents,
    read_members,
    read_stored,
)
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer

SHARD = 20  # opponents per shard, independent of the number of workers
FINAL_RATE_FACTOR = 0.02  # of the learning rate, at the end of training
EPSILON = (0.1, 0.005)  # at the start and end of training; see `in_context_matches.play_matches`


class InContext(Section):
    """Settings of the network, its matches in training, and its updates."""

    unused_keys = (UnusedKeys({"gradient": ("exact",)}, ("games", "epochs", "clip", "target_kl")),)

    told: Told = "own_cards"
    """Cards of the opponent that the network is told after a game. own_cards: none; showdown: those
    shown at a showdown; all_cards: all. It always sees all actions and its own cards and payoffs.
    """

    heads: Count = 4
    """Evidence heads. Each sums learned vectors over the games and takes the softmax of the sum."""

    hypotheses: Count = 64
    """Length of the vector of an evidence head: an entry for each hypothesis about an opponent."""

    queries: Count = 96
    """Attention queries. Each takes a weighted average of learned vectors over the games."""

    values: Count = 4
    """Length of the vectors that an attention query averages."""

    hidden: Count = 384
    """Units of each of the two hidden layers."""

    matches: Count = 40
    """Matches per update. An opponent is drawn for each."""

    stages: int = Field(default=6, ge=2)
    """Stages of a match at which the strategy is improved, the first before the first game."""

    shortest_block: Count = 4
    """Smallest number of games from one stage to the next."""

    longest_block: Count = 1000
    """Largest number of games from one stage to the next."""

    exploration: Fraction = 0.05
    """Share of uniform play mixed into the strategies that play the games of training. Afterwards
    the network plays without it."""

    gradient: training.GradientName = "exact"
    """exact: the policy gradient of exact payoffs on the game tree. ppo: PPO on sampled games."""

    games: int = Field(default=40, ge=2)
    """Sampled games at each stage."""

    updates: Count = 20
    """Updates per iteration."""

    learning_rate: Positive = 0.001
    """Adam's learning rate at the start; it falls to a fiftieth."""

    entropy_coef: Positive = 1.0
    """Coefficient of the entropy bonus at the start, in points per nat. It falls geometrically."""

    entropy_coef_end: Positive = 0.015
    """Coefficient of the entropy bonus at the end."""

    epochs: Count = 4
    """Gradient steps of an update on the same games."""

    clip: Positive = 0.2
    """Importance ratios are clipped to 1 - clip .. 1 + clip."""

    target_kl: Positive = 0.05
    """Mean KL divergence in nats at which an update ends."""

    @model_validator(mode="after")
    def _blocks_have_a_range(self) -> InContext:
        if self.longest_block < self.shortest_block:
            raise ValueError("longest_block: it must be at least shortest_block")
        return self

    @property
    def sizes(self) -> MatchNetworkSizes:
        """The sizes of the network."""
        return MatchNetworkSizes(
            self.heads, self.hypotheses, self.queries, self.values, self.hidden
        )


class InContextJob(GpuJob):
    """Job file of the trainer `in_context`: a network that reads the games of a match."""

    trainer: Literal["in_context"]
    in_context: InContext = InContext()
    opponents: TrainingOpponents = TrainingOpponents()
    evaluate: HeldOutEvaluation = HeldOutEvaluation()


class InContextModel(NamedTuple):
    """A trained match network, and the cards that it is told."""

    weights: Weights
    told: Told


def adapt_in_context(
    rng: Generator,
    model: InContextModel,
    section: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """Play matches against an opponent; return the strategies after each step of adaptation.

    Element k of the result holds the strategies after k * `section.games` games, for k = 0 to
    `section.steps`: one for each of `section.repeats` matches.
    """
    sampler = training.match_sampler(choice, model.told)
    tree = sampler.setting.tree
    theirs = best_response.sigma_of(tree, [opponent] * 2)
    counts = np.zeros((section.repeats, sampler.observation_count))
    found: list[list[BehaviouralPolicy]] = []
    for step in range(section.steps + 1):
        if step:
            counts = training.continue_matches(
                sampler, model.weights, counts, theirs, section.games, rng
            )
        strategies = match_strategies(model.weights, counts, tree.legal)
        found.append([TabularPolicy(each) for each in strategies])
    return found


@register("in_context", InContextJob, scores.table_payoff, scores.payoff)
class InContextTrainer(HeldOutTrainer[InContextJob]):
    """Trainer of a network that adapts to an opponent by reading the games of a match."""

    adapt = staticmethod(adapt_in_context)

    def __init__(self, job: InContextJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        assert self.tree is not None
        section = job.in_context
        sampler = training.match_sampler(job.game, section.told)
        self.members = read_members(job.game, job.opponents)
        weights = initial_match_weights(
            section.sizes,
            sampler.observation_count,
            self.tree.legal.shape,
            generator(job.seed, RngStream.INITIAL),
        )
        epochs = section.epochs if section.gradient == "ppo" else 1
        self.learner = MatchLearner(weights, section.clip, epochs, section.target_kl)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play matches against new opponents and improve the network, several times."""
        section, tree = self.job.in_context, self.tree
        assert tree is not None
        found: list[Metrics] = []
        payoffs = []
        for k, update_rng in enumerate(rng.spawn(section.updates)):
            draw_rng, play_rng, learn_rng = update_rng.spawn(3)
            done = progress + k / section.updates / self.job.stop.iterations
            epsilon = EPSILON[0] + done * (EPSILON[1] - EPSILON[0])
            opponents = draw_opponents(
                tree, self.members, self.job.opponents, section.matches, draw_rng
            )
            common = (self.job.game, section, self.learner.theta, epsilon)
            shards = array_chunks(SHARD, opponents)
            played = training.join(self.pool.map(training.play_matches, common, shards, play_rng))
            rate = section.learning_rate * (1 + done * (FINAL_RATE_FACTOR - 1))
            fall = section.entropy_coef_end / section.entropy_coef
            entropy_coef = section.entropy_coef * fall**done
            found.append(
                self.learner.learn(played.counts, played.sample, rate, entropy_coef, learn_rng)
            )
            payoffs.append(played.payoff)
        payoff = np.concatenate(payoffs)
        means = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
        return means | payoff_metrics((payoff[:, 0], payoff[:, -1]), self.game.unit)

    def state(self) -> dict[str, Array]:
        """Return the learner's state and the strategies of stored runs, for a checkpoint."""
        stored = {str(k): strategies for k, strategies in enumerate(self.members[1:])}
        return {**super().state(), **prefixed("stored", stored)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the learner and the strategies of stored runs, even if the runs have changed."""
        super().load(state)
        stored = unprefixed("stored", state)
        for name, strategies in stored.items():
            check_shapes({name: strategies[0]}, {name: self.members[0][0]})
        self.members = (self.members[0], *(stored[str(k)] for k in range(len(stored))))

    def model(self) -> dict[str, Array]:
        """Return the weights of the network."""
        return prefixed(STORED, self.learner.theta)

    @staticmethod
    def validate(job: InContextJob) -> None:
        """Raise UserError for an unsuitable game, unknown opponents, or missing stored runs.

        The game must be one that a board with a tree accepts.
        """
        game, _ = two_seat_game(job.game)
        if not isinstance(game, PublicActionGame):
            raise UserError(
                f"trainer in_context needs a game with public actions and dealt cards, such as "
                f"leduc: {game.name} is none"
            )
        board_evaluation.setting(job.game, job.in_context.told)
        read_stored(job.game, job.opponents.psro, job.opponents.league, "opponents.")
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(job: InContextJob, weights: Mapping[str, Array]) -> InContextModel:
        """Return a stored network with its job's settings. Raises UserError if it does not fit."""
        section, network = job.in_context, unprefixed(STORED, weights)
        sampler = training.match_sampler(job.game, section.told)
        shape = sampler.setting.tree.legal.shape
        expected = match_weight_shapes(section.sizes, sampler.observation_count, shape)
        if {name: array.shape for name, array in network.items()} != expected:
            raise UserError(
                f"the network of the model does not fit {job.game.name} and its job: train it again"
            )
        return InContextModel(network, section.told)

    @staticmethod
    def adaptation_note(job: InContextJob) -> str:
        """Return a sentence on the cards of finished games that adaptation sees."""
        seen: dict[str, str] = {
            "own_cards": "Adaptation sees only its own cards of finished games.",
            "showdown": "Adaptation sees the cards that are shown at showdowns.",
            "all_cards": "Adaptation sees all cards of finished games.",
        }
        return seen[job.in_context.told]
