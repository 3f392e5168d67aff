"""Trust region policy optimisation (Schulman et al. 2015).

| here | the usual implementation |
|---|---|
| line search over 0.8^k, up to 15 steps | 0.5^k, up to 10 steps |
| exact KL over all actions, on the full sample | exact KL or estimate |
| entropy bonus in the objective is possible | none |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.weights import Params, flatten, unflatten

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False)
class Trpo:
    """TRPO update: a natural-gradient step to the KL bound, then a backtracking line search.

    `step_size` is the KL bound: the largest mean KL divergence per decision from the behaviour
    policy, in nats. `entropy_coef` is the weight of the entropy bonus, in points per nat. If the
    surrogate has a `fisher_subsample`, only this part of the sample gives the curvature (Schulman
    et al. 2015, appendix C). The KL bound is checked on the whole sample.
    """

    step_size: float
    entropy_coef: float = 0.0
    damping: float = 0.01
    conjugate_steps: int = 10
    backtracks: int = 15

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]:
        """Improve policy weights `theta` on a surrogate objective; return new weights and metrics.

        The weights are unchanged if no step within the bound improves the objective, which is the
        estimated payoff plus the entropy bonus. Metrics: `kl` in nats, `gain`, the increase of the
        estimated payoff in points, and `step_taken`, the accepted share of the full step.
        """
        params = {n: v.detach().requires_grad_() for n, v in theta.items()}
        logp = surrogate.policy(params)
        objective_before = self._objective(surrogate, logp)
        values = list(params.values())
        gradient = _flat_grad(objective_before, values)
        subset, output = surrogate, logp
        if surrogate.fisher_subsample is not None:
            subset = surrogate.fisher_subsample
            output = subset.policy(params)
        kl_gradient = _flat_grad(subset.divergence(output), values, create_graph=True)

        def fisher(vector: Tensor) -> Tensor:
            return _flat_grad(kl_gradient @ vector, values) + self.damping * vector

        direction = conjugate_gradient(fisher, gradient, self.conjugate_steps)
        curvature = float(direction @ fisher(direction))
        rejected = theta, {"kl": 0.0, "gain": 0.0, "step_taken": 0.0}
        if curvature <= 0:
            return rejected
        full_step = direction * (2 * self.step_size / curvature) ** 0.5
        start = flatten(params).detach()
        for k in range(self.backtracks):
            scale = 0.8**k
            candidate = unflatten(start + scale * full_step, params)
            with torch.enable_grad():  # adaptation inside the policy needs gradients
                weights = {n: v.requires_grad_() for n, v in candidate.items()}
                output = surrogate.policy(weights).detach()
            kl = float(surrogate.divergence(output))
            better = float((self._objective(surrogate, output) - objective_before).detach()) > 0
            if kl <= self.step_size and better:
                accepted = {n: v.detach() for n, v in candidate.items()}
                gain = float((surrogate.gain(output) - surrogate.gain(logp)).detach())
                return accepted, {"kl": kl, "gain": gain, "step_taken": scale}
        return rejected

    def _objective(self, surrogate: Surrogate, logp: Tensor) -> Tensor:
        return surrogate.gain(logp) + self.entropy_coef * surrogate.entropy(logp)

    def state(self) -> dict[str, Array]:
        """Return an empty checkpoint: TRPO keeps nothing between updates."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Do nothing: TRPO keeps nothing between updates."""


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    """Solve product(x) = b approximately by `steps` conjugate-gradient steps.

    `product` must be a symmetric positive definite linear map.
    """
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = b.clone()
    squared_norm = residual @ residual
    for _ in range(steps):
        if squared_norm < 1e-16:
            break
        image = product(direction)
        length = squared_norm / (direction @ image)
        x = x + length * direction
        residual = residual - length * image
        new_squared_norm = residual @ residual
        direction = residual + (new_squared_norm / squared_norm) * direction
        squared_norm = new_squared_norm
    return x


def _flat_grad(value: Tensor, values: list[Tensor], create_graph: bool = False) -> Tensor:
    grads = torch.autograd.grad(value, values, create_graph=create_graph, retain_graph=True)
    return torch.cat([g.reshape(-1) for g in grads])
