"""Compute double-dummy tricks with Bo Haglund's solver DDS, called through the package endplay.

The functions import endplay at their first call, because importing it is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overtrick.core import Array, Deals
from overtrick.games.bridge.cards import CARDS, SUITS, TRICKS, format_deal

if TYPE_CHECKING:
    from endplay.types import Deal

BOARDS_PER_CALL = 200  # maximum number of boards in one call of DDS
TABLES_PER_CALL = 40  # maximum number of deals in one call of DDS that solves all strains

DDS_STRAINS = (3, 2, 1, 0, 4)  # DDS's numbers of the strains C, D, H, S, NT


def declarer_tricks(deals: Deals, threads: int = 0) -> Array:
    """Return the double-dummy tricks (G,) of the declarer's side in Mini-Bridge deals (G, 54).

    deals: the position that holds each of the 52 cards, relative to the declarer; the strain; and
    the number of tricks needed, which is not used. threads: number of CPU threads of DDS; 0 uses
    every core.
    """
    from endplay import _dds, dds

    _dds.SetMaxThreads(threads)
    found = []
    for first in range(0, len(deals), BOARDS_PER_CALL):
        boards = [_board(deal) for deal in deals[first : first + BOARDS_PER_CALL]]
        solved = dds.solve_all_boards(boards, dds.solve.SolveMode.OptimalOne)
        found += [TRICKS - next(iter(solution))[1] for solution in solved]
    return np.array(found, np.int64)


def contract_tricks(holder: Array, declarer: Array, strain: Array) -> Array:
    """Return the double-dummy tricks (G,) of the declaring side, for one contract of each deal.

    holder: (G, 52) the seat that holds each card. declarer: (G,) seat. strain: (G,), 0 to 4 for C,
    D, H, S, NT. DDS runs on one thread.
    """
    turned = (holder - declarer[:, None]) % 4
    unused = np.zeros(len(holder), np.int64)  # column 53: the tricks that the contract needs
    return declarer_tricks(np.column_stack([turned, strain, unused]), threads=1)


def _board(deal: Array) -> Deal:
    """Convert a Mini-Bridge deal (54,) to a Deal of the Python package endplay.

    The declarer is North, so East leads.
    """
    from endplay.types import Deal, Denom, Player

    board = Deal(format_deal(deal[:CARDS]))
    board.trump, board.first = Denom(DDS_STRAINS[deal[CARDS]]), Player.east
    return board


def trick_tables(holder: Array, threads: int = 1) -> Array:
    """Return the double-dummy tricks (R, 4, 5) int8 of R deals for each declarer and strain.

    Declarers are in the order N, E, S, W, strains in the order C, D, H, S, NT. The hands are passed
    to DDS as bit masks, because the Deal objects of the package endplay are slow.

    holder: (R, 52) the seat that holds each card. threads: number of CPU threads of DDS; the
    default suits a worker process with one core.
    """
    from endplay import _dds

    _dds.SetMaxThreads(threads)
    # in each hand, DDS wants spades first, and rank two as bit 2
    by_suit = holder.reshape(len(holder), len(SUITS), TRICKS)[:, ::-1]
    bits = np.uint32(4) << np.arange(TRICKS, dtype=np.uint32)
    sets = np.stack([(by_suit == seat) @ bits for seat in range(4)], axis=1)
    found = np.empty((len(holder), 4, len(DDS_STRAINS)), np.int8)
    request, answer, no_par = _dds.ddTableDeals(), _dds.ddTablesRes(), _dds.allParResults()
    left_out = [False] * len(DDS_STRAINS)
    for first in range(0, len(holder), TABLES_PER_CALL):
        batch = sets[first : first + TABLES_PER_CALL]
        request.noOfTables = len(batch)
        np.frombuffer(request.ddTableDeal, np.uint32)[: batch.size] = batch.ravel()
        _dds.CalcAllTables(request, -1, left_out, answer, no_par)
        solved = np.frombuffer(answer.results, np.int32).reshape(-1, len(DDS_STRAINS), 4)
        found[first : first + len(batch)] = solved[: len(batch), DDS_STRAINS].transpose(0, 2, 1)
    return found
