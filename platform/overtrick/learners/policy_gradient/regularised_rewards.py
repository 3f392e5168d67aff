"""Reward regularisation of R-NaD, regularised Nash dynamics (Perolat et al. 2022, "DeepNash").

A seat pays the log-ratio of its policy to a reference policy, and receives that of its opponent.
The regularised game has one equilibrium, to which self-play converges. The reference policy is then
replaced by the current policy, so that the regularised games lead to an equilibrium of the true
game.

| here | the paper |
|---|---|
| the policy improves by PPO with GAE | by NeuRD with V-trace |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from overtrick.core import Array, Observations, Trajectories, select_rows
from overtrick.core.checkpoints import check_shapes, prefixed, unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax, tensors
from overtrick.policies.rollout import STEP


class RewardRegulariser:
    """Rewards of games plus R-NaD's penalty on the log-ratio of policy to reference policy.

    The reference policy is replaced every `interval` iterations. In the first half of each interval
    its log-probabilities move linearly from those of the previous reference policy to its own.

    - `features`: function from observations to network inputs.
    - `networks`: weights of the initial policy of each seat, which is also its first reference.
    - `coef`: points per nat of log-ratio (eta in the paper).
    - `interval`: in iterations.
    """

    def __init__(
        self, features: Callable[[Observations], Array], networks: Sequence[Weights], coef: float,
        interval: int,
    ) -> None:  # fmt: skip
        self.features = features
        self.reference = self.previous_reference = networks
        self.coef = coef
        self.interval = interval

    def rewards(self, batch: Trajectories, iteration: int) -> Trajectories:
        """Return a batch of decisions with regularised rewards.

        `batch`: all decisions of both seats, sampled from the policies in training; its extras hold
        the step of each decision.
        `iteration`: number of iterations before this one.
        """
        share = min(1.0, 2 * (iteration % self.interval + 1) / self.interval)
        log_ratio = batch.logp.copy()
        for seat, both in enumerate(zip(self.reference, self.previous_reference, strict=True)):
            rows = np.flatnonzero(batch.seat == seat)
            part = select_rows(batch, rows)
            features = torch.as_tensor(self.features(part.observations()))
            for theta, weight in zip(both, (share, 1 - share), strict=True):
                with torch.inference_mode():
                    logits = forward(tensors(theta), features)
                    logp = masked_log_softmax(logits, torch.as_tensor(part.legal))
                taken = logp.double().numpy(force=True)[np.arange(len(rows)), part.action]
                log_ratio[rows] -= weight * taken
        return replace(batch, reward=batch.reward + self.coef * reward_changes(batch, -log_ratio))

    def update(self, networks: Sequence[Weights], iterations: int) -> None:
        """Make the policies of all seats the reference after every `interval` iterations."""
        if iterations % self.interval == 0:
            self.previous_reference, self.reference = self.reference, networks

    def state(self) -> dict[str, Array]:
        """Return the weights of all reference policies, for a checkpoint."""
        named = {"reference": self.reference, "previous": self.previous_reference}
        return {
            name: value
            for key, networks in named.items()
            for seat, theta in enumerate(networks)
            for name, value in prefixed(f"{key}_{seat}", theta).items()
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore all reference policies from a result of `state()`."""
        seats = range(len(self.reference))
        check_shapes(state, self.state())
        self.reference = [unprefixed(f"reference_{seat}", state) for seat in seats]
        self.previous_reference = [unprefixed(f"previous_{seat}", state) for seat in seats]


def reward_changes(batch: Trajectories, bonus: Array) -> Array:
    """Return the change (D,) of the rewards by a bonus (D,) that the opponent pays.

    The acting seat receives the bonus at its decision. The other seat pays it at its most recent
    decision in the same game. A seat that has not acted yet pays nothing: none of its actions could
    have caused the bonus.
    """
    order = np.lexsort((batch.extras[STEP], batch.game))
    seat, game, step = batch.seat[order], batch.game[order], batch.extras[STEP][order]
    changes = bonus.copy()
    for other in (0, 1):
        earlier = np.maximum.accumulate(np.where(seat == other, np.arange(len(order)), -1))
        together = (earlier >= 0) & (step[earlier] == step) & (game[earlier] == game)
        earlier = np.where(together, np.append(-1, earlier)[earlier], earlier)  # one row before
        paid = np.flatnonzero((seat != other) & (earlier >= 0))
        paid = paid[game[earlier[paid]] == game[paid]]
        np.add.at(changes, order[earlier[paid]], -bonus[order[paid]])
    return changes
