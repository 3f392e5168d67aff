"""Samples of games between two fixed strategies, as counts of one player's end observations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.evaluation.board.board_setting import BoardSetting
from overtrick.solvers.extensive.traversal_order import depth_and_chance_reach, realisation_plan


@dataclass(frozen=True, eq=False)
class MatchSampler:
    """Samples games of a player and its opponent in a setting of a board.

    Games are counted by the player's end observation, in arrays (D,): first the E observations of
    seat 0, then those of seat 1.
    """

    setting: BoardSetting

    @cached_property
    def observation_count(self) -> int:
        """The number D of end observations of both seats."""
        return sum(int(numbers.max()) + 1 for numbers in self.setting.end_observations)

    def count_index(self, seat: int, number: int) -> int:
        """Return the index in counts (D,) of a seat's end observation `number`."""
        return seat * (int(self.setting.end_observations[0].max()) + 1) + number

    @cached_property
    def _ends(self) -> Array:
        """(Z,) the terminal nodes."""
        return np.flatnonzero(self.setting.end_observations[0] >= 0)

    @cached_property
    def _count_indices(self) -> tuple[Array, Array]:
        """For each seat (Z,) the index in counts of its observation at each terminal node."""
        numbers = self.setting.end_observations
        return numbers[0][self._ends], numbers[1][self._ends] + self.count_index(1, 0)

    @cached_property
    def _chance(self) -> Array:
        """(Z,) the product of chance's probabilities on the way to each terminal node."""
        tree = self.setting.tree
        _, reach = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
        return np.asarray(reach)[self._ends]

    def sample(self, ours: Array, theirs: Array, games: tuple[int, int], rng: Generator) -> Array:
        """Sample games of a player with strategy `ours` (N, A) against `theirs` (N, A).

        `games`: numbers of games with the player in seat 0 and in seat 1. Returns (D,) the number
        of games with each end observation of the player.
        """
        tree, counts = self.setting.tree, np.zeros(self.observation_count)
        our_plan, their_plan = (realisation_plan(tree, tree.flat(each)) for each in (ours, theirs))
        sequence = tree.sequence[self._ends]
        for seat, count in enumerate(games):
            reach = self._chance * our_plan[sequence[:, seat]] * their_plan[sequence[:, 1 - seat]]
            drawn = rng.multinomial(count, reach / reach.sum())
            counts += np.bincount(self._count_indices[seat], drawn, len(counts))
        return counts
