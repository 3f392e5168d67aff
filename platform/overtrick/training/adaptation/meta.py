"""Trainer `meta`: meta-learning of a model that adapts to new opponents (Wu et al. 2022).

| | Wu et al. 2022 | here |
|---|---|---|
| outer policy optimiser | TRPO | TRPO, or PPO in minibatches of opponents |
| meta-gradient | second order (eq. 7) | the same; first order without `second_order` |
| training opponents | an evolving population | also random networks or past meta-models |
| stored weights | the newest | their moving average with `weight_ema` |
| outer objective | sampled games | also exact on the tree (`objective`) |
| network inputs | raw | normalised with `normalise`, also in adaptation |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, select_rows
from overtrick.core.checkpoints import check_shapes, prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.normalisation import stored_moments
from overtrick.learners.policy_gradient.actor_critic import POLICY_OPTIMIZERS, ActorCritic
from overtrick.learners.policy_gradient.maml import meta_surrogate
from overtrick.learners.policy_gradient.sample import Sample, join_samples, sample_tensors
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.policies.policy_batch import batch_policy, batch_size
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive.tree import Tree
from overtrick.training import scores
from overtrick.training.adaptation import gradient_samples as samples
from overtrick.training.adaptation import meta_job
from overtrick.training.adaptation.gradient_adaptation import AdaptingModel, adapt_by_gradients
from overtrick.training.adaptation.gradient_samples import ON_TREE
from overtrick.training.adaptation.meta_job import MetaJob
from overtrick.training.adaptation.opponent_population import POPULATIONS, weight_shards
from overtrick.training.base_trainer import History, Metrics, Rows, register
from overtrick.training.held_out_trainer import HeldOutTrainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INPUTS = "inputs"  # prefix of the moments of network inputs in a model

Adaptations = tuple[list[Sample], Array, Array, list[Array], Array]
"""Rollouts of the meta-model against M opponents while it adapts to each.

- the policy-gradient samples from before each inner step, and the one from after the last step;
- the critic inputs (D, F) and the returns (D,) of all decisions;
- for each sample that comes from games, the mean payoffs (M,) of the meta-model;
- counts (2,): the games whose simulation diverged, and the decisions of both seats in all games
  that are not sampled on a tree.
"""


@register("meta", MetaJob, scores.table_payoff, scores.payoff)
class MetaTrainer(HeldOutTrainer[MetaJob]):
    """Trainer of a meta-model: the initial weights of networks that adapt to an opponent.

    It uses MAML against an opponent population (Wu et al. 2022, algorithms 1 and 2).
    """

    stateful = ("learner", "population")
    adapt = staticmethod(adapt_by_gradients)
    validate = staticmethod(meta_job.check_job)

    def __init__(self, job: MetaJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.meta
        rng = generator(job.seed, RngStream.INITIAL)
        privileged = section.gradient_estimator == "privileged_critic"
        critic = section.critic(self.game, rng, privileged)
        self.learner = ActorCritic(
            self.game.features,
            initial_policy_weights(self.game, section.hidden, rng),
            critic,
            POLICY_OPTIMIZERS[section.solver](self._outer_step(), section.entropy_coef),
            section.discount,
            section.gae_lambda,
            inputs=section.input_moments(self.game),
        )
        self.averaged_weights = self.learner.weights()  # the moving average
        sizes = (input_size(self.game), *section.hidden, output_size(self.game))
        self.population = POPULATIONS[job.population.kind](
            job.game, sizes, job.population, self.learner.theta, pool, rng
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Adapt the meta-model to opponents drawn from the population; improve it from the results.

        First, every `population.every` iterations, members of the population are replaced.
        """
        renew_rng, sample_rng, play_rng, learn_rng = rng.spawn(4)
        metrics = {}
        if (self.iteration - 1) % self.job.population.every == 0:
            metrics = self.population.renew(self.learner.theta, renew_rng)
        opponents = self.population.sample(self.job.meta.tasks, sample_rng)
        by_step, features, returns, payoffs, counts = self._adapt_to_all(opponents, play_rng)
        *inner, outer = (sample_tensors(sample) for sample in by_step)
        section = self.job.meta
        surrogate = meta_surrogate(
            inner, outer, section.inner_lr, section.second_order, section.fisher_subsample,
            section.minibatches,
        )  # fmt: skip
        self.learner.optimizer.step_size = self._outer_step()
        metrics |= self.learner.improve(surrogate, features, returns, learn_rng)
        if self.learner.inputs is not None:  # only now: the samples have the earlier moments
            self.learner.inputs.add(features)
        decay = np.float32(section.weight_ema)
        self.averaged_weights = {
            name: decay * self.averaged_weights[name] + (1 - decay) * weights
            for name, weights in self.learner.weights().items()
        }
        metrics |= samples.payoff_metrics(payoffs, self.game.unit)
        diverged_games, decisions = counts
        if decisions:
            metrics[metric_names.DECISIONS] = float(decisions)
        return metrics | samples.diverged_games_metric(self.game, int(diverged_games))

    def _outer_step(self) -> float:
        """Return the outer step size of this iteration: TRPO's KL bound, or PPO's learning rate.

        Wu et al. 2022 call it beta.
        """
        section, last = self.job.meta, self.job.stop.iterations
        if section.solver == "trpo":
            start, end = section.outer_kl, section.outer_kl_end
        else:
            start, end = section.outer_lr, section.outer_lr_end
        progress = max(0, self.iteration - 1) / max(1, last - 1)
        return start + progress * ((start if end is None else end) - start)

    def state(self) -> dict[str, Array]:
        """Return learner, opponent population and moving average of weights, for a checkpoint."""
        return {**super().state(), **prefixed("mean", self.averaged_weights)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore learner, opponent population and moving average of weights from a checkpoint."""
        super().load(state)
        mean = unprefixed("mean", state)
        check_shapes(mean, self.averaged_weights)
        self.averaged_weights = mean

    def model(self) -> dict[str, Array]:
        """Return the moving average of the policy's and the critic's weights.

        If inputs are normalised, their moments belong to the model, too: adaptation needs them.
        """
        inputs = self.learner.inputs
        return self.averaged_weights | ({} if inputs is None else prefixed(INPUTS, inputs.state()))

    @staticmethod
    def rebuild_model(job: MetaJob, weights: Mapping[str, Array]) -> AdaptingModel:
        """Return a stored meta-model: initial weights of policy and critic, adaptation settings."""
        return AdaptingModel(
            unprefixed("policy", weights), unprefixed("critic", weights),
            job.meta.gradient_estimator == "privileged_critic", job.meta.discount,
            job.test_estimator, job.adaptation.policy, job.test_gradient_steps,
            stored_moments(unprefixed(INPUTS, weights)) if job.meta.normalise else None,
        )  # fmt: skip

    @staticmethod
    def adaptation_note(job: MetaJob) -> str:
        """Return a sentence on the cards of finished games that adaptation sees."""
        if job.test_estimator in (*ON_TREE, "privileged_critic"):
            return "Adaptation sees all cards of finished games."
        return "Adaptation sees only its own observations of finished games."

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the learning curve, payoffs during adaptation, and training opponents' strategies.

        The strategies are drawn only if the game has a tree. They are the action probabilities of
        four training opponents for each private hand. Returns the figures by name.
        """
        drawn = super().figures(history, rows)
        if self.tree is not None:
            styles, hands = self._styles(self.tree)
            drawn["styles"] = figures.policies_by_hand(styles, hands, self.game.action_names)
        return drawn

    def _styles(self, tree: Tree) -> tuple[Array, list[str]]:
        """Return mean action probabilities (4, hands, A) of four training opponents for each hand.

        Also returns the names of the private hands. Each mean is over the information sets with the
        same hand, weighted by their reach probabilities when the opponent plays the meta-model.
        Source: Wu et al. 2022, Fig. 4, which uses sampled games instead of reach probabilities.
        """
        # an evolving population begins with its elite
        members = select_rows(self.population.members(), slice(4))
        policy = repeat(unprefixed("policy", self.averaged_weights), 1)
        (meta,) = samples.strategies(self.game, tree, policy)
        hand = self.game.hand(tree.observations)
        hands = list(dict.fromkeys(hand))
        styles = []
        for sigma in samples.batch_strategies(self.game, tree, members):
            reach = samples.visit_probabilities(tree, sigma, meta)
            weights = np.stack([reach * (hand == h) for h in hands])  # (hands, N)
            styles.append(weights @ sigma / weights.sum(axis=1, keepdims=True))
        return np.stack(styles), hands

    def _adapt_to_all(self, opponents: Weights, rng: Generator) -> Adaptations:
        """Adapt the meta-model to every opponent of an iteration; join the rollouts of all shards.

        `opponents`: weights of the opponents.
        """
        learner = self.learner
        common = (
            self.job.game, self.job.meta, learner.theta, learner.critic.weights, learner.inputs,
        )  # fmt: skip
        shards = self.pool.map(_adapt_to, common, weight_shards(opponents), rng)
        by_step, features, returns, payoffs, counts = zip(*shards, strict=True)
        joined = [join_samples(list(step)) for step in zip(*by_step, strict=True)]
        payoff = [np.concatenate(step) for step in zip(*payoffs, strict=True)]
        return joined, np.concatenate(features), np.concatenate(returns), payoff, sum(counts)


def _adapt_to(rng: Generator, common: Any, opponents: Weights) -> Adaptations:
    """Adapt the meta-model to a shard of opponents, and play the adapted models against them.

    `common`: the tuple (game, section `meta`, weights of the meta-model, weights of its critic,
    moments of its inputs). `opponents`: weights of the shard's opponents.
    """
    choice, section, theta, critic, inputs = common
    game, tree = two_seat_game(choice)
    params = repeat(theta, batch_size(opponents))
    crowd = batch_policy(game, opponents)
    sigmas = None if tree is None else samples.batch_strategies(game, tree, opponents)
    features, returns, payoffs, action_counts = [], [], [], None
    counts = np.zeros(2, np.int64)
    by_step: list[Sample] = []
    for k, step_rng in enumerate(rng.spawn(section.inner_steps + 1)):
        outer = k == section.inner_steps
        if outer and section.objective == "exact":
            assert tree is not None
            assert sigmas is not None
            by_step.append(samples.exact_sample(game, tree, params, sigmas))
            break
        games = (section.outer_games if outer else None) or section.games
        if section.gradient_estimator not in ON_TREE:
            lam = section.gae_lambda if outer else 1.0
            rollouts = samples.play_opponents(
                game, params, critic, crowd, games, section.discount, lam, step_rng,
                merge=not outer, privileged=section.gradient_estimator == "privileged_critic",
                inputs=inputs,
            )  # fmt: skip
        else:
            assert sigmas is not None
            rollouts = samples.play_opponents_on_tree(
                choice, params, sigmas, games, section.gradient_estimator, step_rng, action_counts
            )
            if section.gradient_estimator == "opponent_model":
                action_counts = rollouts.opponent_counts
        by_step.append(rollouts.sample)
        features.append(rollouts.features)
        returns.append(rollouts.returns)
        payoffs.append(rollouts.payoff)
        counts += rollouts.diverged_games, rollouts.decision_count
        if not outer:
            params = samples.adapt(params, rollouts.sample, section.inner_lr, inputs)
    return by_step, np.concatenate(features), np.concatenate(returns), payoffs, counts
