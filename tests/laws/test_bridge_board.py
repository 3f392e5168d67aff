"""Laws of whole bridge boards: hidden information, dummy, claims, and worlds of the search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.bridge_play import mask, played_boards

import overtrick
from overtrick.core import UserError, select_rows
from overtrick.games import registry
from overtrick.games.bridge import claims, double_dummy
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.auction_rules import NO_SEAT
from overtrick.games.bridge.board_observation import (
    DUMMY,
    FIRST_CARD,
    FIRST_PLAY,
    card_play_observations,
    in_card_play,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer, discard, opening_lead
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, NOTRUMP, TRICKS, hand_bits
from overtrick.games.bridge.players.board_player import BoardPlayer, BoardPolicy
from overtrick.games.bridge.players.double_dummy_player import (
    DoubleDummyPlayer,
    tricks_after_each_card,
)
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.games.bridge.system.contradicted_calls import count_contradicted_calls
from overtrick.games.bridge.trick_rules import beats, playable_cards
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy


@pytest.fixture(scope="module")
def natural():
    return loader.load("natural")


@pytest.fixture
def careful(natural):
    return BoardPolicy(SystemBidder(natural, natural), CarefulPlayer())


def test_the_declarer_plays_dummys_cards_which_are_open_after_the_lead(careful, rng):
    game, seen, state = played_boards(careful, 60, rng)
    dealt = state.dealt
    for rows in seen:
        play = in_card_play(rows)
        seat, turn = rows.observation[:, obs.SEAT], rows.game
        assert np.array_equal(rows.observation[:, obs.OWN], dealt[turn, seat])
        opened = rows.observation[:, FIRST_CARD] >= 0
        declarer = state.declarer[turn]
        assert (seat != (declarer + 2) % 4)[play].all()
        expected = np.where(opened, dealt[turn, (declarer + 2) % 4], 0)
        assert np.array_equal(rows.observation[:, DUMMY], np.where(play, expected, 0))
        cards = card_play_observations(select_rows(rows, np.flatnonzero(play)))
        position = cards.observation[:, kernels.OBS_POSITION]
        hand = (declarer[play] + position) % 4
        remaining = (
            dealt[turn[play], hand]
            & ~cards.observation[np.arange(len(cards)), kernels.OBS_PLAYED + position]
        )
        assert np.array_equal(cards.observation[:, kernels.OBS_OWN], remaining)
        assert np.array_equal(cards.legal, rows.legal[play][:, FIRST_PLAY:])
    assert game.seats == 4
    assert (state.cards[state.declarer != NO_SEAT] >= 0).all()


def test_observations_are_validated_by_a_replay(careful, rng):
    game, seen, _ = played_boards(careful, 20, rng)
    late = next(rows for rows in seen if (rows.observation[:, FIRST_CARD + 9] >= 0).any())
    (row,) = np.flatnonzero(late.observation[:, FIRST_CARD + 9] >= 0)[:1]
    right = late.observation[[row]]
    assert np.array_equal(game.validated_observations(right).legal[0], late.legal[row])
    for column, value in (
        (FIRST_CARD + 3, right[0, FIRST_CARD]),  # a card twice
        (FIRST_CARD + 4, -1),  # a gap
        (FIRST_CARD + 20, 3),  # a card after a gap
        (DUMMY, 0),
        (DUMMY, right[0, obs.OWN]),
        (obs.SEAT, (right[0, obs.SEAT] + 1) % 4),
        (obs.PASSES, 2),
        (FIRST_CARD, 52),
    ):
        wrong = right.copy()
        wrong[0, column] = value
        with pytest.raises(UserError, match=r"row 0"):
            game.validated_observations(wrong)


def test_claims_end_a_board_with_the_tricks_of_perfect_play(careful, rng):
    """The claimed tricks are those of double-dummy play from the last card played."""
    _, _, state = played_boards(careful, 200, rng, claims=True)
    played = (state.cards >= 0).sum(axis=1)
    claimed = np.flatnonzero((state.declarer != NO_SEAT) & (played < CARDS))
    assert len(claimed) > 40
    assert (played[claimed] % 4 == 0).all()
    game = overtrick.make("bridge")
    for board in claimed[:20]:
        again = game.start(state.deal[[board]])
        cards = FIRST_PLAY + state.cards[board, : played[board]].astype(np.int64)
        for action in [*recorded_calls(state, board), *cards]:
            game.step(again, game.observe(again), np.array([action]))
        best = int(tricks_after_each_card(again).max())
        turn, left = again.progress[0, kernels.TURN], TRICKS - played[board] // 4
        won = again.progress[0, kernels.TRICKS_WON] + (best if turn % 2 == 0 else left - best)
        assert state.progress[board, kernels.TRICKS_WON] == won


def recorded_calls(state, board):
    """Return the calls of a finished auction."""
    seen = np.zeros(DUMMY, np.int64)
    seen[obs.DEALER], seen[obs.PASSES] = state.deal[board, CARDS], 3
    seen[obs.CALLERS :] = state.callers[board]
    return obs.calls_from_observation(seen)


def test_perfect_play_of_all_hands_wins_the_double_dummy_tricks(careful, natural, rng):
    game = overtrick.make("bridge")
    deals = game.deal(12, rng)
    perfect = DoubleDummyPlayer(deals)
    player = BoardPlayer(SystemBidder(natural, natural), perfect, perfect)
    state, session = game.start(deals), player.start(12, rng)
    while len(rows := game.observe(state)):
        game.step(state, rows, session.act(rows).action)
    played = np.flatnonzero(state.declarer != NO_SEAT)
    expected = double_dummy.contract_tricks(
        deals[played, :CARDS], state.declarer[played], state.progress[played, kernels.STRAIN]
    )
    assert np.array_equal(state.progress[played, kernels.TRICKS_WON], expected)


def test_contradicted_calls_are_those_that_a_replay_finds(natural, rng):
    precision, count = loader.load("precision"), 40
    hands = hand_bits(overtrick.make("auction").deal(8, rng)[:, :CARDS])
    dealer, vulnerable = rng.integers(4, size=(2, 8))
    auctions = auction_simulation.bid_auctions(hands, dealer, vulnerable, natural, precision)
    for board in range(8):
        calls = auctions[board][auctions[board] >= 0].astype(np.int64)
        others = hand_bits(overtrick.make("auction").deal(count, rng)[:, :CARDS])
        repeated = (np.repeat(each[board], count) for each in (dealer, vulnerable))
        replayed = auction_simulation.replay_auctions(
            others, *repeated, np.tile(calls, (count, 1)), natural, precision
        )
        seat = (dealer[board] + np.arange(len(calls))) % 4
        expected = ((replayed.calls != calls) & np.isin(seat, [1, 2])).sum(axis=1)
        arguments = (int(dealer[board]), int(vulnerable[board]), natural, precision)
        assert np.array_equal(
            count_contradicted_calls(others, [1, 2], calls.tolist(), *arguments), expected
        )
        own = hands[[board]]
        assert count_contradicted_calls(own, range(4), calls.tolist(), *arguments)[0] == 0


def test_settled_boards_have_one_result(rng):
    """Enumerate all lines of play, and all deals that agree with the voids, of small endings."""
    settled = {"wins": 0, "known": 0, "open": 0}
    for _ in range(4000):
        deck = (
            rng.choice(CARDS, 12, replace=False)
            if rng.random() < 0.5
            else np.concatenate(
                [rng.choice(TRICKS, 6, replace=False), 13 + rng.choice(TRICKS, 6, replace=False)]
            )
        )
        hands = np.array([sum(1 << int(card) for card in deck[k::4]) for k in range(4)], np.int64)
        progress = np.zeros(kernels.PROGRESS_WIDTH, np.int64)
        progress[[kernels.TURN, kernels.STRAIN]] = rng.integers(4), rng.integers(5)
        progress[kernels.CARDS_PLAYED] = 40
        leader, strain = int(progress[kernels.TURN]), int(progress[kernels.STRAIN])
        if claims._leader_wins_all(hands, progress):
            settled["wins"] += 1
            assert fewest_tricks(hands.tolist(), leader, leader, strain) == 3
        held = [[hand >> (13 * suit) & 8191 != 0 for suit in range(4)] for hand in hands]
        for position in range(4):
            for suit in range(4):
                if not held[position][suit]:
                    progress[kernels.VOIDS] |= 1 << (4 * position + suit)
        known = claims._all_hands_known(hands, progress)
        assert known == all(
            possible_splits(hands, pair, int(progress[kernels.VOIDS])) == 1
            for pair in ((1, 3), (0, 3), (0, 1))
        )
        settled["known" if known else "open"] += 1
    assert settled["wins"] > 20
    assert settled["known"] > 2


def fewest_tricks(hands, leader, side, strain, trick=()):
    """Return the fewest tricks of the side of a seat, over all lines of play."""
    if not any(hands):
        return 0
    seat = (leader + len(trick)) % 4
    led = trick[0] if trick else -1
    legal = int(playable_cards(np.int64(hands[seat]), led))
    found = []
    for card in range(CARDS):
        if legal >> card & 1:
            left = [hand & ~(1 << card) if k == seat else hand for k, hand in enumerate(hands)]
            cards = (*trick, card)
            if len(cards) < 4:
                found.append(fewest_tricks(left, leader, side, strain, cards))
                continue
            best = 0
            for place in range(1, 4):
                if beats(cards[place], cards[best], strain):
                    best = place
            winner = (leader + best) % 4
            found.append((winner % 2 == side % 2) + fewest_tricks(left, winner, side, strain))
    return min(found)


def possible_splits(hands, pair, voids):
    """Return the number of ways to deal two hands' cards to them that agree with known voids."""
    one, other = pair
    cards = [card for card in range(CARDS) if (hands[one] | hands[other]) >> card & 1]
    count = 0
    for chosen in itertools.combinations(cards, int(hands[one]).bit_count()):
        fits = all(
            not voids >> (4 * (one if card in chosen else other) + card // TRICKS) & 1
            for card in cards
        )
        count += fits
    return count


@pytest.mark.parametrize(
    ("hand", "strain", "lead"),
    [
        ("KQJ52.83.964.T72", NOTRUMP, "SK"),
        ("AJ852.83.964.T72", NOTRUMP, "S5"),
        ("86.AKQ4.T953.872", 3, "HA"),
        ("A6432.7.T953.872", 3, "H7"),
        ("652.QJT4.A953.87", 3, "HQ"),
    ],
)
def test_opening_leads_of_the_careful_player(hand, strain, lead):
    assert CARD_NAMES[opening_lead(np.int64(mask(hand)), strain)] == lead


@pytest.mark.parametrize(
    ("own", "dummy", "strain", "card"),
    [
        (".A2.K3.QJ2", ".5.7652.AK98", NOTRUMP, "H2"),  # the guards of king and queen stay
        ("A.K4.97642.", "..53.2", NOTRUMP, "D2"),  # never the ace
        (".J862.9432.", ".KQT9.5.3", NOTRUMP, "D2"),  # as long as dummy's hearts
        ("2.43.T.", "..5.3", 3, "H3"),  # trumps stay
    ],
)
def test_discards_of_the_careful_player(own, dummy, strain, card):
    assert CARD_NAMES[discard(np.int64(mask(own)), np.int64(mask(dummy)), strain)] == card


def test_careful_defenders_let_a_random_declarer_make_fewer_contracts_than_rules_do(rng):
    game = overtrick.make("minibridge")
    deals = game.deal(2000, rng)
    made = {}
    for name, player in registry.scripted_players(game).items():
        pair = (UniformPolicy(), player(game))
        made[name] = (play(game, pair, deals, rng, recorded=()).payoff[:, 0] > 0).mean()
    assert made["careful"] < 0.6 * made["rules"]
