"""Compute double-dummy tricks with Bo Haglund's solver DDS, called through the package endplay.

The functions import endplay at their first call, because importing it is slow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from overtrick.core import Array, Deals
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, SUITS, TRICKS, format_deal
from overtrick.games.bridge.trick_rules import NO_CARD

if TYPE_CHECKING:
    from endplay.types import Deal

BOARDS_PER_CALL = 200  # maximum number of boards in one call of DDS
TABLES_PER_CALL = 40  # maximum number of deals in one call of DDS that solves all strains

DDS_STRAINS = (3, 2, 1, 0, 4)  # DDS's numbers of the strains C, D, H, S, NT
_SHIFTS = TRICKS * np.arange(3, -1, -1)  # DDS wants spades first
_REQUEST = np.dtype([
    ("count", "i4"),
    ("deals", [
        ("trump", "i4"), ("first", "i4"), ("trick_suit", "i4", 3), ("trick_rank", "i4", 3),
        ("remaining", "u4", (4, 4)),
    ], BOARDS_PER_CALL),
    ("target", "i4", BOARDS_PER_CALL), ("solutions", "i4", BOARDS_PER_CALL),
    ("mode", "i4", BOARDS_PER_CALL),
])  # fmt: skip
"""The structure `boards` of DDS."""
_ANSWER = np.dtype([
    ("count", "i4"),
    ("boards", [
        ("nodes", "i4"), ("cards", "i4"), ("suit", "i4", 13), ("rank", "i4", 13),
        ("equals", "i4", 13), ("score", "i4", 13),
    ], BOARDS_PER_CALL),
])  # fmt: skip
"""The structure `solvedBoards` of DDS."""


def declarer_tricks(deals: Deals, threads: int = 0) -> Array:
    """Return the double-dummy tricks (G,) of the declarer's side in Mini-Bridge deals (G, 54).

    deals: the position that holds each of the 52 cards, relative to the declarer; the strain; and
    the number of tricks needed, which is not used. threads: number of CPU threads of DDS; 0 uses
    every core.
    """
    from endplay import dds

    _set_threads(threads)
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


def card_tricks(hand: Array, strain: Array, leader: Array, trick: Array) -> Array:
    """Return the double-dummy tricks (R, 52) int8 that follow each legal card, -1 for other cards.

    The tricks are those of the side to play, from the current trick on. DDS runs on one thread, and
    gets the hands as bit masks, because the Deal objects of the package endplay are slow.

    hand: (R, 4) cards held by four hands in the order of play, as bit masks. strain: (R,) 0 to 4.
    leader: (R,) the hand that leads or has led to the current trick. trick: (R, 4) card of each
    hand in the current trick, or NO_CARD. Every hand to play holds a card.
    """
    from endplay import _dds

    _set_threads(1)
    found = np.full((len(hand), CARDS), -1, np.int8)
    request, answer = _dds.boards(), _dds.solvedBoards()
    boards = np.frombuffer(request, _REQUEST, 1)[0]
    solved = np.frombuffer(answer, _ANSWER, 1)[0]["boards"]
    boards["target"], boards["solutions"], boards["mode"] = -1, 3, 1  # all cards and their scores
    for first in range(0, len(hand), BOARDS_PER_CALL):
        rows = slice(first, min(first + BOARDS_PER_CALL, len(hand)))
        count = rows.stop - rows.start
        request.noOfBoards = count
        deals = boards["deals"][:count]
        deals["trump"], deals["first"] = np.array(DDS_STRAINS)[strain[rows]], leader[rows]
        deals["remaining"] = (hand[rows, :, None] >> _SHIFTS & SUIT_MASK) << 2
        order = (leader[rows, None] + np.arange(3)) % 4
        played = np.take_along_axis(trick[rows], order, axis=1)
        deals["trick_suit"] = np.where(played < 0, 0, 3 - played // TRICKS)
        deals["trick_rank"] = np.where(played < 0, 0, played % TRICKS + 2)
        _dds.SolveAllBoardsBin(request, answer)
        _read_scores(
            *(solved[name][:count] for name in ("cards", "suit", "rank", "equals", "score")),
            found[rows],
        )
    return found


def remaining_tricks(hand: Array, strain: Array, leader: Array) -> Array:
    """Return the double-dummy tricks (R,) of hands 0 and 2, from the lead to a trick on.

    hand: (R, 4) cards held by four hands in the order of play, as bit masks; all hands hold equally
    many cards. strain: (R,) 0 to 4. leader: (R,) the hand that leads.
    """
    best = card_tricks(hand, strain, leader, np.full((len(hand), 4), NO_CARD)).max(axis=1)
    tricks = np.bitwise_count(hand[:, 0]).astype(np.int64)
    return np.where(leader % 2 == 0, best, tricks - best)


@njit(cache=True)
def _read_scores(cards, suit, rank, equals, score, found):  # type: ignore[no-untyped-def]
    """Write the scores of DDS into `found` (R, 52), also for the lower cards of a sequence.

    cards: (R,) number of answers. suit, rank, equals, score: (R, 13); `equals` is a bit mask of
    lower ranks of equal value, the two at bit 2.
    """
    for row in range(len(cards)):
        for k in range(cards[row]):
            first = TRICKS * (3 - suit[row, k])
            found[row, first + rank[row, k] - 2] = score[row, k]
            for lower in range(TRICKS):
                if equals[row, k] >> (lower + 2) & 1:
                    found[row, first + lower] = score[row, k]


@lru_cache(maxsize=1)  # no effect if the last call had the same number
def _set_threads(threads: int) -> None:
    """Set the number of CPU threads of DDS; 0: one for each core."""
    from endplay import _dds

    _dds.SetMaxThreads(threads)


def trick_tables(holder: Array, threads: int = 1) -> Array:
    """Return the double-dummy tricks (R, 4, 5) int8 of R deals for each declarer and strain.

    Declarers are in the order N, E, S, W, strains in the order C, D, H, S, NT. The hands are passed
    to DDS as bit masks, because the Deal objects of the package endplay are slow.

    holder: (R, 52) the seat that holds each card. threads: number of CPU threads of DDS; the
    default suits a worker process with one core.
    """
    from endplay import _dds

    _set_threads(threads)
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
