"""Policy given by a table with the action probabilities of each information set."""

from __future__ import annotations

from overtrick.core import Array, Observations, UserError
from overtrick.policies.memoryless import MemorylessPolicy


class TabularPolicy(MemorylessPolicy):
    """Policy given by a strategy sigma (N, A): action probabilities, 0 where illegal.

    `probs` raises UserError if the observations' game has another number of actions, or more
    information sets.
    """

    def __init__(self, sigma: Array) -> None:
        self.sigma = sigma

    def probs(self, observations: Observations) -> Array:
        """Look up the action probabilities (R, A) at the information set of each observation."""
        assert observations.legal is not None
        assert observations.infoset is not None
        sets, actions = 1 + int(observations.infoset.max(initial=-1)), observations.legal.shape[1]
        if sets > len(self.sigma) or actions != self.sigma.shape[1]:
            raise UserError(
                f"the strategy is for another game: its shape is {self.sigma.shape}, this game has "
                f"{actions} actions and {sets} or more information sets"
            )
        return self.sigma[observations.infoset]
