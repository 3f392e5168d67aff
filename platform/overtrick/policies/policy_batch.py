"""Batches of M policies of one kind: networks, networks for each seat, or strategy tables.

A batch is a dictionary of arrays with leading axis M. Its names tell its kind: w0, b0, ... are
networks that play all seats; seat_0.w0, ... are networks for each seat; sigma (M, N, A) are action
probabilities at N information sets.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Game, Observations, Policy, PolicySession, select_rows
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.by_seat import PolicyWithMemoryBySeat

SIGMA = "sigma"
SEAT = "seat_{}"  # prefix of the weights of one seat, if each seat has its own network


def batch_size(batch: Mapping[str, Array]) -> int:
    """Return M, the number of policies of a batch."""
    return len(next(iter(batch.values())))


def batch_policy(game: Game, batch: Mapping[str, Array]) -> Policy:
    """Return one policy that plays with all M policies of a batch.

    In a session of G games, policy m plays games m * G / M to (m + 1) * G / M - 1.
    """
    if SIGMA in batch:
        return BatchedTables(batch[SIGMA])
    if SEAT.format(0) in {name.partition(".")[0] for name in batch}:
        by_seat = (unprefixed(SEAT.format(seat), batch) for seat in range(game.seats))
        return PolicyWithMemoryBySeat([BatchedNetworks(game.features, each) for each in by_seat])
    return BatchedNetworks(game.features, dict(batch))


def draw_policies(
    batch: Mapping[str, Array],
    shares: Array,
    seat_of_infoset: Array | None,
    count: int,
    rng: Generator,
) -> dict[str, Array]:
    """Draw policies from a batch for each seat; return them as a batch of `count` policies.

    - `shares` (S, M): probabilities with which each seat draws a policy of the batch. Networks that
      play all seats are drawn by row 0.
    - `seat_of_infoset` (N,): the seat of each information set; None if the game numbers none.
    """  # fmt: skip
    drawn = [rng.choice(len(each), count, p=each / each.sum()) for each in shares]
    if SIGMA in batch:
        assert seat_of_infoset is not None
        rows = np.arange(len(seat_of_infoset))
        return {SIGMA: batch[SIGMA][np.array(drawn)[seat_of_infoset].T, rows]}
    found: dict[str, Array] = {}
    for seat, chosen in enumerate(drawn):
        prefix = SEAT.format(seat)
        found |= prefixed(prefix, select_rows(unprefixed(prefix, batch), chosen))
    return found or select_rows(dict(batch), drawn[0])


class BatchedTables:
    """Policy of M strategy tables, each of which plays G / M of G games.

    `sigma` is (M, N, A). Table m plays games m * G / M to (m + 1) * G / M - 1. `start` raises
    ValueError if G is not a multiple of M.
    """

    def __init__(self, sigma: Array) -> None:
        self.sigma = sigma

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of G games, G / M for each of the M tables."""
        if games % len(self.sigma):
            raise ValueError(f"{games} games cannot be shared evenly by {len(self.sigma)} members")
        return _BatchedTablesSession(self.sigma, games // len(self.sigma), rng)


class _BatchedTablesSession:
    def __init__(self, sigma: Array, games_each: int, rng: Generator) -> None:
        self.sigma, self.games_each, self.rng = sigma, games_each, rng

    def act(self, observations: Observations) -> Actions:
        """Sample an action for each row from the table of its game."""
        assert observations.infoset is not None
        member = observations.game // self.games_each
        return sample_actions(self.sigma[member, observations.infoset], self.rng)
