"""Check a bidding system on many random deals that it bids at all four seats.

The check finds what readers of a system file miss: games and slams that are not bid, forcing bids
that are passed, and hands for which the system has no rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError
from overtrick.evaluation.standard_error import standard_error
from overtrick.games.bridge import contract_results, scoring
from overtrick.games.bridge.auction_rules import CALLS, PASS, Contracts, final_contracts
from overtrick.games.bridge.boards import Board, rotating_dealer_and_vulnerability
from overtrick.games.bridge.cards import (
    SEATS,
    format_hand,
    hand_bits,
    honour_points,
    random_deals,
)
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system.auction_simulation import (
    GAME_FORCED,
    MAX_CALLS,
    PARTNER_FORCES,
    TracedAuctions,
    trace_auctions,
)
from overtrick.games.bridge.system.bidding_system import System, build_system
from overtrick.games.bridge.system.parser import Place, Rule
from overtrick.games.bridge.system.rule_matching import NO_RULE

POINTS_FOR_GAME, POINTS_FOR_SLAM = 26, 33  # of both partners
BATCH = 5_000  # deals that are bid at once


class Finding(NamedTuple):
    """An auction in which a bidding system does what should not happen, with an example."""

    kind: str  # a key of FINDINGS
    auction: str  # the calls from the opening bid on
    times: int
    hand: str  # an example, spades first
    call: str  # the call that was made
    rule: str  # file and line of the rule that made it, or "no rule"


FINDINGS = {
    "no rule": "unforced hands without a rule: they pass",
    "no rule where forced": "hands that must bid but have no rule",
    "forcing bid passed": "rules that pass partner's forcing bid",
    "game force passed": "rules that pass below game after a game force",
}


class SystemCheck(NamedTuple):
    """Result of `check_system`."""

    figures: dict[str, float | None]  # shares and counts by name, as in FIGURES
    findings: list[Finding]  # by kind, the most frequent auctions first


FIGURES = {
    "deals": "deals that were bid",
    "below_game": f"share of sides with {POINTS_FOR_GAME}+ points that declare no game, in no "
    "doubled contract",
    "below_slam": f"share of sides with {POINTS_FOR_SLAM}+ points that declare no slam",
    "games": "share of deals with a game below slam as the contract",
    "slams": "share of deals on which a slam is the contract",
    "doubled": "share of deals on which the contract is doubled",
    "no_rule": "share of calls made without a rule",
    "no_rule_forced": "calls without a rule after a forcing call or in a game force",
    "forcing_passed": "passes of partner's forcing bid, after a pass by the right-hand opponent",
    "game_force_passed": "passes that let an auction end below game after a game force",
}


def check_system(
    system: System,
    deals: int,
    rng: Generator,
    places: int = 5,
    progress: Callable[[int], None] = lambda done: None,
) -> SystemCheck:
    """Bid random deals by a system at all four seats, and count what should not happen.

    `deals`: number of deals, at least 1; each has four hands. `places`: number of auctions to
    report for each kind of finding. `progress`: called with the number of deals bid so far.
    """
    totals: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], tuple[str, str, str]] = {}
    for first in range(0, deals, BATCH):
        count = min(BATCH, deals - first)
        holder = random_deals(count, rng)
        dealer, vulnerable = rotating_dealer_and_vulnerability(np.arange(first, first + count))
        hands = hand_bits(holder)
        traced = trace_auctions(hands, dealer, vulnerable, system, system)
        totals.update(_count(holder, dealer, traced))
        for kind, auction, example in _places(system, hands, dealer, traced):
            found[kind, auction] += 1
            examples.setdefault((kind, auction), example)
        progress(first + count)
    findings = []
    for kind in FINDINGS:
        auctions = Counter({key: n for key, n in found.items() if key[0] == kind})
        for key, n in auctions.most_common(places):
            findings.append(Finding(kind, key[1], n, *examples[key]))
    return SystemCheck(_figures(totals), findings)


def _count(holder: Array, dealer: Array, traced: TracedAuctions) -> dict[str, int]:
    """Count calls and contracts of G deals. `holder` (G, 52), `dealer` (G,)."""
    contracts = final_contracts(traced.calls, dealer)
    points = honour_points(holder)
    game = is_game(contracts)
    slam, doubled = contracts.level >= 6, contracts.doubled > 0
    counts = {
        "deals": len(dealer),
        "game": int((game & ~slam).sum()),
        "slam": int(slam.sum()),
        "doubled": int(doubled.sum()),
    }
    nobody = np.zeros(len(dealer), np.bool_)
    for name, least, level, instead in (
        ("game_sides", POINTS_FOR_GAME, game, doubled),
        ("slam_sides", POINTS_FOR_SLAM, slam, nobody),
    ):  # fmt: skip
        counts[name] = counts[f"missed_{name}"] = 0
        for side in range(2):
            strong = points[:, side] + points[:, side + 2] >= least
            reached = (level & (contracts.declarer % 2 == side)) | instead
            counts[name] += int(strong.sum())
            counts[f"missed_{name}"] += int((strong & ~reached).sum())
    found = {kind: int(mask.sum()) for kind, mask in _masks(traced).items()}
    return counts | found | {"calls": int((traced.calls >= 0).sum())}


def _masks(traced: TracedAuctions) -> dict[str, Array]:
    """Return which calls (G, L) are of each kind of FINDINGS."""
    without = (traced.calls >= 0) & (traced.rule == NO_RULE)
    passed = traced.calls == PASS
    return {
        "no rule": without & (traced.forced == 0),
        "no rule where forced": without & (traced.forced > 0),
        "forcing bid passed": passed & (traced.forced == PARTNER_FORCES),
        "game force passed": passed & (traced.forced == GAME_FORCED),
    }


def is_game(contracts: Contracts) -> Array:
    """Return whether contracts are games or slams (G,) bool; false where all passed."""
    needed = scoring.GAME_LEVEL[np.maximum(contracts.strain, 0)]
    return np.asarray((contracts.level > 0) & (contracts.level >= needed))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _figures(totals: Counter[str]) -> dict[str, float | None]:
    """Turn counts into the figures of FIGURES; a share of nothing is None."""
    deals = totals["deals"]
    return {
        "deals": deals,
        "below_game": _share(totals["missed_game_sides"], totals["game_sides"]),
        "below_slam": _share(totals["missed_slam_sides"], totals["slam_sides"]),
        "games": totals["game"] / deals,
        "slams": totals["slam"] / deals,
        "doubled": totals["doubled"] / deals,
        "no_rule": (totals["no rule"] + totals["no rule where forced"]) / totals["calls"],
        "no_rule_forced": totals["no rule where forced"],
        "forcing_passed": totals["forcing bid passed"],
        "game_force_passed": totals["game force passed"],
    }


def _places(
    system: System, hands: Array, dealer: Array, traced: TracedAuctions
) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Yield each call of one of the kinds in `_masks`: a call without a rule, or a wrong pass.

    Yields the kind, the calls before it from the opening bid on ("opening" if there are none), and
    an example: the hand, the call, and the source and line of its rule. `system`: made all calls.
    `hands` (G, 4): card bit masks by seat. `dealer` (G,): seats. `traced`: the G auctions.
    """
    for kind, mask in _masks(traced).items():
        for game, at in zip(*np.nonzero(mask), strict=True):
            before = [CALLS[call] for call in traced.calls[game, :at]]
            opened = next((k for k, call in enumerate(before) if call != "P"), len(before))
            number = int(traced.rule[game, at])
            rule = None if number == NO_RULE else system.rules[number]
            yield (
                kind,
                " ".join(before[opened:]) or "opening",
                (
                    format_hand(int(hands[game, (dealer[game] + at) % 4])),
                    CALLS[traced.calls[game, at]],
                    "no rule" if rule is None else f"{rule.source}:{rule.line}",
                ),
            )


class SolvedDeals(NamedTuple):
    """G deals with known double-dummy tricks."""

    holder: Array  # (G, 52)
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    tables: Array  # (G, 4, 5) tricks by declarer and strain


def solved_deals(boards: Sequence[Board]) -> SolvedDeals:
    """Collect boards that have a double-dummy table. Raises UserError if none has."""
    solved = [board for board in boards if board.table is not None]
    if not solved:
        raise UserError("no board of the file has a double-dummy table (column dd_table)")
    names = list(VULNERABILITIES)
    return SolvedDeals(
        np.stack([board.holder for board in solved]),
        np.array([SEATS.index(board.dealer) for board in solved]),
        np.array([names.index(board.vulnerable) for board in solved]),
        np.stack([board.table for board in solved if board.table is not None]),
    )


def par_result(system: System, deals: SolvedDeals) -> dict[str, float | None]:
    """Bid solved deals by a system at all four seats, and compare the contracts with par.

    The result has `deals`, their number; `imps_to_par`, the mean distance in IMPs of the
    double-dummy result from par, with its standard error, None for one deal; and
    `games_bid`: of the sides that can make a game, the share in game or slam.
    """
    holder, dealer, vulnerable, tables = deals
    calls = trace_auctions(hand_bits(holder), dealer, vulnerable, system, system).calls
    contracts = final_contracts(calls, dealer)
    points = _double_dummy_points(contracts, deals)
    distance = np.abs(scoring.imps(points - par(tables, dealer, vulnerable).score))
    makable = bid = 0
    game = is_game(contracts)
    for side in range(2):
        best = tables[:, [side, side + 2]].max(axis=1)
        can = (best >= 6 + scoring.GAME_LEVEL).any(axis=1)
        makable += int(can.sum())
        bid += int((can & game & (contracts.declarer % 2 == side)).sum())
    return {
        "deals": len(holder),
        "imps_to_par": float(distance.mean()),
        "imps_to_par_se": standard_error(distance),
        "games_bid": _share(bid, makable),
    }


def one_sided_result(system: System, boards: Sequence[Board]) -> dict[str, float | None]:
    """Rebid recorded boards on which one side alone bid, and compare the contracts.

    The side that bid uses the system, and its opponents pass. The result has the number of
    `boards`, the mean `imps` per board against the recorded contract at double-dummy tricks, and
    its standard error, None for one board. If there is no board, the result has only `boards`, 0.
    Boards need a double-dummy table and a finished auction; others are left out.
    """
    chosen = []
    sides: list[int] = []
    for board in boards:
        first = SEATS.index(board.dealer)
        bidders = {(first + k) % 2 for k, call in enumerate(board.auction) if call != "P"}
        if board.table is not None and len(bidders) == 1 and board.auction_is_complete:
            chosen.append(board)
            sides.append(bidders.pop())
    if not chosen:
        return {"boards": 0}
    deals, side = solved_deals(chosen), np.array(sides)
    silent = silent_system()
    calls = np.full((len(chosen), MAX_CALLS), -1, np.int8)
    for who, pair in enumerate(((system, silent), (silent, system))):
        rows = np.flatnonzero(side == who)
        hands = hand_bits(deals.holder[rows])
        calls[rows] = trace_auctions(hands, deals.dealer[rows], deals.vulnerable[rows], *pair).calls
    longest = max(len(board.auction) for board in chosen)
    recorded = np.full((len(chosen), longest), -1, np.int8)
    for row, board in enumerate(chosen):
        recorded[row, : len(board.auction)] = [CALLS.index(call) for call in board.auction]
    ours, theirs = (
        _double_dummy_points(final_contracts(each, deals.dealer), deals)
        for each in (calls, recorded)
    )
    gained = scoring.imps(np.where(side == 0, 1, -1) * (ours - theirs))
    return {
        "boards": len(chosen),
        "imps": float(gained.mean()),
        "imps_se": standard_error(gained),
    }


def _double_dummy_points(contracts: Contracts, deals: SolvedDeals) -> Array:
    """Return North-South's points (G,) for contracts that make their double-dummy tricks."""
    rows = np.arange(len(deals.holder))
    tricks = deals.tables[rows, contracts.declarer, contracts.strain].astype(np.int64)
    return contract_results.north_south_points(contracts, deals.vulnerable, tricks)


@cache
def silent_system() -> System:
    """Return a bidding system that always passes."""
    rule = Rule(1, "P", ("anything",), (), "Pass", (), "silent")
    place = Place(1, ("anywhere",), (), False, (rule,), "silent")
    return build_system("silent", "Always passes", (place,))[0]
