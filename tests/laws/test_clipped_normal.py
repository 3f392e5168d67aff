"""Likelihoods and divergences of clipped normal actions: integrals, score functions, extremes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.learners.policy_gradient import clipped_normal

PAIRS = [(0.2, 0.3, 0.4, 0.5), (0.9, 0.2, 1.1, 0.25), (-1.5, 0.4, -1.2, 0.3), (2.0, 0.5, 1.4, 0.6)]


def pair(mean: float, std: float) -> tuple[Tensor, Tensor]:
    return torch.tensor(mean), torch.tensor(std).log()


@pytest.mark.parametrize(("mean", "std", "new_mean", "new_std"), PAIRS)
def test_the_divergence_is_the_sum_of_the_tails_and_an_integral(
    mean: float, std: float, new_mean: float, new_std: float
) -> None:
    old, new = scipy.stats.norm(mean, std), scipy.stats.norm(new_mean, new_std)
    below = old.cdf(-1) * (old.logcdf(-1) - new.logcdf(-1))
    above = old.sf(1) * (old.logsf(1) - new.logsf(1))
    inside, _ = scipy.integrate.quad(
        lambda a: old.pdf(a) * (old.logpdf(a) - new.logpdf(a)), -1, 1, epsabs=1e-9
    )
    found = clipped_normal.divergence(*pair(mean, std), *pair(new_mean, new_std))
    assert float(found) == pytest.approx(below + inside + above, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("mean", "std", "new_mean", "new_std"), PAIRS)
def test_a_divergence_is_the_mean_log_ratio_of_sampled_actions(
    mean: float, std: float, new_mean: float, new_std: float, rng: Generator
) -> None:
    action = torch.from_numpy(rng.normal(mean, std, 100_000))
    old, new = (
        clipped_normal.log_likelihood(action, *pair(*each))
        for each in ((mean, std), (new_mean, new_std))
    )
    gap = (old - new).numpy()
    exact = float(clipped_normal.divergence(*pair(mean, std), *pair(new_mean, new_std)))
    assert abs(gap.mean() - exact) < 5 * gap.std() / np.sqrt(len(gap))


@pytest.mark.parametrize("mean", [-1.3, -0.2, 0.8, 1.2])
def test_the_score_estimates_the_same_gradient_with_less_variance(
    mean: float, rng: Generator
) -> None:
    """The payoff is that of the clipped action, so its expectation is exact by integration."""
    std, step = 0.5, 1e-4

    def payoff(action: np.ndarray) -> np.ndarray:
        return np.clip(action, -1, 1) ** 3

    def expected(at: float) -> float:
        inside, _ = scipy.integrate.quad(
            lambda a: payoff(a) * scipy.stats.norm.pdf(a, at, std), -1, 1
        )
        normal = scipy.stats.norm(at, std)
        return float(inside + payoff(-1) * normal.cdf(-1) + payoff(1) * normal.sf(1))

    action = rng.normal(mean, std, 200_000)
    at = torch.full(action.shape, mean, dtype=torch.float64, requires_grad=True)
    likelihood = clipped_normal.log_likelihood(
        torch.from_numpy(action), at, torch.tensor(np.log(std))
    )
    (score,) = torch.autograd.grad(likelihood.sum(), at)
    clipped = score.numpy() * payoff(action)
    plain = (action - mean) / std**2 * payoff(action)
    exact = (expected(mean + step) - expected(mean - step)) / (2 * step)
    assert abs(clipped.mean() - exact) < 5 * clipped.std() / np.sqrt(len(action))
    assert clipped.var() < plain.var()


def test_likelihoods_are_densities_inside_and_tails_beyond() -> None:
    action = torch.tensor([-0.9, 0.0, 0.99, 1.0, 1.2, 50.0, -1.0, -9.0])
    likelihood = clipped_normal.log_likelihood(action, *pair(0.5, 0.4))
    normal = scipy.stats.norm(0.5, 0.4)
    tails = [normal.logsf(1)] * 3 + [normal.logcdf(-1)] * 2
    wanted = [*normal.logpdf(action[:3].numpy()), *tails]
    np.testing.assert_allclose(likelihood.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("sign", [-1, 1])
def test_means_far_beyond_a_limit_are_the_same_policy(sign: int) -> None:
    near, far = (pair(sign * mean, 0.1) for mean in (90.0, 97.0))
    assert float(clipped_normal.divergence(*near, *far)) == 0.0


def test_derivatives_are_those_of_double_precision() -> None:
    """Of actions up to six standard deviations from the mean, where samples lie."""
    found = []
    for kind in (torch.float32, torch.float64):
        mean = torch.tensor([-97.0, -1.5, -1.0, 0.0, 0.9, 3.0, 97.0], dtype=kind)
        action = mean + torch.tensor([[-0.6], [-0.1], [0.2], [0.6]], dtype=kind)
        log_std = torch.full_like(mean, float(np.log(0.1)))
        values = [each.requires_grad_() for each in (mean, log_std)]
        gap = clipped_normal.divergence(mean.detach() + 0.05, log_std.detach(), *values)
        total = clipped_normal.log_likelihood(action, *values).sum() + gap.sum()
        first = torch.autograd.grad(total, values, create_graph=True)
        second = torch.autograd.grad(sum(each.sum() for each in first), values)
        found.append(torch.stack([*first, *second]).detach().numpy())
    single, double = found
    np.testing.assert_allclose(single, double, rtol=2e-3, atol=1e-3 * np.abs(double).max())
