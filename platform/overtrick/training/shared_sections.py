"""Settings and sections of job files that several trainers share.

A setting is an annotated type that carries its limits and its description. A section then declares
it in one line with a default of its own: `hidden: HiddenLayers = (64, 64)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.sections import Count, Fraction, Positive, Section, UnusedKeys
from overtrick.core import Array, Game, ShapesRewards, UserError
from overtrick.core.games import ClipsActions
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import (
    INITIAL_ACTION_STD,
    initial_policy_weights,
    random_networks,
)
from overtrick.learners.normalisation import LEAST_STD, RunningMoments
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.value_based import dqn
from overtrick.policies import network_sizes
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.population.genetic import EvolutionConfig

HEAD_SCALE = 0.1  # of the random weights of the last layer, so that first play is near uniform

HiddenLayers = Annotated[tuple[Count, ...], Field(description="Units of each ReLU layer.")]
Discount = Annotated[Fraction, Field(description="Discount factor gamma, per decision.")]
GaeLambda = Annotated[Fraction, Field(description="Lambda of generalised advantage estimation.")]
EntropyCoef = Annotated[float, Field(ge=0, description="Entropy bonus, in points per nat.")]
CriticLearningRate = Annotated[Positive, Field(description="Adam's learning rate of the critic.")]
GradientSteps = Annotated[Count, Field(description="Gradient steps per iteration.")]
BatchSize = Annotated[Count, Field(description="Decisions per gradient step.")]
PolicySolver = Annotated[
    Literal["trpo", "ppo"], Field(description="Policy optimiser of the policy gradient.")
]
Minibatches = Annotated[
    Count, Field(description="Minibatches of a PPO epoch, with a gradient step on each.")
]
NewOpponents = Annotated[Count, Field(description="New random opponents per iteration.")]
HeadInitScale = Annotated[
    Positive,
    Field(description="Largest scale of the last layer's initial weights in random networks."),
]
LogitBiasStd = Annotated[
    float,
    Field(
        ge=0,
        description="Largest standard deviation of the last layer's biases in random networks: "
        "preferences among actions in logits, or means of continuous actions.",
    ),
]
ActionStdScale = Annotated[
    Positive,
    Field(
        description="Factor on the initial standard deviations of actions in random networks, for "
        "games with continuous actions."
    ),
]


def equal_log_std(game: Game, std: float) -> Array:
    """Return log standard deviations (A,) of a continuous action, `std` in each component."""
    return np.full(network_sizes.output_size(game), np.log(std), np.float32)


class PolicyGradient(Section):
    """Settings of a policy-gradient learner with a critic."""

    hidden: HiddenLayers = (64, 64)
    discount: Discount = 1.0
    gae_lambda: GaeLambda = 0.95
    entropy_coef: EntropyCoef = 0.0
    critic_learning_rate: CriticLearningRate = 0.003

    @property
    def normalises(self) -> bool:
        """Whether inputs and returns are normalised."""
        return False

    @property
    def clips_action_gradient(self) -> bool:
        """Whether likelihoods are those of actions as the game clips them."""
        return False

    @property
    def action_std_is_fixed(self) -> bool:
        """Whether the standard deviations of continuous actions are not trained."""
        return False

    def random_policy(self, game: Game, rng: Generator) -> Weights:
        """Draw the random weights of an untrained policy network."""
        return initial_policy_weights(game, self.hidden, rng, HEAD_SCALE)

    def critic(self, game: Game, rng: Generator, privileged: bool) -> Critic:
        """Make a critic with these settings for a game; a privileged critic sees the whole deal."""
        size = network_sizes.privileged_input_size if privileged else network_sizes.input_size
        return Critic(size(game), self.hidden, rng, self.critic_learning_rate, self.normalises)


class NormalisingPolicyGradient(PolicyGradient):
    """Settings of a policy gradient that can normalise what its networks learn from."""

    normalise: bool = False
    """Train both networks on inputs with running mean 0 and standard deviation 1, and the critic on
    returns normalised in the same way.
    """

    @property
    def normalises(self) -> bool:
        return self.normalise

    def input_moments(self, game: Game) -> RunningMoments | None:
        """Return moments of the policy's inputs, still without data; None: do not normalise."""
        return RunningMoments(network_sizes.input_size(game), LEAST_STD) if self.normalise else None


class ClippedActionGradient(PolicyGradient):
    """Setting of a policy gradient in games that clip continuous actions."""

    clipped_action_gradient: bool = False
    """Importance ratios and KL divergences are those of the clipped action: in each component every
    sample above 1 counts as 1, and every sample below -1 as -1 (Fujita and Maeda 2018). If false,
    they are those of the normal distribution before clipping, as is the entropy in both cases. Only
    for games that clip continuous actions to -1 .. 1, such as sumo.
    """

    @property
    def clips_action_gradient(self) -> bool:
        return self.clipped_action_gradient

    def check_clipped_actions(self, game: Game, key: str) -> None:
        """Raise UserError if `clipped_action_gradient` is set for a game that does not clip.

        key: path of the setting in the job file.
        """
        if self.clipped_action_gradient and not isinstance(game, ClipsActions):
            raise UserError(f"{key}: {game.name} does not clip continuous actions: remove the key")


class ActionStdSchedule(PolicyGradient):
    """Settings of a policy-gradient learner that can schedule the noise of continuous actions.

    The noise is the standard deviation of each component of an action. It changes linearly over
    training.
    """

    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = (
        UnusedKeys({"action_std": (None,)}, ("action_std_end",)),
    )

    action_std: Positive | None = None
    """Standard deviation of each component of a continuous action at the start, also if the policy
    is a stored one. It changes linearly to `action_std_end`. Noisier actions explore more. None:
    the policy gradient trains the standard deviations. The schedule fixes the entropy, so that
    `entropy_coef` has no effect. Only for games with continuous actions, such as sumo.
    """

    action_std_end: Positive = 0.1
    """Standard deviation of each component of a continuous action after the last iteration."""

    @property
    def action_std_is_fixed(self) -> bool:
        return self.action_std is not None

    def with_scheduled_std(
        self, weights: Weights, game: Game, progress: float, prefix: str = ""
    ) -> Weights:
        """Return a policy's weights with the standard deviations of actions set by the schedule.

        Weights whose standard deviations are trained are returned as they are. `progress`: share of
        training done; above 1, in a run whose number of iterations was lowered, it counts as 1.
        `prefix`: of the names of the policy's weights.
        """
        if self.action_std is None:
            return weights
        change = self.action_std_end - self.action_std
        std = self.action_std + min(progress, 1) * change
        return {**weights, f"{prefix}{LOG_STD}": equal_log_std(game, std)}

    def check_action_std(self, game: Game, key: str) -> None:
        """Raise UserError if `action_std` is set for a game with discrete actions.

        key: path of the setting in the job file.
        """
        if self.action_std is not None and game.actions is not None:
            raise UserError(f"{key}: {game.name} has discrete actions: remove the key")
        if self.action_std is not None and self.changed_keys(["entropy_coef"]):
            coefficient = key.removesuffix("action_std") + "entropy_coef"
            raise UserError(f"{coefficient} has no effect with {key}: leave it out")


class ShapingSchedule(Section):
    """Settings of a schedule that removes shaping rewards during training."""

    shaping_end: float | None = Field(default=None, gt=0, le=1)
    """Share of training over which shaping rewards fall linearly to 0. None: they stay. Only for
    games with shaping rewards, such as sumo.
    """

    def shaped(self, game: Game, progress: float) -> Game:
        """Return the game with its shaping rewards scaled for `progress` (0 to 1) of training."""
        if self.shaping_end is None:
            return game
        assert isinstance(game, ShapesRewards)
        shaped: Game = game.with_shaping(max(0.0, 1 - progress / self.shaping_end))
        return shaped

    def check_shaping(self, game: Game, key: str) -> None:
        """Raise UserError if `shaping_end` is set for a game without shaping rewards.

        key: path of `shaping_end` in the job file.
        """
        has_shaping = isinstance(game, ShapesRewards) and game.has_shaping
        if self.shaping_end is not None and not has_shaping:
            raise UserError(f"{key}: {game.name} has no shaping rewards: remove the key")


class PpoLearner(NormalisingPolicyGradient):
    """Settings of a learner that trains by PPO against opponents from a population."""

    learning_rate: Positive = 0.005
    """Adam's learning rate at the start."""

    minibatches: Minibatches = 1
    games: Count = 1000
    """Games per training iteration of a learner."""

    def learner(self, game: Game, learning_rate: float, rng: Generator) -> ActorCritic:
        """Make a PPO learner with random weights and a critic."""
        return ActorCritic(
            game.features,
            self.random_policy(game, rng),
            self.critic(game, rng, False),
            Ppo(learning_rate, self.entropy_coef),
            self.discount,
            self.gae_lambda,
            None,
            self.minibatches,
            self.input_moments(game),
            self.clips_action_gradient,
            self.action_std_is_fixed,
        )


class RandomNetworks(Section):
    """Settings of the distribution from which the weights of random networks are drawn."""

    head_init_scale: HeadInitScale = 1.0
    logit_bias_std: LogitBiasStd = 0.0

    def random_networks(
        self, sizes: Sequence[int], count: int, rng: Generator, log_std: Array | None = None
    ) -> Weights:
        """Draw the weights (count, ...) of random networks with this section's scales.

        `sizes`: units of each layer, from the inputs to the outputs. `log_std` (A,): logarithms of
        the standard deviations of continuous actions; None for discrete actions.
        """
        return random_networks(
            sizes, count, self.head_init_scale, self.logit_bias_std, rng, log_std
        )


class RandomOpponents(RandomNetworks):
    """Settings of trainers whose opponents are random networks, drawn anew in each iteration."""

    random_opponents: NewOpponents = 20
    head_init_scale: HeadInitScale = 2.0
    logit_bias_std: LogitBiasStd = 5.0


class RandomMembers(RandomNetworks):
    """Settings of the random networks with which a population starts."""

    action_std_scale: ActionStdScale = 1.0

    def action_log_std(self, game: Game) -> Array | None:
        """Return log standard deviations (A,) of a continuous action; None for discrete ones."""
        if game.actions is not None:
            return None
        return equal_log_std(game, INITIAL_ACTION_STD * self.action_std_scale)


class GeneticOperators(Section):
    """Settings of selection and mutation (defaults: Wu et al. 2022, Table 1, column Leduc)."""

    elite_share: Fraction = 0.2
    """Share of members kept unchanged."""

    mutation_rate: Fraction = 0.3
    """Probability that a member mutates."""

    mutation_strength: float = Field(default=0.1, ge=0)
    """Standard deviation of mutation, as a multiple of the root mean square of a layer's weights.
    """

    def operators(self) -> EvolutionConfig:
        """Convert these settings to the configuration of the genetic operators."""
        return EvolutionConfig(self.elite_share, self.mutation_rate, self.mutation_strength)


class EpsilonGreedy(Section):
    """Settings of epsilon-greedy exploration; epsilon changes linearly over the iterations."""

    epsilon: Fraction = 0.1
    """Probability of a random action at the start."""

    epsilon_end: Fraction = 0.0
    """Probability of a random action at the end."""

    def epsilon_at(self, progress: float) -> float:
        """Return epsilon after a share `progress` (0 to 1) of all iterations."""
        return self.epsilon + progress * (self.epsilon_end - self.epsilon)


class QLearning(EpsilonGreedy):
    """Settings of deep Q-learning from a replay buffer."""

    unused_keys = (UnusedKeys({"monte_carlo": (True,)}, ("target_update_interval", "double_q")),)

    learning_rate: Positive = 0.001
    """Adam's learning rate at the start; it falls linearly to 0."""

    gradient_steps: GradientSteps = 32
    batch_size: BatchSize = 256
    replay_capacity: Count = 200_000
    """Capacity of the replay buffer, in decisions."""

    target_update_interval: Count = 300
    """Gradient steps between updates of the target network."""

    discount: Discount = 1.0
    loss: Literal["huber", "squared"] = "squared"
    """Loss of the value error. huber: less sensitive to outliers, but it estimates the median of
    the target instead of its mean.
    """

    double_q: bool = True
    """Use double Q-learning."""

    monte_carlo: bool = False
    """Use the return of the rest of the game as target (Monte Carlo control), without
    bootstrapping; without target_update_interval and double_q.
    """

    def config(self) -> dqn.DqnConfig:
        """Convert these settings to the configuration of the learner."""
        return dqn.DqnConfig(
            self.learning_rate, self.gradient_steps, self.batch_size, self.replay_capacity,
            self.target_update_interval, self.discount, self.loss,
            self.double_q, self.monte_carlo,
        )  # fmt: skip
