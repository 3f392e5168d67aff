"""One policy for each seat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import (
    Array,
    Mixed,
    Turn,
    take_turn,
)
from overtrick.policies.memoryless import Memoryless


class BySeat(Memoryless):
    """In each seat the policy that is meant for it."""

    def __init__(self, policies: Sequence[Mixed]) -> None:
        self.policies = policies

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        out = np.zeros(turn.legal.shape)
        for seat, policy in enumerate(self.policies):
            rows = turn.seat == seat
            out[rows] = policy.probs(take_turn(turn, rows))
        return out
