"""Trainer `dqn`: a declarer's Q-network in Mini-Bridge (Hadjur 2018, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numpy.random import Generator
from pydantic import model_validator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import Count, Section
from overtrick.core import Array, Trajectories, concatenate_trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import CardplayEvaluation, ScriptedDefenders
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.games.bridge.cardplay.suit_canonical import canonical_trajectories
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.value_based import dqn
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.reports import metric_names
from overtrick.training import scores
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.cardplay.declarer_trainer import DeclarerTrainer, Players
from overtrick.training.shared_sections import HiddenLayers, QLearning

SHARD = 250  # games per shard


class DqnDeclarerConfig(Section):
    """Settings of the training games, and of the declarer's Q-network."""

    defenders: ScriptedDefenders = "rules"
    """Scripted defenders in training."""

    games: Count = 1000
    """Games per iteration."""

    hidden: HiddenLayers = (256, 256)


class DqnJob(GpuJob):
    """Job file of the trainer `dqn`: deep Q-learning of a Mini-Bridge declarer."""

    trainer: Literal["dqn"]
    dqn: DqnDeclarerConfig = DqnDeclarerConfig()
    values: QLearning = QLearning()
    evaluate: CardplayEvaluation = CardplayEvaluation()

    @model_validator(mode="after")
    def _defenders_do_not_learn(self) -> DqnJob:
        if "learned" in self.evaluate.defenders:
            raise ValueError("evaluate.defenders: this trainer has no learned defenders")
        return self


@register("dqn", DqnJob, cardplay.share_made, scores.contracts_made)
class DqnTrainer(DeclarerTrainer[DqnJob]):
    """Trainer of a declarer's Q-network by DQN on games against scripted defenders."""

    def __init__(self, job: DqnJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        game = cardplay.card_game(job.game)
        sizes = (input_size(game), *job.dqn.hidden, len(game.action_names))
        weights = initial_weights(sizes, generator(job.seed, RngStream.INITIAL), 0.1)
        self.learner = dqn.Dqn(game.features, weights, job.values.config())

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the games of an iteration, and train the Q-network from the replay buffer."""
        play_rng, learn_rng = rng.spawn(2)
        section, values = self.job.dqn, self.job.values
        common = (self.job, self.learner.weights(), values.epsilon_at(progress))
        batches = self.pool.map(_play, common, chunks(section.games, SHARD), play_rng)
        self.learner.adam.set_learning_rate(values.learning_rate * (1 - progress))
        metrics = self.learner.learn(concatenate_trajectories(batches), learn_rng)
        metrics[metric_names.GAMES] = float(self.iteration * section.games)
        return metrics

    def model(self) -> dict[str, Array]:
        """Return the weights of the Q-network."""
        return prefixed(dqn.GREEDY, self.learner.weights())

    @staticmethod
    def validate(job: DqnJob) -> None:
        """Raise UserError if the game is not Mini-Bridge with two seats."""
        cardplay.card_game(job.game)

    @staticmethod
    def players(job: DqnJob, weights: Mapping[str, Array]) -> Players:
        """Return the tuple (greedy declarer of a stored model, None, None).

        The None entries mean that no defenders are trained, and that there is no Q-table.
        """
        game = cardplay.card_game(job.game)
        return dqn.greedy_policy(unprefixed(dqn.GREEDY, weights), game), None, None


def _play(rng: Generator, common: Any, games: int) -> Trajectories:
    """Play `games` games; return the declaring side's decisions with suits in canonical order.

    `common`: the tuple (job, weights of the Q-network, epsilon of the declarer's epsilon-greedy
    policy).
    """
    job, weights, epsilon = common
    game = cardplay.card_game(job.game)
    declarer = game.canonical_policy(dqn.GreedyPolicy(game.features, weights, epsilon))
    pair = (declarer, cached_opponent(job.game, job.dqn.defenders))
    return canonical_trajectories(play(game, pair, games, rng, recorded=[0]).batch)
