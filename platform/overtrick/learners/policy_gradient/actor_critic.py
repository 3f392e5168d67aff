"""Actor-critic learner: a policy network, its critic, and TRPO or PPO as the policy optimiser.

| here | the usual implementation |
|---|---|
| one PPO or TRPO update on whole games | fixed-length segments with bootstrapped values |
| critic fitted after the policy update, 2 epochs of batches of 512 | one joint loss, equal epochs |
| advantages are not normalised, inputs only with `inputs` | PPO implementations normalise both |
| games are divided among minibatches | decisions are divided among minibatches |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories
from overtrick.core.checkpoints import Checkpointed, check_shapes, prefixed, unprefixed
from overtrick.learners import normalisation
from overtrick.learners.critic import Critic, predict
from overtrick.learners.normalisation import RunningMoments
from overtrick.learners.policy_gradient import sample as samples
from overtrick.learners.policy_gradient.advantages import discounted_returns, generalised_advantages
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.policy_gradient.trpo import Trpo
from overtrick.learners.weights import Params, repeat, to_arrays
from overtrick.policies.forward_pass import LOG_STD, Weights, tensors
from overtrick.policies.network import network_policy

if TYPE_CHECKING:
    from torch import Tensor


class PolicyOptimizer(Protocol):
    """Algorithm that improves policy weights on a surrogate objective.

    The surrogate may contain the adaptation steps of MAML; the optimiser does not see these steps.
    """

    step_size: float  # KL bound of TRPO, Adam's learning rate of PPO; a schedule may change it

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]:
        """Improve policy weights `theta` on a surrogate objective; return them and metrics."""

    def state(self) -> dict[str, Array]:
        """Return the optimiser's state as named arrays, for a checkpoint."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the optimiser's state from a result of `state()`."""


POLICY_OPTIMIZERS: dict[str, Callable[[float, float], PolicyOptimizer]] = {"trpo": Trpo, "ppo": Ppo}
"""Policy optimisers by name, each made from (step size, entropy coefficient).

The step size is TRPO's KL bound in nats or PPO's learning rate. The coefficient is in points per
nat.
"""


@dataclass(eq=False)
class ActorCritic(Checkpointed):
    """Actor-critic learner with generalised advantage estimation (GAE).

    - `features`: function from observations to network inputs.
    - `gamma` (0 to 1): discount per decision.
    - `lam` (0 to 1): lambda of GAE.
    - `critic_note`: name of the array in `Trajectories.extras` that is the critic's input. With
      None the critic's input is the policy's features.
    - `minibatches`: number of groups into which PPO divides the games of a batch.
    - `inputs`: running moments of the network inputs; None: no normalisation. If given, the policy
      is trained on normalised inputs.
    - `clipped_action_gradient`: importance ratios and KL divergences are those of the actions as
      the game clips them to -1 .. 1.
    - `fixed_action_std`: the standard deviations of continuous actions are not trained.
    """

    features: Callable[[Observations], Array]
    theta: Weights  # of the policy
    critic: Critic
    optimizer: PolicyOptimizer
    gamma: float
    lam: float
    critic_note: str | None = None
    minibatches: int = 1
    inputs: RunningMoments | None = None
    clipped_action_gradient: bool = False
    fixed_action_std: bool = False

    def policy(self, explore: bool = True) -> Any:
        """Return the stochastic policy. It samples its actions whether or not `explore` is set."""
        return network_policy(self.features, self.theta)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Update policy and critic once from the decisions of whole games; return metrics.

        Without decisions nothing changes.
        """
        if not len(batch):
            return {}
        features = self.features(batch.observations())
        critic_inputs = self._critic_inputs(batch, features)
        advantage = self._advantages(batch, critic_inputs)
        if self.inputs is not None:
            self.inputs.add(features)
            features = self.inputs.normalised(features)
        minibatches = min(self.minibatches, batch.games)
        sample = self._sample(self._trained_theta(), batch, features, advantage, minibatches)
        groups = range(minibatches) if minibatches > 1 else ()
        fixed = self._fixed_weights()
        minibatch_surrogates = tuple(
            _surrogate(sample.every(minibatches, k), fixed) for k in groups
        )
        returns = discounted_returns(batch, self.gamma)
        surrogate = _surrogate(sample, fixed, minibatch_surrogates)
        return self.improve(surrogate, critic_inputs, returns, rng)

    def estimated_gain(self, batch: Trajectories, theta: Weights) -> float:
        """Estimate by importance sampling how many points per game another policy gains over this.

        `batch`: decisions of this policy. `theta`: weights of the other policy. It is a first-order
        estimate, gain(new) - gain(old) of docs/algorithms/policy_gradient.md, which keeps this
        policy's distribution of states. On the games of an update by `learn` it is the metric
        `gain`, which is too high because the update fits the noise of these games; an estimate on
        fresh games has no such bias.
        """
        features = self.features(batch.observations())
        advantage = self._advantages(batch, self._critic_inputs(batch, features))
        surrogate = _surrogate(self._sample(self.theta, batch, features, advantage, 1), {})
        new, old = (surrogate.gain(surrogate.policy(tensors(w))) for w in (theta, self.theta))
        return float(new - old)

    def learn_values(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Fit the critic to the decisions of whole games, and leave the policy; return metrics.

        Used while a pretrained policy has an untrained critic.
        """
        if not len(batch):
            return {}
        features = self.features(batch.observations())
        if self.inputs is not None:
            self.inputs.add(features)
        critic_inputs = self._critic_inputs(batch, features)
        loss = self.critic.fit(critic_inputs, discounted_returns(batch, self.gamma), rng)
        return {"critic_loss": loss}

    def improve(
        self, surrogate: Surrogate, features: Array, returns: Array, rng: Generator
    ) -> dict[str, float]:
        """Improve the policy on a surrogate objective, then fit the critic; return metrics.

        `features` (D, F) are the critic's inputs at D decisions, and `returns` (D,) its targets.
        With `inputs`, the sample of the surrogate has normalised inputs, but `features` are raw.
        """
        theta = self._trained_theta()
        trained = {n: v for n, v in theta.items() if n not in self._fixed_weights()}
        improved, metrics = self.optimizer.improve(tensors(trained), surrogate, rng)
        theta = {**theta, **to_arrays(improved)}
        if self.inputs is not None:
            theta = normalisation.for_raw_inputs(theta, self.inputs)
        self.theta = theta
        metrics["critic_loss"] = self.critic.fit(features, returns, rng)
        return metrics

    def _critic_inputs(self, batch: Trajectories, features: Array) -> Array:
        """Return the critic's inputs (D, F) at the decisions of a batch.

        `features` (D, F): the policy's network inputs.
        """
        return features if self.critic_note is None else batch.extras[self.critic_note]

    def _advantages(self, batch: Trajectories, critic_inputs: Array) -> Array:
        """Return the advantages (D,) of the actions of a batch."""
        values = predict(self.critic.weights, critic_inputs)
        return generalised_advantages(batch, values, self.gamma, self.lam)

    def _trained_theta(self) -> Weights:
        """Return the policy's weights for the inputs of training: normalised ones, or raw ones."""
        if self.inputs is None:
            return self.theta
        return normalisation.for_normalised_inputs(self.theta, self.inputs)

    def _sample(
        self,
        theta: Weights,
        batch: Trajectories,
        features: Array,
        advantage: Array,
        minibatches: int,
    ) -> samples.PolicyGradientSample:
        """Build the policy-gradient sample of a batch, with its games in minibatches.

        `theta`: the policy's weights for the network inputs `features` (D, F). `advantage` (D,): of
        the actions taken.
        """
        rollouts = samples.rollout_sample(
            repeat(theta, minibatches), batch, features, advantage, batch.games / minibatches,
            batch.game % minibatches,
        )  # fmt: skip
        return samples.sample_tensors(rollouts, self.clipped_action_gradient)

    def _fixed_weights(self) -> Params:
        """Return the policy weights that are not trained, by name."""
        return tensors({LOG_STD: self.theta[LOG_STD]}) if self.fixed_action_std else {}

    def weights(self) -> dict[str, Array]:
        """Return the weights of policy and critic by name, for a model file."""
        return {**prefixed("policy", self.theta), **prefixed("critic", self.critic.weights)}

    def parts(self) -> Mapping[str, Any]:
        """Return the objects whose states belong to a checkpoint, by name.

        - critic: the critic, with its Adam optimiser.
        - solver: the policy optimiser.
        - inputs: the moments of the network inputs, if these are normalised.
        """
        moments = {} if self.inputs is None else {"inputs": self.inputs}
        return {"critic": self.critic, "solver": self.optimizer, **moments}

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: policy, critic and the states of both optimisers."""
        return {**super().state(), **prefixed("policy", self.theta)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore policy, critic and optimisers from a result of `state()`."""
        super().load(state)
        policy = unprefixed("policy", state)
        check_shapes(policy, self.theta)
        self.theta = policy


def _surrogate(
    sample: samples.PolicyGradientSample,
    fixed: Params,
    minibatches: tuple[Surrogate, ...] = (),
) -> Surrogate:
    """Build the surrogate objective of one policy network.

    `sample`: decisions of this policy, divided into M minibatches along the leading axis.
    `fixed`: weights that are not trained, and that the weights in training do not contain.
    `minibatches`: the surrogate objective of each minibatch, which PPO needs.
    """

    def policy(theta: Params) -> Tensor:
        tasks = len(sample.weight)
        return sample.output({n: v.expand(tasks, *v.shape) for n, v in (theta | fixed).items()})

    return Surrogate(sample, policy, minibatches=minibatches)
