"""Parse two parts of a bidding-system file: hand terms and auction patterns.

A hand term such as `12-14 hcp` becomes a range test of one hand feature (hand_evaluation.FIELDS).
An auction pattern such as `1S (P) 2S (X)` becomes a bit mask of allowed calls for each of its
calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from types import MappingProxyType

from overtrick.core import UserError
from overtrick.games.bridge.auction_rules import CALLS, PASS, STRAIN_LETTERS
from overtrick.games.bridge.cards import SUITS
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.public_knowledge import VIEW

LETTERS = {"M": "HS", "m": "CD", "x": "SHDC", "y": "SHDC", "z": "SHDC", "t": "SHDC"}
"""Suit variables, each with the suits that it may stand for. Different letters stand for different
suits. M is a major and m a minor. Letters are assigned in this order."""

OTHER = {"oM": ("M", "HS"), "om": ("m", "CD")}
"""Suit variables oM and om: the major other than M, and the minor other than m."""
FIELD = {name: index for index, name in enumerate(hand_evaluation.FIELDS)}
UNBOUNDED = 99  # upper bound that no hand field or view field reaches
NO_REF = -1
REMEMBERED = 1 << 14
"""Number of texts whose parsed form is kept: the same terms stand in thousands of rules."""
ADDED_TO = {name: name for name in ("hcp", "total", "adjusted")} | {
    f"support {suit}": "total" for suit in SUITS
}
"""Points of the own hand that `together` accepts, each with the points of partner it adds."""
PARTNERS_END = {"together": "lo", "possible": "hi"}
"""End of partner's promised range that a term about the points of both hands adds."""


@dataclass(frozen=True, order=True)
class RangeTest:
    """Interval check of a hand feature, of a hand and partner's together, or of an auction feature.

    Here `hand` is the array of hand features (hand_evaluation.FIELDS), and `view` is the array of
    auction features (public_knowledge.VIEW).

    - hand feature: lo <= hand[index] <= hi, and `ref` is NO_REF
    - both hands: lo <= hand[index] + view[ref] <= hi. Here view[ref] is the minimum that partner
      has promised, such as the number of spades for an eight-card fit, or the maximum.
    - auction feature: lo <= view[index] <= hi
    """

    index: int  # index in hand_evaluation.FIELDS, or in public_knowledge.VIEW for a condition
    lo: int
    hi: int
    ref: int = NO_REF


@dataclass(frozen=True)
class Pattern:
    """Pattern that the calls before a decision must match, as bit masks of allowed calls."""

    masks: tuple[int, ...]  # bit mask of allowed calls for each call, most recent call first
    whole: bool  # the pattern covers all calls since the opening bid, not only the last calls


Suits = Mapping[str, str]  # suit letter by suit variable


@lru_cache(REMEMBERED)
def suit_assignments(letters: frozenset[str]) -> tuple[Suits, ...]:
    """Return every assignment of suits to suit variables, such as {"M": "H", "oM": "S"}.

    M stands for a major, m for a minor, and x, y, z and t for any suit. Different letters get
    different suits. oM is the major other than M, and om the minor other than m; an assignment with
    M always contains oM, and one with m contains om. letters: the variables to assign.
    """
    plain = sorted({OTHER.get(one, (one,))[0] for one in letters}, key=list(LETTERS).index)
    found = []
    for chosen in permutations("SHDC", len(plain)):
        suits = dict(zip(plain, chosen, strict=True))
        if all(suit in LETTERS[letter] for letter, suit in suits.items()):
            for name, (of, pair) in OTHER.items():
                if of in suits:
                    suits[name] = pair[1 - pair.index(suits[of])]
            found.append(MappingProxyType(suits))
    return tuple(found)


@lru_cache(REMEMBERED)
def suit_letters(text: str) -> frozenset[str]:
    """Return the suit variables in a text of a bidding-system file.

    For "2M oM 4+" they are {"M", "oM"}: M stands for a major, and oM for the other major.
    """
    words = (re.sub(r"^[1-7]", "", word) for word in re.findall(r"[A-Za-z0-9]+", text))
    return frozenset(word for word in words if word in LETTERS or word in OTHER)


def substitute_suits(text: str, suits: Suits) -> str:
    """Replace the suit variables of a text by their suits: "2M" becomes "2H" if M is hearts.

    suits: the suit to substitute for each suit variable.
    """
    if suits.keys().isdisjoint(suit_letters(text)):
        return text
    return re.sub(
        r"\b([1-7]?)([A-Za-z]+)\b", lambda match: match[1] + suits.get(match[2], match[2]), text
    )


def parse_range(text: str) -> tuple[int, int] | None:
    """Parse 15-17, 12+ or 5 as (lowest, highest); return None for any other text.

    The highest value of 12+ is UNBOUNDED.
    """
    match = re.fullmatch(r"(\d{1,2})(?:(\+)|-(\d{1,2}))?", text)
    if match is None:
        return None
    return int(match[1]), UNBOUNDED if match[2] else int(match[3] or match[1])


GROUPS = {
    "any": (1 << 38) - 1,
    "bid": (1 << 35) - 1,
    "act": ((1 << 38) - 1) & ~(1 << PASS),
    "suit": sum(1 << call for call in range(35) if call % 5 < 4),
}
"""Bit masks of named sets of calls: any call; any bid; any call except a pass; any suit bid."""


@lru_cache(REMEMBERED)
def parse_pattern(text: str) -> Pattern:
    """Parse a pattern of the auction before a call, with opponents' calls in brackets.

    There are four forms:

    - "1S (P) 2S (X)" matches an auction with exactly these calls from the opening bid on
    - "... 4N (P)" matches every auction that ends with these calls
    - "opening" matches an auction without a bid
    - "anywhere" matches every auction

    Raises UserError for an unknown call, and for missing or misplaced brackets.
    """
    if text in ("opening", "anywhere"):
        return Pattern((), text == "opening")
    words = text.split()
    whole = words[:1] != ["..."]
    words = words if whole else words[1:]
    if not words:
        raise UserError("no calls: write 'opening', 'anywhere', or calls such as 1S (P) 2S (X)")
    masks = []
    for back, word in enumerate(reversed(words), 1):
        theirs = word.startswith("(")
        if theirs != (back % 2 == 1) or theirs != word.endswith(")"):
            raise UserError(
                f"'{text}': every other call is an opponent's, in brackets, including the last"
            )
        masks.append(_parse_calls(word.strip("()")))
    return Pattern(tuple(masks), whole)


def _parse_calls(word: str) -> int:
    """Parse alternatives for one call, such as "1C/1D", as a bit mask of allowed calls.

    An alternative is one of these words; for any other word, raise UserError:

    - a call, such as "1C"
    - a question mark and a strain: "?S" allows spade bids at all levels
    - "bid" (all bids) or another name in GROUPS
    """
    mask = 0
    for one in word.split("/"):
        levels = re.fullmatch(r"\?([CDHSN])", one)
        if one in CALLS:
            mask |= 1 << CALLS.index(one)
        elif levels:
            mask |= sum(1 << (5 * k + STRAIN_LETTERS.index(levels[1])) for k in range(7))
        elif one in GROUPS:
            mask |= GROUPS[one]
        else:
            raise UserError(f"'{one}' is not a call: write 1C to 7N, P, X, XX, {', '.join(GROUPS)}")
    return mask


SHAPES = {"balanced": (2, 2), "semibalanced": (1, 2), "unbalanced": (0, 1), "shapely": (0, 0)}
YES_NO = {"king": "king", "queen": "queen", "stop": "stopper"}


@lru_cache(REMEMBERED)
def parse_hand_term(term: str) -> RangeTest | None:
    """Parse a term about the hand, such as "12-14 hcp", as a range test; None for "anything".

    Suit variables must have been substituted before. Raises UserError for an unknown term.
    """
    words = term.split()
    if words == ["anything"]:
        return None
    if term in SHAPES:
        return RangeTest(hand_evaluation.SHAPE, *SHAPES[term])
    for parse in (_hand_field, _suit_field, _yes_or_no, _sum_with_partner, _suit_comparison):
        if (found := parse(words)) is not None:
            return found
    raise UserError(
        f"'{term}' is not a term for a hand. Examples: 12-14 hcp, S 5+, balanced, S >= H, "
        f"stop D, strength H 4+, fit S 8+, together 25+ hcp (fields: "
        f"{', '.join(hand_evaluation.PLAIN)}; of a suit: {', '.join(hand_evaluation.BY_SUIT)})"
    )


def _hand_field(words: Sequence[str]) -> RangeTest | None:
    """Parse a range of a feature of the whole hand, such as "12-14 hcp"; None for other terms.

    words: the words of the term.
    """
    ends = parse_range(words[0]) if len(words) == 2 else None
    return RangeTest(FIELD[words[1]], *ends) if ends and words[1] in hand_evaluation.PLAIN else None


def _suit_field(words: Sequence[str]) -> RangeTest | None:
    """Parse a term of a bidding rule about one feature of a suit; None for other terms.

    "S 5+" means at least five spades. "strength S 4+" means top honours in spades worth at least 4,
    where the ace counts 4, the king 2 and the queen 1. `hand_evaluation.hand_fields` describes the
    features. words: the words of the term.
    """
    if len(words) == 2:
        words = ("length", *words)
    ends = parse_range(words[-1]) if len(words) == 3 else None
    field = " ".join(words[:2])
    known = words[0] in hand_evaluation.BY_SUIT and field in FIELD
    return RangeTest(FIELD[field], *ends) if ends and known else None


def _yes_or_no(words: Sequence[str]) -> RangeTest | None:
    """Parse a yes-or-no term about a suit, such as "stop S" or "no king H"; None for other terms.

    words: the words of the term.
    """
    no = words[0] == "no"
    what, *suit = words[no:] or [""]
    if what not in YES_NO or len(suit) != 1 or suit[0] not in SUITS:
        return None
    return RangeTest(FIELD[f"{YES_NO[what]} {suit[0]}"], 1 - no, 1 - no)


def _sum_with_partner(words: Sequence[str]) -> RangeTest | None:
    """Parse a term about both hands, such as "fit S 8+"; return None for other terms.

    The term becomes a range test of a sum: a feature of the own hand plus the minimum or maximum
    that partner's calls promise.

    - "fit S 8+": own spades plus partner's minimum number of spades
    - "together 25+ hcp": own high-card points plus partner's minimum
    - "together 25+ support S": own points with spades as trumps plus partner's minimum of total
      points, because only one hand counts its short suits
    - "possible 33+ hcp": own high-card points plus partner's maximum; likewise the other points

    words: the words of the term. Raises UserError for features of two hands that do not add up.
    """
    if words[0] == "fit" and len(words) == 3 and words[1] in SUITS:
        field, ends = f"length {words[1]}", parse_range(words[2])
        return RangeTest(FIELD[field], *ends, VIEW[f"partner lo {field}"]) if ends else None
    if words[0] in PARTNERS_END and len(words) > 2:
        end = PARTNERS_END[words[0]]
        field, ends = " ".join(words[2:]), parse_range(words[1])
        if field not in ADDED_TO:
            raise UserError(f"'{' '.join(words)}': only {', '.join(ADDED_TO)} of two hands add up")
        added = VIEW[f"partner {end} {ADDED_TO[field]}"]
        return RangeTest(FIELD[field], *ends, added) if ends else None
    return None


def _suit_comparison(words: Sequence[str]) -> RangeTest | None:
    """Parse a comparison of two suit lengths, "S > H", "S >= H" or "S = H"; None for other terms.

    words: the words of the term. Raises UserError if both suits are the same.
    """
    if len(words) != 3 or words[1] not in (">", ">=", "="):
        return None
    one, sign, other = words
    if not {one, other} <= set(SUITS):
        return None
    if one == other:
        raise UserError(f"'{' '.join(words)}' compares a suit with itself")
    least = 1 if sign == ">" else 0
    if f"{one}-{other}" in FIELD:
        return RangeTest(FIELD[f"{one}-{other}"], least, 0 if sign == "=" else UNBOUNDED)
    return RangeTest(FIELD[f"{other}-{one}"], 0 if sign == "=" else -UNBOUNDED, -least)
