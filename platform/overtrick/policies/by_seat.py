"""Combine one policy for each seat into one policy, without or with memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    BehaviouralPolicy,
    Observations,
    Policy,
    PolicySession,
    select_rows,
)
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


class PolicyWithMemoryBySeat:
    """Policy that uses `policies[seat]` in each seat; these may remember the games in progress."""

    remembers = True

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = policies

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of each seat's policy, with a random generator of its own."""
        rngs = rng.spawn(len(self.policies))
        return _SessionBySeat([p.start(games, r) for p, r in zip(self.policies, rngs, strict=True)])


class _SessionBySeat:
    """Session that gives the rows of each seat to the session of its policy."""

    def __init__(self, sessions: Sequence[PolicySession]) -> None:
        self.sessions = sessions

    def act(self, observations: Observations) -> Actions:
        """Choose an action for each row by the session of its seat."""
        action, logp = np.zeros(len(observations), np.int64), np.zeros(len(observations))
        for seat, session in enumerate(self.sessions):
            rows = np.flatnonzero(observations.seat == seat)
            if len(rows):
                chosen = session.act(select_rows(observations, rows))
                action[rows], logp[rows] = chosen.action, chosen.logp
        return Actions(action, logp)
