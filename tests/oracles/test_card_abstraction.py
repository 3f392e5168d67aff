"""Suit-isomorphic holdings, their equities, and the bucket transitions made from them."""

from __future__ import annotations

import dataclasses
import itertools
from math import comb

import numpy as np
import pytest
from numba import njit

from overtrick.core import UserError
from overtrick.games.poker.hand_ranking import strength
from overtrick.games.poker.holdem import card_abstraction, hand_isomorphism
from overtrick.games.poker.holdem.card_abstraction import ROUNDS, AbstractionParameters
from overtrick.games.poker.holdem.hand_isomorphism import BOARD, HOLE, hand_indexer

SMALL = AbstractionParameters(
    preflop=4000, flop=60, turn=40, river=10, deals=400_000, ranks=6, seed=3
)
ACES, SEVEN_DEUCE = [50, 51], [21, 0]  # two suits each


@njit
def hand_index(known, cards):
    """Return (R,) indices of hands (R, 2 + board): hole cards, then 0, 3, 4 or 5 board cards."""
    found = np.empty(len(cards), np.int64)
    for row in range(len(cards)):
        sums = np.zeros(4, np.int64)
        for column in range(cards.shape[1]):
            digit = 1 if column < HOLE else 2
            hand_isomorphism.add_card(sums, cards[row, column], digit)
        found[row] = hand_isomorphism.index_from_sums(known, sums)
    return found


@njit
def example_hands(known, round, numbers):
    """Return (R, 2 + board) int64 one hand for each index in a round: hole cards, then board."""
    cards = np.empty((len(numbers), HOLE + BOARD[round]), np.int64)
    for row, index in enumerate(numbers):
        shape = hand_isomorphism.shape_of(known, round, index)
        hand_isomorphism.write_cards(known, shape, index, cards[row])
    return cards


@pytest.fixture(scope="module")
def buckets_and_equities():
    """Return the bucket of every holding of the small deck, and the holdings' equities by round."""
    rng = np.random.default_rng(0)
    counts = hand_indexer(SMALL.ranks).counts
    rolled = [card_abstraction.roll_out(SMALL, r, 0, int(counts[r]), rng) for r in range(4)]
    return list(
        zip(*(card_abstraction.cluster(SMALL, r, [rolled[r]], rng) for r in range(4)), strict=True)
    )


@pytest.fixture(scope="module")
def built(buckets_and_equities):
    """Build the abstraction of the small deck; return it and the counts of the deals."""
    buckets, tables = buckets_and_equities
    rng = np.random.default_rng(1)
    dealt = [
        card_abstraction.count_transitions(SMALL, buckets, SMALL.deals // 2, rng) for _ in range(2)
    ]
    return card_abstraction.build_abstraction(SMALL, dealt, tables)


def exact_equity(cards):
    """Return the exact share of the pot that a holding wins against a uniform hand."""
    left = np.setdiff1d(np.arange(52), cards)
    runs = list(itertools.combinations(left, 7 - len(cards)))
    total = 0.0
    for run in runs:
        rest = np.setdiff1d(left, run)
        board = [*cards[2:], *run]
        theirs = np.array([[*hole, *board] for hole in itertools.combinations(rest, 2)])
        mine = strength(np.array([[*cards[:2], *board]]))
        total += (1 + np.sign(mine - strength(theirs))).mean() / 2
    return total / len(runs)


def test_the_numbers_of_holdings_are_the_published_ones():
    """Waugh 2013, "A fast and optimal hand isomorphism algorithm"."""
    assert hand_indexer().counts.tolist() == [169, 1_286_792, 13_960_050, 123_156_254]


@pytest.mark.parametrize("round", range(4))
def test_an_index_does_not_depend_on_suit_names_and_the_order_of_cards(round, rng):
    indexer = hand_indexer()
    numbers = np.unique(rng.integers(indexer.counts[round], size=20_000))
    cards = example_hands(indexer, round, numbers)
    assert (np.diff(np.sort(cards, axis=1), axis=1) > 0).all()
    np.testing.assert_array_equal(hand_index(indexer, cards), numbers)
    renamed = (
        cards // 4 * 4
        + rng.permuted(np.tile(np.arange(4), (len(cards), 1)), axis=1)[
            np.arange(len(cards))[:, None], cards % 4
        ]
    )
    shuffled = [rng.permuted(part, axis=1) for part in (renamed[:, :2], renamed[:, 2:])]
    np.testing.assert_array_equal(hand_index(indexer, np.hstack(shuffled)), numbers)


@pytest.mark.parametrize("round", [0, 1])
def test_a_holding_represents_all_with_other_suit_names(round):
    plan = dataclasses.replace(SMALL, ranks=5, flop=1, preflop=1)
    indexer, deck = hand_indexer(5), range(32, 52)
    holds = [
        (*hole, *board)
        for hole in itertools.combinations(deck, 2)
        for board in itertools.combinations(sorted({*deck} - {*hole}), BOARD[round])
    ]
    counts = np.bincount(hand_index(indexer, np.array(holds)))
    rolled = card_abstraction.roll_out(plan, round, 0, len(counts), np.random.default_rng(0))
    assert len(counts) == indexer.counts[round]
    np.testing.assert_array_equal(rolled["weight"], counts)


@pytest.mark.parametrize(("round", "board"), enumerate(BOARD[:3]))
def test_weights_add_up_to_all_holdings(round, board):
    plan = dataclasses.replace(SMALL, ranks=9, preflop=1, flop=1, turn=1)
    last = int(hand_indexer(9).counts[round])
    rolled = card_abstraction.roll_out(plan, round, 0, last, np.random.default_rng(0))
    assert rolled["weight"].sum(dtype=np.int64) == comb(36, 2) * comb(34, board)


@pytest.mark.parametrize("size", [5, 6, 7])
def test_rollouts_approximate_the_exact_equity(size, rng):
    cards = [0, 21, 50, 45, 34, 9, 17][:size]
    round, rolls = BOARD.index(len(cards) - 2), 100_000
    found = int(hand_index(hand_indexer(), np.array([cards]))[0])
    plan = dataclasses.replace(AbstractionParameters(), **{ROUNDS[round]: rolls})
    score = card_abstraction.roll_out(plan, round, found, found + 1, rng)["score"][0] / (2 * rolls)
    assert abs(score - exact_equity(cards)) < 4 * 0.5 / rolls**0.5


def test_aces_are_the_best_hand_and_seven_deuce_is_among_the_worst(rng):
    """The equities of these hands against a uniform one are in every table of hold'em odds."""
    plan = AbstractionParameters(preflop=100_000)
    rolled = card_abstraction.roll_out(plan, 0, 0, 169, rng)
    bucket, clusters = card_abstraction.cluster(plan, 0, [rolled], rng)
    aces, worst = hand_index(hand_indexer(), np.array([ACES, SEVEN_DEUCE]))
    equity = rolled["score"] / (2 * plan.preflop)
    assert equity[aces] == pytest.approx(0.852, abs=0.005)
    assert equity[worst] == pytest.approx(0.346, abs=0.005)
    assert (equity * rolled["weight"]).sum() / 1326 == pytest.approx(0.5, abs=0.001)
    assert (bucket[aces], bucket[worst]) == (plan.buckets - 1, 0)
    assert clusters["share"].sum() == pytest.approx(1)


def test_buckets_are_intervals_of_equity_weakest_first(built):
    buckets = built.buckets
    assert (buckets.lowest <= buckets.mean).all()
    assert (buckets.mean <= buckets.highest).all()
    assert (buckets.highest[:, :-1] < buckets.lowest[:, 1:]).all()
    np.testing.assert_allclose(buckets.share.sum(axis=1), 1)
    np.testing.assert_allclose((buckets.share * buckets.mean).sum(axis=1), 0.5, atol=0.005)


def test_probabilities_sum_to_one(built):
    assert built.start.sum() == pytest.approx(1)
    for move, joint in zip(built.moves, built.joint, strict=True):
        assert (move >= 0).all()
        assert (joint >= 0).all()
        np.testing.assert_allclose(move.sum(axis=1), 1)
        np.testing.assert_allclose(joint.sum(axis=(2, 3)), 1)


def test_seats_are_exchangeable(built):
    np.testing.assert_array_equal(built.start, built.start.T)
    for joint in built.joint:
        np.testing.assert_array_equal(joint, joint.transpose(1, 0, 3, 2))
    np.testing.assert_allclose(built.win + built.win.T, 1)


def test_marginals_of_the_joint_transitions_are_the_independent_ones(built):
    pair = built.start
    for move, joint in zip(built.moves, built.joint, strict=True):
        together = pair[:, :, None, None] * joint
        marginal = together.sum(axis=(1, 3)) / pair.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(marginal, move)
        pair = together.sum(axis=(0, 1))
    assert (pair * built.win).sum() == pytest.approx(0.5)


def test_buckets_are_dealt_with_the_frequency_of_their_holdings(built):
    pairs = [built.start]
    for joint in built.joint:
        pairs.append(np.einsum("ab,abcd->cd", pairs[-1], joint))
    for pair, share in zip(pairs, built.buckets.share, strict=True):
        error = np.sqrt(share * (1 - share) / SMALL.deals)  # as if only one seat were counted
        assert (np.abs(pair.sum(axis=1) - share) < 4.5 * error).all()


def test_a_stronger_bucket_wins_more(built):
    assert (np.diff(built.win, axis=0) > 0).mean() > 0.95  # some pairs are rarely dealt
    assert built.win[-1, 0] > 0.99


def test_a_buckets_showdown_wins_equal_its_equity(built):
    """On the river a bucket's mean equity is its showdown against all buckets."""
    pair = built.start
    for joint in built.joint:
        pair = np.einsum("ab,abcd->cd", pair, joint)
    shown = (pair * built.win).sum(axis=1) / pair.sum(axis=1)
    # ten rollouts are a noisy measure, so the extreme buckets look more extreme than they are
    np.testing.assert_allclose(shown, built.buckets.mean[-1], atol=0.09)


def test_pairs_that_were_never_dealt_have_probabilities(buckets_and_equities):
    buckets, tables = buckets_and_equities
    few = card_abstraction.count_transitions(SMALL, buckets, 3, np.random.default_rng(0))
    built = card_abstraction.build_abstraction(SMALL, [few], tables)
    for move, joint in zip(built.moves, built.joint, strict=True):
        np.testing.assert_allclose(move.sum(axis=1), 1)
        np.testing.assert_allclose(joint.sum(axis=(2, 3)), 1)
    np.testing.assert_allclose(built.win + built.win.T, 1)


def test_more_buckets_than_distinct_equities_are_refused(rng):
    plan = AbstractionParameters(buckets=6, river=2)
    rolled = {"score": np.arange(5, dtype=np.uint8), "weight": np.ones(5, np.uint8)}
    with pytest.raises(UserError, match="'river' has only 5 different strengths for 6 buckets"):
        card_abstraction.cluster(plan, 3, [rolled], rng)
