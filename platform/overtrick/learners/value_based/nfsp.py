"""Neural fictitious self-play (NFSP): a best-response Q-network and an average-policy network.

Source: Heinrich and Silver 2016, "Deep reinforcement learning from self-play in
imperfect-information games".

| here | the paper |
|---|---|
| the average policy learns the greedy action of the best response | the action that was played |
| gradient steps follow each batch of whole games | every 128 decisions |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories, select_rows
from overtrick.core.checkpoints import Checkpointed
from overtrick.core.lazy_modules import torch
from overtrick.learners.optimisers import Adam
from overtrick.learners.value_based import replay_buffer
from overtrick.learners.value_based.dqn import Dqn
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax
from overtrick.policies.network import NetworkPolicy

BEST_RESPONSE_NOTE = "best"
"""Name of the extra array (D,) bool in trajectories: True where the best response acted."""


@dataclass(frozen=True)
class NfspConfig:
    """Hyperparameters of the average policy's training."""

    learning_rate: float  # of Adam
    steps: int  # gradient steps for each batch of games
    batch_size: int  # decisions per gradient step
    reservoir_capacity: int  # capacity of the reservoir, in decisions of the best response


class Nfsp(Checkpointed):
    """Neural fictitious self-play: learn a best response by Q-learning, and an average policy.

    In a two-player zero-sum game the average policy approaches an equilibrium if the Q-network is
    always a best response to it (Heinrich et al. 2015, theorem 7). All decisions train the
    Q-network. The average policy is trained by supervised learning, only on the decisions of the
    best response. The array BEST_RESPONSE_NOTE in `Trajectories.extras` marks these decisions.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        best: Dqn,
        average: Weights,
        config: NfspConfig,
    ) -> None:
        self.features = features
        self.best = best
        self.config = config
        self.adam = Adam(average, config.learning_rate)
        self.reservoir = replay_buffer.ReservoirBuffer(config.reservoir_capacity)

    def policy(self, explore: bool = True) -> NetworkPolicy:
        """Return the average policy. It samples its actions whether or not `explore` is set."""
        return NetworkPolicy(self.features, self.average())

    def average(self) -> Weights:
        """Return the weights of the average policy."""
        return to_arrays(self.adam.params)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Train Q-network and average policy on the decisions of whole games; return metrics."""
        best_rng, average_rng = rng.spawn(2)
        by_best_response = batch.extras[BEST_RESPONSE_NOTE]
        # the greedy action, also where exploration took another action
        reply = self.best.policy(explore=False).probs(batch.observations()).argmax(axis=1)
        rows = {**replay_buffer.observation_columns(batch), "action": reply}
        metrics = self.best.learn(batch, best_rng)
        self.reservoir.add(select_rows(rows, by_best_response), average_rng)
        return metrics | self._fit_average(average_rng)

    def _fit_average(self, rng: Generator) -> dict[str, float]:
        """Train the average policy on best-response actions from the reservoir; return its loss."""
        if not len(self.reservoir):
            return {}
        config, loss = self.config, 0.0
        rows = self.reservoir.at(self.reservoir.draw(config.steps * config.batch_size, rng))
        features = torch.as_tensor(self.features(replay_buffer.observations_of(rows)))
        legal, action = (torch.as_tensor(rows[name]) for name in ("legal", "action"))
        for k in range(0, len(action), config.batch_size):
            batch = slice(k, k + config.batch_size)
            logp = masked_log_softmax(forward(self.adam.params, features[batch]), legal[batch])
            error = -logp.gather(1, action[batch, None]).mean()
            self.adam.minimise(error)
            loss += float(error.detach())
        return {"average_loss": loss / config.steps}

    def parts(self) -> Mapping[str, Any]:
        """Return the objects with a saved state: Q-learner, average policy and reservoir."""
        return {"best": self.best, "average": self.adam, "reservoir": self.reservoir}
