"""Write the convention card of a bidding system: its calls in common auctions, in words.

The card is made from the rules that bid, not written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.cardplay.defence_signals import NO_SIGNALS, describe_signals
from overtrick.games.bridge.system.auction_simulation import call_meanings, possible_calls
from overtrick.games.bridge.system.bidding_system import System
from overtrick.games.bridge.system.explanation import explanation_lines

AFTER_THEIR_OPENING = ("1C", "1D", "1H", "1S", "1N", "2C", "2H", "3C", "3S")
WHEN_THEY_ACT = ("1D X", "1H X", "1C 1S", "1H 2C", "1S 2H", "1N X", "1N 2H")
LATER = ("1S P 3S P 4N P", "1N P 2C P 2D P", "1N P 2H P 2S P", "2H P 2N P")


def convention_card(system: System) -> str:
    """Return the convention card of a system as a page of Markdown.

    It has a table for the opening bids, for the responses to each of them, for calls after the
    opponents act, and for a few later auctions. Only calls of `possible_calls` are listed.
    """
    pages = [f"# Convention card: {system.name}"]
    if system.title:
        pages.append(f"{system.title}.")
    pages.append(
        "Points are high-card points. A call with several meanings has a line for each; the line "
        "'some players' tells how the call of others is understood. Vulnerability is none, and "
        "nobody has passed before."
    )
    if system.signals != NO_SIGNALS:
        pages.append(f"Signals in defence: {describe_signals(system.signals)}.")
    for title, auction in _auctions(system):
        rows = _rows(system, auction)
        if rows:
            pages += [f"## {title}", "\n".join(("| call | meaning |", "|---|---|", *rows))]
    return "\n\n".join(pages) + "\n"


def _auctions(system: System) -> Iterator[tuple[str, str]]:
    """Yield the title and the auction of each table of the card."""
    yield "Opening bids", ""
    for call in possible_calls([], 0, 0, system, system):
        if CALLS[call] != "P":
            yield f"Responses to {CALLS[call]}", f"{CALLS[call]} P"
    for opening in AFTER_THEIR_OPENING:
        yield f"When they open {opening}", opening
    for auction in WHEN_THEY_ACT:
        ours, theirs = auction.split()
        yield f"Responses to {ours} after {'a double' if theirs == 'X' else theirs}", auction
    for auction in LATER:
        yield f"After {auction}", auction


def _rows(system: System, auction: str) -> list[str]:
    before = auction_rules.parse_calls(auction)
    rows = []
    for call in possible_calls(before, 0, 0, system, system):
        meaning = call_meanings([*before, call], 0, 0, system, system)[-1]
        lines = "<br>or ".join(explanation_lines(meaning))
        rows.append(f"| {CALLS[call]} | {lines} |")
    return rows
