"""The interface of walks over games whose trees do not fit in memory.

A walk is an exhaustive traversal of a game without a stored tree; nothing is sampled. A view is an
information set: all that a seat has seen. A sequence is a view with one of its legal actions; it
stands for all own actions that lead there, too. A realisation plan gives each sequence the product
of the seat's own probabilities along it (von Stengel 1996).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, Observations, WalkedGame

COMPILATION = 30.0  # seconds, more than compilation takes
Pair = tuple[Array, Array]
"""One array for each seat."""


class Views(NamedTuple):
    """Information sets of one seat: N views, and L sequences, which are all their legal actions.

    The index of a view is larger than the indices of all views that lead to it.
    """

    start: Array  # (N + 1,) int32 first sequence of each view; its actions are in ascending order
    parent: Array  # (N,) int32 1 + the sequence that leads to the view; 0: the empty sequence


class GameWalk(ABC):
    """Walk over a game of two seats, which yields exact gradients of the payoffs.

    Realisation plans and gradients of a seat have shape (1 + L,); entry 0 is the empty sequence.
    The gradient of a sequence is the sum, over the terminal histories in which it is the seat's
    last sequence, of points times the probability of chance and of the other seat. The dot product
    of a seat's gradient and its plan is its expected points.
    """

    game: WalkedGame
    views: tuple[Views, Views]  # of both seats
    ends: int  # number of terminal histories
    parts: int  # number of parts of the walk, which can be computed independently
    rules: str  # a digest of the rules of the game, for names of files

    @abstractmethod
    def gradients(
        self,
        plans: Pair,
        threads: int = 1,
        progress: Callable[[int], None] = lambda percent: None,
    ) -> Pair:
        """Return the gradients (1 + L,) of both seats, given their realisation plans.

        The parts of the walk are shared by `threads`; the result does not depend on their number.
        `progress`: called with the percentage of the walk that is done.
        """

    def part_gradients(self, plans: Pair, part: int) -> Pair:
        """Return the gradients (1 + L,) of both seats from one part of the walk.

        `plans`: the realisation plans (1 + L,) of both seats. `part`: 0 to `parts` - 1. The sum of
        all parts, added in ascending order, is exactly the result of `gradients`.
        """
        points = np.zeros_like(plans[0]), np.zeros_like(plans[1])
        self._add_part(plans, points, part)
        return points

    @abstractmethod
    def _add_part(self, plans: Pair, points: Pair, part: int) -> None:
        """Add one part's gradients to `points` (1 + L,) of both seats, in place."""

    @abstractmethod
    def observations(self, seat: int, begin: int, end: int) -> Observations:
        """Return the observations of the views begin, ..., end - 1 of a seat."""

    @abstractmethod
    def probabilities(self, strategy: Array, observations: Observations) -> Array:
        """Return the action probabilities (R, A) of a seat's strategy (L,) in its observations.

        They are 0 for illegal actions. All observations are of the strategy's seat.
        """

    def seconds(self, threads: int = 1) -> float:
        """Estimate the seconds of a walk on this machine, from one part.

        The part is measured twice, and the second time counts, because the first may compile.
        """
        first, second = (np.ones(1 + int(views.start[-1])) for views in self.views)
        seconds = 0.0
        for _ in range(2):
            began = perf_counter()
            self.part_gradients((first, second), 0)
            seconds = perf_counter() - began
            if seconds > COMPILATION:
                break
        return seconds * -(-self.parts // threads)
