"""How far recorded auctions are those that a bidding system would have bid, and how far the calls
mean what the system says."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.bridge.auction_rules import BIDS, CALLS, PASS
from overtrick.games.bridge.cards import SEATS, hand_bits
from overtrick.games.bridge.formats.pbn_lin import VULNERABLE, Board
from overtrick.games.bridge.system.auction_simulation import ReplayedAuctions, replay_auctions
from overtrick.games.bridge.system.loader import System, rule_types
from overtrick.games.bridge.system.public_knowledge import TYPES
from overtrick.games.bridge.system.rule_matching import NO_RULE


class RecordedAuctions(NamedTuple):
    """G recorded auctions."""

    hands: Array  # (G, 4) sets of cards
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) int8, -1 after the end
    counted: Array  # (G, L) bool: the calls that are asked about


def select_auctions(
    boards: Sequence[Board], pairs: str | None = None, kind: str | None = None
) -> RecordedAuctions:
    """The auctions of those boards that have one.

    pairs: only calls of pairs that play this, as the boards say, are counted.
    kind: only boards of this kind. Raises UserError if there is none, with those that there are.
    """
    told = [board for board in boards if board.auction]
    if not told:
        raise UserError("no board of the file has an auction")
    if kind is not None:
        _check(kind, (board.kind for board in told), "kind of board", "column kind")
        told = [board for board in told if board.kind == kind]
    if pairs is not None:
        played = itertools.chain(*(board.systems for board in told))
        _check(pairs, played, "kind of pair", "columns system_ns, _ew, sys_inferred_ns, _ew")
        told = [board for board in told if pairs in board.systems]
    calls = np.full((len(told), max(len(board.auction) for board in told)), -1, np.int8)
    number = {call: k for k, call in enumerate(CALLS)}
    for row, board in enumerate(told):
        calls[row, : len(board.auction)] = [number[call] for call in board.auction]
    vulnerable = list(VULNERABLE)
    dealer = np.array([SEATS.index(board.dealer) for board in told])
    counted = calls >= 0
    if pairs is not None:
        sides = np.array([[name == pairs for name in board.systems] for board in told])
        side = (dealer[:, None] + np.arange(calls.shape[1])) % 2
        counted &= np.take_along_axis(sides, side, axis=1)
    return RecordedAuctions(
        hand_bits(np.stack([board.holder for board in told])),
        dealer,
        np.array([vulnerable.index(board.vulnerable) for board in told]),
        calls,
        counted,
    )


def _check(asked: str, there: Iterable[str], what: str, where: str) -> None:
    """Raise UserError if what is asked for is not there, with what is, the most frequent first."""
    names = [name for name, _ in Counter(there).most_common() if name]
    if not names:
        raise UserError(f"no board of the file tells its {what} ({where})")
    if asked not in names:
        raise UserError(f"no {what} '{asked}' in the file: it has {', '.join(names)}")


def follow_system(rules: System, of: RecordedAuctions) -> ReplayedAuctions:
    """What a system says of every call of some auctions, counted or not."""
    return replay_auctions(of.hands, of.dealer, of.vulnerable, of.calls, rules, rules)


def agreement_shares(of: RecordedAuctions, by: ReplayedAuctions) -> dict[str, float | None]:
    """Which share of the counted calls the system makes too: opening, every call up to and with the
    first bid; response, the next call of the opener's partner; all; and each without passes. None
    where there are no such calls."""
    calls = of.calls
    made, same = of.counted, by.calls == calls
    bids = (calls >= 0) & (calls < BIDS)
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


def meaning_table(
    rules: System, of: RecordedAuctions, by: ReplayedAuctions
) -> list[dict[str, Any]]:
    """By type of the counted calls, passes left out: how many there are, for which share the system
    has a meaning, for which share the hand has the points and lengths that its player's calls so
    far show, and how many numbers of honour points bids leave on average; and the same of all
    types in one."""
    counted = of.counted & (of.calls != PASS)
    kind = rule_types(rules)[by.read]  # NO_RULE is the last
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
                    "width": _mean(by.width[bids]),
                }
            )
    return rows


def _mean(numbers: Array) -> float | None:
    return float(numbers.mean()) if len(numbers) else None
