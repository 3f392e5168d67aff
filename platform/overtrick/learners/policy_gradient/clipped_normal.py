"""Normal distributions of actions that a game clips: log-likelihoods and KL divergences.

A game that `core.ClipsActions` describes clips each component of a continuous action to -1 .. 1.
All samples above 1 are then the same action, and its probability is that of the upper tail;
likewise below -1 (Fujita and Maeda 2018, "Clipped action policy gradient"). If payoffs depend only
on clipped actions, the policy gradient keeps its mean, and its variance is no larger. The KL
divergence ignores changes that clipping hides.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from overtrick.core.lazy_modules import torch

if TYPE_CHECKING:
    from torch import Tensor

LIMIT = 1.0  # actions are clipped to -LIMIT .. LIMIT
LOG_NORMALISER = math.log(2 * math.pi) / 2


def log_likelihood(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-likelihood (..., A) of each component of clipped actions, in nats.

    `action` (..., A): before clipping. `mean`, `log_std` (..., A): of the normal distributions. The
    likelihood is a density between the limits, and the probability of a tail at and beyond a limit.
    """
    z = (action - mean) * (-log_std).exp()
    lower_tail, upper_tail = _log_tails(mean, log_std)
    inside = -(z.square() / 2 + log_std + LOG_NORMALISER)
    beyond = torch.where(action >= LIMIT, upper_tail, lower_tail)
    return torch.where(action.abs() >= LIMIT, beyond, inside)


def divergence(mean: Tensor, log_std: Tensor, new_mean: Tensor, new_log_std: Tensor) -> Tensor:
    """Return KL(old, new) (..., A) of each component of clipped actions, in nats.

    `mean`, `log_std` (..., A): of the old normal distributions before clipping. `new_mean`,
    `new_log_std` (..., A): of the new ones. The divergence is the sum of two tail terms and the
    integral between the limits.
    """
    tails = zip(_log_tails(mean, log_std), _log_tails(new_mean, new_log_std), strict=True)
    kl_below, kl_above = (old.exp() * (old - new) for old, new in tails)
    z_low, z_high = ((limit - mean) * (-log_std).exp() for limit in (-LIMIT, LIMIT))
    shift = (mean - new_mean) * (-new_log_std).exp()
    ratio = (log_std - new_log_std).exp()
    # integrals of 1, z and z^2 times the standard normal density between the limits
    zeroth = torch.special.ndtr(z_high) - torch.special.ndtr(z_low)
    first = _density(z_low) - _density(z_high)
    second = zeroth + z_low * _density(z_low) - z_high * _density(z_high)
    kl_inside = (
        (new_log_std - log_std + shift.square() / 2) * zeroth
        + shift * ratio * first + (ratio.square() - 1) / 2 * second
    )  # fmt: skip
    return kl_below + kl_inside + kl_above


def _log_tails(mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities (..., A) of samples below and above the limits."""
    below, above = ((-LIMIT - mean) * (-log_std).exp(), (mean - LIMIT) * (-log_std).exp())
    return torch.special.log_ndtr(below), torch.special.log_ndtr(above)


def _density(z: Tensor) -> Tensor:
    """Return the standard normal density at `z`."""
    return (-z.square() / 2 - LOG_NORMALISER).exp()
