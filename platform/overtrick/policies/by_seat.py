"""Combine one policy for each seat into one policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, Observations, select_rows
from overtrick.policies.memoryless import MemorylessPolicy


class PolicyBySeat(MemorylessPolicy):
    """Policy that uses `policies[seat]` for the decisions of each seat."""

    def __init__(self, policies: Sequence[BehaviouralPolicy]) -> None:
        self.policies = policies

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A); each row uses the policy of its seat."""
        assert observations.legal is not None
        out = np.zeros(observations.legal.shape)
        for seat, policy in enumerate(self.policies):
            rows = observations.seat == seat
            out[rows] = policy.probs(select_rows(observations, rows))
        return out
