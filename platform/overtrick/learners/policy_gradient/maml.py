"""Model-agnostic meta-learning (MAML): initial weights from which gradient steps adapt to a task.

Source: Finn et al. 2017, "Model-agnostic meta-learning for fast adaptation of deep networks".

| here | the paper |
|---|---|
| first or second order, by option | second order |
| a task is one opponent; its loss has importance ratios | supervised loss or REINFORCE |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from overtrick.core.lazy_modules import torch
from overtrick.learners.policy_gradient.sample import PolicyGradientSample
from overtrick.learners.policy_gradient.surrogate import Surrogate, policy_gradient_loss
from overtrick.learners.weights import Params

if TYPE_CHECKING:
    from torch import Tensor


def adapt(
    params: Params, sample: PolicyGradientSample, step: float, second_order: bool = False
) -> Params:
    """Take one inner step: `params` (M, ...) minus `step` x gradient of the policy-gradient loss.

    Each of the M tasks has its own weights and its own games (Wu et al. 2022, eq. 4). The result
    can be differentiated with respect to `params`. With `second_order` this derivative includes the
    gradient's dependence on `params` (Wu et al. 2022, eq. 7). Without `second_order` the gradient
    counts as a constant.
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
    fisher_subsample: int = 1,
    minibatches: int = 1,
) -> Surrogate:
    """Build MAML's meta-objective: the surrogate objective after adaptation to M tasks.

    The objective is a function of the common initial weights (Wu et al. 2022, eqs. 5 to 7).

    - `inner`: one sample for each inner step, from games of the policies before this step.
    - `outer`: sample from games of the adapted policies.
    - `step`: learning rate of an inner step.
    - `second_order`: as in `adapt`.
    - `fisher_subsample`: a number n; TRPO computes its curvature from every n-th task.
    - `minibatches`: number of groups into which PPO divides the tasks.
    """
    tasks = len(outer.weight)

    def policy(theta: Params) -> Tensor:
        params = {n: v.expand(tasks, *v.shape) for n, v in theta.items()}
        for sample in inner:
            params = adapt(params, sample, step, second_order)
        return outer.output(params)

    def of_every(nth: int, first: int = 0) -> Surrogate:
        subset = [sample.every(nth, first) for sample in (*inner, outer)]
        return meta_surrogate(subset[:-1], subset[-1], step, second_order)

    fisher = of_every(fisher_subsample) if fisher_subsample > 1 else None
    minibatch_surrogates = (
        tuple(of_every(minibatches, k) for k in range(minibatches)) if minibatches > 1 else ()
    )
    return Surrogate(outer, policy, fisher, minibatch_surrogates)
