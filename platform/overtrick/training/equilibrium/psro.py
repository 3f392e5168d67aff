"""Trainer `psro`: policy-space response oracles and extensive-form double oracle.

In each round an oracle finds a response of every seat to the current mixture of the population. The
responses join the population, and a meta-solver mixes it again.

Source: Lanctot et al. 2017, "A unified game-theoretic approach to multiagent reinforcement
learning"; McAleer et al. 2021, "XDO: a double oracle algorithm for extensive-form games".

| here | the papers |
|---|---|
| the population starts with uniform play | PSRO: the same; XDO: with an arbitrary policy |
| payoffs of the meta-game are exact on a game tree | estimated from games |
| XDO solves its restricted game exactly, or by a number of CFR+ iterations | up to a threshold |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import without_adaptation
from overtrick.evaluation.exact_by_walks import evaluate_mixtures
from overtrick.evaluation.game_cache import playable_game
from overtrick.policies.model_kinds import MEMBERS, SHARES, StoredWeights, load_policy
from overtrick.policies.policy_batch import SEAT
from overtrick.population.policy_population import PolicyPopulation
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive import best_response
from overtrick.solvers.walks.make_walk import is_evaluated_by_walks
from overtrick.training import scores
from overtrick.training.base_trainer import History, Metrics, Rows, register
from overtrick.training.equilibrium import psro_job
from overtrick.training.equilibrium.oracles import first_network, respond, respond_by_rllib
from overtrick.training.equilibrium.psro_job import RLLIB_ORACLES, TREE_ORACLES, PsroJob
from overtrick.training.equilibrium.restricted_games import restricted_game
from overtrick.training.held_out_trainer import HeldOutTrainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MIXTURE = "mixture"  # name of the policy in the metric of its exploitability
USED = 0.001  # least share of a policy that counts as used


@register(
    "psro",
    PsroJob,
    scores.final_negative_exploitability,
    scores.negative_exploitability_or_payoff,
)
class PsroTrainer(HeldOutTrainer[PsroJob]):
    """Trainer of a population of policies that are responses to its own mixtures.

    An iteration is a round. The population is one batch of arrays, hosted on a Ray actor if there
    are workers; the oracles of all seats run at the same time, as shards.
    """

    stateful = ()
    adapt = staticmethod(without_adaptation)
    validate = staticmethod(psro_job.check_psro_job)

    def __init__(self, job: PsroJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        first = self._first_member()
        self.population = pool.host(PolicyPopulation({n: v[None] for n, v in first.items()}))
        self.restricted = restricted_game(job.game, self.game, self.tree, job.psro, pool)
        self.first_decisions = self.restricted.add(first, generator(job.seed, RngStream.INITIAL))
        self.mixture, self.shares = self.restricted.mix()

    def _first_member(self) -> dict[str, Array]:
        """Return the policies of the first member, which plays uniformly at random."""
        if self.job.psro.oracle in TREE_ORACLES:
            assert self.tree is not None  # checked when the job is validated
            return {"sigma": self.tree.uniform()}
        network = first_network(self.game, self.job)
        seats = range(self.game.seats)
        return {n: v for s in seats for n, v in prefixed(SEAT.format(s), network).items()}

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Find a response of every seat to the mixture, add them, and mix the population again."""
        respond_rng, payoff_rng = rng.spawn(2)
        responses, decisions = self._responses(respond_rng)
        member = self._joined(responses)
        self.population.call("add", member)
        payoff_decisions = self.restricted.add(member, payoff_rng)
        self.mixture, self.shares = self.restricted.mix()
        metrics = self._mixture_metrics()
        if decisions is not None:
            earlier = self.first_decisions if self.iteration == 1 else 0
            metrics[metric_names.DECISIONS] = float(earlier + decisions + payoff_decisions)
        return metrics

    def _responses(self, rng: Generator) -> tuple[list[Any], int | None]:
        """Return the oracle's response of every seat: a shard a seat, or one run of RLlib.

        Also returns the number of decisions of all seats in the oracles' games; None with oracles
        of RLlib.
        """
        job, section = self.job, self.job.psro
        if section.oracle in RLLIB_ORACLES:
            algorithm = section.oracle.removeprefix("rllib/")
            all_seats = (job.game, algorithm, job.rllib, self.mixture)
            return self.pool.map(respond_by_rllib, all_seats, [()], rng)[0], None
        settings = {"search": job.lookahead, "ppo": job.ppo, "dqn": job.dqn}.get(section.oracle)
        shards = [(seat,) for seat in range(self.game.seats)]
        common = (job.game, section.oracle, settings, section.form, self.mixture)
        found = self.pool.map(respond, common, shards, rng)
        return [response for response, _ in found], sum(decisions for _, decisions in found)

    def _joined(self, responses: list[Any]) -> dict[str, Array]:
        """Join the responses of all seats to one member of the population."""
        if self.job.psro.oracle in TREE_ORACLES:
            assert self.tree is not None
            owner = self.tree.observations.seat
            return {"sigma": np.stack(responses)[owner, np.arange(len(owner))]}
        named = (prefixed(SEAT.format(s), each) for s, each in enumerate(responses))
        return {name: value for each in named for name, value in each.items()}

    def _mixture_metrics(self) -> Metrics:
        """Return the size of the population, and on a tree NashConv and exploitability."""
        metrics = {"policies": float(self.shares.shape[1])}
        if self.job.psro.form == "normal":
            metrics["policies_used"] = float((self.shares >= USED).sum(axis=1).mean())
        if self.tree is None:
            return metrics
        assert self.mixture.sigma is not None
        gap = best_response.nash_conv(self.tree, self.mixture.sigma)
        name = metric_names.gap_name(MIXTURE, self.game.unit)
        return {metric_names.NASH_CONV: gap, name: gap / self.tree.seats, **metrics}

    def evaluate(self) -> Metrics:
        """Return payoffs against held-out opponents and, in games evaluated by walks, NashConv."""
        if not is_evaluated_by_walks(self.game):
            return super().evaluate()
        found = evaluate_mixtures(self.game, self.mixture.policies(self.game), self.walkers)
        name = metric_names.gap_name(MIXTURE, self.game.unit)
        gaps = {metric_names.NASH_CONV: found.nash_conv, name: found.exploitability}
        return gaps | super().evaluate()

    def state(self) -> dict[str, Array]:
        """Return the population and the estimated payoffs, for a checkpoint."""
        return {
            **super().state(),
            **prefixed("population", self.population.state()),
            **prefixed("restricted", self.restricted.state()),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the population and its estimated payoffs, and mix the population again."""
        super().load(state)
        self.population.load(unprefixed("population", state))
        members = self.population.state()
        count = len(next(iter(members.values())))
        one_each = [{name: value[k] for name, value in members.items()} for k in range(count)]
        self.restricted.load(one_each, unprefixed("restricted", state))
        self.mixture, self.shares = self.restricted.mix()

    def model(self) -> dict[str, Array]:
        """Return all policies, the mixture's strategy (on a tree) and shares (form normal).

        A mixture of the form sequence is not one of whole policies, so it has no shares.
        """
        sigma = {} if self.mixture.sigma is None else {"sigma": self.mixture.sigma}
        shares = {SHARES: self.shares} if self.job.psro.form == "normal" else {}
        return {**sigma, **shares, **prefixed(MEMBERS, self.population.state())}

    @staticmethod
    def rebuild_model(job: PsroJob, weights: Mapping[str, Array]) -> Any:
        """Return the policy of a stored mixture."""
        game, _ = playable_game(job.game)
        return load_policy(StoredWeights(dict(weights), {}, "this run"), game)

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the learning curve and, if it is measured, the exploitability by round."""
        return figures.learning_figures(
            history, MIXTURE, self.unit, self.game.unit, self.has_exact_exploitability
        )
