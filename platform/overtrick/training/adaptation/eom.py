"""Trainer `eom`: explicit opponent modelling, the baseline "EOM" in Wu et al. 2022, tables 2 and 3.

Training produces two networks: an initial policy, which plays before adaptation, and a pretrained
opponent model (`prior` in the code). In evaluation a copy of the pretrained model is fitted to the
observed decisions of a held-out opponent. A response to the fitted model plays the later games.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numpy.random import Generator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import Count, Positive
from overtrick.core import Array, Trajectories, UserError, concatenate_trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import check_discrete_actions, check_tree, two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.supervised.behaviour_cloning import CloningConfig, clone_behaviour
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import check_layers, input_size, output_size
from overtrick.policies.rollout import play, random_seating, select_policy_decisions
from overtrick.training import scores, shared_sections
from overtrick.training.adaptation import opponent_modelling as modelling
from overtrick.training.adaptation.opponent_population import weight_shards
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer

SHARD = 10  # random opponents per shard, independent of the number of workers


class Eom(shared_sections.PolicyGradient, shared_sections.RandomOpponents):
    """Settings of training for explicit opponent modelling (EOM).

    Two networks are trained on games against random opponents. The initial policy plays before
    adaptation. The pretrained opponent model is fitted to each opponent during adaptation.
    """

    random_opponents: shared_sections.NewOpponents = 40
    games: Count = 50
    """Games against each random opponent."""

    learning_rate: Positive = 0.003
    """Adam's learning rate of PPO for the initial policy."""

    entropy_coef: shared_sections.EntropyCoef = 0.05
    prior_learning_rate: Positive = 0.001
    """Adam's learning rate of the pretrained opponent model."""


class EomJob(GpuJob):
    """Job file of the trainer `eom`: explicit opponent modelling."""

    trainer: Literal["eom"]
    eom: Eom = Eom()
    model: modelling.OpponentModelling = modelling.OpponentModelling()
    evaluate: HeldOutEvaluation = HeldOutEvaluation()


@register("eom", EomJob, scores.table_payoff, scores.payoff)
class EomTrainer(HeldOutTrainer[EomJob]):
    """Trainer of the initial policy and the opponent model of explicit opponent modelling (EOM).

    Each iteration plays against new random opponents. PPO trains the initial policy to win against
    these opponents. Behaviour cloning trains the opponent model to predict the opponents'
    actions.

    In evaluation the initial policy plays the first games against a held-out opponent. A copy of
    the opponent model is fitted to the opponent's decisions. The next games are played by a best
    response to the fitted model, computed on the tree or approximated by PPO.
    """

    stateful = ("learner", "prior")
    adapt = staticmethod(modelling.adapt_by_modelling)

    def __init__(self, job: EomJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.eom
        rng = generator(job.seed, RngStream.INITIAL)
        self.sizes = (input_size(self.game), *section.hidden, self.game.actions)
        self.learner = ActorCritic(
            self.game.features,
            initial_weights(self.sizes, rng, head=0.1),
            section.critic(self.game, rng, privileged=False),
            Ppo(section.learning_rate, section.entropy_coef),
            section.discount,
            section.gae_lambda,
        )
        self.prior = Adam(initial_weights(self.sizes, rng, head=0.1), section.prior_learning_rate)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play against new random opponents; train the initial policy and the opponent model.

        PPO trains the policy. Behaviour cloning on the decisions of all opponents together trains
        the opponent model.
        """
        new_rng, play_rng, learn_rng, clone_rng = rng.spawn(4)
        section = self.job.eom
        opponents = section.random_networks(self.sizes, section.random_opponents, new_rng)
        shards = weight_shards(opponents, SHARD)
        common = (self.job.game, self.learner.theta, section.games)
        ours, theirs = zip(*self.pool.map(_play, common, shards, play_rng), strict=True)
        metrics = self.learner.learn(concatenate_trajectories(ours), learn_rng)
        rows = modelling.demonstrations(self.game, concatenate_trajectories(theirs))
        _, loss = clone_behaviour(self.prior, rows, CloningConfig(epochs=1), clone_rng)
        metrics["imitation_loss"] = float(loss)
        return metrics

    def model(self) -> dict[str, Array]:
        """Return the weights of the networks before adaptation to any opponent.

        The networks are the initial policy, its critic, and the pretrained opponent model.
        """
        state = self.prior.state()
        prior = {name: state[name] for name in self.prior.params}
        return {**self.learner.weights(), **prefixed("prior", prior)}

    @staticmethod
    def validate(job: EomJob) -> None:
        """Raise UserError for an unsuitable game or unknown opponents.

        The game must have two seats and discrete actions, and a tree if `model.response` is
        "exact".
        """
        game, tree = two_seat_game(job.game)
        check_discrete_actions(game)
        if job.model.response == "exact":
            check_tree("model.response", "exact", game, tree, "set ppo")
        if tree is None and job.model.changed_keys(["prior_count"]):
            raise UserError(
                f"model.prior_count has no effect, as {game.name} is too large for a tree: "
                "leave it out"
            )
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(job: EomJob, weights: Mapping[str, Array]) -> modelling.EomModel:
        """Return the networks of a stored model, with the job's settings of opponent modelling.

        The networks are the initial policy, its critic and the pretrained opponent model. Raises
        UserError if one does not fit the game.
        """
        game, _ = two_seat_game(job.game)
        outputs = {"policy": output_size(game), "critic": 1, "prior": output_size(game)}
        networks = {role: unprefixed(role, weights) for role in outputs}
        for role, network in networks.items():
            name = f"the {role} network of the model"
            check_layers(network, input_size(game), outputs[role], name, game.name)
        return modelling.EomModel(**networks, section=job.model)


def _play(rng: Generator, common: Any, opponents: Weights) -> tuple[Trajectories, Trajectories]:
    """Play the learner's policy against a shard of the random opponents.

    Returns the decisions of the learner, and the decisions of the opponents. `common`: the tuple
    (game, weights of the learner's policy, number of games per opponent). `opponents`: weights of
    the opponents' networks.
    """
    choice, theta, games = common
    game, _ = two_seat_game(choice)
    seat_rng, play_rng = rng.spawn(2)
    total = games * len(opponents["w0"])
    seating = random_seating(total, seat_rng)
    both = (NetworkPolicy(game.features, theta), BatchedNetworks(game.features, opponents))
    batch = play(game, both, total, play_rng, seating).batch
    return select_policy_decisions(batch, seating, 0), select_policy_decisions(batch, seating, 1)
