"""Limit hold'em with buckets of like hands instead of cards (Samothrakis et al. 2011, sec. 4.2).

In each round every holding is rolled out against a uniform opponent and board; k-means++ cuts their
expected strengths into K buckets; deals sampled for this alone (a roll-out of one holding never
sees the other seat's) say how the seats move from bucket to bucket, and who wins with the last.

This module computes one shard and joins shards; datasets/card_abstraction_build.py runs the whole
computation and stores its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, UserError
from overtrick.games.poker.hand_ranking import BITS, KEYS, NOTHING, RANKS, SUITS, strength_of_sums
from overtrick.games.poker.holdem.hand_isomorphism import (
    BOARD,
    HOLE,
    add_card,
    hand_indexer,
    index_from_sums,
    shape_of,
    write_cards,
)

ROUNDS = ("preflop", "flop", "turn", "river")
FRACTION = 53  # random bits of one draw, which cards are cut from: at most 7, since 50^7 < 2^40


@dataclass(frozen=True)
class AbstractionParameters:
    """Everything that the tables depend on; the defaults are the paper's."""

    buckets: int = 6  # K
    preflop: int = 4_000_000  # roll-outs of each holding without suit names in this round
    flop: int = 100
    turn: int = 100
    river: int = 10
    deals: int = 100_000_000  # of both hands and the whole board, for the tables
    kmeans_starts: int = 10  # of k-means++, the best of which counts
    kmeans_steps: int = 300  # at most
    ranks: int = RANKS  # in the deck, from the ace down; 13 is hold'em
    seed: int = 0

    def rollouts(self, round: int) -> int:
        """Roll-outs of each holding in a round."""
        return int(getattr(self, ROUNDS[round]))


@dataclass(frozen=True)
class Buckets:
    """The expected strengths (win 1, tie 1/2) of the holdings in K buckets, weakest first."""

    mean: Array  # (4, K) by round
    lowest: Array  # (4, K)
    highest: Array  # (4, K)
    share: Array  # (4, K) probability that a seat's holding is in the bucket


@dataclass(frozen=True)
class Abstraction:
    """Two seats' buckets as a Markov chain, weakest bucket first; seats are exchangeable.

    With `moves` a seat's buckets do not depend on the other's; with `joint` they do.
    """

    start: Array  # (K, K) float64 probability of both seats' buckets before the flop
    moves: tuple[Array, Array, Array]  # (K, K) each: of a seat's next bucket, given its bucket
    joint: tuple[Array, Array, Array]  # (K, K, K, K) each: of both next buckets, given both
    win: Array  # (K, K) that the first seat wins at the showdown, and half that of a tie
    buckets: Buckets
    parameters: AbstractionParameters


def roll_out(
    parameters: AbstractionParameters, round: int, first: int, last: int, rng: Generator
) -> dict[str, Array]:
    """The strength of the holdings numbered first to last - 1 in a round, against any other hand.

    score: 2 for each roll-out won and 1 for each tied; weight: how many holdings with suit names
    each stands for.
    """
    rollouts = parameters.rollouts(round)
    score = np.empty(last - first, np.min_scalar_type(2 * rollouts))
    weight = np.empty(last - first, np.uint8)
    _roll_out(hand_indexer(parameters.ranks), round, first, rollouts, rng, score, weight)
    return {"score": score, "weight": weight}


def cluster(
    parameters: AbstractionParameters,
    round: int,
    rolled: Iterable[Mapping[str, Array]],
    rng: Generator,
) -> tuple[Array, dict[str, Array]]:
    """The bucket of every holding of a round, and (K,) mean, lowest, highest and share of each.

    rolled: what roll_out found, in order. A score is one of few numbers, so that k-means sees each
    of them once, weighed by all the holdings that have it. Raises UserError if there are fewer
    strengths than buckets.
    """
    from sklearn.cluster import KMeans

    rolled = list(rolled)
    most = 2 * parameters.rollouts(round)
    weight = np.zeros(most + 1)
    for part in rolled:
        weight += np.bincount(part["score"], part["weight"], most + 1)
    found = np.flatnonzero(weight)
    strength, weight = found / most, weight[found] / weight.sum()
    k = parameters.buckets
    if len(found) < k:
        raise UserError(
            f"'{ROUNDS[round]}' has only {len(found)} different strengths for {k} buckets: "
            "ask for more roll-outs"
        )
    means = KMeans(
        k, init="k-means++", n_init=parameters.kmeans_starts,
        max_iter=parameters.kmeans_steps, tol=0.0, random_state=int(rng.integers(2**31)),
    ).fit(strength[:, None], sample_weight=weight)  # fmt: skip
    centre = np.sort(means.cluster_centers_[:, 0])
    edges = (centre[1:] + centre[:-1]) / 2
    bucket = np.searchsorted(edges, strength)
    share = np.bincount(bucket, weight, k)
    if not share.all():
        raise UserError(
            f"k-means left a bucket of '{ROUNDS[round]}' empty: allow more kmeans_steps"
        )
    told = {
        "mean": np.bincount(bucket, weight * strength, k) / share,
        "lowest": np.array([strength[bucket == b].min() for b in range(k)]),
        "highest": np.array([strength[bucket == b].max() for b in range(k)]),
        "share": share,
    }
    of_score = np.zeros(most + 1, np.uint8)
    of_score[found] = bucket
    return np.concatenate([of_score[part["score"]] for part in rolled]), told


def count_transitions(
    parameters: AbstractionParameters, bucket: tuple[Array, ...], deals: int, rng: Generator
) -> dict[str, Array]:
    """How often sampled deals went through each pair of buckets, as int64 counts.

    bucket: four arrays, the bucket of every holding in each round. start (K, K); flop, turn, river
    (K, K, K, K) both seats' buckets before and then; won (K, K) 2 for a win of the first seat and 1
    for a tie.
    """
    k = parameters.buckets
    counts = np.zeros((3, k, k, k, k), np.int64)
    start, won = np.zeros((2, k, k), np.int64)
    _deal(hand_indexer(parameters.ranks), bucket, deals, rng, start, counts, won)
    return {"start": start, **dict(zip(ROUNDS[1:], counts, strict=True)), "won": won}


def build_abstraction(
    parameters: AbstractionParameters,
    dealt: Iterable[Mapping[str, Array]],
    told: Iterable[dict[str, Array]],
) -> Abstraction:
    """The tables from the counts of all shards and from what `cluster` told of each round.

    Each deal counts twice, once with the seats exchanged. What never came in any deal: from an
    unseen pair of buckets the seats move on independently, from an unseen bucket as everyone
    together, and an unseen showdown is a tie.
    """
    shards = list(dealt)
    total = {name: np.sum([counts[name] for counts in shards], axis=0) for name in shards[0]}
    start = total["start"] + total["start"].T
    pairs = [total[name] + total[name].transpose(1, 0, 3, 2) for name in ROUNDS[1:]]
    moves = [_shares(p.sum(axis=(1, 3)), p.sum(axis=(0, 1, 3))) for p in pairs]
    joint = []
    for p, move in zip(pairs, moves, strict=True):
        k = len(move)
        alone = np.einsum("ac,bd->abcd", move, move).reshape(k * k, k * k)
        joint.append(_shares(p.reshape(k * k, k * k), alone).reshape(p.shape))
    shown = pairs[-1].sum(axis=(0, 1))
    won = total["won"] + 2 * total["river"].sum(axis=(0, 1)).T - total["won"].T
    win = np.where(shown > 0, won / np.maximum(2 * shown, 1), 0.5)
    rounds = list(told)
    return Abstraction(
        start / start.sum(),
        (moves[0], moves[1], moves[2]),
        (joint[0], joint[1], joint[2]),
        win,
        Buckets(**{name: np.stack([t[name] for t in rounds]) for name in rounds[0]}),
        parameters,
    )


def _shares(counts: Array, otherwise: Array) -> Array:
    """Rows that sum to 1; a row (or its share of the one row) of `otherwise` for one of zeros."""
    rows = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, otherwise)
    return rows / rows.sum(axis=1, keepdims=True)


@njit(cache=True)
def _draw(deck, at, left, luck):  # type: ignore[no-untyped-def]
    """Bring one of the `left` cards from `at` on to that place; what is left of the luck."""
    luck *= left
    chosen = at + (luck >> FRACTION)
    deck[at], deck[chosen] = deck[chosen], deck[at]
    return luck & (1 << FRACTION) - 1


@njit(cache=True)
def _roll_out(known, round, first, rollouts, rng, score, weight):  # type: ignore[no-untyped-def]
    cards, deck = np.empty(HOLE + BOARD[-1], np.int64), np.empty(RANKS * SUITS, np.int64)
    missing = BOARD[-1] - BOARD[round]
    for row in range(len(score)):
        number = first + row
        weight[row] = write_cards(known, shape_of(known, round, number), number, cards)
        used, board_key, board_bits = 0, NOTHING, 0
        for k in range(HOLE + BOARD[round]):
            used |= 1 << cards[k]
            if k >= HOLE:
                board_key += KEYS[cards[k]]
                board_bits += BITS[cards[k]]
        hole_key = KEYS[cards[0]] + KEYS[cards[1]]
        hole_bits = BITS[cards[0]] + BITS[cards[1]]
        left = 0
        for card in range(known.low * SUITS, RANKS * SUITS):
            deck[left] = card
            left += not used >> card & 1
        mine = strength_of_sums(
            board_key + hole_key, board_bits + hole_bits
        )  # counts on the river only
        total = 0
        for _ in range(rollouts):
            luck = np.int64(rng.random() * (1 << FRACTION))
            key, bits = board_key, board_bits
            for k in range(missing + HOLE):
                if k == missing and missing > 0:
                    mine = strength_of_sums(key + hole_key, bits + hole_bits)
                luck = _draw(deck, k, left - k, luck)
                key += KEYS[deck[k]]
                bits += BITS[deck[k]]
            theirs = strength_of_sums(key, bits)
            total += (mine > theirs) + (mine >= theirs)
        score[row] = total


@njit(cache=True)
def _deal(known, bucket, deals, rng, start, counts, won):  # type: ignore[no-untyped-def]
    deck = np.arange(known.low * SUITS, RANKS * SUITS)
    sums = np.empty((2, SUITS), np.int64)
    key, bits = np.empty(2, np.int64), np.empty(2, np.int64)
    for _ in range(deals):
        luck = np.int64(0)
        for k in range(2 * HOLE + BOARD[-1]):
            if k in (0, 2 * HOLE):  # nine cards are too many for one draw
                luck = np.int64(rng.random() * (1 << FRACTION))
            luck = _draw(deck, k, len(deck) - k, luck)
        sums[:], key[:], bits[:] = 0, NOTHING, 0
        for k in range(2 * HOLE):
            add_card(sums[k // HOLE], deck[k], 1)
            key[k // HOLE] += KEYS[deck[k]]
            bits[k // HOLE] += BITS[deck[k]]
        a = b = np.int64(0)
        shown = 2 * HOLE
        for round in range(len(BOARD)):
            while shown < 2 * HOLE + BOARD[round]:
                for seat in range(2):
                    add_card(sums[seat], deck[shown], 2)
                    key[seat] += KEYS[deck[shown]]
                    bits[seat] += BITS[deck[shown]]
                shown += 1
            c = bucket[round][index_from_sums(known, sums[0])]
            d = bucket[round][index_from_sums(known, sums[1])]
            if round == 0:
                start[c, d] += 1
            else:
                counts[round - 1, a, b, c, d] += 1
            a, b = np.int64(c), np.int64(d)
        mine, theirs = strength_of_sums(key[0], bits[0]), strength_of_sums(key[1], bits[1])
        won[a, b] += (mine > theirs) + (mine >= theirs)
