"""Laws of explanations: a hand by which a system makes a call is within what it prints, and the
words of a line say which hands are within it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from overtrick.core import Array
from overtrick.evaluation import system_agreement
from overtrick.evaluation.system_agreement import RecordedAuctions
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import PASS
from overtrick.games.bridge.cards import hand_bits, parse_hand, random_deals
from overtrick.games.bridge.system import hand_evaluation as hand
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import call_meanings, trace_auctions
from overtrick.games.bridge.system.explanation import (
    SUIT_NAMES,
    Condition,
    ExplanationLine,
    explain_meaning,
    explanation_lines,
)
from overtrick.games.bridge.system.rule_matching import NO_RULE


def lines_of(auction: str, system: str = "natural") -> list[ExplanationLine]:
    """Return the explanation of the last call of an auction."""
    rules, calls = loader.load(system), auction_rules.parse_calls(auction)
    return explain_meaning(call_meanings(calls, 0, 0, rules, rules)[-1])


def fields_of(*hands: str) -> Array:
    """Return the features (N, H) of hands in PBN notation."""
    return hand.hand_fields(
        np.array([sum(1 << card for card in parse_hand(each)) for each in hands])
    )


@pytest.mark.parametrize(
    ("auction", "cards", "within"),
    [
        ("1N", "A752.T8.KQJ4.AQ3", True),  # 16 points, balanced
        ("1N", "A752.T8.QJT4.AJ3", False),  # 12 points
        ("1N", "A7542.8.KQJ42.AK", False),  # 17 points, a singleton
        ("1N P 2C", "K752.T85.Q874.A3", True),  # 9 points, four spades
        ("1N P 2C", "75.T8.Q8742.A973", True),  # some players: no major
        ("1N P 2C", "752.T85.8742.973", False),  # no points
        ("1N P 2H", "KJ752.T8.874.973", True),
        ("1N P 2H", "KJ72.T85.874.973", False),  # four spades
        ("2H", "43.QJ7532.862.K8", True),
        ("2H", "43.QJ75.8632.KT8", False),  # four hearts
        ("1S P 4N P 5H", "K9752.AK5.Q74.93", True),  # the ace and the king of trumps
        ("1S P 4N P 5H", "AK752.AK5.Q74.93", False),  # three key cards
        ("1S P 4N P 5H", "KQ752.AK5.Q74.93", False),  # the queen of trumps, too
        ("1H X", "AQ52.4.KJ74.KT93", True),
        ("1H X", "AK2.AQJ4.KQ74.93", True),  # 19 points, whatever the shape
        ("1H X", "52.QJ954.J74.T93", False),
    ],
)
def test_a_hand_is_within_an_explanation_or_not(auction: str, cards: str, within: bool) -> None:
    assert any(line.fits(fields_of(cards))[0] for line in lines_of(auction)) == within


@pytest.mark.parametrize(
    ("ranges", "width"),
    [
        ([(15, 17)], 3),
        ([(15, 17), (20, 21)], 5),
        ([(15, 17), (16, 19)], 5),
        ([(17, 37)], 8),  # 99 of 100 hands with 17 or more points have at most 24
        ([(0, 9)], 10),
        ([], 21),  # 99 of 100 hands have at most 20 points
    ],
)
def test_the_width_counts_each_number_of_points_once(
    ranges: list[tuple[int, int]], width: int
) -> None:
    lines = [ExplanationLine("", (Condition("", hand.HCP, *each),), ()) for each in ranges]
    assert system_agreement.points_width(lines) == width
    if ranges:
        without = ExplanationLine("", (Condition("balanced", hand.SHAPE, 2, 2),), ())
        assert system_agreement.points_width([*lines, without]) >= 21


@pytest.mark.parametrize("system", loader.system_names())
def test_hands_that_make_a_call_are_within_its_explanation(
    system: str, rng: np.random.Generator
) -> None:
    """Three kinds of hands are left out: those that make the call by a rare rule, or this or an
    earlier call without a rule; and those with more than three points for length, which ranges of
    high-card points that follow from total points do not expect."""
    rules, games = loader.load(system), 1000
    hands = hand_bits(random_deals(games, rng))
    dealer, vulnerable = rng.integers(4, size=(2, games))
    traced = trace_auctions(hands, dealer, vulnerable, rules, rules)
    rare = np.array(["rare" in rule.kinds for rule in rules.rules])[traced.rule]
    ruled = traced.rule != NO_RULE
    for at in range(4, ruled.shape[1]):
        ruled[:, at] &= ruled[:, at - 4]
    seats = (dealer[:, None] + np.arange(ruled.shape[1])) % 4
    fields = hand.hand_fields(hands.reshape(-1)).reshape(games, 4, -1)
    for_length = fields[:, :, hand.TOTAL] - fields[:, :, hand.HCP]
    made = (traced.calls >= 0) & (traced.calls != PASS)
    usual = made & ruled & ~rare & (np.take_along_axis(for_length, seats, axis=1) <= 3)
    of = RecordedAuctions(hands, dealer, vulnerable, traced.calls, traced.calls >= 0)
    found = system_agreement.explain_recorded(rules, of)
    assert usual.sum() > 0.9 * made.sum()
    assert found.within[usual].all()
    assert found.within[made].mean() > 0.99
    assert not found.within[~made].any()


def test_an_auction_is_explained_alike_for_every_dealer_and_both_sides(
    rng: np.random.Generator,
) -> None:
    """The explanation of natural's calls against precision does not depend on the seats."""
    ours, theirs = loader.load("natural"), loader.load("precision")
    hands = hand_bits(random_deals(100, rng))
    calls = trace_auctions(hands, np.zeros(100), np.ones(100), ours, theirs).calls
    side = np.arange(calls.shape[1])[None] % 2
    seen = []
    for dealer, vulnerable in ((0, 1), (1, 2), (2, 1), (3, 2)):
        turned = np.roll(hands, dealer, axis=1)
        counted = (calls >= 0) & (side == 0)
        of = RecordedAuctions(
            turned, np.full(100, dealer), np.full(100, vulnerable), calls, counted
        )
        seen.append(system_agreement.explain_recorded(ours, of, theirs))
        assert seen[-1].within.sum() > 0
    for each in seen[1:]:
        assert np.array_equal(each.within, seen[0].within)
        assert np.array_equal(each.width, seen[0].width)


def read_term(term: str, cards: Array) -> Array | None:
    """Return which hands (N, H) satisfy a term of a printed line; None for words about the call."""
    shapes = {"balanced": 2, "nearly balanced": 1}
    if term in shapes:
        return cards[:, hand.SHAPE] >= shapes[term]
    if term == "unbalanced":
        return cards[:, hand.SHAPE] < 2
    if term in ("with the queen", "without the queen"):
        return None
    number = re.fullmatch(r"(at most )?(\d+)(-(\d+)|\+)? (points?|aces?|\w+s?)", term)
    if number is None:
        return None
    noun = number[5] if number[5].endswith("s") else f"{number[5]}s"
    fields = {"points": hand.HCP, "aces": hand.ACES}
    fields |= {name: hand.LENGTH + suit for suit, name in enumerate(SUIT_NAMES)}
    value, limit = cards[:, fields[noun]], int(number[2])
    if number[1]:
        return value <= limit
    most = limit if number[3] is None else int(number[4] or 40)
    return (value >= limit) & (value <= most)


HONOURS = re.compile(r"stopped|controlled|good|key cards|queen")


@pytest.mark.parametrize("system", loader.system_names())
def test_the_words_of_a_line_say_which_hands_are_within_it(
    system: str, rng: np.random.Generator
) -> None:
    """The words are read again, without the conditions from which they were made."""
    rules, read = loader.load(system), 0
    hands = hand_bits(random_deals(100, rng))
    calls = trace_auctions(hands, np.zeros(100), np.zeros(100), rules, rules).calls
    cards = hand.hand_fields(hand_bits(random_deals(500, rng)).reshape(-1))
    for row in calls:
        for meaning in call_meanings(row[row >= 0].tolist(), 0, 0, rules, rules):
            lines = explain_meaning(meaning)
            if lines:
                assert [line.text for line in lines] == explanation_lines(meaning)
            for line in lines:
                text = line.text.removeprefix(line.name).removeprefix(": ")
                if HONOURS.search(text):
                    continue
                terms = [read_term(term, cards) for term in text.split(", ")]
                expected = np.ones(len(cards), np.bool_)
                for term in terms:
                    expected &= True if term is None else term
                assert np.array_equal(line.fits(cards), expected), text
                read += any(term is not None for term in terms)
    assert read > 1000
