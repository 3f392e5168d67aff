"""Duplicate matches of two partnerships (bidding systems or trained bidders), scored in IMPs.

Every deal is bid at two tables with the seats exchanged. A contract is scored by the double-dummy
tricks of the declaring side. The difference of the two scores is converted to IMPs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, concat_columns
from overtrick.core.files import check_output, write_text
from overtrick.datasets.bridge_deals import deal_boards
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, bid_auctions, load_side
from overtrick.games.bridge import auction_rules, contract_results, diagram, double_dummy, scoring
from overtrick.games.bridge.auction.game import DEAL_WIDTH, UNSOLVED, Auction
from overtrick.games.bridge.auction_rules import Contracts
from overtrick.games.bridge.cards import CARDS, SEATS, format_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.system import auction_simulation
from overtrick.reports import tables
from overtrick.reports.progress import OnProgress
from overtrick.storage.game_records import Games, Move

SHARD = 50  # boards, for any number of workers
REPORT_SUFFIXES = (".md", ".csv")
UNIT = "imp"


class TableResult(NamedTuple):
    """Auctions and scores of G boards at one table."""

    calls: Array  # (G, L) padded with -1
    contracts: Contracts
    tricks: Array  # (G,) of the declaring side; -1 where all passed
    score: Array  # (G,) points of North-South


class BoardResults(NamedTuple):
    """Results of G boards of a duplicate match between partnerships a and b.

    At the open table partnership a sits North-South, at the closed table East-West.
    """

    holder: Array  # (G, 52) the seat that holds each card
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    open: TableResult
    closed: TableResult
    imps: Array  # (G,) won by the first side


class DuplicateMatch(NamedTuple):
    """A finished duplicate match between partnerships a and b."""

    a: Side
    b: Side
    boards: BoardResults

    @property
    def mean(self) -> float:
        """The mean IMPs a board that partnership a has won."""
        return float(self.boards.imps.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of `mean`, in IMPs a board."""
        return float(self.boards.imps.std(ddof=1) / np.sqrt(len(self.boards.imps)))


def play_match(
    a: str, b: str, boards: int, seed: int, pool: WorkerPool, progress: OnProgress
) -> DuplicateMatch:
    """Play a duplicate match between two partnerships; dealer and vulnerability rotate.

    `a`, `b`: partnerships as `bidders.load_side` accepts them. `boards`: number of boards.
    `progress`: called with the number of finished boards. Raises UserError for an unknown
    partnership.
    """
    sides = load_side(a), load_side(b)
    shards = [(first, min(SHARD, boards - first)) for first in range(0, boards, SHARD)]
    finished = 0

    def count(shard: int, results: BoardResults) -> None:
        nonlocal finished
        finished += len(results.imps)
        progress(finished)

    progress(finished)
    parts = pool.map(_play_shard, sides, shards, generator(seed, RngStream.EVALUATE), count)
    return DuplicateMatch(*sides, concat_columns(parts))


def _play_shard(rng: Generator, sides: tuple[Side, Side], first: int, count: int) -> BoardResults:
    """Bid `count` boards at both tables, starting with board number `first`; score the contracts.

    `sides`: partnerships a and b. If both tables reach the same contract, the contract is solved
    double dummy only once.
    """
    a, b = sides
    holder, dealer, vulnerable = deal_boards(first, count, "rotating", "rotating", rng)
    calls = [
        bid_auctions(ns, ew, holder, dealer, vulnerable, child)
        for (ns, ew), child in zip(((a, b), (b, a)), rng.spawn(2), strict=True)
    ]
    contracts = [auction_rules.final_contracts(each, dealer) for each in calls]
    declarer, strain = (
        np.concatenate([getattr(each, name) for each in contracts])
        for name in ("declarer", "strain")
    )
    problems = np.column_stack([np.tile(np.arange(count), 2), declarer, strain])  # (2G, 3)
    (played,) = np.nonzero(declarer >= 0)
    distinct, place = np.unique(problems[played], axis=0, return_inverse=True)
    tricks = np.full(2 * count, -1)
    if len(distinct):
        board, declarer, strain = distinct.T
        solved = double_dummy.contract_tricks(holder[board], declarer, strain)
        tricks[played] = solved[place.ravel()]
    at_open, at_closed = (
        TableResult(made, each, won, contract_results.north_south_points(each, vulnerable, won))
        for made, each, won in zip(calls, contracts, np.split(tricks, 2), strict=True)
    )
    imps = scoring.imps(at_open.score - at_closed.score)
    return BoardResults(holder, dealer, vulnerable, at_open, at_closed, imps)


def recorded_games(match: DuplicateMatch) -> Games:
    """Return the auctions of a duplicate match as recorded games, first those of the open table.

    The payoff is the score of the contract in points, with the contract played double dummy.
    """
    boards = match.boards
    deals = np.full((len(boards.holder), DEAL_WIDTH), UNSOLVED, np.int8)
    deals[:, :CARDS] = boards.holder
    deals[:, CARDS], deals[:, CARDS + 1] = boards.dealer, boards.vulnerable
    who, moves, payoff = [], list[list[Move]](), []
    for side, table in enumerate((boards.open, boards.closed)):
        for calls, dealer in zip(table.calls, boards.dealer, strict=True):
            made = _made_calls(calls)
            moves.append([Move((int(dealer) + k) % 4, call) for k, call in enumerate(made)])
        who += [[side, 1 - side] * 2] * len(table.calls)
        payoff += [[points, -points] * 2 for points in table.score.tolist()]
    names, systems = (match.a.name, match.b.name), (match.a.system.name, match.b.system.name)
    recorded = (np.tile(deals, (2, 1)), moves, np.array(who), np.array(payoff, np.float64))
    return Games(Auction.name, {"scoring": "points"}, names, *recorded, systems)


def board_row(match: DuplicateMatch, board: int) -> dict[str, Any]:
    """Return one board of a match as a row of a report.

    `board`: the index of the board, from 0. The row has the auction, contract, tricks and
    North-South score of both tables, and the IMPs that partnership a has won.
    """
    boards = match.boards
    row: dict[str, Any] = {
        "board": board + 1,
        "dealer": SEATS[boards.dealer[board]],
        "vulnerability": VULNERABILITIES[boards.vulnerable[board]],
        "deal": format_deal(boards.holder[board]),
    }
    for name, table in (("open", boards.open), ("closed", boards.closed)):
        contracts = Contracts(*(column[[board]] for column in table.contracts))
        (declarer,) = contract_results.format_declarers(contracts)
        (contract,) = contract_results.describe_contracts(contracts)
        row |= {
            f"{name}_auction": auction_rules.format_calls(_made_calls(table.calls[board])),
            f"{name}_contract": contract,
            f"{name}_tricks": None if declarer is None else int(table.tricks[board]),
            f"{name}_score": int(table.score[board]),
        }
    return {**row, "imps": int(boards.imps[board])}


def describe_board(match: DuplicateMatch, board: int, signs: bool = True) -> str:
    """Return one board of a match as text, with both auctions and the meanings of the calls.

    `board`: the index of the board, from 0. `signs`: show suits as symbols, not letters.
    """
    boards, row = match.boards, board_row(match, board)
    lines = [
        f"Board {board + 1}, dealer {row['dealer']}, vulnerable {row['vulnerability']}",
        diagram.hands_diagram(boards.holder[board], signs=signs),
    ]
    for name, table, ns, ew in (
        ("open", boards.open, match.a, match.b),
        ("closed", boards.closed, match.b, match.a),
    ):
        calls, dealer = _made_calls(table.calls[board]), int(boards.dealer[board])
        meanings = auction_simulation.explain_calls(
            calls, dealer, int(boards.vulnerable[board]), ns.system, ew.system
        )
        tricks = "" if row[f"{name}_tricks"] is None else f", {row[f'{name}_tricks']} tricks"
        lines += [
            f"\nNorth-South {ns.name}, East-West {ew.name}",
            diagram.auction_table(calls, dealer, signs),
            "\n".join(diagram.call_meanings(calls, dealer, meanings, signs)),
            f"{row[f'{name}_contract']}{tricks}: {row[f'{name}_score']:+d} to North-South",
        ]
    return "\n".join([*lines, f"\n{row['imps']:+d} IMPs to {match.a.name}"])


def _made_calls(calls: Array) -> list[int]:
    """Return the calls of one auction (L,) without the padding."""
    return [int(call) for call in calls[calls >= 0]]


def write_report(match: DuplicateMatch, out: Path, show: int = 0) -> None:
    """Write a report of a match to a .csv or .md file, with a row for each board.

    `show`: number of boards that are also shown as diagrams, in a .md file only. Raises UserError
    for another file extension or a missing folder.
    """
    check_output(out, *REPORT_SUFFIXES)
    rows = [board_row(match, board) for board in range(len(match.boards.imps))]
    if out.suffix == ".csv":
        write_text(out, tables.csv_text(list(rows[0]), [row.values() for row in rows]))
        return
    names = [name for name in rows[0] if name != "deal"]
    cells = [["-" if row[name] is None else str(row[name]) for name in names] for row in rows]
    lines = [
        f"# {match.a.name} against {match.b.name}",
        f"{match.mean:+.3f} ± {match.standard_error:.3f} IMPs a board, {len(rows)} boards; "
        f"{match.a.name} sits North-South at the open table. Tricks are double dummy, scores are "
        "points of North-South.",
        tables.markdown([name.replace("_", " ") for name in names], cells),
        *(f"```\n{describe_board(match, board)}\n```" for board in range(min(show, len(rows)))),
    ]
    write_text(out, "\n\n".join(lines) + "\n")
