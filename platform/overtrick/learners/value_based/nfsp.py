"""Neural fictitious self-play (Heinrich and Silver 2016): best replies, and their average."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories
from overtrick.learners.optimisers import Adam
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based.dqn import Dqn
from overtrick.learners.value_based.replay_buffer import (
    ReservoirBuffer,
    observation_columns,
    observations_of,
)
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax
from overtrick.policies.network import NetworkPolicy

BEST_RESPONSE_NOTE = "best"
"""The note of a batch that says which decisions (D,) the best reply made."""


@dataclass(frozen=True)
class NfspConfig:
    """How the average is learnt."""

    rate: float  # Adam's
    steps: int  # gradient steps a batch of games
    rows: int  # decisions a gradient step
    room: int  # decisions of the best reply that are remembered


class Nfsp:
    """Q-learning replies to whoever plays, and a second network learns how it has replied so far.

    The average of best replies comes near an equilibrium of a two-player zero-sum game, as far as
    the replies are best (Heinrich et al. 2015, theorem 7). A batch says by the note BEST which of
    its decisions the best reply made: they alone teach the average, all teach the best reply.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        best: Dqn,
        average: Weights,
        plan: NfspConfig,
    ) -> None:
        self.features = features
        self.best = best
        self.plan = plan
        self.adam = Adam(average, plan.rate)
        self.memory = ReservoirBuffer(plan.room)

    def policy(self, explore: bool = True) -> NetworkPolicy:
        """The average policy; it explores by itself."""
        return NetworkPolicy(self.features, self.average())

    def average(self) -> Weights:
        """The weights of the average policy."""
        return to_arrays(self.adam.params)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Better values and a better average, from the decisions of whole games."""
        best_rng, average_rng = rng.spawn(2)
        mine = batch.extras[BEST_RESPONSE_NOTE]
        # the best reply itself, without the actions that it only tried
        reply = self.best.policy(explore=False).probs(batch.observations()).argmax(axis=1)
        rows = {**observation_columns(batch), "action": reply}
        metrics = self.best.learn(batch, best_rng)
        self.memory.add({name: column[mine] for name, column in rows.items()}, average_rng)
        return metrics | self._imitate(average_rng)

    def _imitate(self, rng: Generator) -> dict[str, float]:
        """Cross-entropy steps towards the actions that the best reply has taken."""
        if not len(self.memory):
            return {}
        plan, loss = self.plan, 0.0
        rows = self.memory.at(self.memory.draw(plan.steps * plan.rows, rng))
        features = torch.from_numpy(self.features(observations_of(rows)))
        legal, action = (torch.from_numpy(rows[name]) for name in ("legal", "action"))
        for k in range(0, len(action), plan.rows):
            part = slice(k, k + plan.rows)
            logp = masked_log_softmax(forward(self.adam.params, features[part]), legal[part])
            error = -logp.gather(1, action[part, None]).mean()
            self.adam.descend(error)
            loss += float(error.detach())
        return {"average_loss": loss / plan.steps}

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("best", self.best.state()),
            **prefixed("average", self.adam.state()),
            **prefixed("reservoir", self.memory.state()),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.best.load(unprefixed("best", state))
        self.adam.load(unprefixed("average", state))
        self.memory.load(unprefixed("reservoir", state))
