"""Model-agnostic meta-learning (Finn et al. 2017): weights from which one step adapts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from overtrick.learners.policy_gradient.sample import PolicyGradientSample
from overtrick.learners.policy_gradient.surrogate import Surrogate, policy_gradient_loss
from overtrick.learners.weights import Params


def adapt(
    params: Params, sample: PolicyGradientSample, step: float, second_order: bool = False
) -> Params:
    """The inner step: params (M, ...) less step x gradient of the policy-gradient loss.

    Each of the M tasks moves on its own games (Wu et al. 2022, eq. 4). With second_order the
    result remembers how the gradient depends on params (its eq. 7), else it is taken as a
    constant; what params themselves depend on is kept either way.
    """
    with torch.enable_grad():
        loss = policy_gradient_loss(params, sample)
        gradients = torch.autograd.grad(loss, list(params.values()), create_graph=second_order)
    return {n: v - step * g for (n, v), g in zip(params.items(), gradients, strict=True)}


def meta_surrogate(
    inner: Sequence[PolicyGradientSample],
    outer: PolicyGradientSample,
    step: float,
    second_order: bool,
    thinned: int = 1,
    parts: int = 1,
) -> Surrogate:
    """What improves weights theta through their adaptation to M tasks (eqs. 5 to 7).

    inner: one sample a gradient step, drawn by the weights before that step; outer: drawn by
    the adapted weights. thinned: of so many tasks one tells the curvature. parts: into how many
    the tasks are cut.
    """
    tasks = len(outer.weight)

    def policy(theta: Params) -> Tensor:
        params = {n: v.expand(tasks, *v.shape) for n, v in theta.items()}
        for sample in inner:
            params = adapt(params, sample, step, second_order)
        return outer.output(params)

    def of_some(nth: int, first: int = 0) -> Surrogate:
        some = [sample.every(nth, first) for sample in (*inner, outer)]
        return meta_surrogate(some[:-1], some[-1], step, second_order)

    thin = of_some(thinned) if thinned > 1 else None
    cut = tuple(of_some(parts, k) for k in range(parts)) if parts > 1 else ()
    return Surrogate(outer, policy, thin, cut)
