"""Card play of bridge beside endplay's rules and beside recorded deals."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from endplay.types import Deal, Denom, Player
from scipy.stats import chisquare
from tests.data import BOARDS, needed

import overtrick
from overtrick.core import UserError, select_rows
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge import trick_rules
from overtrick.games.bridge.cardplay import minibridge_contract
from overtrick.games.bridge.cardplay.rule_defenders import (
    RULES,
    RuleDefender,
    _situation,
    combine_rules,
    first_applicable_card,
    rule_card,
)
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    SEATS,
    STRAINS,
    format_deal,
    hand_bits,
    honour_points,
    parse_deal,
    random_deals,
    suit_lengths,
)
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy


def test_a_deal_gives_each_seat_13_cards_with_equal_probabilities(rng):
    holder = random_deals(20_000, rng)
    assert ((holder[:, :, None] == np.arange(4)).sum(axis=1) == 13).all()
    for card in (0, 25, 51):
        assert chisquare(np.bincount(holder[:, card], minlength=4)).pvalue > 1e-3
    together = (holder[:, 0] == holder[:, 1]).mean()
    assert together == pytest.approx(12 / 51, abs=0.01)


def test_the_pack_has_40_points_and_a_hand_has_10(rng):
    held = honour_points(random_deals(20_000, rng))
    assert (held.sum(axis=1) == 40).all()
    assert held.mean(axis=0) == pytest.approx(np.full(4, 10), abs=0.1)
    assert held[:, 0].std() == pytest.approx(4.13, abs=0.1)  # known variance of the 4-3-2-1 count


def test_deals_are_written_and_read_as_by_endplay(rng):
    for holder in random_deals(50, rng):
        text = format_deal(holder)
        assert Deal(text).to_pbn() == text
        for first in range(4):
            turned = Deal(text).to_pbn(Player(first))
            assert np.array_equal(parse_deal(turned), holder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KT8.A96", "not a deal in PBN: 'KT8.A96'"),
        ("N:AKQ.AKQ.AKQ.AKQ2 - - -", "N's hand|E's hand '-' has 1 suits, not 4"),
        ("N:KT8.A96.A95.7542 Q5.KJ52.KQ874.T8 AJ92.874.JT6.AQ3 7643.QT3.32.KJ9", "W 12"),
        ("N:KT8.A96.A95.7542 Q5.KJ52.KQ874.T8 AJ92.874.JT6.AQ3 7643.QT3.32.KJA", "CA is dealt twi"),
        ("N:KT8.A96.A95.7542 Q5.KJ52.KQ874.T8 AJ92.874.JT6.AQ3 7643.QT3.32.KJ1", "'1' in W's hand"),
    ],
)
def test_an_invalid_deal_is_refused_with_one_line(text, message):
    with pytest.raises(UserError, match=message):
        parse_deal(text)


def test_random_play_equals_endplays(rng):
    """The seat to play, the legal cards and the tricks won, card by card."""
    deals = random_deals(40, rng)
    strains, leaders = rng.integers(5, size=40), rng.integers(4, size=40)
    denominations = [Denom.clubs, Denom.diamonds, Denom.hearts, Denom.spades, Denom.nt]
    order = np.full((40, CARDS), trick_rules.NO_CARD)
    tricks = []
    for game, holder in enumerate(deals):
        deal = Deal(format_deal(holder), Player(leaders[game]), denominations[strains[game]])
        won = 0
        for k in range(CARDS):
            ours = np.int64(hand_bits(holder[None])[0, int(deal.curplayer)])
            ours &= ~sum(1 << int(card) for card in order[game, :k])
            led = order[game, k - k % 4] if k % 4 else trick_rules.NO_CARD
            legal = int(trick_rules.playable_cards(ours, led))
            theirs = [
                CARD_NAMES.index(f"{c.suit.name[0].upper()}{c.rank.name[1]}")
                for c in deal.legal_moves()
            ]
            assert legal == sum(1 << card for card in theirs)
            card = int(rng.choice(theirs))
            order[game, k] = card
            deal.play(CARD_NAMES[card])
            if k % 4 == 3:
                won += int(deal.first) % 2 != leaders[game] % 2
        tricks.append(won)
    found, wrong = trick_rules.replay_tricks(hand_bits(deals), strains, leaders, order)
    assert (wrong == trick_rules.NO_CARD).all()
    assert found.tolist() == tricks


def test_a_card_that_is_not_held_or_does_not_follow_suit_is_named(rng):
    holder = parse_deal("N:KT8.A96.A95.7542 Q5.KJ52.KQ874.T8 AJ92.874.JT6.AQ3 7643.QT3.32.KJ96")
    for play_card, wrong in (
        (["SK", "SQ"], -1),
        (["SK", "HK"], 1),
        (["SA"], 0),
        (["SK", "SQ", "SQ"], 2),
    ):
        order = np.full((1, CARDS), trick_rules.NO_CARD)
        order[0, : len(play_card)] = [CARD_NAMES.index(card) for card in play_card]
        _, found = trick_rules.replay_tricks(
            hand_bits(holder[None]), np.array([4]), np.array([0]), order
        )
        assert found.tolist() == [wrong]


def test_every_recorded_play_is_legal_and_ends_in_the_recorded_tricks():
    """Of 45,920 boards all plays are legal and 5,276 are complete. For all but 80 of the others the
    claimed tricks are possible with the played cards."""
    columns = ["deal", "declarer", "contract", "result_tricks", "play"]
    table = pq.read_table(needed(BOARDS), columns=columns).to_pylist()
    boards = [board for board in table if board["play"]]
    number = {name: card for card, name in enumerate(CARD_NAMES)}
    order = np.full((len(boards), CARDS), trick_rules.NO_CARD)
    for row, board in zip(order, boards, strict=True):
        played = [number[card] for card in board["play"].split()]
        row[: len(played)] = played
    holder = np.stack([parse_deal(board["deal"]) for board in boards])
    strain = np.array([[s[0] for s in STRAINS].index(b["contract"][1]) for b in boards])
    leader = np.array([(SEATS.index(board["declarer"]) + 1) % 4 for board in boards])
    claimed = np.array(
        [b["result_tricks"] if b["result_tricks"] is not None else -1 for b in boards]
    )
    won, wrong = trick_rules.replay_tricks(hand_bits(holder), strain, leader, order)
    count = (order != trick_rules.NO_CARD).sum(axis=1)
    assert len(boards) == 45_920
    assert (wrong == trick_rules.NO_CARD).all()
    complete = count == CARDS
    assert complete.sum() == 5_276
    assert (won[complete] == claimed[complete]).all()
    left = 13 - count // 4
    contradicts = (claimed >= 0) & ((claimed < won) | (claimed > won + left))
    assert contradicts.sum() == 80


@pytest.mark.parametrize("trumps", [False, True])
def test_the_contract_of_mini_bridge_follows_the_rule(trumps, rng):
    deals = random_deals(3_000, rng)
    found = minibridge_contract.decide_contracts(deals, trumps)
    held, counts = honour_points(deals), suit_lengths(deals)
    in_suit = [
        honour_points(np.where(np.arange(CARDS) // 13 == suit, deals, -1)) for suit in range(4)
    ]
    for game in range(len(deals)):
        ours = 0 if held[game, 0] + held[game, 2] > 20 else 1
        mine, partner = held[game, ours], held[game, ours + 2]
        total = mine + partner
        if total == 20:
            assert found.declarer[game] == minibridge_contract.NO_DECLARER
            continue
        assert found.declarer[game] == (ours if mine >= partner else ours + 2)
        best = max(
            (
                counts[game, ours, suit] + counts[game, ours + 2, suit],
                in_suit[suit][game, ours] + in_suit[suit][game, ours + 2],
                suit,
            )
            for suit in range(4)
        )
        if trumps and best[0] >= 8:
            assert found.strain[game] == best[2]
            floors = [
                (37, 13),
                (31, 12),
                (27, 11),
                (25, 10),
                (23, 9),
                (21, 8 if best[0] > 8 else 7),
            ]
        else:
            assert found.strain[game] == 4
            floors = [(37, 13), (33, 12), (29, 11), (27, 10), (25, 9), (23, 8), (21, 7)]
        assert found.needed[game] == next(tricks for floor, tricks in floors if total >= floor)


@pytest.mark.parametrize("strain", ["notrump", "trump"])
def test_redealt_hands_allow_the_same_play_and_keep_the_observation(strain, rng):
    game = overtrick.make("minibridge", strain=strain)
    deals = game.deal(300, rng)
    state, history, different = game.start(deals), [], 0
    for moment in range(CARDS):
        observations = game.observe(state)
        if moment in (0, 1, 2, 7, 25, 38, 46):
            again = game.redeal(observations, rng)
            different += (again != deals).any(axis=1).sum()
            other = game.start(again)
            for earlier in history:  # an illegal card raises ValueError
                game.step(other, game.observe(other), earlier)
            for name in ("game", "seat", "observation", "legal"):
                assert np.array_equal(
                    getattr(game.observe(other), name), getattr(observations, name)
                )
        action = sample_actions(UniformPolicy().probs(observations), rng).action
        history.append(action)
        game.step(state, observations, action)
    assert different > 0.9 * 5 * 300


def test_before_the_lead_hidden_cards_are_uniform_over_hidden_hands(rng):
    game = overtrick.make("minibridge")
    one = game.observe(game.start(game.deal(1, rng)))
    many = select_rows(one, np.zeros(6_000, np.int64))
    again = game.redeal(many, rng)[:, :CARDS]
    for card in np.flatnonzero((again != 1).all(axis=0))[[0, 20, 38]]:
        assert chisquare(np.bincount(again[:, card], minlength=4)[[0, 2, 3]]).pvalue > 1e-3


def test_payoffs_by_each_scoring(rng):
    plain, tricks, four = (
        overtrick.make("minibridge", **options)
        for options in ({}, {"scoring": "tricks"}, {"seats": 4})
    )
    deals = plain.deal(400, rng)
    payoffs = [
        play(each, [UniformPolicy()] * 2, deals, np.random.default_rng(1)).payoff
        for each in (plain, tricks)
    ]
    made, above = (payoff[:, 0] for payoff in payoffs)
    assert set(made) == {-1, 1}
    assert ((made > 0) == (above > 0)).all()
    assert (above != 0).all()
    assert above.max() <= 14 - deals[:, 53].min()
    seats = play(four, [UniformPolicy()] * 4, deals[:20], rng).payoff
    assert (seats[:, 0] == seats[:, 2]).all()
    assert (seats[:, 0] == -seats[:, 1]).all()
    assert (seats[:, 1] == seats[:, 3]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strain": "hearts"}, "strain must be notrump or trump, not 'hearts'"),
        (
            {"scoring": "rubber"},
            "made, tricks, report or duplicate, not 'rubber'",
        ),
        ({"seats": 3}, "seats must be 2 or 4, not 3"),
    ],
)
def test_a_wrong_option_of_mini_bridge_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        overtrick.make("minibridge", **options)


def card_of_defender(hand, trick="", dummy="", strain="NT", rule=first_applicable_card):
    """Return the card that the rule plays for a defender who leads, or follows the cards of a
    trick; "-" for none."""
    held, before = cards_of(hand), [CARD_NAMES.index(card) for card in trick.split()]
    led = best = before[0] if before else trick_rules.NO_CARD
    for card in before[1:]:
        best = card if trick_rules.beats(card, best, STRAINS.index(strain)) else best
    may = trick_rules.playable_cards(np.int64(held), led)
    found = rule(
        np.int64(held),
        may,
        len(before),
        led,
        best,
        np.int64(cards_of(dummy)),
        STRAINS.index(strain),
    )
    return CARD_NAMES[found] if found >= 0 else "-"


def cards_of(text):
    """Return a hand, spades first, as a set of cards."""
    suits = zip(reversed("CDHS"), text.split(".") if text else [], strict=False)
    return sum(1 << CARD_NAMES.index(suit + rank) for suit, ranks in suits for rank in ranks)


@pytest.mark.parametrize(
    ("card", "position"),
    [
        ("SQ", {"hand": "AQ2.K.K.K", "trick": "S3 SJ S5"}),  # the cheapest winning card
        ("SQ", {"hand": "AQ2.K.K.K", "trick": "SJ S3 S5"}),  # also from partner
        ("C2", {"hand": ".K.K.K2", "trick": "S3 SJ S5", "strain": "C"}),  # by a ruff
        ("S2", {"hand": "Q2.K.K.K", "trick": "S3 SK S5"}),  # beaten
        ("S2", {"hand": "Q2.K.K.K", "trick": "S3 C2 S5", "strain": "C"}),  # by a ruff
        ("S2", {"hand": "AQ2.K.K.K", "trick": "S3"}),  # second hand low
        ("SK", {"hand": "AK2.K.K.K", "trick": "S3 SJ", "dummy": "Q54..."}),  # above dummy too
        ("SQ", {"hand": "AQ2.K.K.K", "trick": "S3 SJ", "dummy": "T54..."}),  # no higher than needed
        ("SQ", {"hand": "Q2.K.K.K", "trick": "S3 SJ", "dummy": "K54..."}),  # wins for now
        ("S2", {"hand": "T2.K.K.K", "trick": "S3 SJ", "dummy": "K54..."}),  # beaten
        ("HK", {"hand": "Q98.KQ2.AT9.5432"}),  # the top of the best sequence
        ("DJ", {"hand": "A98.K32.JT98.543"}),
        ("S5", {"hand": "AJ852.K32.Q43.32"}),  # fourth best of the longest suit
        ("C2", {"hand": "A.K.Q.T32"}),  # or its lowest
        ("-", {"hand": ".K5.K4.K32", "trick": "S3"}),  # cannot follow
    ],
)
def test_defenders_play_by_the_rules(card, position):
    assert card_of_defender(**position) == card


def test_the_first_applicable_rule_decides(rng):
    """Stored compiled functions once were confused with each other, so each row is compared."""
    game = overtrick.make("minibridge")
    state = game.start(game.deal(30, rng))
    while len(observations := game.observe(state)):
        probs = RuleDefender().probs(observations)
        for row, seen in enumerate(observations.observation):
            cards = [int(rule(*_situation(seen))) for rule in RULES]
            card = next((card for card in cards if card != trick_rules.NO_CARD), -1)
            assert rule_card(seen) == card
            assert card < 0 or probs[row, card] == 1
        action = (rng.random(observations.legal.shape) * observations.legal).argmax(axis=1)
        game.step(state, observations, action)


def test_the_order_of_the_rules_is_an_option():
    position = {"hand": "AQ2.K.K.K", "trick": "S3 SJ", "dummy": "T54..."}
    reverse, two = combine_rules(RULES[::-1]), combine_rules((RULES[0], RULES[2]))
    assert card_of_defender(**position, rule=reverse) == "SQ"
    assert card_of_defender(**position, rule=two) == "-"
    assert card_of_defender(hand="KQ2...5432", rule=reverse) == "C2"


def test_a_random_declarer_makes_three_contracts_in_ten_against_the_rules():
    """Hadjur 2018 has 30 % in notrump."""
    game = overtrick.make("minibridge")
    players = [UniformPolicy(), make_opponent("rules", game, None)]
    payoff = play(game, players, 10_000, np.random.default_rng(0), recorded=[]).payoff
    assert 0.25 <= (payoff[:, 0] > 0).mean() <= 0.35
