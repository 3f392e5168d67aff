"""Ranking of hands of five, six and seven cards: published counts, and phevaluator."""

from __future__ import annotations

import itertools

import numpy as np
import phevaluator
import pytest

from overtrick.games.poker.hand_ranking import CATEGORIES, CLASSES, category, strength

HANDS = 100_000
PUBLISHED = {
    "high card": 1_302_540,
    "pair": 1_098_240,
    "two pair": 123_552,
    "three of a kind": 54_912,
    "straight": 10_200,
    "flush": 5_108,
    "full house": 3_744,
    "four of a kind": 624,
    "straight flush": 40,
}
"""Number of five-card hands of each category, lowest first;
en.wikipedia.org/wiki/Poker_probability."""


@pytest.fixture(scope="module")
def every_five():
    """Return (2598960, 5) all hands of five cards."""
    hands = itertools.chain.from_iterable(itertools.combinations(range(52), 5))
    return np.fromiter(hands, np.int8).reshape(-1, 5)


def random_hands(size, rng, hands=HANDS):
    return np.argsort(rng.random((hands, 52)), axis=1)[:, :size]


def cards(text):
    """Return (1, n) the cards of a text such as 'As Kd'."""
    return np.array([["23456789TJQKA".index(c[0]) * 4 + "cdhs".index(c[1]) for c in text.split()]])


@pytest.mark.parametrize("size", [5, 6, 7])
def test_hands_have_the_order_of_phevaluator(size, rng):
    hands = random_hands(size, rng)
    theirs = np.array([phevaluator.evaluate_cards(*hand) for hand in hands.tolist()])
    np.testing.assert_array_equal(strength(hands), CLASSES - theirs)  # phevaluator's best rank is 1


def test_five_card_hands_have_the_published_counts_by_category(every_five):
    worth = strength(every_five)
    counts = np.bincount(category(worth))
    assert dict(zip(CATEGORIES, counts.tolist(), strict=True)) == PUBLISHED
    assert np.unique(worth).tolist() == list(range(CLASSES))
    assert (np.diff(category(np.arange(CLASSES))) >= 0).all()


@pytest.mark.parametrize("size", [6, 7])
def test_six_and_seven_cards_rank_as_their_best_five(size, rng):
    hands = random_hands(size, rng, 20_000)
    fives = [strength(hands[:, five]) for five in itertools.combinations(range(size), 5)]
    np.testing.assert_array_equal(strength(hands), np.max(fives, axis=0))


@pytest.mark.parametrize("size", [5, 6, 7])
def test_neither_names_of_suits_nor_the_order_of_cards_matter(size, rng):
    hands = random_hands(size, rng)
    renamed = hands // 4 * 4 + rng.permutation(4)[hands % 4]
    np.testing.assert_array_equal(strength(hands), strength(rng.permuted(renamed, axis=1)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_cards_may_be_any_integers(dtype, rng):
    hands = random_hands(7, rng, 1000)
    found = strength(hands.astype(dtype))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, strength(hands))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("As Ks Qs Js Ts", "Ah Ac Ad As Kd"),
        ("5s 4s 3s 2s As", "Ah Ac Ad As Kd"),
        ("6c 5d 4s 3h 2c", "As 2d 3c 4h 5s"),
        ("As 2d 3c 4h 5s", "Ah Ac Ad Ks Qd"),
        ("2c 2d 2h 3s 3d", "As Ks Qs Js 9s"),
        ("Ah Ac Ks Kd Qh Qc 2d", "Ah Ac Ks Kd Jh Jc 2d"),  # the kicker comes from the third pair
        ("Ah Ac As Kd Kh Kc 2d", "Ah Ac As Qd Qh 3c 2d"),  # the pair comes from the second three
    ],
)
def test_hands_beat_each_other_by_the_rules(better, worse):
    assert strength(cards(better)) > strength(cards(worse))


def test_a_kicker_below_the_best_five_does_not_count():
    assert strength(cards("Ah Ac Ks Qd Jh 3c 2d")) == strength(cards("Ad As Kc Qh Jd 4s 3h"))


@pytest.mark.parametrize("size", [4, 8])
def test_hands_of_another_size_are_refused(size):
    with pytest.raises(ValueError, match=f"5 to 7 cards, not {size}"):
        strength(np.arange(size)[None])
