"""Trainer `rllib`: runs an algorithm of RLlib with self-play, past selves and fixed opponents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, SuitSymmetric, devices
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import LocalPool, RngStream, WorkerPool, generator
from overtrick.evaluation.game_cache import cached_opponent, playable_game
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.learners.value_based.dqn import GREEDY
from overtrick.policies.model_kinds import StoredWeights, load_policy
from overtrick.policies.rollout import STEP, play
from overtrick.training import scores
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import UnadaptedTrainer
from overtrick.training.rllib import rllib_job
from overtrick.training.rllib.rllib_job import ALGORITHMS, RllibJob

if TYPE_CHECKING:
    from overtrick.rllib.algorithm_config import MultiAgentSetup
    from overtrick.rllib.algorithm_runner import AlgorithmRunner

GAMES_FOR_LENGTH = 50  # games of random play that estimate the length of a game


@register("rllib", RllibJob, scores.table_payoff, scores.payoff)
class RllibTrainer(UnadaptedTrainer[RllibJob]):
    """Trainer that runs an algorithm of RLlib and evaluates its policy like any other policy.

    The algorithm starts in this process with the first iteration. RLlib's own workers use the CPUs
    of the worker pool.
    """

    stateful = ()
    policy_name = "policy"
    validate = staticmethod(rllib_job.check_rllib_job)

    def __init__(self, job: RllibJob, pool: WorkerPool) -> None:
        pool.close()
        super().__init__(job, LocalPool())
        # RLlib moves its learner to the GPU; the networks that play stay on the CPU
        self._gpus = job.resources.gpus if devices.gpu_in_use() else 0.0
        devices.use_gpu(False)
        self._runner: AlgorithmRunner | None = None
        self._loaded: dict[str, Array] = {}  # state that the runner starts from

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run one iteration of RLlib's algorithm; return its metrics.

        If `population.past_selves` is above 0, a snapshot of the learner joins the self-play
        opponents every `population.snapshot_interval` iterations.
        """
        runner = self._start()
        metrics = runner.step(int(rng.integers(2**31)), self.job.dqn.epsilon_at(progress))
        section = self.job.population
        if section.past_selves and self.iteration % section.snapshot_interval == 0:
            snapshots = self.iteration // section.snapshot_interval
            runner.store_past_self(snapshots % section.past_selves)
        return metrics

    def _start(self) -> AlgorithmRunner:
        """Return the runner of RLlib's algorithm; start it if it is not running yet."""
        if self._runner is None:
            from overtrick.rllib.algorithm_runner import AlgorithmRunner  # takes seconds

            self._runner = AlgorithmRunner(_setup(self.job, self.game, self._gpus))
            if self._loaded:
                self._runner.load(self._loaded)
        return self._runner

    def model(self) -> dict[str, Array]:
        """Return the weights of the policy network, or of one network for each seat.

        With a network for each seat, the seat's name is the prefix of the weights.
        """
        from overtrick.rllib.algorithm_config import LEARNER
        from overtrick.rllib.algorithm_runner import policy_networks

        state = self._loaded if self._runner is None else self._runner.state()
        role = GREEDY if self.job.name == "DQN" else "policy"
        out: dict[str, Array] = {}
        for module, weights in policy_networks(state, self.job.name).items():
            network = prefixed(role, weights)
            out |= network if module == LEARNER else prefixed(module, network)
        return out

    def state(self) -> dict[str, Array]:
        return {**super().state(), **prefixed("rllib", self._start().state())}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self._loaded = unprefixed("rllib", state)
        if self._runner is not None:
            self._runner.load(self._loaded)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    @staticmethod
    def rebuild_model(job: RllibJob, weights: Mapping[str, Array]) -> Any:
        """Build the policy of a stored model, which has one network or a network for each seat."""
        game, _ = playable_game(job.game)
        return load_policy(StoredWeights(dict(weights), {}, "this run"), game)


def _setup(job: RllibJob, game: Any, gpus: float) -> MultiAgentSetup:
    """Build the settings of a training run with RLlib from its job.

    `gpus`: the amount of a GPU that RLlib's learner uses, from 0 to 1.
    """
    from overtrick.rllib.algorithm_config import MultiAgentSetup

    opponents = (partial(cached_opponent, job.game, name) for name in job.population.opponents)
    return MultiAgentSetup(
        algorithm=job.name,
        game=job.game.name,
        options=job.game.options,
        seats=game.seats,
        canonical=job.name == "DQN" and isinstance(game, SuitSymmetric),
        seed=job.seed,
        workers=job.workers,
        cpus=job.resources.worker_cpus,
        gpus=gpus,
        env_steps=job.rllib.env_steps,
        game_length=mean_game_length(game, generator(job.seed, RngStream.INITIAL)),
        hidden=job.rllib.hidden,
        learning_rate=job.rllib.learning_rate,
        discount=job.rllib.discount,
        by_seat=job.rllib.networks == "seat",
        past_selves=job.population.past_selves,
        opponents=tuple(opponents),
        opponent_share=job.population.opponent_share,
        section=getattr(job, ALGORITHMS[job.algorithm]).model_dump(),
    )


def mean_game_length(game: Any, rng: Generator) -> float:
    """Estimate the mean number of environment steps per game, by random play."""
    uniform = make_opponent("random", game, None)
    batch = play(game, (uniform,) * game.seats, GAMES_FOR_LENGTH, rng, with_steps=True).batch
    steps = np.stack([batch.game, batch.extras[STEP]])  # seats that act together share a step
    return np.unique(steps, axis=1).shape[1] / GAMES_FOR_LENGTH
