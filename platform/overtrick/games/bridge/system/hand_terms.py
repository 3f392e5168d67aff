"""The words of a bidding system's file: calls, letters for suits, and what a call shows.

A term is turned into tests of the numbers of a hand (`hand.FIELDS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from overtrick.core import UserError
from overtrick.games.bridge.auction_rules import CALLS, PASS
from overtrick.games.bridge.auction_rules import STRAIN_LETTERS as STRAINS
from overtrick.games.bridge.cards import SUITS
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.public_knowledge import VIEW

LETTERS = {"M": "HS", "m": "CD", "x": "SHDC", "y": "SHDC", "z": "SHDC", "t": "SHDC"}
"""Letters that stand for a suit, different letters for different suits; in which order they are
tried. oM and om are the other major and the other minor."""

OTHER = {"oM": ("M", "HS"), "om": ("m", "CD")}
FIELD = {name: index for index, name in enumerate(hand_evaluation.FIELDS)}
MOST = 99  # a bound of a test that nothing reaches
NO_REF = -1


@dataclass(frozen=True, order=True)
class Test:
    """lo <= number[index] + view[ref] <= hi, where nothing is added if ref is -1."""

    index: int
    lo: int
    hi: int
    ref: int = NO_REF


@dataclass(frozen=True)
class Pattern:
    """The calls before this one, the last of them first: sets of calls as bits."""

    masks: tuple[int, ...]
    whole: bool  # from the opening bid on, and not only the last calls


Suits = Mapping[str, str]


def bindings(letters: set[str]) -> Iterator[dict[str, str]]:
    """Every way to give different suits to letters."""
    plain = sorted(
        {OTHER[one][0] if one in OTHER else one for one in letters}, key=list(LETTERS).index
    )
    for chosen in permutations("SHDC", len(plain)):
        given = dict(zip(plain, chosen, strict=True))
        if all(suit in LETTERS[letter] for letter, suit in given.items()):
            for name, (of, pair) in OTHER.items():
                if of in given:
                    given[name] = pair[1 - pair.index(given[of])]
            yield given


def letters_of(text: str) -> set[str]:
    """The letters that a text uses for suits."""
    found = set()
    for word in re.findall(r"[A-Za-z0-9]+", text):
        bare = re.sub(r"^[1-7]", "", word)
        if bare in LETTERS or bare in OTHER:
            found.add(bare)
    return found


def with_suits(text: str, suits: Suits) -> str:
    """The text with suits for its letters."""

    def put(match: re.Match[str]) -> str:
        level, word = match.group(1), match.group(2)
        return level + suits.get(word, word)

    return re.sub(r"\b([1-7]?)([A-Za-z]+)\b", put, text)


def range_of(text: str) -> tuple[int, int] | None:
    """15-17, 12+ or 5 as its ends; None for anything else."""
    match = re.fullmatch(r"(\d{1,2})(?:(\+)|-(\d{1,2}))?", text)
    if match is None:
        return None
    lo = int(match.group(1))
    if match.group(2):
        return lo, MOST
    return lo, int(match.group(3)) if match.group(3) else lo


def call_of(text: str) -> int | None:
    """The number of a call, or None."""
    return CALLS.index(text) if text in CALLS else None


GROUPS = {
    "any": (1 << 38) - 1,
    "bid": (1 << 35) - 1,
    "act": ((1 << 38) - 1) & ~(1 << PASS),
    "suit": sum(1 << call for call in range(35) if call % 5 < 4),
}
"""Words for several calls: any; a bid; all but a pass; a bid of a suit."""


def pattern_of(text: str) -> Pattern:
    """A pattern such as "1S (P) 2S (X)", opponents' calls in brackets, or "... 4N (P)"."""
    if text in ("opening", "anywhere"):
        return Pattern((), text == "opening")
    words = text.split()
    whole = words[:1] != ["..."]
    words = words if whole else words[1:]
    if not words:
        raise UserError("no calls: write 'opening', 'anywhere', or such as 1S (P) 2S (X)")
    masks = []
    for back, word in enumerate(reversed(words), 1):
        theirs = word.startswith("(")
        if theirs != (back % 2 == 1) or theirs != word.endswith(")"):
            raise UserError(
                f"'{text}': every other call is an opponent's, in brackets, also the last"
            )
        masks.append(_calls(word.strip("()")))
    return Pattern(tuple(masks), whole)


def _calls(word: str) -> int:
    mask = 0
    for one in word.split("/"):
        call = call_of(one)
        levels = re.fullmatch(r"\?([CDHSN])", one)
        if call is not None:
            mask |= 1 << call
        elif levels:
            mask |= sum(1 << (5 * k + STRAINS.index(levels.group(1))) for k in range(7))
        elif one in GROUPS:
            mask |= GROUPS[one]
        else:
            raise UserError(f"'{one}' is no call: write 1C to 7N, P, X, XX, {', '.join(GROUPS)}")
    return mask


SHAPES = {"balanced": (2, 2), "semibalanced": (1, 2), "unbalanced": (0, 1), "shapely": (0, 0)}
YES_NO = {"king": "king", "queen": "queen", "stop": "stopper"}


def shown_by(term: str) -> Test | None:
    """What a term says of the hand; None for "anything". Raises UserError."""
    words = term.split()
    if words == ["anything"]:
        return None
    if term in SHAPES:
        return Test(hand_evaluation.SHAPE, *SHAPES[term])
    for read in (_of_the_hand, _of_a_suit, _yes_or_no, _with_partner, _longer):
        if (found := read(words)) is not None:
            return found
    raise UserError(
        f"'{term}' says nothing of a hand: write such as 12-14 hcp, S 5+, balanced, S >= H, "
        f"stop D, strength H 4+, fit S 8+, together 25+ hcp (fields: "
        f"{', '.join(hand_evaluation.PLAIN)}; of a suit: {', '.join(hand_evaluation.BY_SUIT)})"
    )


def _of_the_hand(words: Sequence[str]) -> Test | None:
    """12-14 hcp."""
    ends = range_of(words[0]) if len(words) == 2 else None
    return Test(FIELD[words[1]], *ends) if ends and words[1] in hand_evaluation.PLAIN else None


def _of_a_suit(words: Sequence[str]) -> Test | None:
    """S 5+, or strength S 4+."""
    if len(words) == 2:
        words = ("length", *words)
    ends = range_of(words[-1]) if len(words) == 3 else None
    field = " ".join(words[:2])
    return (
        Test(FIELD[field], *ends)
        if ends and words[0] in hand_evaluation.BY_SUIT and field in FIELD
        else None
    )


def _yes_or_no(words: Sequence[str]) -> Test | None:
    """stop S, or no king H."""
    no = words[0] == "no"
    what, *suit = words[no:] or [""]
    if what not in YES_NO or len(suit) != 1 or suit[0] not in SUITS:
        return None
    return Test(FIELD[f"{YES_NO[what]} {suit[0]}"], 1 - no, 1 - no)


def _with_partner(words: Sequence[str]) -> Test | None:
    """fit S 8+, or together 25+ hcp, or together 25+ support S."""
    if words[0] == "fit" and len(words) == 3 and words[1] in SUITS:
        field, ends = f"length {words[1]}", range_of(words[2])
        return Test(FIELD[field], *ends, VIEW[f"partner lo {field}"]) if ends else None
    if words[0] == "together" and len(words) > 2:
        field, ends = " ".join(words[2:]), range_of(words[1])
        ref = field if field in ("hcp", "total", "adjusted") else "total"
        if ends and field in FIELD:
            return Test(FIELD[field], *ends, VIEW[f"partner lo {ref}"])
    return None


def _longer(words: Sequence[str]) -> Test | None:
    """S > H, S >= H, S = H: cards of two suits."""
    if len(words) != 3 or words[1] not in (">", ">=", "="):
        return None
    one, sign, other = words
    if not {one, other} <= set(SUITS):
        return None
    least = 1 if sign == ">" else 0
    if f"{one}-{other}" in FIELD:
        return Test(FIELD[f"{one}-{other}"], least, 0 if sign == "=" else MOST)
    return Test(FIELD[f"{other}-{one}"], 0 if sign == "=" else -MOST, -least)
