"""Meta-game of a population on a game tree: exact payoffs and equivalent strategies.

Each of K members has a policy for every seat, stored as one strategy profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from overtrick.core import Array
from overtrick.solvers.cfr import strategy_from_weights
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal_order import realisation_plan
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.sequence_form import payoff_matrix


class MetaGame:
    """Meta-game in which each seat chooses one of K members before the game, with exact payoffs.

    `payoffs` (S, K, ..., K) are the points of each seat for all choices of the S seats.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.plans: list[Array] = []  # each (1 + L,), a realisation plan of all seats
        self.payoffs = np.zeros((tree.seats, *[0] * tree.seats))
        two = tree.seats == 2
        self._points = [payoff_matrix(tree, seat) for seat in range(2)] if two else []

    def add(self, sigma: Array) -> None:
        """Add a member that plays the rows of sigma (N, A) that belong to its seat."""
        tree, members = self.tree, len(self.plans)
        self.plans.append(realisation_plan(tree, tree.flat(sigma)))
        grown = np.zeros((tree.seats, *[members + 1] * tree.seats))
        grown[(slice(None), *[slice(members)] * tree.seats)] = self.payoffs
        if tree.seats == 2:
            all_plans, new = np.array(self.plans), self.plans[-1]
            for seat, points in enumerate(self._points):
                here = all_plans @ (points @ new)  # with the new member in this seat
                there = all_plans @ (points.T @ new)  # with the new member in the other seat
                if seat == 0:
                    grown[0, -1, :], grown[0, :, -1] = here, there
                else:
                    grown[1, :, -1], grown[1, -1, :] = here, there
        else:
            for profile in product(range(members + 1), repeat=tree.seats):
                if members in profile:
                    place: tuple[Any, ...] = (slice(None), *profile)
                    grown[place] = self._expected(profile)
        self.payoffs = grown

    def _expected(self, profile: Sequence[int]) -> Array:
        """Return (S,) the points of each seat if seat t plays the policy of member profile[t]."""
        owner = self.tree.observations.seat[self.tree.action_infoset]
        plans = np.array([self.plans[member] for member in profile])
        weights = plans[owner, 1 + np.arange(len(owner))]
        return best_response.expected(self.tree, strategy_from_weights(self.tree, weights))

    def equivalent_strategy(self, shares: Sequence[Array]) -> Array:
        """Return the strategy (N, A) equivalent to mixtures of members, by Kuhn's theorem.

        `shares`: for each seat the probabilities (K,) with which it draws its member before the
        game. Information sets that a seat's own actions never reach get the uniform strategy.
        """
        mixed = np.array(shares) @ np.array(self.plans)  # (S, 1 + L)
        owner = self.tree.observations.seat[self.tree.action_infoset]
        return strategy_from_weights(self.tree, mixed[owner, 1 + np.arange(len(owner))])
