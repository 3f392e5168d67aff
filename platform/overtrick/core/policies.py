"""The interface of a policy: protocols for policies with and without memory."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Actions, Array, Observations
from overtrick.core.errors import UserError


class PolicySession(Protocol):
    """State of a policy in G games in progress: memory of these games, and a random generator."""

    def act(self, observations: Observations) -> Actions:
        """Choose one action for each of the R observations of this session's games."""


class Policy(Protocol):
    """A rule for choosing actions, possibly with memory of the games in progress."""

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session that plays G = `games` games side by side and draws from `rng`."""


@runtime_checkable
class BehaviouralPolicy(Policy, Protocol):
    """A policy without memory, given by action probabilities. Solvers can evaluate it exactly."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A) float64; 0 at illegal actions, each row sums to 1."""


def require_action_probabilities(policy: Policy, name: str) -> BehaviouralPolicy:
    """Return a policy that has action probabilities; raise UserError for another one.

    `name`: the policy's name in the message.
    """
    if not isinstance(policy, BehaviouralPolicy):
        raise UserError(
            f"{name} has no action probabilities for single observations, because it draws a "
            "network before each game: it can play, but it cannot be evaluated exactly"
        )
    return policy


@runtime_checkable
class PolicyWithMemory(Policy, Protocol):
    """A policy whose session may remember earlier observations of its games, such as an LSTM."""

    remembers: bool
