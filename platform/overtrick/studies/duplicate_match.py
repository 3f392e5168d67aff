"""Duplicate matches of two partnerships (bidding systems or trained bidders), scored in IMPs.

Every deal is bid at two tables with the seats exchanged. The cards are played if both partnerships
have card players; otherwise the declaring side gets its double-dummy tricks. The difference of the
two scores is converted to IMPs.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError, concat_columns
from overtrick.core.files import check_output, write_text
from overtrick.datasets import board_files
from overtrick.datasets.bridge_deals import deal_boards
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, bid_auctions, load_side
from overtrick.evaluation.bridge_boards import play_cards
from overtrick.games.bridge import auction_rules, contract_results, diagram, double_dummy, scoring
from overtrick.games.bridge.auction.game import DEAL_WIDTH, UNSOLVED, Auction
from overtrick.games.bridge.auction_rules import NO_SEAT, Contracts
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.boards import ROOMS, Board, finished_board
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, SEATS, format_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.card_players import CARD_PLAYERS, DEFAULT_BUDGET, Budget
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.explanation import describe_meaning
from overtrick.games.bridge.trick_rules import NO_CARD, beats
from overtrick.reports import tables
from overtrick.reports.progress import OnProgress
from overtrick.storage.game_records import Games, Move

SHARD = 50  # boards, for any number of workers
PLAYED_SHARD = 2  # boards, if the cards are played
BOARD_SUFFIXES = (".pbn", ".lin")
REPORT_SUFFIXES = (".md", ".csv", *BOARD_SUFFIXES)
UNIT = "imp"


class TableResult(NamedTuple):
    """Auctions and scores of G boards at one table."""

    calls: Array  # (G, L) padded with -1
    contracts: Contracts
    tricks: Array  # (G,) of the declaring side; -1 where all passed
    score: Array  # (G,) points of North-South
    cards: Array  # (G, 52) int8 in the order played; -1 where no cards were played


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
    def played(self) -> bool:
        """Whether the cards were played."""
        return self.a.cards is not None

    @property
    def mean(self) -> float:
        """The mean IMPs a board that partnership a has won."""
        return float(self.boards.imps.mean())

    @property
    def matchpoints(self) -> float:
        """The share of the matchpoints that partnership a has won; 0.5 in a drawn match."""
        points = np.stack([self.boards.open.score, self.boards.closed.score])
        return float(scoring.matchpoints(points)[0].mean())

    @property
    def standard_error(self) -> float:
        """The standard error of `mean`, in IMPs a board."""
        return float(self.boards.imps.std(ddof=1) / np.sqrt(len(self.boards.imps)))


def play_match(
    a: str,
    b: str,
    boards: int,
    seed: int,
    pool: WorkerPool,
    progress: OnProgress,
    budget: Budget = DEFAULT_BUDGET,
) -> DuplicateMatch:
    """Play a duplicate match between two partnerships; dealer and vulnerability rotate.

    `a`, `b`: partnerships as `bidders.load_side` accepts them. `boards`: number of boards.
    `progress`: called with the number of finished boards. `budget`: effort of searches
    for each card. Raises UserError for an unknown partnership, or if only one has a card
    player.
    """
    sides = load_sides(a, b)
    size = SHARD if sides[0].cards is None else PLAYED_SHARD
    shards = [(first, min(size, boards - first)) for first in range(0, boards, size)]
    finished = 0

    def count(shard: int, results: BoardResults) -> None:
        nonlocal finished
        finished += len(results.imps)
        progress(finished)

    progress(finished)
    common = (*sides, budget)
    parts = pool.map(_play_shard, common, shards, generator(seed, RngStream.EVALUATE), count)
    return DuplicateMatch(*sides, concat_columns(parts))


def load_sides(a: str, b: str) -> tuple[Side, Side]:
    """Load two partnerships. Raises UserError for an unknown one, or if only one plays cards."""
    sides = load_side(a), load_side(b)
    if (sides[0].cards is None) != (sides[1].cards is None):
        raise UserError(
            f"only one side has a card player: {a}, {b}; write BIDDER+search for both or neither"
        )
    return sides


def _play_shard(
    rng: Generator, common: tuple[Side, Side, Budget], first: int, count: int
) -> BoardResults:
    """Bid and play `count` boards at both tables, starting with board number `first`.

    `common`: partnerships a and b, and the effort of searches for each card. The card play of both
    tables starts from the same random state.
    """
    a, b, budget = common
    holder, dealer, vulnerable = deal_boards(first, count, "rotating", "rotating", rng)
    tables = ((a, b), (b, a))
    calls = [
        bid_auctions(ns, ew, holder, dealer, vulnerable, child)
        for (ns, ew), child in zip(tables, rng.spawn(2), strict=True)
    ]
    contracts = [auction_rules.final_contracts(each, dealer) for each in calls]
    cards = np.full((2, count, CARDS), NO_CARD, np.int8)
    if a.cards is None:
        tricks = _double_dummy_tricks(holder, contracts)
    else:
        tricks = np.full((2, count), -1)
        deals = _deals(holder, dealer, vulnerable)
        (card_rng,) = rng.spawn(1)
        for table, (ns, ew) in enumerate(tables):
            north_south, east_west = (
                CARD_PLAYERS[str(side.cards)](ns.system, ew.system, budget) for side in (ns, ew)
            )
            state = play_cards(deals, calls[table], north_south, east_west, deepcopy(card_rng))
            cards[table] = state.cards
            played = state.declarer != NO_SEAT
            tricks[table, played] = state.progress[played, kernels.TRICKS_WON]
    at_open, at_closed = (
        TableResult(
            calls[k],
            contracts[k],
            tricks[k],
            contract_results.north_south_points(contracts[k], vulnerable, tricks[k]),
            cards[k],
        )
        for k in range(2)
    )
    imps = scoring.imps(at_open.score - at_closed.score)
    return BoardResults(holder, dealer, vulnerable, at_open, at_closed, imps)


def _double_dummy_tricks(holder: Array, contracts: list[Contracts]) -> Array:
    """Return the double-dummy tricks (2, G) of two tables; -1 where all passed.

    If both tables reach the same contract, it is solved only once.
    """
    count = len(holder)
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
    return tricks.reshape(2, count)


def _deals(holder: Array, dealer: Array, vulnerable: Array) -> Array:
    """Return deals (G, 74) of the games `auction` and `bridge`, without double-dummy tricks."""
    deals = np.full((len(holder), DEAL_WIDTH), UNSOLVED, np.int8)
    deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1] = holder, dealer, vulnerable
    return deals


def recorded_games(match: DuplicateMatch) -> Games:
    """Return the boards of a duplicate match as recorded games, first those of the open table.

    They are games of `bridge` if the cards were played, else of `auction`. The payoff is the score
    in points; without card play, that of the double-dummy tricks.
    """
    boards = match.boards
    deals = _deals(boards.holder, boards.dealer, boards.vulnerable)
    who, moves, payoff = [], list[list[Move]](), []
    for side, table in enumerate((boards.open, boards.closed)):
        for board, dealer in enumerate(boards.dealer):
            made = _made_calls(table.calls[board])
            moves.append([Move((int(dealer) + k) % 4, call) for k, call in enumerate(made)])
            moves[-1] += _card_moves(table, board)
        who += [[side, 1 - side] * 2] * len(table.calls)
        payoff += [[points, -points] * 2 for points in table.score.tolist()]
    names, systems = (match.a.name, match.b.name), (match.a.system.name, match.b.system.name)
    recorded = (np.tile(deals, (2, 1)), moves, np.array(who), np.array(payoff, np.float64))
    game = Bridge.name if match.played else Auction.name
    return Games(game, {"scoring": "points"}, names, *recorded, systems)


def _card_moves(table: TableResult, board: int) -> list[Move]:
    """Return the cards of one board as moves, each of the seat that acts; none if not played."""
    cards, declarer = table.cards[board], int(table.contracts.declarer[board])
    cards = cards[cards != NO_CARD]
    strain, leader, moves = int(table.contracts.strain[board]), (declarer + 1) % 4, list[Move]()
    for first in range(0, len(cards), 4):
        best = 0
        for place, card in enumerate(cards[first : first + 4]):
            seat = (leader + place) % 4
            actor = declarer if seat == (declarer + 2) % 4 else seat
            moves.append(Move(actor, FIRST_PLAY + int(card)))
            if place and beats(int(card), int(cards[first + best]), strain):
                best = place
        leader = (leader + best) % 4
    return moves


def match_boards(match: DuplicateMatch) -> list[Board]:
    """Return the boards of a match for a file: each at the open table, then at the closed table.

    The names of the players are those of the partnerships; alerted calls are explained.
    """
    boards, found = match.boards, list[Board]()
    deals = _deals(boards.holder, boards.dealer, boards.vulnerable)
    for board, deal in enumerate(deals):
        for room, table, ns, ew in _tables(match):
            calls, cards, tricks = _made_calls(table.calls[board]), table.cards[board], None
            if table.tricks[board] >= 0:
                tricks = int(table.tricks[board])
            meanings = auction_simulation.call_meanings(
                calls, int(deal[CARDS]), int(deal[CARDS + 1]), ns.system, ew.system
            )
            explained = {
                k: describe_meaning(each) for k, each in enumerate(meanings) if each.alerted
            }
            played = finished_board(
                deal, calls, cards[cards != NO_CARD].tolist(), tricks, board + 1
            )
            found.append(
                replace(
                    played, room=room, players=(ns.name, ew.name, ns.name, ew.name),
                    teams=(match.a.name, match.b.name), systems=(ns.system.name, ew.system.name),
                    explanations=explained, alerted=tuple(explained),
                )
            )  # fmt: skip
    return found


def _tables(match: DuplicateMatch) -> list[tuple[str, TableResult, Side, Side]]:
    """Return the room, results and partnerships, North-South and East-West, of both tables."""
    rooms = zip(ROOMS, (match.boards.open, match.boards.closed), strict=True)
    sides = ((match.a, match.b), (match.b, match.a))
    return [(*each, *pair) for each, pair in zip(rooms, sides, strict=True)]


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
    for room, table, ns, ew in _tables(match):
        name = room.lower()
        calls, dealer = _made_calls(table.calls[board]), int(boards.dealer[board])
        meanings = auction_simulation.explain_calls(
            calls, dealer, int(boards.vulnerable[board]), ns.system, ew.system
        )
        tricks = "" if row[f"{name}_tricks"] is None else f", {row[f'{name}_tricks']} tricks"
        lines += [
            f"\nNorth-South {ns.name}, East-West {ew.name}",
            diagram.auction_table(calls, dealer, signs),
            "\n".join(diagram.call_meanings(calls, dealer, meanings, signs)),
            *_trick_lines(table, board, signs),
            f"{row[f'{name}_contract']}{tricks}: {row[f'{name}_score']:+d} to North-South",
        ]
    return "\n".join([*lines, f"\n{row['imps']:+d} IMPs to {match.a.name}"])


def _trick_lines(table: TableResult, board: int, signs: bool) -> list[str]:
    """Return a line of text for each trick of one board; none if its cards were not played."""
    cards, declarer = table.cards[board], int(table.contracts.declarer[board])
    strain = np.append(np.zeros(CARDS, np.int64), table.contracts.strain[board])
    seats = "".join(SEATS[(declarer + k) % 4] for k in range(4))
    return diagram.format_tricks(strain, cards[cards != NO_CARD], signs, seats)[0]


def _made_calls(calls: Array) -> list[int]:
    """Return the calls of one auction (L,) without the padding."""
    return [int(call) for call in calls[calls >= 0]]


def write_report(match: DuplicateMatch, out: Path, show: int = 0) -> None:
    """Write the boards of a match to a .csv, .md, .pbn or .lin file.

    `show`: number of boards that are also shown as diagrams, in a .md file only. Raises UserError
    for another file extension or a missing folder.
    """
    check_output(out, *REPORT_SUFFIXES)
    if out.suffix in BOARD_SUFFIXES:
        board_files.save(out, match_boards(match))
        return
    rows = [board_row(match, board) for board in range(len(match.boards.imps))]
    if out.suffix == ".csv":
        write_text(out, tables.csv_text(list(rows[0]), [row.values() for row in rows]))
        return
    names = [name for name in rows[0] if name != "deal"]
    cells = [["-" if row[name] is None else str(row[name]) for name in names] for row in rows]
    lines = [
        f"# {match.a.name} against {match.b.name}",
        f"{match.mean:+.3f} ± {match.standard_error:.3f} IMPs a board, {len(rows)} boards; "
        f"{match.a.name} sits North-South at the open table. "
        f"{'' if match.played else 'Tricks are double dummy. '}Scores are points of North-South.",
        tables.markdown([name.replace("_", " ") for name in names], cells),
        *(f"```\n{describe_board(match, board)}\n```" for board in range(min(show, len(rows)))),
    ]
    write_text(out, "\n\n".join(lines) + "\n")
