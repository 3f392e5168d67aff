"""Card abstraction of limit hold'em: K buckets of hands in each round.

The method is from Samothrakis et al. 2011, section 4.2:

1. Roll-outs estimate the expected strength of each hand against uniformly random opponent cards
   and boards. A hand is hole cards and board, up to suit isomorphism.
2. k-means++ clusters the strengths of each round into K buckets.
3. Sampled deals of both seats estimate the transition probabilities between buckets and the
   probability to win a showdown.

This module computes shards (parts) of steps 1 and 3 and combines their results.
datasets/card_abstraction_build.py runs all shards and stores the abstraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, UserError
from overtrick.games.poker.deck import RANKS, SUITS
from overtrick.games.poker.hand_ranking import BITS, KEYS, NOTHING, strength_of_sums
from overtrick.games.poker.holdem import hand_isomorphism as hands
from overtrick.games.poker.holdem.hand_isomorphism import BOARD, HOLE

ROUNDS = ("preflop", "flop", "turn", "river")
FRACTION = 53  # bits of one random number, enough to draw 7 cards, since 50^7 < 2^40


@dataclass(frozen=True)
class AbstractionParameters:
    """Parameters of a card abstraction; the defaults are those of Samothrakis et al. 2011."""

    buckets: int = 6  # K, number of buckets in each round
    preflop: int = 4_000_000  # rollouts of each hand, here and in the next three rounds
    flop: int = 100
    turn: int = 100
    river: int = 10
    deals: int = 100_000_000  # sampled deals for transition and win probabilities
    kmeans_starts: int = 10  # restarts of k-means++; the best result is used
    kmeans_steps: int = 300  # maximum number of iterations of each restart
    ranks: int = RANKS  # the deck has this number of highest ranks; 13 in hold'em
    seed: int = 0

    def rollouts(self, round: int) -> int:
        """Return the number of rollouts of each hand in a round (0 preflop to 3 river)."""
        return int(getattr(self, ROUNDS[round]))


@dataclass(frozen=True)
class Buckets:
    """Statistics of K buckets of hands in each round, weakest bucket first.

    The strength of a hand is its expected result at the showdown (win 1, tie 1/2).
    """

    mean: Array  # (4, K) mean strength in each round and bucket
    lowest: Array  # (4, K) lowest strength
    highest: Array  # (4, K) highest strength
    share: Array  # (4, K) probability that a random hand is in the bucket


@dataclass(frozen=True)
class Abstraction:
    """Markov chain of both seats' buckets over the rounds; bucket 0 has the weakest hands.

    `moves` has the marginal transition probabilities: of the bucket of one seat. `joint` has the
    joint transition probabilities: of the pair of both seats' buckets. Each has three tables: to
    the flop, to the turn and to the river. The two seats are exchangeable.
    """

    start: Array  # (K, K) float64 joint probability of both seats' buckets before the flop
    moves: tuple[Array, Array, Array]  # (K, K) each, by old and new bucket
    joint: tuple[Array, Array, Array]  # (K, K, K, K) each, by old and new pair of buckets
    win: Array  # (K, K) probability that seat 0 wins the showdown, plus half of a tie's
    buckets: Buckets
    parameters: AbstractionParameters


def roll_out(
    parameters: AbstractionParameters, round: int, first: int, last: int, rng: Generator
) -> dict[str, Array]:
    """Estimate the strength of hands by rollouts against uniformly random opponent hands.

    round: 0 preflop to 3 river. first, last: the hands of the round with indices `first` to
    `last` - 1, as numbered in hand_isomorphism.py.

    Return two arrays by name, with one entry per hand:

    - `score`: 2 for each won roll-out plus 1 for each tie
    - `weight`: size of the hand's suit-isomorphism class, including the hand itself
    """
    rollouts = parameters.rollouts(round)
    score = np.empty(last - first, np.min_scalar_type(2 * rollouts))
    weight = np.empty(last - first, np.uint8)
    _roll_out(hands.hand_indexer(parameters.ranks), round, first, rollouts, rng, score, weight)
    return {"score": score, "weight": weight}


def cluster(
    parameters: AbstractionParameters,
    round: int,
    rolled: Iterable[Mapping[str, Array]],
    rng: Generator,
) -> tuple[Array, dict[str, Array]]:
    """Cluster the hands of a betting round into K buckets by k-means++ on their strength.

    `round`: 0 preflop to 3 river.
    `rolled`: the roll-out results of all hands of the round, as returned by `roll_out`, in order.

    Return the bucket of each hand (hands,), and the bucket statistics (K,) by name, as in
    `Buckets`. Raises UserError if there are fewer distinct strengths than buckets.
    """
    from sklearn.cluster import KMeans

    rolled = list(rolled)
    most = 2 * parameters.rollouts(round)
    weight = np.zeros(most + 1)
    for part in rolled:
        weight += np.bincount(part["score"], part["weight"], most + 1)
    found = np.flatnonzero(weight)  # k-means is run on the distinct scores
    strength, weight = found / most, weight[found] / weight.sum()
    k = parameters.buckets
    if len(found) < k:
        raise UserError(
            f"'{ROUNDS[round]}' has only {len(found)} different strengths for {k} buckets: "
            "increase the number of rollouts"
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
        raise UserError(f"k-means left a bucket of '{ROUNDS[round]}' empty: increase kmeans_steps")
    statistics = {
        "mean": np.bincount(bucket, weight * strength, k) / share,
        "lowest": np.array([strength[bucket == b].min() for b in range(k)]),
        "highest": np.array([strength[bucket == b].max() for b in range(k)]),
        "share": share,
    }
    of_score = np.zeros(most + 1, np.uint8)
    of_score[found] = bucket
    return np.concatenate([of_score[part["score"]] for part in rolled]), statistics


def count_transitions(
    parameters: AbstractionParameters, bucket: tuple[Array, ...], deals: int, rng: Generator
) -> dict[str, Array]:
    """Sample deals of both seats and count the transitions between their buckets.

    `bucket`: the bucket of every hand, an array for each of the four rounds. Return int64 counts by
    name:

    `start` (K, K): number of deals for each pair of first buckets of seats 0 and 1.
    `flop`, `turn`, `river` (K, K, K, K): number of deals for both seats' buckets in the previous
        round (first two axes) and in this round (last two axes).
    `won` (K, K): 2 for each win of seat 0 plus 1 for each tie, for each pair of last buckets.
    """
    k = parameters.buckets
    counts = np.zeros((3, k, k, k, k), np.int64)
    start, won = np.zeros((2, k, k), np.int64)
    _deal(hands.hand_indexer(parameters.ranks), bucket, deals, rng, start, counts, won)
    return {"start": start, **dict(zip(ROUNDS[1:], counts, strict=True)), "won": won}


def build_abstraction(
    parameters: AbstractionParameters,
    dealt: Iterable[Mapping[str, Array]],
    statistics: Iterable[dict[str, Array]],
) -> Abstraction:
    """Build a card abstraction from sampled bucket transitions and the bucket statistics.

    Each deal counts twice, once with the seats exchanged. A probability for which no deal was
    sampled has a fallback:

    - transition of both seats' buckets jointly: the product of both seats' own transitions
    - transition of one seat's bucket: the distribution of the next bucket over all deals
    - probability to win with a pair of river buckets: 1/2

    `dealt`: the results of `count_transitions`, one for each shard.
    `statistics`: the statistics that `cluster` returns, one for each round.
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
    rounds = list(statistics)
    return Abstraction(
        start / start.sum(),
        (moves[0], moves[1], moves[2]),
        (joint[0], joint[1], joint[2]),
        win,
        Buckets(**{name: np.stack([t[name] for t in rounds]) for name in rounds[0]}),
        parameters,
    )


def _shares(counts: Array, otherwise: Array) -> Array:
    """Divide each row of counts by its sum, after replacing zero rows by rows of `otherwise`."""
    rows = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, otherwise)
    return rows / rows.sum(axis=1, keepdims=True)


@njit(cache=True)
def _draw(deck, at, left, bits):  # type: ignore[no-untyped-def]
    """Draw a random card from deck[at : at + left] and swap it to index `at`, in place.

    `bits`: uniform random number from 0 to 1, in fixed point with FRACTION bits. The draw uses a
    part of its randomness. Return the rest as a uniform random number for the next draw.
    """
    # the integer part of the product chooses the card; its fraction is again uniform
    bits *= left
    chosen = at + (bits >> FRACTION)
    deck[at], deck[chosen] = deck[chosen], deck[at]
    return bits & (1 << FRACTION) - 1


@njit(cache=True)
def _roll_out(known, round, first, rollouts, rng, score, weight):  # type: ignore[no-untyped-def]
    """Estimate the strength of hands by rollouts: the compiled loop of the function `roll_out`.

    `known`: the tables of hand indices from `hand_indexer`.
    `round`: betting round, 0 preflop to 3 river.
    `first`: index of the first hand; the length of `score` is the number of hands.
    `rollouts`: number of rollouts of each hand.
    `score`: (hands,) output: 2 for each won roll-out plus 1 for each tie.
    `weight`: (hands,) output: size of each hand's suit-isomorphism class.
    """
    cards, deck = np.empty(HOLE + BOARD[-1], np.int64), np.empty(RANKS * SUITS, np.int64)
    missing = BOARD[-1] - BOARD[round]
    for row in range(len(score)):
        number = first + row
        weight[row] = hands.write_cards(known, hands.shape_of(known, round, number), number, cards)
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
        # counts on the river only
        mine = strength_of_sums(board_key + hole_key, board_bits + hole_bits)
        total = 0
        for _ in range(rollouts):
            random_bits = np.int64(rng.random() * (1 << FRACTION))
            key, bits = board_key, board_bits
            for k in range(missing + HOLE):
                if k == missing and missing > 0:
                    mine = strength_of_sums(key + hole_key, bits + hole_bits)
                random_bits = _draw(deck, k, left - k, random_bits)
                key += KEYS[deck[k]]
                bits += BITS[deck[k]]
            theirs = strength_of_sums(key, bits)
            total += (mine > theirs) + (mine >= theirs)
        score[row] = total


@njit(cache=True)
def _deal(known, bucket, deals, rng, start, counts, won):  # type: ignore[no-untyped-def]
    """Sample deals and count bucket transitions: the compiled loop of `count_transitions`.

    `known`: the tables of hand indices from `hand_indexer`.
    `bucket`: the bucket of every hand, an array for each of the four rounds.
    `deals`: number of deals.

    Three arrays of counts are changed in place; the seats of a pair are 0 and 1:

    `start`: (K, K) deals with each pair of preflop buckets.
    `counts`: (3, K, K, K, K) transitions to the flop, the turn and the river. Axes 1 and 2 are the
        old pair of buckets, axes 3 and 4 the new pair.
    `won`: (K, K) by pair of river buckets: 2 for each win of seat 0 plus 1 for each tie.
    """
    deck = np.arange(known.low * SUITS, RANKS * SUITS)
    sums = np.empty((2, SUITS), np.int64)
    key, bits = np.empty(2, np.int64), np.empty(2, np.int64)
    for _ in range(deals):
        random_bits = np.int64(0)
        for k in range(2 * HOLE + BOARD[-1]):
            if k in (0, 2 * HOLE):  # one random number is too short for nine cards
                random_bits = np.int64(rng.random() * (1 << FRACTION))
            random_bits = _draw(deck, k, len(deck) - k, random_bits)
        sums[:], key[:], bits[:] = 0, NOTHING, 0
        for k in range(2 * HOLE):
            hands.add_card(sums[k // HOLE], deck[k], 1)
            key[k // HOLE] += KEYS[deck[k]]
            bits[k // HOLE] += BITS[deck[k]]
        a = b = np.int64(0)
        shown = 2 * HOLE
        for round in range(len(BOARD)):
            while shown < 2 * HOLE + BOARD[round]:
                for seat in range(2):
                    hands.add_card(sums[seat], deck[shown], 2)
                    key[seat] += KEYS[deck[shown]]
                    bits[seat] += BITS[deck[shown]]
                shown += 1
            c = bucket[round][hands.index_from_sums(known, sums[0])]
            d = bucket[round][hands.index_from_sums(known, sums[1])]
            if round == 0:
                start[c, d] += 1
            else:
                counts[round - 1, a, b, c, d] += 1
            a, b = np.int64(c), np.int64(d)
        mine, theirs = strength_of_sums(key[0], bits[0]), strength_of_sums(key[1], bits[1])
        won[a, b] += (mine > theirs) + (mine >= theirs)
