"""Game trees as flat arrays, and games of public moves over private buckets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from overtrick.core.batches import Array, Observations

CHANCE, END = -1, -2  # what TreeNodes.seat says where nobody acts


@dataclass(frozen=True)
class TreeNodes:
    """V nodes of a game tree in breadth-first order; a node's children are neighbours, by edge."""

    seats: int  # S
    parent: Array  # (V,) int32, -1 for the root
    edge: Array  # (V,) int32 action of the parent that leads here; of chance, the outcome's rank
    seat: Array  # (V,) int32 who acts, CHANCE or END
    infoset: Array  # (V,) int32 information set, -1 where nobody acts
    chance: Array  # (V,) float64 probability of the edge if chance chose it, else 1
    gain: Array  # (V, S) float64 points gained on the edge into the node
    observations: Observations  # one row for each of the N information sets, in their order


@runtime_checkable
class ExplicitTreeGame(Protocol):
    """A game that lays out its own tree: it can be solved exactly, but not played."""

    name: str
    seats: int
    unit: str
    actions: int
    action_names: tuple[str, ...]

    def nodes(self, fits: Callable[[float, int], bool]) -> TreeNodes:
        """The whole tree. Raises Refused, early if possible, unless fits(V, N): there is room."""


@dataclass(frozen=True)
class BucketedGame:
    """A zero-sum game of public moves between two seats; chance alone moves what each holds.

    A seat holds one of K buckets and sees no other. At the start, and wherever the round number
    rises by one, chance moves both buckets: independently of each other by one table a round, or
    jointly. An end pays seat 0 gain + stake x (2 win - 1), and seat 1 the opposite.
    """

    name: str
    unit: str  # of one point of payoff
    action_names: tuple[str, ...]
    after: Array  # (B, A) int32 next public node, -1 where illegal; node 0 is the start
    seat: Array  # (B,) int32 who acts, END at an end
    round: Array  # (B,) int32 from 0
    gain: Array  # (B,) float64 points of seat 0 at an end whatever the buckets are; else 0
    stake: Array  # (B,) float64 points at an end that the buckets decide; 0 where nobody shows
    start: Array  # (K, K) probability of both seats' first buckets, seat 0's first
    moves: Array  # (rounds - 1, K, K) from, to; or joint, (rounds - 1, K, K, K, K) both from, to
    win: Array  # (K, K) probability that seat 0's last bucket beats seat 1's, plus half a tie's

    @property
    def joint(self) -> bool:
        """Are the seats' buckets moved together? If not, start is the product of its sums."""
        return self.moves.ndim == 5
