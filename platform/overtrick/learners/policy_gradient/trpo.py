"""Trust region policy optimisation (Schulman et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.weights import Params, flatten, unflatten


class Trpo:
    """A natural-gradient step as far as the KL bound allows, then a backtracking line search.

    bound: mean KL divergence of a decision, in nats, that a step may reach. entropy: weight of
    a bonus for a spread-out policy, in points a nat. The curvature may come from part of the sample
    (Schulman et al. 2015, appendix C), the bound holds on all of it.
    """

    def __init__(
        self,
        bound: float,
        entropy: float = 0.0,
        damping: float = 0.01,
        conjugate_steps: int = 10,
        backtracks: int = 15,
    ) -> None:
        self.step = bound
        self.entropy = entropy
        self.damping = damping
        self.conjugate_steps = conjugate_steps
        self.backtracks = backtracks

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]:
        """Better weights, or the same ones if no step within the bound gains anything."""
        params = {n: v.detach().requires_grad_() for n, v in theta.items()}
        logp = surrogate.policy(params)
        before = self._gain(surrogate, logp)
        values = list(params.values())
        gradient = _flat_grad(before, values)
        part, on_part = surrogate, logp
        if surrogate.thin is not None:
            part, on_part = surrogate.thin, surrogate.thin.policy(params)
        slope_of_kl = _flat_grad(part.divergence(on_part), values, create_graph=True)

        def fisher(vector: Tensor) -> Tensor:
            return _flat_grad(slope_of_kl @ vector, values) + self.damping * vector

        direction = conjugate_gradient(fisher, gradient, self.conjugate_steps)
        curvature = float(direction @ fisher(direction))
        if curvature <= 0:
            return theta, {"kl": 0.0, "gain": 0.0, "step_taken": 0.0}
        full = direction * (2 * self.step / curvature) ** 0.5
        start = flatten(params).detach()
        for k in range(self.backtracks):
            share = 0.8**k
            tried = unflatten(start + share * full, params)
            with torch.enable_grad():  # adaptation inside the policy needs gradients
                now = surrogate.policy({n: v.requires_grad_() for n, v in tried.items()}).detach()
            kl = float(surrogate.divergence(now))
            gain = float((self._gain(surrogate, now) - before).detach())
            if kl <= self.step and gain > 0:
                kept = {n: v.detach() for n, v in tried.items()}
                return kept, {"kl": kl, "gain": gain, "step_taken": share}
        return theta, {"kl": 0.0, "gain": 0.0, "step_taken": 0.0}

    def _gain(self, surrogate: Surrogate, logp: Tensor) -> Tensor:
        return surrogate.gain(logp) + self.entropy * surrogate.entropy(logp)

    def state(self) -> dict[str, Array]:
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Nothing is remembered from step to step."""


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    """x with product(x) = b, approximately, for a symmetric positive definite linear map."""
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = b.clone()
    square = residual @ residual
    for _ in range(steps):
        if square < 1e-16:
            break
        image = product(direction)
        length = square / (direction @ image)
        x = x + length * direction
        residual = residual - length * image
        new_square = residual @ residual
        direction = residual + (new_square / square) * direction
        square = new_square
    return x


def _flat_grad(value: Tensor, values: list[Tensor], create_graph: bool = False) -> Tensor:
    grads = torch.autograd.grad(value, values, create_graph=create_graph, retain_graph=True)
    return torch.cat([g.reshape(-1) for g in grads])
