"""Tables of tricks that players take in every contract without sight of hidden hands."""

from __future__ import annotations

import numpy as np

from overtrick.games.bridge.cardplay.played_tables import play_every_contract
from overtrick.games.bridge.cards import card_holders, hand_bits, random_deals


def test_rotated_deals_have_rotated_tables(rng):
    holder = random_deals(60, rng)
    tables = play_every_contract(holder, "careful")
    for turn in range(1, 4):
        turned = play_every_contract((holder + turn) % 4, "careful")
        assert np.array_equal(turned, np.roll(tables, turn, axis=1))


def test_a_seat_with_a_whole_suit_takes_every_trick_with_it_as_trumps(rng):
    suits = np.repeat(np.arange(4), 13)[None]  # North has the clubs, East the diamonds
    tables = play_every_contract(suits, "careful")
    assert np.array_equal(tables[0, :, :4], 13 * (np.arange(4)[:, None] % 2 == np.arange(4) % 2))


def test_every_strain_is_played_near_double_dummy_from_both_hands_of_a_side(rng):
    tables = play_every_contract(random_deals(400, rng), "careful").astype(int)
    assert ((tables >= 0) & (tables <= 13)).all()
    both = tables[:, 0] + tables[:, 1]  # North and East as declarers of one strain
    assert abs(both.mean() - 13) < 1
    assert np.corrcoef(tables[:, 0].ravel(), tables[:, 2].ravel())[0, 1] > 0.8


def test_hands_give_back_their_deals(rng):
    holder = random_deals(50, rng)
    assert np.array_equal(card_holders(hand_bits(holder)), holder)


def test_no_deals_have_no_tables(rng):
    assert play_every_contract(np.empty((0, 52), np.int8), "careful").shape == (0, 4, 5)
