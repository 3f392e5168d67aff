"""Compare recorded auctions with a bidding system.

`agreement_shares` computes how often the system would make the recorded call. `meaning_table`
computes how often a player's hand has the points and suit lengths that the recorded calls show in
this system, and how often it is within the explanation of the call that the system prints.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.bridge.auction_rules import BIDS, CALLS, PASS
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cards import SEATS, hand_bits
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.system.auction_simulation import (
    ReplayedAuctions,
    call_meanings,
    replay_auctions,
)
from overtrick.games.bridge.system.explanation import ExplanationLine, explain_meaning
from overtrick.games.bridge.system.hand_evaluation import HCP, hand_fields
from overtrick.games.bridge.system.loader import System, rule_types
from overtrick.games.bridge.system.public_knowledge import LIKELY, LIMITS, TYPES
from overtrick.games.bridge.system.rule_matching import NO_RULE


class RecordedAuctions(NamedTuple):
    """G recorded auctions, and the mask `counted` of the calls to include in statistics."""

    hands: Array  # (G, 4) the cards of each seat as bit sets
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) int8, -1 after the end
    counted: Array  # (G, L) bool


def select_auctions(
    boards: Sequence[Board], pairs: str | None = None, kind: str | None = None
) -> RecordedAuctions:
    """Collect the recorded auctions of boards, and mark the calls to include in statistics.

    Boards without an auction are left out.

    - `pairs`: name of a bidding system. Only calls of pairs with this recorded system are marked;
      None: all calls.
    - `kind`: kind of players, such as `robot`. Only boards with this kind are used; None: all.

    Raises UserError if no board is left. If `pairs` or `kind` occurs on no board, the message lists
    the names that do occur.
    """
    chosen = [board for board in boards if board.auction]
    if not chosen:
        raise UserError("no board of the file has an auction")
    if kind is not None:
        _check_name(kind, (board.kind for board in chosen), "kind of board", "column kind")
        chosen = [board for board in chosen if board.kind == kind]
    if pairs is not None:
        played = itertools.chain(*(board.systems for board in chosen))
        _check_name(pairs, played, "kind of pair", "columns system_ns, _ew, sys_inferred_ns, _ew")
        chosen = [board for board in chosen if pairs in board.systems]
    calls = np.full((len(chosen), max(len(board.auction) for board in chosen)), -1, np.int8)
    number = {call: k for k, call in enumerate(CALLS)}
    for row, board in enumerate(chosen):
        calls[row, : len(board.auction)] = [number[call] for call in board.auction]
    vulnerable = list(VULNERABILITIES)
    dealer = np.array([SEATS.index(board.dealer) for board in chosen])
    counted = calls >= 0
    if pairs is not None:
        sides = np.array([[name == pairs for name in board.systems] for board in chosen])
        side = (dealer[:, None] + np.arange(calls.shape[1])) % 2
        counted &= np.take_along_axis(sides, side, axis=1)
    return RecordedAuctions(
        hand_bits(np.stack([board.holder for board in chosen])),
        dealer,
        np.array([vulnerable.index(board.vulnerable) for board in chosen]),
        calls,
        counted,
    )


def _check_name(name: str, recorded: Iterable[str], what: str, where: str) -> None:
    """Raise UserError unless `name` is among the names that occur in a file of boards.

    The error message lists these names, most frequent first.

    - `recorded`: all names in the file, with repetitions.
    - `what`: what the names stand for, such as `kind of board`; used in the error message.
    - `where`: columns of the file that have the names; used in the error message.
    """
    names = [each for each, _ in Counter(recorded).most_common() if each]
    if not names:
        raise UserError(f"no board of the file records its {what} ({where})")
    if name not in names:
        raise UserError(f"no {what} '{name}' in the file: it has {', '.join(names)}")


def follow_system(
    rules: System, of: RecordedAuctions, against: System | None = None
) -> ReplayedAuctions:
    """Replay recorded auctions with a bidding system.

    Returns, for each recorded call, the call that the system would make instead, and the system's
    meaning of the recorded call. `against`: the system of the pairs without a call in the mask
    `of.counted`, such as the opponents of natural pairs; None: `rules` for all pairs.
    """
    parts, order = [], []
    for rows, ns, ew in _system_pairs(rules, of, against):
        recorded = of.hands[rows], of.dealer[rows], of.vulnerable[rows], of.calls[rows]
        parts.append(replay_auctions(*recorded, ns, ew))
        order.append(rows)
    back = np.argsort(np.concatenate(order))
    return ReplayedAuctions(*(np.concatenate(each)[back] for each in zip(*parts, strict=True)))


def _system_pairs(
    rules: System, of: RecordedAuctions, against: System | None
) -> Iterator[tuple[Array, System, System]]:
    """Yield auctions by row, with the systems of North-South and East-West, as in follow_system."""
    if against is None or against is rules:
        yield np.arange(len(of.calls)), rules, rules
        return
    sides = (of.dealer[:, None] + np.arange(of.calls.shape[1])) % 2
    plays = [(of.counted & (sides == side)).any(axis=1) for side in range(2)]
    for ns, ew in itertools.product((True, False), repeat=2):
        rows = np.flatnonzero((plays[0] == ns) & (plays[1] == ew))
        yield rows, (rules if ns else against), (rules if ew else against)


class ExplainedCalls(NamedTuple):
    """Comparison of hands with the explanations of recorded calls; 0 for calls not included.

    - `within`: whether the caller's hand satisfies all conditions of a line of the explanation
    - `width`: number of values of high-card points in the lines together. A line such as
      "17+ points" ends at the value that covers 99 of 100 such hands.
    """

    within: Array  # (G, L) bool
    width: Array  # (G, L) int16


def explain_recorded(
    rules: System, of: RecordedAuctions, against: System | None = None
) -> ExplainedCalls:
    """Compare hands with the explanations of their calls by `overtrick bridge explain`.

    A call without a rule has no explanation: no hand is within it, and all points are possible.
    Only calls in the mask `of.counted` are included, without passes. `against`: as in
    `follow_system`.
    """
    fields = hand_fields(of.hands.reshape(-1)).reshape(len(of.hands), 4, -1)
    counted = of.counted & (of.calls != PASS)
    found = ExplainedCalls(np.zeros(counted.shape, np.bool_), np.zeros(counted.shape, np.int16))
    known: dict[tuple[bool, bool, int, bytes], _Explanation] = {}
    for rows, ns, ew in _system_pairs(rules, of, against):
        for row in rows[counted[rows].any(axis=1)]:
            places, dealer = np.flatnonzero(counted[row]).tolist(), int(of.dealer[row])
            pair = (ns, ew) if dealer % 2 == 0 else (ew, ns)  # as if North were the dealer
            vulnerable = int(of.vulnerable[row])
            vulnerable = vulnerable if dealer % 2 == 0 else SIDES_EXCHANGED[vulnerable]
            auction, first = of.calls[row].tobytes(), (pair[0] is rules, pair[1] is rules)
            keys = {at: (*first, vulnerable, auction[: at + 1]) for at in places}
            new = [at for at in places if keys[at] not in known]
            if new:
                calls = of.calls[row, : new[-1] + 1].tolist()
                meanings = call_meanings(calls, 0, vulnerable, *pair, new)
                for at in new:
                    lines = explain_meaning(meanings[at])
                    known[keys[at]] = _Explanation(lines, points_width(lines))
            for at in places:
                explanation, hand = known[keys[at]], fields[row, (dealer + at) % 4, None]
                found.within[row, at] = any(line.fits(hand)[0] for line in explanation.lines)
                found.width[row, at] = explanation.width
    return found


class _Explanation(NamedTuple):
    lines: list[ExplanationLine]
    width: int  # number of values of high-card points


SIDES_EXCHANGED = (0, 2, 1, 3)
"""Vulnerability None, NS, EW, All after North-South and East-West have changed places."""


def points_width(lines: Iterable[ExplanationLine]) -> int:
    """Return the number of values of high-card points that lines of an explanation contain.

    A line without a highest number ends at the value that covers 99 of 100 such hands. Without a
    line, every number is possible.
    """
    least, most = LIMITS[:, HCP].tolist()
    ranges = [line.points() for line in lines] or [(least, most)]
    ends = [(lo, int(LIKELY[lo]) if hi == most else hi) for lo, hi in ranges]
    return len(set().union(*(range(lo, hi + 1) for lo, hi in ends)))


def agreement_shares(of: RecordedAuctions, by: ReplayedAuctions) -> dict[str, float | None]:
    """Compute the shares of recorded calls that the bidding system would make too.

    `of`: recorded auctions; only calls in the mask `of.counted` are included. `by`: the system's
    calls in these auctions, from `follow_system`. The shares by name:

    - opening: among all calls up to the first bid.
    - response: among the next calls of the opener's partner.
    - all: among all calls.
    - opening_without_passes, response_without_passes, all_without_passes: the same among calls
      other than passes.

    A share among no calls is None.
    """
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
    rules: System,
    of: RecordedAuctions,
    by: ReplayedAuctions,
    explained: ExplainedCalls | None = None,
) -> list[dict[str, Any]]:
    """Check whether recorded hands have what their calls show; return a row for each type of call.

    `rules`: the bidding system. `of`: recorded auctions; only calls in the mask `of.counted` are
    included, without passes. `by`: the system's interpretation of the calls, from `follow_system`.
    `explained`: from `explain_recorded`; None leaves out the last two columns. The last row is all
    types together. Columns:

    - type: type of call, such as `transfer`.
    - calls: number of calls.
    - known: share of calls to which the system gives a meaning.
    - true: share of calls after which the caller's hand has the HCP and suit lengths that the
      caller has shown so far.
    - width: mean number of HCP values that remain possible for the caller after a bid.
    - explained: share of calls whose hand is within a line of the call's explanation.
    - explained_width: mean number of HCP values in the lines of a bid.
    """
    counted = of.counted & (of.calls != PASS)
    read = np.where(counted, by.read, NO_RULE)  # other calls may be of another system
    kind = rule_types(rules)[read]  # the last entry is the type of NO_RULE
    parts = {name: counted & (kind == k) for k, name in enumerate(TYPES)} | {"all": counted}
    table = []
    for name, part in parts.items():
        if not part.any():
            continue
        bids = part & (of.calls < BIDS)
        row = {
            "type": name,
            "calls": int(part.sum()),
            "known": float((by.read[part] != NO_RULE).mean()),
            "true": float(by.true[part].mean()),
            "width": _mean(by.width[bids]),
        }
        if explained is not None:
            row["explained"] = float(explained.within[part].mean())
            row["explained_width"] = _mean(explained.width[bids])
        table.append(row)
    return table


def _mean(numbers: Array) -> float | None:
    return float(numbers.mean()) if len(numbers) else None
