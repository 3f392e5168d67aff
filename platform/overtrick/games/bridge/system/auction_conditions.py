"""The conditions of a bidding system's file: where in an auction a rule holds.

A condition is turned into tests of the auction as the one to call sees it (`known.VIEW`).
"""

from __future__ import annotations

from collections.abc import Sequence

from overtrick.core import UserError, nearest
from overtrick.games.bridge.auction_rules import STRAIN_LETTERS as STRAINS
from overtrick.games.bridge.system.hand_terms import MOST, Test, range_of
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
    "game forced": ("game forced", 1, 1),
    "not game forced": ("game forced", 0, 0),
    "quiet": ("their calls", 0, 0),
    "contested": ("their calls", 1, MOST),
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
COUNTS = ("calls", "partner calls", "their calls", "level", "passes")


def where(term: str) -> tuple[Test, ...]:
    """What a condition says of the auction. Raises UserError."""
    if term in FLAGS:
        name, lo, hi = FLAGS[term]
        return (Test(VIEW[name], lo, hi),)
    if term == "last theirs":
        return (Test(VIEW["level"], 1, 7), Test(VIEW["last ours"], 0, 0))
    found = _counted(term.split()) or _known(term.split())
    if found is None:
        near = nearest(term, [*FLAGS, *COUNTS])
        raise UserError(
            f"'{term}' says nothing of an auction: did you mean '{near}'? Write such as seat 3, "
            "level 1-2, calls 1, partner S 4+, they H 4+, partner hcp 12+, partner hcp to 17, "
            "agreed S"
        )
    return (found,)


def _counted(words: Sequence[str]) -> Test | None:
    """calls 1+, seat 3, last S, agreed H."""
    ends, name = range_of(words[-1]), " ".join(words[:-1])
    if ends and name in COUNTS:
        return Test(VIEW[name], *ends)
    if ends and name == "seat":
        return Test(VIEW["seat"], ends[0] - 1, ends[1] - 1)
    if name in ("last", "agreed") and words[-1] in STRAINS:
        strain = STRAINS.index(words[-1])
        return Test(VIEW[name], strain, strain)
    return None


def _known(words: Sequence[str]) -> Test | None:
    """partner S 4+, they H 4+, partner hcp 12+, partner hcp to 17: what calls have shown."""
    ends = range_of(words[-1])
    if not ends or len(words) not in (3, 4):
        return None
    who, what = words[:2]
    what = what if what in ("hcp", "total") else f"length {what}"
    if len(words) == 3 and f"{who} lo {what}" in VIEW:
        return Test(VIEW[f"{who} lo {what}"], *ends)
    if len(words) == 4 and words[2] == "to" and f"{who} hi {what}" in VIEW:
        return Test(VIEW[f"{who} hi {what}"], 0, ends[0])
    return None


def order(term: str) -> bool | None:
    """Whether "H above S" is true; None if the term is of another kind."""
    words = term.split()
    if len(words) < 3 or not {words[0], words[-1]} <= set(STRAINS):
        return None
    one, other = STRAINS.index(words[0]), STRAINS.index(words[-1])
    known = {"above": one > other, "below": one < other, "is": one == other, "is not": one != other}
    return known.get(" ".join(words[1:-1]))
