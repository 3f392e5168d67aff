"""Whole boards of bridge, from deal to score, beside OpenSpiel's game `bridge`."""

from __future__ import annotations

import numpy as np
import pyspiel
import pytest

import overtrick
from overtrick.games.bridge.auction_rules import BIDS, PASS
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.cards import CARDS, TRICKS

DEALER, VULNERABLE = CARDS, CARDS + 1


def pyspiel_action(action):
    """Return OpenSpiel's number of an action: cards by rank, then pass, doubles and bids."""
    if action >= FIRST_PLAY:
        card = action - FIRST_PLAY
        return card % TRICKS * 4 + card // TRICKS
    return 52 + action - PASS if action >= PASS else 55 + action


OF_OURS = np.array([pyspiel_action(action) for action in range(FIRST_PLAY + CARDS)])


def start_in_pyspiel(deal, games):
    """Return OpenSpiel's state after the deal. Its dealer is North, so all seats are rotated."""
    dealer, vulnerable = int(deal[DEALER]), int(deal[VULNERABLE])
    sides = [vulnerable & 1, vulnerable >> 1]  # North-South, East-West
    state = games[sides[dealer % 2], sides[1 - dealer % 2]].new_initial_state()
    hands = [list(np.flatnonzero((deal[:CARDS] - dealer) % 4 == seat)) for seat in range(4)]
    for k in range(CARDS):
        state.apply_action(int(OF_OURS[FIRST_PLAY + hands[k % 4].pop()]))
    return state


def compare(count, rng):
    """Play boards with random actions in both games; assert equal seats, actions and scores."""
    games = {
        (one, other): pyspiel.load_game(
            "bridge",
            {"use_double_dummy_result": False, "dealer_vul": bool(one),
             "non_dealer_vul": bool(other)},
        )
        for one in (0, 1) for other in (0, 1)
    }  # fmt: skip
    game = overtrick.make("bridge")
    deals = game.deal(count, rng)
    theirs = [start_in_pyspiel(deal, games) for deal in deals]
    state, payoff = game.start(deals), np.zeros((count, 4))
    while len(observations := game.observe(state)):
        legal = observations.legal
        weight = rng.random(legal.shape) * legal
        weight[:, :BIDS] *= rng.random((len(legal), 1)) < 0.4  # else auctions reach seven notrump
        action = weight.argmax(axis=1)
        for row, index in enumerate(observations.game):
            other, dealer = theirs[index], int(deals[index, DEALER])
            assert (other.current_player() + dealer) % 4 == observations.seat[row]
            assert sorted(OF_OURS[np.flatnonzero(legal[row])]) == other.legal_actions()
            other.apply_action(int(OF_OURS[action[row]]))
        payoff += game.step(state, observations, action)
    for index, other in enumerate(theirs):
        assert other.is_terminal()
        assert np.array_equal(np.roll(other.returns(), int(deals[index, DEALER])), payoff[index])
    return state


def test_boards_equal_those_of_openspiel(rng):
    """Seats to act, legal actions and scores of random boards; most are played to the end."""
    state = compare(500, rng)
    assert (state.cards[:, -1] >= 0).mean() > 0.6
    assert len(np.unique(state.declarer)) == 5  # four declarers, and boards passed out


@pytest.mark.slow
def test_ten_thousand_boards_equal_those_of_openspiel(rng):
    compare(10_000, rng)
