"""RLlib's algorithms as learners of our games: against themselves, past selves and strangers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from numpy.random import Generator

from overtrick.core import Array, SuitSymmetric
from overtrick.distributed.workers import LocalPool, RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import evaluate, flat_metrics, without_adaptation
from overtrick.evaluation.game_cache import cached_opponent, playable_game
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games import registry
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based.dqn import GREEDY
from overtrick.policies.model_kinds import StoredWeights, load_policy
from overtrick.policies.rollout import play
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive import best_response
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.rllib import rllib_job
from overtrick.training.rllib.rllib_job import ALGORITHMS, RllibJob

if TYPE_CHECKING:
    from overtrick.rllib.algorithm_runner import AlgorithmRunner

SOME = 50  # games that tell how long one is
PLAYED = "policy"  # what is played is called in the metric of exploitability


@register("rllib", RllibJob, scores.table_payoff, scores.payoff)
class RllibTrainer(BaseTrainer[RllibJob]):
    """Run an algorithm of RLlib on one of our games, and evaluate its policy as ours.

    The algorithm starts with the first step, in this process; the CPUs of the pool go to RLlib's
    workers.
    """

    stateful = ()

    def __init__(self, job: RllibJob, pool: WorkerPool) -> None:
        pool.close()
        super().__init__(job, LocalPool())
        self.game, self.tree = playable_game(job.game)
        self._running: AlgorithmRunner | None = None
        self._left: dict[str, Array] = {}  # the state to go on from, until it runs

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run one iteration of RLlib."""
        running = self._run()
        metrics = running.step(int(rng.integers(2**31)), self.job.dqn.epsilon_at(progress))
        section = self.job.population
        if section.past_selves and self.iteration % section.snapshot_interval == 0:
            running.remember(self.iteration // section.snapshot_interval % section.past_selves)
        return metrics

    def evaluate(self) -> Metrics:
        return self._gap() | flat_metrics(self.rows(), registry.evaluation_game(self.game).unit)

    def _run(self) -> AlgorithmRunner:
        """The algorithm, at work from where it was left."""
        if self._running is None:
            from overtrick.rllib.algorithm_config import MultiAgentSetup
            from overtrick.rllib.algorithm_runner import AlgorithmRunner  # takes seconds

            job = self.job
            self._running = AlgorithmRunner(
                MultiAgentSetup(
                    algorithm=job.name,
                    game=job.game.name,
                    options=job.game.options,
                    seats=self.game.seats,
                    renamed=job.name == "DQN" and isinstance(self.game, SuitSymmetric),
                    seed=job.seed,
                    workers=job.workers,
                    cpus=job.resources.worker_cpus,
                    turns=job.rllib.env_steps,
                    length=_length(self.game, generator(job.seed, RngStream.INITIAL)),
                    hidden=job.rllib.hidden,
                    rate=job.rllib.learning_rate,
                    discount=job.rllib.discount,
                    by_seat=job.rllib.networks == "seat",
                    past=job.population.past_selves,
                    strangers=tuple(
                        partial(cached_opponent, job.game, name)
                        for name in job.population.opponents
                    ),
                    share=job.population.opponent_share,
                    own=getattr(job, ALGORITHMS[job.algorithm]).model_dump(),
                )
            )
            if self._left:
                self._running.load(self._left)
        return self._running

    def _gap(self) -> dict[str, float]:
        """How much a best response wins from the policy, where a tree tells."""
        if self.tree is None:
            return {}
        sigma = best_response.sigma_of(
            self.tree, [_policy(self.game, self.model())] * self.game.seats
        )
        name = metric_names.gap_name(PLAYED, self.game.unit)
        return {name: best_response.exploitability(self.tree, sigma)}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        unit = registry.evaluation_game(self.game).unit
        return figures.of_unadapted(history, PLAYED, unit, unit, self.tree is not None)

    def model(self) -> dict[str, Array]:
        """The networks that play, as ours are kept; one for each seat under the seat's name."""
        from overtrick.rllib.algorithm_config import LEARNER
        from overtrick.rllib.algorithm_runner import policy_networks

        left = self._left if self._running is None else self._running.state()
        role = GREEDY if self.job.name == "DQN" else "policy"
        out: dict[str, Array] = {}
        for module, weights in policy_networks(left, self.job.name).items():
            found = prefixed(role, weights)
            out |= found if module == LEARNER else prefixed(module, found)
        return out

    def state(self) -> dict[str, Array]:
        return {**super().state(), **prefixed("rllib", self._run().state())}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self._left = unprefixed("rllib", state)
        if self._running is not None:
            self._running.load(self._left)

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    @staticmethod
    def validate(job: RllibJob) -> None:
        rllib_job.check_rllib_job(job)

    @staticmethod
    def evaluate_model(
        job: RllibJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate a stored policy, which never adapts, against the held-out opponents."""
        game, _ = playable_game(job.game)
        policy = _policy(game, weights)
        return evaluate(job.game, without_adaptation, policy, job.evaluate, pool, rng)


def _length(game: Any, rng: Generator) -> float:
    """Turns of a game of random play, on average."""
    uniform = make_opponent("random", game, None)
    batch = play(game, (uniform,) * game.seats, SOME, rng).batch
    return len(batch) / SOME / (1 if game.actions is not None else game.seats)


def _policy(game: Any, weights: Mapping[str, Array]) -> Any:
    """Build the policy of a model: one network, or one for each seat."""
    return load_policy(StoredWeights(dict(weights), {}, "this run"), game)
