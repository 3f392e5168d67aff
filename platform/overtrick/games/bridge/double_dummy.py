"""Perfect play with all cards seen: Bo Haglund's solver DDS, by way of endplay."""

from __future__ import annotations

import numpy as np
from endplay import _dds, dds
from endplay.types import Deal, Denom, Player

from overtrick.core import Array, Deals
from overtrick.games.bridge.cards import CARDS, SUITS, TRICKS, format_deal

AT_ONCE = 200  # boards that DDS takes in one call
TABLES_AT_ONCE = 40  # or deals, each of which is a board a strain

DENOMINATIONS = (Denom.clubs, Denom.diamonds, Denom.hearts, Denom.spades, Denom.nt)
"""The strains as endplay has them, in our order."""


def declarer_tricks(deals: Deals, threads: int = 0) -> Array:
    """(G,) the tricks that the declaring side takes of deals (G, 54) as MiniBridge has them if
    both sides play perfectly from the opening lead on. With 0 threads DDS takes one a core."""
    _dds.SetMaxThreads(threads)
    found = []
    for first in range(0, len(deals), AT_ONCE):
        boards = [_board(deal) for deal in deals[first : first + AT_ONCE]]
        solved = dds.solve_all_boards(boards, dds.solve.SolveMode.OptimalOne)
        found += [TRICKS - next(iter(solution))[1] for solution in solved]
    return np.array(found, np.int64)


def contract_tricks(holder: Array, declarer: Array, strain: Array) -> Array:
    """(G,) the same of contracts by any seat, from who holds each card (G, 52), on one thread."""
    turned = (holder - declarer[:, None]) % 4
    unused = np.zeros(len(holder), np.int64)  # where MiniBridge has the tricks needed
    return declarer_tricks(np.column_stack([turned, strain, unused]), threads=1)


def _board(deal: Array) -> Deal:
    """The declarer sits North, so that East leads."""
    board = Deal(format_deal(deal[:CARDS]))
    board.trump, board.first = DENOMINATIONS[deal[CARDS]], Player.east
    return board


def trick_tables(holder: Array, threads: int = 1) -> Array:
    """(R, 4, 5) int8 the tricks that each declarer NESW takes in each strain CDHSN if both sides
    play perfectly, from who holds each card (R, 52).

    DDS is given the hands as sets of bits: its objects would cost as much as text. One thread,
    for a worker has one core; more share the deals of a call.
    """
    _dds.SetMaxThreads(threads)
    # theirs: spades first in each hand, the two as bit 2
    by_suit = holder.reshape(len(holder), len(SUITS), TRICKS)[:, ::-1]
    bits = np.uint32(4) << np.arange(TRICKS, dtype=np.uint32)
    sets = np.stack([(by_suit == seat) @ bits for seat in range(4)], axis=1)
    found = np.empty((len(holder), 4, len(DENOMINATIONS)), np.int8)
    asked, answer, no_par = _dds.ddTableDeals(), _dds.ddTablesRes(), _dds.allParResults()
    left_out = [False] * len(DENOMINATIONS)
    order = [int(denomination) for denomination in DENOMINATIONS]
    for first in range(0, len(holder), TABLES_AT_ONCE):
        part = sets[first : first + TABLES_AT_ONCE]
        asked.noOfTables = len(part)
        np.frombuffer(asked.ddTableDeal, np.uint32)[: part.size] = part.ravel()
        _dds.CalcAllTables(asked, -1, left_out, answer, no_par)
        solved = np.frombuffer(answer.results, np.int32).reshape(-1, len(DENOMINATIONS), 4)
        found[first : first + len(part)] = solved[: len(part), order].transpose(0, 2, 1)
    return found
