"""Updates of a match network by the exact policy gradient or by PPO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.checkpoints import Checkpointed, check_shapes, prefixed, unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.learners.divergence import check_loss
from overtrick.learners.policy_gradient.match_network import match_log_probs
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import DiscreteSample, sample_tensors
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, tensors

if TYPE_CHECKING:
    from torch import Tensor


class MatchLearner(Checkpointed):
    """Learner of a match network with weights `theta`, and its Adam optimiser.

    `clip`, `epochs`, `target_kl`: as in `Ppo`. With one epoch an update is one Adam step along the
    policy gradient of its sample.
    """

    def __init__(self, theta: Weights, clip: float, epochs: int, target_kl: float) -> None:
        self.theta = theta
        self.optimizer = Ppo(step_size=0.0, clip=clip, epochs=epochs, target_kl=target_kl)

    def learn(
        self, counts: Array, sample: DiscreteSample, rate: float, entropy_coef: float,
        rng: Generator,
    ) -> dict[str, float]:  # fmt: skip
        """Improve the network on the decisions at C stages of matches; return metrics.

        - `counts`: (C, D) number of games with each end observation before each stage.
        - `sample`: its first axis are the C stages, its second the N information sets.
        - `rate`: learning rate of this update. `entropy_coef`: entropy bonus, in points per nat.
        """
        seen, decisions = torch.as_tensor(counts), sample_tensors(sample)
        legal = torch.as_tensor(sample.legal[0])

        def policy(theta: Params) -> Tensor:
            return match_log_probs(theta, seen, legal)

        self.optimizer.step_size, self.optimizer.entropy_coef = rate, entropy_coef
        surrogate = Surrogate(decisions, policy)
        theta, metrics = self.optimizer.improve(tensors(self.theta), surrogate, rng)
        check_loss(metrics["gain"], "in an update of the match network")
        self.theta = to_arrays(theta)
        entropy = surrogate.entropy(torch.as_tensor(sample.logp))
        return metrics | {"entropy_nats": float(entropy)}

    def parts(self) -> Mapping[str, Any]:
        """Return the optimiser, whose state belongs to a checkpoint."""
        return {"solver": self.optimizer}

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: the network and the optimiser's state."""
        return {**super().state(), **prefixed("match", self.theta)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore network and optimiser from a result of `state()`."""
        super().load(state)
        theta = unprefixed("match", state)
        check_shapes(theta, self.theta)
        self.theta = theta
