"""Game trees as flat arrays, and bucketed games (public betting over private hand buckets)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Observations
from overtrick.core.policies import BehaviouralPolicy

CHANCE, END = -1, -2  # values of TreeNodes.seat at chance nodes and terminal nodes


@dataclass(frozen=True)
class TreeNodes:
    """The V nodes of a game tree in breadth-first order; the children of a node are adjacent."""

    seats: int  # S
    parent: Array  # (V,) int32, -1 for the root
    edge: Array  # (V,) int32 action of the parent that leads here, or index of the chance outcome
    seat: Array  # (V,) int32 seat to act, CHANCE or END
    infoset: Array  # (V,) int32 information set, -1 at chance and terminal nodes
    chance: Array  # (V,) float64 probability of the chance outcome that leads here; 1 after actions
    gain: Array  # (V, S) float64 points gained on the edge from the parent
    observations: Observations  # N rows, one for each information set, in their order


@runtime_checkable
class ExplicitTreeGame(Protocol):
    """A game that is given only as an explicit tree: it can be solved, but not played."""

    name: str
    seats: int
    unit: str
    actions: int
    action_names: tuple[str, ...]

    def nodes(self, fits: Callable[[float, int], bool]) -> TreeNodes:
        """Return all nodes of the tree. Raises UserError if the tree does not fit in memory.

        `fits(V, N)` returns whether V nodes and N information sets fit in memory. The game may call
        `fits` before the tree is complete, with lower bounds of V and N.
        """


@dataclass(frozen=True)
class BucketedGame:
    """Zero-sum two-seat game with public actions; each seat privately holds one of K hand buckets.

    Chance draws a bucket for each seat at the start. At the start of each later betting round it
    draws new buckets with the transition probabilities `moves`. Each seat's new bucket depends on
    its own previous bucket only, or chance draws the pair of new buckets given the previous pair.

    At a terminal node after a fold seat 0 gains `gain` points. At a showdown the winner gains
    `stake` points, and a tie is worth 0. If w is the entry of `win` for the two buckets, the
    showdown gives seat 0 `stake` x (2 w - 1) expected points. Seat 1 loses as many points as seat 0
    gains.
    """

    name: str
    unit: str  # unit of payoffs
    action_names: tuple[str, ...]
    after: Array  # (B, A) int32 next public node, -1 where illegal; node 0 is the root
    seat: Array  # (B,) int32 seat to act, or END
    round: Array  # (B,) int32 betting round, from 0
    gain: Array  # (B,) float64 points of seat 0 at a terminal node after a fold; else 0
    stake: Array  # (B,) float64 points that the winner of a showdown gains; 0 without showdown
    start: Array  # (K, K) joint probability of the first buckets of seats 0 and 1
    moves: Array  # (rounds - 1, K, K) transition from, to; or joint (rounds - 1, K, K, K, K)
    win: Array  # (K, K) probability that seat 0 wins the showdown, plus half that of a tie

    @property
    def joint(self) -> bool:
        """Return whether chance draws the next buckets of both seats jointly.

        If not, chance draws each seat's next bucket independently, given the seat's own previous
        bucket.
        """
        return self.moves.ndim == 5


class HandAbstraction(Protocol):
    """Groups the hands of a game with public actions into buckets.

    A strategy is a table (N, A), with a row for each pair of a decision node of the public tree and
    a bucket. A policy gives action probabilities for observations of the game.
    """

    @property
    def bucketed_game(self) -> BucketedGame:
        """Return the abstract game, whose seats are dealt buckets instead of hands."""

    @property
    def groups(self) -> Array:
        """Return (N,) the number of each row's group.

        The rows of a group have similar public situations and buckets. A learner may assume that
        an opponent deviates from its prior in the same way in all rows of a group.
        """

    def rows(self, observations: Observations) -> Array:
        """Return the row (R,) of a strategy that belongs to each observation."""

    def policy(self, strategy: Array) -> BehaviouralPolicy:
        """Return the policy in the game that follows a strategy (N, A)."""

    def tabulate(self, policy: BehaviouralPolicy, rng: Generator) -> Array:
        """Return a policy's mean action probabilities (N, A) at sampled hands of each bucket."""

    def dealt_cards(self, actions: tuple[int, ...]) -> int:
        """Return how many cards of a deal, from the first, are dealt in a game by its end."""

    def opponent_decisions(
        self, seat: int, cards: tuple[int, ...], actions: tuple[int, ...], payoff: float
    ) -> tuple[Array, Array]:
        """Return the opponent's decisions in a finished game, for each hand that it may have held.

        `seat`: the observing seat. `cards` (C,): the deal as it sees it; -1: not seen. `payoff`: of
        the observing seat, in points. Returns rows (D, H) of a strategy for D decisions and H
        hands, which are equally likely before the game, and the actions (D,) taken.
        """
