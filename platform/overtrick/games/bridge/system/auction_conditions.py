"""Parse the conditions on the auction in a bidding-system file, such as `seat 3`.

A condition is parsed to interval checks lo <= x <= hi. Here x is an integer feature of the auction,
from the point of view of the seat to call, such as the level of the last bid. The list
public_knowledge.VIEW_FIELDS names these features.
"""

from __future__ import annotations

from collections.abc import Sequence

from overtrick.core import UserError, suggestion
from overtrick.games.bridge.auction_rules import STRAIN_LETTERS
from overtrick.games.bridge.system.hand_terms import UNBOUNDED, RangeTest, parse_range
from overtrick.games.bridge.system.public_knowledge import VIEW

FLAGS = {
    "passed": ("passed", 1, 1),
    "unpassed": ("passed", 0, 0),
    "partner passed": ("partner passed", 1, 1),
    "partner unpassed": ("partner passed", 0, 0),
    "vulnerable": ("vulnerable", 1, 1),
    "not vulnerable": ("vulnerable", 0, 0),
    "they vulnerable": ("they vulnerable", 1, 1),
    "they not vulnerable": ("they vulnerable", 0, 0),
    "invited": ("invited", 1, 1),
    "forced": ("forced", 1, 1),
    "not forced": ("forced", 0, 0),
    "must bid": ("must bid", 1, 1),
    "may pass": ("must bid", 0, 0),
    "game forced": ("game forced", 1, 1),
    "not game forced": ("game forced", 0, 0),
    "quiet": ("their calls", 0, 0),
    "contested": ("their calls", 1, UNBOUNDED),
    "doubled": ("doubled", 1, 1),
    "not doubled": ("doubled", 0, 0),
    "agreed": ("agreed", 0, 4),
    "not agreed": ("agreed", -1, -1),
    "balancing": ("passes", 2, 2),
    "not balancing": ("passes", 0, 1),
    "last ours": ("last ours", 1, 1),
    "last mine": ("last by", 0, 0),
    "last partner": ("last by", 2, 2),
    "opened by me": ("opened by", 0, 0),
    "not opened by me": ("opened by", 1, 3),
    "opened by lho": ("opened by", 1, 1),
    "opened by partner": ("opened by", 2, 2),
    "opened by rho": ("opened by", 3, 3),
}
"""Conditions without numbers: the field of the view, and its lowest and highest value."""

COUNTS = ("calls", "partner calls", "their calls", "level", "passes")


def parse_condition(term: str) -> tuple[RangeTest, ...]:
    """Parse a condition on the auction, such as "seat 3", as interval checks.

    Each check is of an integer feature of the auction (public_knowledge.VIEW). Raises UserError for
    an unknown condition.
    """
    if term in FLAGS:
        name, lo, hi = FLAGS[term]
        return (RangeTest(VIEW[name], lo, hi),)
    if term == "last theirs":
        return (RangeTest(VIEW["level"], 1, 7), RangeTest(VIEW["last ours"], 0, 0))
    found = _parse_count(term.split()) or _parse_promised(term.split())
    if found is None:
        hint = suggestion(term, [*FLAGS, *COUNTS])
        raise UserError(
            f"'{term}' is not a condition on an auction, such as seat 3, level 1-2, calls 1, "
            "partner S 4+, they H 4+, partner hcp 12+, partner hcp to 17 or agreed S: "
            f"{hint}"
        )
    return (found,)


def _parse_count(words: Sequence[str]) -> RangeTest | None:
    """Parse a condition such as "calls 1+", "seat 3" or "agreed H"; None for other conditions.

    words: the words of the condition.
    """
    ends, name = parse_range(words[-1]), " ".join(words[:-1])
    if ends and name in COUNTS:
        return RangeTest(VIEW[name], *ends)
    if ends and name == "seat":
        return RangeTest(VIEW["seat"], ends[0] - 1, ends[1] - 1)
    if name in ("last", "agreed") and words[-1] in STRAIN_LETTERS:
        strain = STRAIN_LETTERS.index(words[-1])
        return RangeTest(VIEW[name], strain, strain)
    return None


def _parse_promised(words: Sequence[str]) -> RangeTest | None:
    """Parse a condition on the hand that another player's calls promise; None for other conditions.

    Examples are "partner S 4+" (at least four spades) and "partner hcp to 17". words: the words of
    the condition.
    """
    ends = parse_range(words[-1])
    if not ends or len(words) not in (3, 4):
        return None
    who, what = words[:2]
    what = what if what in ("hcp", "total") else f"length {what}"
    if len(words) == 3 and f"{who} lo {what}" in VIEW:
        return RangeTest(VIEW[f"{who} lo {what}"], *ends)
    if len(words) == 4 and words[2] == "to" and f"{who} hi {what}" in VIEW:
        return RangeTest(VIEW[f"{who} hi {what}"], 0, ends[0])
    return None


def evaluate_suit_order(term: str) -> bool | None:
    """Return whether a comparison of suit ranks, such as "H above S", is true.

    Return None for any other term.
    """
    words = term.split()
    if len(words) < 3 or not {words[0], words[-1]} <= set(STRAIN_LETTERS):
        return None
    one, other = STRAIN_LETTERS.index(words[0]), STRAIN_LETTERS.index(words[-1])
    known = {"above": one > other, "below": one < other, "is": one == other, "is not": one != other}
    return known.get(" ".join(words[1:-1]))
