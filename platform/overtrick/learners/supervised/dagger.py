"""DAgger (Ross et al. 2011): a policy network learns the actions that a teacher would have taken.

| here | Ross et al. 2011 |
|---|---|
| teacher or student is drawn for each game | for each decision |
| the buffer keeps the newest decisions | it keeps all |
| training continues from the current weights | each iteration trains a new network |
| maximum likelihood of the teacher's actions | any loss |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories
from overtrick.core.checkpoints import Checkpointed
from overtrick.core.lazy_modules import torch
from overtrick.learners import normalisation
from overtrick.learners.normalisation import RunningMoments
from overtrick.learners.optimisers import Adam
from overtrick.learners.value_based.replay_buffer import (
    RingBuffer,
    observation_columns,
    observations_of,
)
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.dagger import TEACHER_ACTION
from overtrick.policies.forward_pass import LOG_STD, Weights, forward, masked_log_softmax

LEAST_ACTION_STD = 0.02
"""Lower limit of the standard deviations of continuous actions.

The likelihood of a deterministic teacher has no maximum: it grows as the deviations fall.
"""

if TYPE_CHECKING:
    from torch import Tensor


class Dagger(Checkpointed):
    """Policy network that learns a teacher's actions by maximum likelihood.

    The network is trained on normalised inputs; its weights are stored for raw ones.

    - `features`: function from observations to network inputs.
    - `learning_rate`: Adam's; a schedule may change it.
    - `capacity`: decisions in the buffer.
    - `gradient_steps`, `batch_size`: gradient steps of an update, and decisions in each.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        learning_rate: float,
        capacity: int,
        gradient_steps: int,
        batch_size: int,
    ) -> None:
        self.features = features
        self.adam = Adam(weights, learning_rate)
        self.inputs = RunningMoments(len(weights["w0"]), normalisation.LEAST_STD)
        self.buffer = RingBuffer(capacity)
        self.gradient_steps, self.batch_size = gradient_steps, batch_size

    def weights(self) -> Weights:
        """Return the weights of the policy network, for raw inputs."""
        return to_arrays(self.adam.params)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Add labelled decisions to the buffer, and train on random batches from it.

        `batch`: its extras must have the teacher's action of each decision, under TEACHER_ACTION.
        Returns the metric `loss_nats`: the mean negative log-likelihood of the teacher's actions,
        in nats per decision.
        """
        columns = observation_columns(batch)
        columns["label"] = batch.extras[TEACHER_ACTION]
        self.buffer.add({name: _single(column) for name, column in columns.items()}, rng)
        self.inputs.add(self.features(batch.observations()))
        self._replace(normalisation.for_normalised_inputs(self.weights(), self.inputs))
        total = 0.0
        for _ in range(self.gradient_steps):
            rows = self.buffer.at(self.buffer.draw(self.batch_size, rng))
            features = self.inputs.normalised(self.features(observations_of(rows)))
            loss = negative_log_likelihood(
                self.adam.params, torch.as_tensor(features), rows["label"], rows.get("legal")
            )
            self.adam.minimise(loss)
            if LOG_STD in self.adam.params:
                with torch.no_grad():
                    self.adam.params[LOG_STD].clamp_(min=float(np.log(LEAST_ACTION_STD)))
            total += float(loss.detach())
        self._replace(normalisation.for_raw_inputs(self.weights(), self.inputs))
        return {"loss_nats": total / self.gradient_steps}

    def _replace(self, weights: Weights) -> None:
        """Set the weights and leave Adam's moments."""
        with torch.no_grad():
            for name, param in self.adam.params.items():
                param.copy_(torch.as_tensor(weights[name]))

    def parts(self) -> Mapping[str, Any]:
        """Return the objects whose states belong to a checkpoint, by name."""
        return {"adam": self.adam, "inputs": self.inputs, "buffer": self.buffer}


def negative_log_likelihood(
    params: Params, features: Tensor, label: Array, legal: Array | None
) -> Tensor:
    """Compute the mean negative log-likelihood of actions in nats per decision, ().

    `features` (R, F): network inputs. `label`: the actions, (R,) integers or, if continuous, (R,
    A). `legal` (R, A): mask of the legal actions; None for continuous actions, whose normal
    distributions have the standard deviations exp(log_std).
    """
    out = forward(params, features)
    if legal is not None:
        logp = masked_log_softmax(out, torch.as_tensor(legal))
        return -logp.gather(1, torch.as_tensor(label)[:, None]).mean()
    log_std = params[LOG_STD]
    distance = (torch.as_tensor(label.astype(np.float32)) - out) * torch.exp(-log_std)
    per_component = distance.square() / 2 + log_std + 0.5 * float(np.log(2 * np.pi))
    return per_component.sum(dim=1).mean()


def _single(column: Array) -> Array:
    """Return floats in single precision, which halves the memory of the buffer."""
    return column.astype(np.float32) if column.dtype == np.float64 else column
