"""Laws of bidding systems: they bid every hand to a legal end, their calls keep their meanings, and
faulty files are refused with the faulty line."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.rounding import assert_float32_close

from overtrick.core import UserError
from overtrick.evaluation import system_agreement, system_check
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction import features
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cards import hand_bits, parse_deal, random_deals
from overtrick.games.bridge.system import (
    auction_simulation,
    hand_evaluation,
    hand_terms,
    loader,
    parser,
)
from overtrick.games.bridge.system.auction_simulation import (
    bid_auctions,
    call_meanings,
    explain_calls,
    possible_calls,
    replay_auctions,
    rule_for_hand,
)
from overtrick.games.bridge.system.bidding_system import build_system
from overtrick.games.bridge.system.convention_card import convention_card
from overtrick.games.bridge.system.explanation import FIELDS, explanation_lines, join_similar
from overtrick.games.bridge.system.parser import FOLDER
from overtrick.games.bridge.system.public_knowledge import LIMITS, POWER
from overtrick.games.bridge.system.rule_matching import NO_RULE

SHIPPED = loader.system_names()
SEGMENTS = (
    (5, 46), (46, 87), (87, 128), *((128 + 14 * k, 142 + 14 * k) for k in range(4)),
    *((184 + 8 * k, 192 + 8 * k) for k in range(4)),
    *((216 + 4 * k, 220 + 4 * k) for k in range(4)),
    *((232 + 3 * k, 235 + 3 * k) for k in range(4)),
    (244, 254), (254, 269), (269, 273), (273, 278), (278, 284), (284, 290), (290, 294), (294, 299),
    (299, 302), (302, 305),
)  # fmt: skip
"""Features of one player that share a probability of 1."""


def dealt(games, rng):
    return (
        hand_bits(random_deals(games, rng)),
        rng.integers(4, size=games),
        rng.integers(4, size=games),
    )


def hand_of(text):
    """Return the set of cards of a hand in PBN notation."""
    rest = "AKQJT98765432"
    taken = dict(zip("SHDC", text.split("."), strict=True))
    left = [[r for r in rest if r not in taken[s]] for s in "SHDC"]
    others: list[list[str]] = [[""] * 4 for _ in range(3)]
    cards = [(suit, rank) for suit, ranks in enumerate(left) for rank in ranks]
    for k, (suit, rank) in enumerate(cards):
        others[k // 13][suit] += rank
    return hand_bits(parse_deal("N:" + " ".join([text, *(".".join(o) for o in others)]))[None])[
        0, 0
    ]


PAIRS = itertools.combinations_with_replacement(SHIPPED, 2)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_pairing_bids_every_deal_to_a_legal_end(pair, rng):
    ns, ew = map(loader.load, pair)
    cards, dealer, vulnerable = dealt(3000, rng)
    calls = bid_auctions(cards, dealer, vulnerable, ns, ew)
    for row in calls[:500]:
        auction_rules.check_auction([int(made) for made in row[row >= 0]])
    lengths = (calls >= 0).sum(axis=1)
    assert lengths.max() < auction_simulation.MAX_CALLS
    assert 8 <= lengths.mean() <= 13


@pytest.mark.parametrize("name", SHIPPED)
def test_the_package_has_systems_without_problems(name, tmp_path):
    """The check of `load` leaves the package's own files out, but not copies of them."""
    for each in SHIPPED:  # a system may extend another
        shutil.copy(FOLDER / f"{each}{loader.SUFFIX}", tmp_path)
    copied = loader.load(tmp_path / f"{name}{loader.SUFFIX}")
    assert loader.fingerprint(copied) == loader.fingerprint(loader.load(name))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_system_reads_its_own_calls_as_it_made_them(name, rng):
    """Replay finds the rule that made the call, and the meanings shown by a player hold for the
    hand except for at most seven in a thousand, whose calls are rare ones."""
    rules = loader.load(name)
    of = dealt(3000, rng)
    calls = bid_auctions(*of, rules, rules)
    found = replay_auctions(*of, calls, rules, rules)
    made = calls >= 0
    assert (found.calls == calls)[made].all()
    assert (found.rule[made] == NO_RULE).mean() < 0.003  # strong hands that pass
    assert found.true[made].mean() > 0.993


@pytest.mark.parametrize(
    ("cards", "call"),
    [
        ("AQ5.KJ7.KT84.A95", "1N"),  # 17 points, balanced
        ("AQJ85.K7.984.Q95", "1S"),
        ("65.KQJT74.83.Q72", "2H"),
        ("4.KJ72.AQ983.K65", "1D"),
        ("AKQ8.AKJ.AQ4.KJ5", "2C"),
        ("J852.Q7.K9832.42", "P"),
    ],
)
def test_standard_openings(cards, call):
    rules = loader.load("natural")
    found = bid_auctions(
        np.array([[hand_of(cards), *[hand_of("J852.Q7.K9832.42")] * 3]]), *np.zeros((2, 1), int),
        rules, rules,
    )  # fmt: skip
    assert auction_rules.CALLS[found[0, 0]] == call


def test_calls_are_explained_in_words():
    rules = loader.load("natural")
    explained = explain_calls(auction_rules.parse_calls("1N P 2D P 2H P 3N"), 0, 0, rules, rules)
    assert explained[0].startswith("Strong notrump: 15-17 points, balanced, not forcing; or ")
    assert explained[2].startswith("Jacoby transfer: ")
    assert "5+ hearts" in explained[2]
    assert explained[4].startswith("Transfer completed")
    without_rule = explain_calls(auction_rules.parse_calls("1C P 7N"), 0, 0, rules, rules)
    assert without_rule[2] == "7N: no rule"


def test_shown_ranges_are_possible(rng):
    """The ranges that a call shows stay within the limits of any hand."""
    rules = loader.load("natural")
    cards, dealer, vulnerable = dealt(30, rng)
    for row, d, v in zip(bid_auctions(cards, dealer, vulnerable, rules, rules), dealer, vulnerable,
                         strict=True):  # fmt: skip
        for each in call_meanings([int(c) for c in row[row >= 0]], int(d), int(v), rules, rules):
            assert (each.lo >= LIMITS[0]).all()
            assert (each.lo <= each.hi).all()
            assert (each.hi <= LIMITS[1]).all()


def test_features_of_a_decision(rng):
    rules = loader.load("natural")
    of = dealt(200, rng)
    calls = bid_auctions(*of, rules, rules)
    rows = features.auction_features(*of, calls, rules, rules)
    assert rows.shape == ((calls >= 0).sum(), features.WIDTH) == (len(rows), 64 + 4 * 305)
    assert (rows[:, :52].sum(axis=1) == 13).all()
    assert (rows[:, 52:64].reshape(-1, 3, 4).sum(axis=2) == 1).all()
    players = rows[:, 64:].reshape(-1, 4, features.PLAYER_WIDTH)
    for first, last in SEGMENTS:
        assert_float32_close(players[:, :, first:last].sum(axis=2), 1)
    assert set(np.unique(players[:, :, :5].sum(axis=2))) <= {0, 1}


def test_a_range_has_equal_probabilities_and_small_cards_are_counted():
    """15 to 17 points have probability a third each; K32.AK95.T874.A6 has its small cards from the
    lowest position on (Zhang et al. 2022, Figs. 3 and 4)."""
    rules = loader.load("natural")
    north = hand_of("K32.AK95.T874.A6")
    cards = np.array([[north] * 4])
    calls = np.array([auction_rules.parse_calls("1N P")], np.int8)
    rows = features.auction_features(cards, np.zeros(1, int), np.zeros(1, int), calls, rules, rules)
    clubs, diamonds, hearts, spades = rows[0, :52].reshape(4, 13)
    assert np.flatnonzero(clubs).tolist() == [0, 12]
    assert np.flatnonzero(diamonds).tolist() == [0, 1, 2, 8]
    assert np.flatnonzero(hearts).tolist() == [0, 1, 11, 12]
    assert np.flatnonzero(spades).tolist() == [0, 1, 11]
    opener = rows[1, 64 + 3 * 305 :]  # to the left-hand opponent, who calls next
    points = opener[5:46]
    assert np.flatnonzero(points).tolist() == [15, 16, 17]
    np.testing.assert_allclose(points[15:18], 1 / 3)
    left = rows[1, 64 + 305 :]  # partner of the caller: the pack has 40 points
    assert np.flatnonzero(left[5:46]).max() == 40 - 15


UNKNOWN = (216, 220, 224, 228, 232, 235, 238, 241, 244, 254, 269, 273, 278, 284, 290, 294, 299, 302)


def test_before_the_first_call_nothing_is_known_of_any_hand():
    rules = loader.load("natural")
    cards, calls = np.array([[hand_of("K32.AK95.T874.A6")] * 4]), np.array([[35]], np.int8)
    rows = features.auction_features(cards, np.zeros(1, int), np.zeros(1, int), calls, rules, rules)
    for player in rows[0, 64:].reshape(4, 305):
        assert np.flatnonzero(player[216:]).tolist() == [place - 216 for place in UNKNOWN]
        assert (player[list(UNKNOWN)] == 1).all()
        assert not player[:5].any()
        for first, last in ((5, 43), (46, 87), (87, 128), (128, 142), (184, 192)):
            assert player[first:last] == pytest.approx(np.full(last - first, 1 / (last - first)))


def test_named_groups_of_calls():
    kinds = {name: [auction_rules.CALLS[k] for k in range(38) if mask >> k & 1]
             for name, mask in hand_terms.GROUPS.items()}  # fmt: skip
    assert {name: len(calls) for name, calls in kinds.items()} == {
        "any": 38, "bid": 35, "act": 37, "suit": 28,
    }  # fmt: skip
    assert "P" not in kinds["act"]
    assert not any(call.endswith("N") for call in kinds["suit"])


def test_an_array_of_another_length_is_refused():
    rules = loader.load("natural")
    cards = np.array([[hand_of("K32.AK95.T874.A6")] * 4])
    calls = np.array([auction_rules.parse_calls("1N P")], np.int8)
    with pytest.raises(ValueError, match="do not fit"):
        features.auction_features(cards, np.zeros(1, int), np.zeros(1, int), calls, rules, rules,
                      np.empty((1, features.WIDTH), np.float32))  # fmt: skip


def test_a_stopper_is_an_ace_a_king_with_one_card_a_queen_with_two_or_a_jack_with_three():
    hands = ("A.K2.Q32.J765432", "K.Q2.J32.9876543", ".K98765.QT9.J765")
    found = hand_evaluation.hand_fields(np.array(list(map(hand_of, hands))))
    columns = [hand_evaluation.FIELDS.index(f"stopper {suit}") for suit in "SHDC"]
    assert found[:, columns].tolist() == [[1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]]


def test_hand_evaluation():
    (worth,) = hand_evaluation.hand_fields(np.array([hand_of("AKQ85.K7.984.Q95")]))
    fields = dict(zip(hand_evaluation.FIELDS, worth, strict=True))
    assert fields["hcp"] == 14
    assert fields["total"] == 15
    assert fields["adjusted"] == 15
    assert fields["losers"] == 6
    assert fields["controls"] == 4
    assert fields["quick"] == 5
    assert fields["shape"] == 2
    assert (fields["length S"], fields["strength S"], fields["S-H"]) == (5, 7, 3)
    assert (fields["keycards S"], fields["keycode S"]) == (2, 2)
    assert (fields["control H"], fields["stopper D"], fields["stopper C"]) == (2, 0, 1)
    assert fields["support S"] == 15
    (worth,) = hand_evaluation.hand_fields(np.array([hand_of("K.QT.AJ87632.543")]))
    fields = dict(zip(hand_evaluation.FIELDS, worth, strict=True))
    assert [fields[name] for name in ("losers", "quick", "hcp", "total", "adjusted")] == [
        8, 2, 10, 13, 13,
    ]  # fmt: skip
    assert (fields["longest"], fields["second"], fields["shortest"]) == (7, 3, 1)
    assert (fields["stopper S"], fields["stopper H"], fields["shape"]) == (0, 0, 0)
    assert (fields["top3 D"], fields["top5 D"], fields["queen H"]) == (1, 2, 1)
    assert (fields["support D"], fields["support C"]) == (14, 13)
    assert [fields[f"control {suit}"] for suit in "SHDC"] == [2, 3, 1, 4]


def test_a_new_system_needs_only_a_file(tmp_path):
    """The file has its own openings and raises: a limit raise shows three cards, not four."""
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nbased on natural\nat opening\n  1N | 15-17 hcp, balanced | One notrump\n"
        "at 1M (P)\n  3M | 10-12 hcp, M 3+ | Limit raise | raise, invitational\n"
    )
    rules = loader.load(path)
    explained = explain_calls(auction_rules.parse_calls("1S P 3S"), 0, 0, rules, rules)
    assert explained[2] == "Limit raise: 10-12 points, 3+ spades, invitational"
    (opening,) = explain_calls(auction_rules.parse_calls("1N"), 0, 0, rules, rules)
    assert opening.startswith("One notrump: 15-17 points, balanced, not forcing")


EXPLAINED = {
    "1H X": ["at most 1 heart", "Strong: 17+ points"],
    "1N P 2C": ["7-16 points, 4 spades", "7-16 points, 4 hearts", "forcing", "alert"],
    "1N P 2C P 2D P 2H": ["7-9 points", "4 spades", "5 hearts", "invitational"],
    "2C P 2D P 2N": ["22-24 points", "balanced"],
    "1H P 2C": ["13+ points, 2+ clubs", "game-forcing"],
    "P P 1S P 2C": ["Drury", "3+ spades", "alert"],
    "1S P 4N P 5H": ["two or five key cards (aces and the king of spades)", "without the queen"],
    "1S P 4N P 5S": ["two or five key cards", ", with the queen"],
    "5C X": ["not in the system; some players: "],
    "P P 1S P 1N": ["not forcing"],
    "2C P 2D": ["relay", "forcing", "alert"],
    "1S P 2C P 2S P 3S": ["game-forcing"],
    "1H 2H": ["5+ spades, 5+ diamonds", "5+ spades, 5+ clubs"],
    "1N P 4N": ["Quantitative", "16-17 points", "invitational"],
    "1N P 2H": ["Jacoby transfer", "5+ spades", "alert"],
}
"""Words that the explanation of an auction's last call contains, in the system natural."""


@pytest.mark.parametrize("auction", EXPLAINED)
def test_an_explanation_keeps_the_kinds_of_hands_apart(auction):
    rules = loader.load("natural")
    calls = auction_rules.parse_calls(auction)
    lines = explanation_lines(call_meanings(calls, 0, 0, rules, rules)[-1])
    assert 1 <= len(lines) <= 4
    for words in EXPLAINED[auction]:
        assert words in "; ".join(lines)


def test_blackwood_promises_no_aces():
    rules = loader.load("natural")
    (*_, asked) = explain_calls(auction_rules.parse_calls("1S P 4N"), 0, 0, rules, rules)
    assert asked.startswith("Blackwood: ")
    assert "ace" not in asked


def test_joined_kinds_of_hands_contain_all_that_they_join(rng):
    """However few lines are printed, a hand that fits a rule of its call is within some line. At
    most one call in a hundred is made by a hand that fits none of the rules that are explained,
    because rare rules are left out."""
    rules = loader.load("natural")
    of = dealt(40, rng)
    calls = bid_auctions(*of, rules, rules)
    fields = hand_evaluation.hand_fields(of[0].reshape(-1)).reshape(40, 4, -1)
    fitted = outside = 0
    for game in range(40):
        made = calls[game][calls[game] >= 0]
        meanings = call_meanings(made.tolist(), int(of[1][game]), int(of[2][game]), rules, rules)
        for at, meaning in enumerate(meanings):
            hand = fields[game, (of[1][game] + at) % 4]
            if any(_fits(hand, each) for each in meaning.hands):
                fitted += 1
                assert any(_fits(hand, each) for each in join_similar(meaning.hands, 3))
                assert _fits(hand, join_similar(meaning.hands, 1)[0])
            else:
                outside += 1
            assert len(join_similar(meaning.hands, 3)) <= 3
    assert outside <= 0.02 * (fitted + outside)


def _fits(hand, kind):
    return bool(((kind.lo <= hand) & (hand <= kind.hi))[list(FIELDS)].all())


def test_a_convention_card_shows_every_opening():
    page = convention_card(loader.load("precision"))
    assert page.startswith("# Convention card: precision\n")
    openings = page.split("## ")[1]
    assert "| 1C | Strong club: 16+ points, conventional, forcing, alert |" in openings
    rows = [line.split(" | ")[0] for line in openings.splitlines() if line.startswith("| 1")]
    assert rows == ["| 1C", "| 1D", "| 1H", "| 1S", "| 1N"]


FORCED = (
    "system mine\nat opening\n  1S | 12+ hcp, S 5+ | Spades\n  P | anything | Pass\n"
    "at 1S (P)\n  2S | 10+ hcp, S 3+ | Raise | raise, game-forcing\n  2N | anything | Nothing\n"
    "at 1S (P) 2S (P)\n  4S | 16+ hcp | Game | sign-off\n"
    "at anywhere if may pass\n  P | anything | Pass\n"
)


def unchecked(path):
    """Load a system file without its checks."""
    head, places = parser.parse_file(path)
    return build_system(head["system"], "", places)[0]


def test_a_forced_hand_without_a_rule_makes_the_cheapest_bid_of_a_shown_suit(tmp_path):
    """After a game-forcing raise a minimum opening has no rule: it bids three spades, not a pass,
    and a file with such a place is refused when it is loaded."""
    path = tmp_path / "mine.bidding"
    path.write_text(FORCED)
    with pytest.raises(UserError, match=r"a gap: .* has no call at '1S \(P\) 2S \(P\)'"):
        loader.load(path)
    system = unchecked(path)
    north, south = hand_of("AKQ32.K32.J32.32"), hand_of("J54.AQ4.KQ4.7654")
    silent = hand_of("T9.T9876.T987.T9")
    calls = bid_auctions(
        np.array([[north, silent, south, silent]]), *np.zeros((2, 1), int), system, system
    )
    assert [CALLS[call] for call in calls[0, :5]] == ["1S", "P", "2S", "P", "3S"]
    before = calls[0, :4].tolist()
    assert rule_for_hand(int(north), before, 0, 0, system, system) is None


def test_in_a_game_force_the_default_is_a_double_where_a_pass_ends_the_auction(tmp_path):
    """East overcalls; after two passes North, without a rule, doubles rather than let them play. In
    a game force without a shown suit the default is the cheapest notrump."""
    path = tmp_path / "mine.bidding"
    text = (
        "system mine\nat opening\n  1N | 12+ hcp | Strong | game-forcing\n  P | anything | Pass\n"
        "at 1N (2S)\n  P | anything | Nothing\nat 1N (2S) P (P)\n  4S | S 13 | Never\n"
        "at 1N (P)\n  2C | anything | Waiting\nat 1N (P) 2C (P)\n  4S | S 13 | Never\n"
        "at (1N)\n  2S | S 7+ | Spades\n"
        "at anywhere if may pass\n  P | anything | Pass\n"
    )
    path.write_text(text)
    system = unchecked(path)
    north, south = hand_of("2.AKQ2.AKQ2.5432"), hand_of("43.J543.J543.AK6")
    for east, made in (
        ("AKQJT98.T98.T9.7", ["1N", "2S", "P", "P", "X"]),
        ("AKQJT9.T98.T9.87", ["1N", "P", "2C", "P", "2N"]),
    ):
        silent = hand_of("765.76.876.QJT98")
        calls = bid_auctions(
            np.array([[north, hand_of(east), south, silent]]),
            *np.zeros((2, 1), int),
            system,
            system,
        )
        assert [CALLS[call] for call in calls[0, :5]] == made


def test_a_call_that_an_earlier_rule_always_takes_is_not_listed():
    """Natural has general rules for 3NT and 6NT in reply to one heart, but makes other calls."""
    rules = loader.load("natural")
    calls = auction_rules.parse_calls("1H P")
    listed = [CALLS[call] for call in possible_calls(calls, 0, 0, rules, rules)]
    assert "6N" not in listed
    assert {"1S", "1N", "2C", "2D", "2H", "2N", "P"} <= set(listed)


def test_a_rule_that_passes_a_forcing_bid_is_refused(tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text(FORCED.replace("4S | 16+ hcp | Game | sign-off", "P | anything | Enough"))
    with pytest.raises(
        UserError, match=r"line 9: rule 'Enough' passes a forcing call \(mine.bidding, line 6\)"
    ):
        loader.load(path)


def test_a_call_can_be_forcing_only_for_a_player_who_has_not_passed(tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nat opening\n  1S | 12+ hcp, S 5+ | Spades\n  P | anything | Pass\n"
        "at 1S (P)\n  1N | 6+ hcp | Notrump | forcing if unpassed\n  P | anything | Pass\n"
        "at 1S (P) 1N (P)\n  P | anything if partner passed | Enough\n"
        "  2S | anything | Spades\n"
        "at anywhere if may pass\n  P | anything | Pass\n"
    )
    rules = loader.load(path)
    for auction, words in (("1S P 1N", "forcing"), ("P P 1S P 1N", "not forcing")):
        *_, said = explain_calls(auction_rules.parse_calls(auction), 0, 0, rules, rules)
        assert said.endswith(f", {words}")


def test_a_rule_can_ask_what_is_possible_opposite_partners_maximum(tmp_path):
    """With partner's 15 to 17 points, 16 make 33 points possible, and 15 do not."""
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nat opening\n  1N | 15-17 hcp | Strong\n  P | anything | Pass\n"
        "at 1N (P)\n  4N | possible 33+ hcp | Slam try\n  3N | together 25+ hcp | Game\n"
        "  P | anything | Pass\nat anywhere\n  P | anything | Pass\n"
    )
    rules = loader.load(path)
    calls = auction_rules.parse_calls("1N P")
    for hand, made in (("AK32.AQ2.K32.432", "4N"), ("AK32.AQ2.Q32.432", "3N")):
        rule = rule_for_hand(int(hand_of(hand)), calls, 0, 0, rules, rules)
        assert rule is not None
        assert rule.call == made


@pytest.mark.parametrize("name", SHIPPED)
def test_the_packages_systems_pass_no_forcing_bid_and_reach_game(name):
    """The limits lie beyond the figures of docs/bidding.md by three standard errors or more."""
    found = system_check.check_system(loader.load(name), 12_000, np.random.default_rng(5)).figures
    assert found["forcing_passed"] == found["game_force_passed"] == found["no_rule_forced"] == 0
    assert found["no_rule"] < 0.005
    assert found["below_game"] < 0.085
    assert found["below_slam"] < 0.33
    assert 0.039 < found["slams"] < 0.053


def test_the_check_names_the_place_and_the_hand_without_a_rule():
    found = system_check.check_system(loader.load("natural"), 4000, np.random.default_rng(1), 2)
    first = found.findings[0]
    assert first.kind == "no rule"
    assert (first.call, first.rule) == ("P", "no rule")
    assert len([each for each in found.findings if each.kind == "no rule"]) == 2


def test_a_system_gains_nothing_over_the_contracts_that_it_bid_itself(rng):
    """Boards that natural bid against silent opponents, bid again by natural: every contract is the
    same, whatever the tricks."""
    rules = loader.load("natural")
    holder = random_deals(60, rng)
    dealer, vulnerable = np.zeros((2, 60), int)
    calls = bid_auctions(hand_bits(holder), dealer, vulnerable, rules, system_check.silent_system())
    boards = [
        Board(
            holder[k], "N", "None", tuple(CALLS[call] for call in calls[k] if call >= 0),
            table=rng.integers(4, 13, (4, 5)).astype(np.int8),
        )
        for k in range(60)
    ]  # fmt: skip
    found = system_check.one_sided_result(rules, boards)
    assert found["boards"] > 20
    assert (found["imps"], found["imps_se"]) == (0, 0)
    cut = [replace(board, auction=board.auction[:-1], contract=None) for board in boards]
    assert system_check.one_sided_result(rules, cut) == {"boards": 0}
    unsolved = [Board(holder[0], "N", "None")]
    assert system_check.one_sided_result(rules, unsolved) == {"boards": 0}
    with pytest.raises(UserError, match="no board of the file has a double-dummy table"):
        system_check.solved_deals(unsolved)


def test_a_recorded_auction_may_be_longer_than_those_of_a_system():
    """North-South name all 35 bids in 72 calls. Natural passes their hands out, and so loses the
    1,520 points of 7N made, which are 17 IMPs."""
    deal = parse_deal("N:5432.432.432.432 AKQ.AKQ.AKQ.AKQJ 9876.765.765.765 JT.JT98.JT98.T98")
    auction = [call for bid in CALLS[:35] for call in (bid, "P")] + ["P", "P"]
    board = Board(deal, "N", "None", tuple(auction), table=np.full((4, 5), 13, np.int8))
    found = system_check.one_sided_result(loader.load("natural"), [board])
    assert found == {"boards": 1, "imps": -17, "imps_se": None}


def test_agreement_with_mixed_systems_reads_each_side_by_its_own_system(rng):
    natural, precision = loader.load("natural"), loader.load("precision")
    cards, dealer, vulnerable = dealt(400, rng)
    calls = bid_auctions(cards, dealer, vulnerable, natural, precision)
    seat = (dealer[:, None] + np.arange(calls.shape[1])) % 4
    counted = (calls >= 0) & (seat % 2 == 0)
    of = system_agreement.RecordedAuctions(cards, dealer, vulnerable, calls, counted)
    mixed = system_agreement.follow_system(natural, of, precision)
    assert (mixed.calls == calls)[calls >= 0].all()
    alone = system_agreement.follow_system(natural, of)
    assert not (alone.calls == calls)[calls >= 0].all()


BROKEN = {
    "fits no hand": "at opening\n  1N | S 8+, balanced | Wrong\n  P | anything | Pass",
    "is never reached": "at opening\n  P | anything | Pass\n  P | 0-9 hcp | Late",
    "a gap": "at opening\n  1N | 15-17 hcp | Strong\n  P | 0-14 hcp | Pass",
    "compares a suit with itself": "at opening\n  1C | S > S | Wrong",
    "never applies: H above S": "at 1H (P) if H above S\n  P | anything | Pass",
    "is not a term for a hand": "at opening\n  1N | 15-17 hpc | Strong",
    "of two hands add up": "at opening\n  1N | together 8+ losers | Wrong",
    "is not a condition on an auction": "at 1N (P) if sober\n  P | anything | Pass",
    "is not a kind of call": "at opening\n  1N | 15-17 hcp | Strong | forcefull",
    "is not a call": "at 1Z (P)\n  P | anything | Pass",
    "every other call is an opponent's": "at 1N P\n  P | anything | Pass",
    "write CALL": "at opening\n  1N 15-17 hcp",
    "is before the first place": "1N | 15-17 hcp | Strong",
    "more than 5000 rules": "at opening\n" + "  P | anything | Pass\n" * 5_001,
}


RAISE = "2N | 13+ hcp, S 4+ | Jacoby two notrump"


@pytest.mark.parametrize(
    ("wide", "reached"),
    [
        ("at 1M (P)\n  2N | 11+ hcp | Strong", False),
        ("at 1S (P) if unpassed\n  2N | 11+ hcp | Strong", True),  # a passed hand gets there
        ("at 1S (P)\n  2N | 11-12 hcp | Invitation", True),
        ("at 1H (P)\n  2N | 11+ hcp | Strong", True),
        ("at 1S (P)\n  2N | 11+ hcp | Strong | heard", True),
    ],
)
def test_an_earlier_rule_that_covers_a_later_one_takes_its_hands(wide, reached, tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text(
        f"system mine\n{wide}\nat 1S (P)\n  {RAISE}\nat anywhere\n  P | anything | Pass\n"
    )
    if reached:
        loader.load(path)
    else:
        with pytest.raises(
            UserError, match=r"line 5: rule 'Jacoby .*' is never reached: line 3, 'S"
        ):
            loader.load(path)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_faulty_file_is_refused_with_its_line(fault, tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text("system mine\n" + BROKEN[fault] + "\n")
    with pytest.raises(UserError, match=r"mine\.bidding, line [0-9]+: .*") as refused:
        loader.load(path)
    assert fault in str(refused.value)


def test_a_heard_rule_interprets_calls_and_makes_none(tmp_path, rng):
    """It takes no hand from later rules, and widens the meaning of its call."""
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nat opening\n  1N | 9-11 hcp | Mini notrump | heard\n"
        "  1N | 10-12 hcp | Weak notrump\n  P | anything | Pass\n"
    )
    rules = loader.load(path)
    (mini,) = call_meanings(auction_rules.parse_calls("1N"), 0, 0, rules, rules)
    assert (mini.lo[hand_evaluation.HCP], mini.hi[hand_evaluation.HCP]) == (
        10,
        12,
    )  # the promised range
    cards, dealer, vulnerable = dealt(500, rng)
    calls = np.full((500, 1), CALLS.index("1N"), np.int8)
    replayed = replay_auctions(cards, dealer, vulnerable, calls, rules, rules)
    points = hand_evaluation.hand_fields(cards[np.arange(500), dealer])[:, hand_evaluation.HCP]
    assert (replayed.width == 4).all()
    assert np.array_equal(replayed.true[:, 0], (points >= 9) & (points <= 12))
    first = bid_auctions(cards, dealer, vulnerable, rules, rules)[:, 0]
    assert np.array_equal(first == CALLS.index("1N"), (points >= 10) & (points <= 12))


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("  1N | anything | Any | heard\n  P | 0-14 hcp | Pass", "a gap"),
        ("  1N | S 8+, balanced | Wrong | heard\n  P | anything | Pass", "fits no hand"),
    ],
)
def test_a_heard_rule_fills_no_gap_and_must_fit_some_hand(rules, fault, tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text(f"system mine\nat opening\n{rules}\n")
    with pytest.raises(UserError, match=fault):
        loader.load(path)


def test_circular_bases_and_binary_files_are_refused(tmp_path):
    place = "at opening\n  P | anything | Pass\n"
    (tmp_path / "a.bidding").write_text(f"system a\nbased on b\n{place}")
    (tmp_path / "b.bidding").write_text(f"system b\nbased on a\n{place}")
    with pytest.raises(UserError, match="which is based on it"):
        loader.load(tmp_path / "a.bidding")
    (tmp_path / "c.bidding").write_bytes(b"system c\n\xff")
    with pytest.raises(UserError, match="UTF-8"):
        loader.load(tmp_path / "c.bidding")
    (tmp_path / "d.bidding").write_text("system d\n")
    with pytest.raises(UserError, match="no places"):
        loader.load(tmp_path / "d.bidding")


def test_calls_reveal_only_their_meaning(rng):
    """Replaying the calls alone gives the same shown ranges as bidding with the hands."""
    rules = loader.load("natural")
    of = dealt(3000, rng)
    calls = bid_auctions(*of, rules, rules)
    other_hands = (hand_bits(random_deals(3000, rng)), *of[1:])
    read, bid = (
        replay_auctions(*other_hands, calls, rules, rules),
        replay_auctions(*of, calls, rules, rules),
    )
    assert np.array_equal(read.read, bid.read)
    assert np.array_equal(read.width, bid.width)
    assert np.array_equal(bid.calls[calls >= 0], calls[calls >= 0])


def test_partners_use_the_promised_range_and_opponents_the_shown_range(tmp_path):
    """A rule of kind heard widens the shown range of a call and not its promised one; a rare rule
    does the opposite."""
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nat opening\n  1N | 15-17 hcp | Strong\n  1N | 18+ hcp | Big | rare\n"
        "  1N | 14-17 hcp | Stretched | heard\n  P | anything | Pass\n"
        "at anywhere\n  3N | together 25+ hcp | Game\n  P | anything | Pass\n"
    )
    rules = loader.load(path)
    north, others = hand_of("AK32.AK.AQ32.A32"), [hand_of("J852.Q7.K9832.42")] * 3
    calls = bid_auctions(np.array([[north, *others]]), *np.zeros((2, 1), int), rules, rules)
    assert auction_rules.CALLS[calls[0, 0]] == "1N"
    opening = call_meanings(auction_rules.parse_calls("1N"), 0, 0, rules, rules)[0]
    assert opening.lo[hand_evaluation.HCP] == 15
    ten = np.array([[north, north, hand_of("KQ2.Q92.K9832.42"), north]])
    found = replay_auctions(
        ten, *np.zeros((2, 1), int), np.array([auction_rules.parse_calls("1N P P")]), rules, rules
    )
    assert found.width[0, 0] == 4
    assert not found.true[0, 0]
    assert auction_rules.CALLS[found.calls[0, 2]] == "3N"  # 10 points with 15, not with 14


def test_a_call_without_a_rule_has_no_meaning_but_keeps_the_agreed_suit(tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text(
        "system mine\nat opening\n"
        "  1S | S 5+ | Spades | natural, keycards S, agrees S, extra, slam try\n"
        "  P | anything | Pass\nat anywhere\n  P | anything | Pass\n"
    )
    rules = loader.load(path)
    calls = auction_rules.parse_calls("1S P P X 2H")
    first, *_, last = call_meanings(calls, 0, 0, rules, rules)
    nothing = [0, 0, 0, -1, 3, -1, -1]
    assert last.said.tolist() == nothing
    assert first.said.tolist()[2:] == [1, 3, 3, 3, 1]


def test_key_card_responses():
    rules = loader.load("natural")
    answer = call_meanings(auction_rules.parse_calls("1S P 3S P 4N P 5C"), 0, 0, rules, rules)[-1]
    code = hand_evaluation.KEYCODE + 3
    assert (answer.lo[code], answer.hi[code]) == (1, 1)


def test_responses_for_the_queen_of_trumps_and_kings():
    natural, precision = map(loader.load, ("natural", "precision"))
    queen = call_meanings(
        auction_rules.parse_calls("1S P 3S P 4N P 5C P 5D P 6S"), 0, 0, natural, natural
    )[-1]
    assert queen.lo[hand_evaluation.QUEEN + 3] == 1
    kings = call_meanings(
        auction_rules.parse_calls("1S P 3S P 4N P 5C P 5N P 6D"), 0, 0, natural, natural
    )[-1]
    assert (kings.lo[hand_evaluation.KINGS], kings.hi[hand_evaluation.KINGS]) == (1, 1)
    king = call_meanings(
        auction_rules.parse_calls("1S P 3S P 4N P 5C P 5N P 6D"), 0, 0, precision, precision
    )[-1]
    assert (king.lo[hand_evaluation.KING + 1], king.hi[hand_evaluation.KING]) == (1, 0)


def test_a_rebid_shows_extra_values_or_a_minimum():
    rules = loader.load("natural")
    for auction_so_far, power in (("1D P 1S P 3D", 1), ("1D P 1S P 1N", 0), ("1D P 1S P 2C", -1)):
        meaning = call_meanings(auction_rules.parse_calls(auction_so_far), 0, 0, rules, rules)[
            -1
        ].said
        assert meaning[POWER] == power


def test_a_file_without_a_name_or_with_an_unknown_base_is_refused(tmp_path):
    path = tmp_path / "mine.bidding"
    path.write_text("at opening\n  P | anything | Pass\n")
    with pytest.raises(UserError, match="begin with 'system NAME'"):
        loader.load(path)
    path.write_text("system mine\nbased on nothing\nat opening\n  P | anything | Pass\n")
    with pytest.raises(UserError, match="based on 'nothing'"):
        loader.load(path)
    with pytest.raises(UserError, match="did you mean 'natural'"):
        loader.load("naturel")
