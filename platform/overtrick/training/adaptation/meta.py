"""A meta-model learns to adapt to strangers while its opponents change (Wu et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator

from overtrick.core import Array
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import evaluate, flat_metrics
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.policy_gradient.actor_critic import POLICY_OPTIMIZERS, ActorCritic
from overtrick.learners.policy_gradient.maml import meta_surrogate
from overtrick.learners.policy_gradient.sample import (
    ContinuousSample,
    DiscreteSample,
    join_samples,
    sample_tensors,
)
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.weights import repeat
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size, output_size, privileged_input_size
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive.tree import Tree
from overtrick.training import scores
from overtrick.training.adaptation import meta_job
from overtrick.training.adaptation.held_out_evaluation import Start, adapted
from overtrick.training.adaptation.meta_job import MetaJob
from overtrick.training.adaptation.opponent_population import KINDS, shards
from overtrick.training.adaptation.rollouts import (
    ON_TREE,
    adapt,
    astray_games,
    exact_sample,
    meet,
    meet_on_tree,
    prior_of,
    strategies,
    visits,
)
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register


@register("meta", MetaJob, scores.table_payoff, scores.payoff)
class MetaTrainer(BaseTrainer[MetaJob]):
    """Algorithms 1 and 2: renew the opponents, adapt to some of them, improve the start."""

    stateful = ("learner", "population")

    def __init__(self, job: MetaJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, self.tree = two_seat_game(job.game)
        rng = generator(job.seed, RngStream.INITIAL)
        policy_inputs = input_size(self.game)
        self.sizes = (policy_inputs, *job.meta.hidden, output_size(self.game))
        privileged = job.meta.gradient_estimator == "privileged_critic"
        critic_inputs = privileged_input_size(self.game) if privileged else policy_inputs
        critic = Critic(critic_inputs, job.meta.hidden, rng, job.meta.critic_learning_rate)
        self.learner = ActorCritic(
            self.game.features,
            initial_policy_weights(self.game, job.meta.hidden, rng),
            critic,
            POLICY_OPTIMIZERS[job.meta.solver](self._outer_step(), job.meta.entropy_coef),
            job.meta.discount,
            job.meta.gae_lambda,
        )
        self.mean = self.learner.weights()  # the moving average
        self.population = KINDS[job.population.kind](
            job.game, self.sizes, job.population, self.learner.theta, pool, rng
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run one iteration of Algorithm 1."""
        renew_rng, choose_rng, meet_rng, learn_rng = rng.spawn(4)
        metrics = {}
        if (self.iteration - 1) % self.job.population.every == 0:
            metrics = self.population.renew(self.learner.theta, renew_rng)
        opponents = self.population.choose(self.job.meta.tasks, choose_rng)
        samples, features, returns, payoff, diverged = self._meet(opponents, meet_rng)
        *inner, outer = (sample_tensors(sample) for sample in samples)
        section = self.job.meta
        surrogate = meta_surrogate(
            inner, outer, section.inner_lr, section.second_order, section.fisher_subsample,
            section.minibatches,
        )  # fmt: skip
        self.learner.solver.step = self._outer_step()
        metrics |= self.learner.improve(surrogate, features, returns, learn_rng)
        now, past = self.learner.weights(), np.float32(section.weight_ema)
        self.mean = {n: past * self.mean[n] + (1 - past) * w for n, w in now.items()}
        unit = self.game.unit
        metrics |= {
            metric_names.payoff_name(metric_names.OPPONENTS, k, unit): float(p.mean())
            for k, p in enumerate(payoff)
        }
        return metrics | astray_games(self.game, diverged)

    def _outer_step(self) -> float:
        """beta of this iteration: the KL bound of TRPO, or Adam's learning rate of PPO."""
        plan, last = self.job.meta, self.job.stop.iterations
        if plan.solver == "trpo":
            start, end = plan.outer_kl, plan.outer_kl_end
        else:
            start, end = plan.outer_lr, plan.outer_lr_end
        progress = max(0, self.iteration - 1) / max(1, last - 1)
        return start + progress * ((start if end is None else end) - start)

    def evaluate(self) -> Metrics:
        return flat_metrics(self.rows(), registry.evaluation_game(self.game).unit)

    def state(self) -> dict[str, Array]:
        return {**super().state(), **prefixed("mean", self.mean)}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.mean = unprefixed("mean", state)

    def model(self) -> dict[str, Array]:
        """Return the weights that adaptation needs: the averaged policy and its critic."""
        return self.mean

    @staticmethod
    def validate(job: MetaJob) -> None:
        meta_job.check(job)

    @staticmethod
    def evaluate_model(
        job: MetaJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate the adaptation of a model to the job's held-out opponents."""
        start = Start(
            unprefixed("policy", weights), unprefixed("critic", weights),
            job.meta.gradient_estimator == "privileged_critic", job.meta.discount,
            job.test_estimator, job.adaptation.policy, job.adaptation.gradient_steps,
        )  # fmt: skip
        return evaluate(job.game, adapted, start, job.evaluate, pool, rng)

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        unit = registry.evaluation_game(self.game).unit
        drawn = {
            "learning_curve": figures.learning_curve(history, unit),
            "adaptation": figures.adaptation(rows, unit),
        }
        if self.tree is not None:
            styles = self._styles(self.tree)
            drawn["styles"] = figures.styles(*styles, self.game.action_names)
        return drawn

    def _styles(self, tree: Tree) -> tuple[Array, list[str]]:
        """(4, hands, A) what the first opponents, the elite among them, do with each hand.

        Each decision counts as often as it comes (Wu et al. 2022, Fig. 4, there by sampling).
        """
        members = {n: v[:4] for n, v in self.population.members().items()}
        (meta,) = strategies(self.game, tree, repeat(unprefixed("policy", self.mean), 1))
        hand = self.game.hand(tree.observations)
        hands = list(dict.fromkeys(hand))
        tables = []
        for sigma in strategies(self.game, tree, members):
            come = visits(tree, sigma, meta)
            weights = np.stack([come * (hand == h) for h in hands])  # (hands, N)
            tables.append(weights @ sigma / weights.sum(axis=1, keepdims=True))
        return np.stack(tables), hands

    def _meet(
        self, opponents: Weights, rng: Generator
    ) -> tuple[list[DiscreteSample | ContinuousSample], Array, Array, list[Array], int]:
        """Adapt to every opponent: a sample before each step and one after the last, the features
        and returns of all decisions, the payoffs (tasks,) before each step, and how many games a
        simulator could not follow."""
        common = (self.job.game, self.job.meta, self.learner.theta, self.learner.critic.weights)
        homes = self.pool.map(_adapt_to, common, shards(opponents), rng)
        samples, features, returns, payoffs, astray = zip(*homes, strict=True)
        steps = [join_samples(list(step)) for step in zip(*samples, strict=True)]
        payoff = [np.concatenate(step) for step in zip(*payoffs, strict=True)]
        return steps, np.concatenate(features), np.concatenate(returns), payoff, sum(astray)


def _adapt_to(
    rng: Generator, common: Any, opponents: Weights
) -> tuple[list[DiscreteSample | ContinuousSample], Array, Array, list[Array], int]:
    """The meta-model adapts to each of some opponents and meets it again."""
    choice, plan, theta, critic = common
    game, tree = two_seat_game(choice)
    members = len(opponents["w0"])
    params = repeat(theta, members)
    crowd = BatchedNetworks(game.features, opponents)
    theirs = None if tree is None else strategies(game, tree, opponents)
    features, returns, payoffs, astray, seen = [], [], [], 0, None
    samples: list[DiscreteSample | ContinuousSample] = []
    for k, step_rng in enumerate(rng.spawn(plan.inner_steps + 1)):
        outer = k == plan.inner_steps
        if outer and plan.objective == "exact":
            assert tree is not None
            assert theirs is not None
            samples.append(exact_sample(game, tree, params, theirs))
            break
        count = (plan.outer_games if outer else None) or plan.games
        if plan.gradient_estimator not in ON_TREE:
            lam = plan.gae_lambda if outer else 1.0
            met = meet(
                game, params, critic, crowd, count, plan.discount, lam, step_rng,
                merge=not outer, hindsight=plan.gradient_estimator == "privileged_critic",
            )  # fmt: skip
        else:
            assert tree is not None
            assert theirs is not None
            prior = prior_of(choice, plan.gradient_estimator)
            met = meet_on_tree(
                game, tree, params, theirs, count, plan.gradient_estimator, prior, step_rng, seen
            )
            if plan.gradient_estimator == "opponent_model":
                seen = met.opponent_counts
        samples.append(met.sample)
        features.append(met.features)
        returns.append(met.returns)
        payoffs.append(met.payoff)
        astray += met.diverged_games
        if not outer:
            params = adapt(params, met.sample, plan.inner_lr)
    return samples, np.concatenate(features), np.concatenate(returns), payoffs, astray
