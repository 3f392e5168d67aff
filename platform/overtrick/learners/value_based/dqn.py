"""Deep Q-learning with a replay buffer and a target network (Mnih et al. 2015).

| here | the paper |
|---|---|
| `steps` gradient steps follow each batch of whole games | one step every 4 frames |
| the target maximises over legal actions only | all actions are legal |
| Huber or squared error; double Q-learning and Monte Carlo returns by option | error clipped to 1 |
| Adam | RMSprop |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, Observations, SuitSymmetric, Trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.learners.divergence import check_loss
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.advantages import discounted_returns
from overtrick.learners.value_based import replay_buffer
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies import model_kinds
from overtrick.policies.forward_pass import Weights, forward, tensors
from overtrick.policies.memoryless import MemorylessPolicy

if TYPE_CHECKING:
    from torch import Tensor

GREEDY = "greedy"  # prefix of a Q-network's weights in a stored model

LOSSES = {"huber": "huber_loss", "squared": "mse_loss"}
"""Loss functions of job files, and their names in torch.nn.functional."""

Values = Callable[[Mapping[str, "Tensor"], "Tensor", Mapping[str, "Tensor"]], "Tensor"]
"""Function from weights, features (R, F) and auxiliary inputs to action values (R, A) in points.

The auxiliary inputs are arrays (R, ...) by name, such as action frequencies of the opponent.
"""


def mlp_values(
    params: Mapping[str, Tensor], features: Tensor, notes: Mapping[str, Tensor]
) -> Tensor:
    """Return the action values (R, A) of a multilayer perceptron on features (R, F).

    `notes`: auxiliary network inputs, which this network does not use.
    """
    return forward(params, features)


@dataclass(frozen=True)
class DqnConfig:
    """Hyperparameters of deep Q-learning."""

    learning_rate: float  # of Adam
    steps: int  # gradient steps for each batch of games
    batch_size: int  # decisions per gradient step
    replay_capacity: int  # capacity of the replay buffer, in decisions
    target_update_interval: int  # gradient steps between updates of the target network
    gamma: float  # discount per decision
    loss: Literal["huber", "squared"]  # huber: linear beyond an error of one point
    double: bool  # double Q-learning (van Hasselt et al. 2016)
    monte_carlo: bool = False  # targets are discounted returns, not bootstrapped


class Dqn:
    """Q-network learner: network, target network and replay buffer.

    The target of a decision is its reward until the seat's next decision, plus gamma times the
    target network's value of the best legal action there. After the last decision no value is
    added. With `config.monte_carlo` the target is the discounted sum of all later rewards.

    `values`: function that computes action values from weights, features and auxiliary inputs.
    `notes`: names of the auxiliary inputs, which are arrays in `Trajectories.extras`.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        config: DqnConfig,
        values: Values = mlp_values,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.features = features
        self.config = config
        self.values = values
        self.notes = notes
        self.adam = Adam(weights, config.learning_rate)
        self.target: Params = tensors(weights)
        self.buffer = replay_buffer.RingBuffer(config.replay_capacity)
        self.gradient_steps = 0  # taken so far

    def policy(self, explore: bool = True, epsilon: float = 0.1) -> GreedyPolicy:
        """Return the greedy policy or, with `explore`, the epsilon-greedy policy."""
        return GreedyPolicy(self.features, self.weights(), epsilon if explore else 0.0)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Add the decisions of whole games to the replay buffer, then take gradient steps.

        Returns metrics.
        """
        reward, last = batch.reward, batch.last
        if self.config.monte_carlo:
            reward, last = discounted_returns(batch, self.config.gamma), np.ones_like(last)
        self.buffer.add(
            {
                **replay_buffer.observation_columns(batch),
                **{name: batch.extras[name] for name in self.notes},
                "action": batch.action.astype(np.int64),
                "reward": reward.astype(np.float32),
                "last": last,
            },
            rng,
        )
        config, loss = self.config, 0.0
        if not len(self.buffer):
            return {}
        indices = self.buffer.draw(config.steps * config.batch_size, rng)
        current = self._inputs(self.buffer.at(indices))
        # the successor of a decision lies at the next index; the last decision of a game has none
        # and gets its own index, because the next entry may not be filled yet
        next_indices = np.where(
            current["last"].numpy(force=True), indices, (indices + 1) % config.replay_capacity
        )
        following = {} if self.config.monte_carlo else self._inputs(self.buffer.at(next_indices))
        for k in range(0, len(indices), config.batch_size):
            if self.gradient_steps % config.target_update_interval == 0:
                self.target = {n: v.detach().clone() for n, v in self.adam.params.items()}
            rows = slice(k, k + config.batch_size)
            current_rows, next_rows = (
                {n: v[rows] for n, v in each.items()} for each in (current, following)
            )
            target_value = self._target_values(current_rows, next_rows)
            values = self._values(self.adam.params, current_rows)
            predicted = values.gather(1, current_rows["action"][:, None])[:, 0]
            loss_function = getattr(torch.nn.functional, LOSSES[config.loss])
            error = loss_function(predicted, target_value)
            self.adam.minimise(error)
            loss += float(error.detach())
            self.gradient_steps += 1
        return {"value_loss": check_loss(loss / config.steps, "in an update of the Q-network")}

    def _target_values(
        self, current_rows: Mapping[str, Tensor], next_rows: Mapping[str, Tensor]
    ) -> Tensor:
        """Compute the target value (R,) of each decision in `current_rows`.

        `next_rows`: the successors of these decisions. Both are named columns with R rows.
        """
        if self.config.monte_carlo:
            return current_rows["reward"]
        with torch.no_grad():
            following = selecting = self._values(self.target, next_rows)
            if self.config.double:
                selecting = self._values(self.adam.params, next_rows)
            illegal = ~next_rows["legal"]
            best = selecting.masked_fill(illegal, -torch.inf).argmax(dim=1, keepdim=True)
            value = following.gather(1, best)[:, 0].masked_fill(current_rows["last"], 0.0)
            return current_rows["reward"] + self.config.gamma * value

    def _values(self, params: Mapping[str, Tensor], rows: Mapping[str, Tensor]) -> Tensor:
        return self.values(params, rows["features"], rows)

    def _inputs(self, rows: replay_buffer.Columns) -> dict[str, Tensor]:
        """Convert rows of the replay buffer to tensors, with features instead of observations."""
        wanted = ("features", "legal", "action", "reward", "last", *self.notes)
        columns = {**rows, "features": self.features(replay_buffer.observations_of(rows))}
        return {name: torch.as_tensor(columns[name]) for name in wanted}

    def weights(self) -> Weights:
        """Return the current weights of the Q-network."""
        return to_arrays(self.adam.params)

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint, by name.

        They are both networks, the moments of Adam, the replay buffer and the step counter.
        """
        return {
            **prefixed("values", self.adam.state()),
            **prefixed("target", to_arrays(self.target)),
            **prefixed("memory", self.buffer.state()),
            "learnt": np.array(self.gradient_steps),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore networks, Adam's moments, replay buffer and step counter from `state()`."""
        self.adam.load(unprefixed("values", state))
        self.target = tensors(unprefixed("target", state))
        self.buffer.load(unprefixed("memory", state))
        self.gradient_steps = int(state["learnt"])


@dataclass(frozen=True, eq=False)
class GreedyPolicy(MemorylessPolicy):
    """Policy of a Q-network: greedy by default, epsilon-greedy with `epsilon` above 0.

    - `features`: function from observations to network inputs (R, F).
    - `epsilon`: probability of a uniformly random legal action instead of the legal action of the
      highest value.
    - `values`: function from weights, inputs and notes to the action values (R, A).
    - `notes`: auxiliary network inputs by name, such as the opponent's action frequencies. They are
      constant: every decision has the same auxiliary inputs.
    """

    features: Callable[[Observations], Array]
    weights: Weights
    epsilon: float = 0.0
    values: Values = mlp_values
    notes: Mapping[str, Array] = field(default_factory=dict)

    def probs(self, observations: Observations) -> Array:
        """Return (R, A) action probabilities."""
        assert observations.legal is not None
        notes = {
            name: torch.as_tensor(note).expand(len(observations), *note.shape)
            for name, note in self.notes.items()
        }
        with torch.inference_mode():
            features = torch.as_tensor(self.features(observations))
            values = self.values(tensors(self.weights), features, notes).double()
        return epsilon_greedy(values.numpy(force=True), observations.legal, self.epsilon)


def epsilon_greedy(values: Array, legal: Array, epsilon: float) -> Array:
    """Return (R, A) the action probabilities of the epsilon-greedy policy for action values (R, A).

    With probability `epsilon` the action is uniform over the legal actions. Ties go to the first
    action.
    """
    best_action = np.where(legal, values, -np.inf).argmax(axis=1)
    probs = epsilon * legal / legal.sum(axis=1, keepdims=True)
    probs[np.arange(len(best_action)), best_action] += 1 - epsilon
    return probs


def greedy_policy(weights: Weights, game: Game) -> BehaviouralPolicy:
    """Return the greedy policy of a Q-network: the legal action of the highest value.

    In a game with symmetric suits the network sees the suits in canonical order.
    """
    policy: BehaviouralPolicy = GreedyPolicy(game.features, weights)
    return game.canonical_policy(policy) if isinstance(game, SuitSymmetric) else policy


def _load_stored(weights: model_kinds.StoredWeights, game: Game) -> BehaviouralPolicy:
    """Build the greedy policy of a stored Q-network.

    Raises UserError if the network does not fit the game.
    """
    arrays = weights.under(GREEDY)
    model_kinds.check_network(arrays, game, f"the model in {weights.source}")
    return greedy_policy(arrays, game)


model_kinds.register(
    model_kinds.ModelKind(lambda weights: bool(weights.under(GREEDY)), _load_stored)
)
