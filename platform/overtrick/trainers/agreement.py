"""How far recorded auctions are those that a bidding system would have bid, and how far the calls
mean what the system says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, Refused
from overtrick.games.bridge.auction import BIDS, CALLS, PASS
from overtrick.games.bridge.bidding import Followed, follow
from overtrick.games.bridge.cards import SEATS, hands
from overtrick.games.bridge.choosing import NO_RULE
from overtrick.games.bridge.known import TYPES
from overtrick.games.bridge.records import VULNERABLE, Board
from overtrick.games.bridge.system import System, types


class Auctions(NamedTuple):
    """G recorded auctions."""

    hands: Array  # (G, 4) sets of cards
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) int8, -1 after the end


def auctions_of(boards: Sequence[Board]) -> Auctions:
    """The auctions of those boards that have one. Raises Refused if none has."""
    told = [board for board in boards if board.auction]
    if not told:
        raise Refused("no board of the file has an auction")
    calls = np.full((len(told), max(len(board.auction) for board in told)), -1, np.int8)
    number = {call: k for k, call in enumerate(CALLS)}
    for row, board in enumerate(told):
        calls[row, : len(board.auction)] = [number[call] for call in board.auction]
    vulnerable = list(VULNERABLE)
    return Auctions(
        hands(np.stack([board.holder for board in told])),
        np.array([SEATS.index(board.dealer) for board in told]),
        np.array([vulnerable.index(board.vulnerable) for board in told]),
        calls,
    )


def followed(rules: System, of: Auctions) -> Followed:
    """What a system says of every call of some auctions."""
    return follow(*of, rules, rules)


def shares(of: Auctions, by: Followed) -> dict[str, float | None]:
    """Which share of the calls the system makes too: opening, every call up to and with the first
    bid; response, the next call of the opener's partner; all; and each without passes. None where
    there are no such calls."""
    calls = of.calls
    made, same = calls >= 0, (by.calls == calls) & (calls >= 0)
    bids = made & (calls < BIDS)
    opened = bids.any(axis=1)
    first = np.where(opened, bids.argmax(axis=1), calls.shape[1])
    place = np.arange(calls.shape[1])
    parts = {
        "opening": made & (place <= first[:, None]),
        "response": made & (place == first[:, None] + 2),
        "all": made,
    }
    bare = {f"{name}_without_passes": part & (calls != PASS) for name, part in parts.items()}
    return {
        name: float(same[part].mean()) if part.any() else None
        for name, part in {**parts, **bare}.items()
    }


def truths(rules: System, of: Auctions, by: Followed) -> list[dict[str, Any]]:
    """By type of call, passes left out: how many there are, for which share the system has a
    meaning, for which share the hand has the points and lengths that its player's calls so far
    show, and how many numbers of honour points bids leave on average; and the same of all
    together."""
    counted = (of.calls >= 0) & (of.calls != PASS)
    kind = types(rules)[by.read]  # NO_RULE is the last
    rows = []
    for name, part in [
        *((TYPES[k], counted & (kind == k)) for k in range(len(TYPES))),
        ("all", counted),
    ]:
        bids = part & (of.calls < BIDS)
        if part.any():
            rows.append(
                {
                    "type": name,
                    "calls": int(part.sum()),
                    "known": float((by.read[part] != NO_RULE).mean()),
                    "true": float(by.true[part].mean()),
                    "width": float(by.width[bids].mean()) if bids.any() else 0.0,
                }
            )
    return rows
