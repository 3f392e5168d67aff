"""Bridge boards and recorded auctions as HTML, with the meaning of each call."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from overtrick.core import UserError
from overtrick.games import registry
from overtrick.games.bridge import auction_rules, contract_results, diagram
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cards import CARDS, SEATS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.reports.html import elements
from overtrick.reports.html.replays import REPLAYS
from overtrick.storage.game_records import KIND, Games

SEAT_NAMES = dict(zip(SEATS, ("North", "East", "South", "West"), strict=True))


def auction_article(games: Games, number: int) -> Markup:
    """Return one recorded auction as HTML, with the meaning of each call in the bidding systems.

    `number`: the index of the auction in `games`. Raises UserError for an illegal auction.
    """
    deal, calls = games.deals[number], [move.action for move in games.moves[number]]
    try:
        auction_rules.check_auction(calls)
    except UserError as error:
        raise UserError(f"game {1 + number}: {error}: {KIND.remedy}") from None
    contract, declarer = contract_results.describe_contract(calls, SEATS[deal[CARDS]])
    players, points = games.who[number], games.payoff[number]
    ns, ew = (games.systems[players[side]] if games.systems else "" for side in range(2))
    board = Board(
        deal[:CARDS],
        SEATS[deal[CARDS]],
        VULNERABILITIES[deal[CARDS + 1]],
        tuple(auction_rules.CALLS[call] for call in calls),
        contract,
        declarer,
        number=1 + number,
        systems=(ns, ew),
    )
    unit = registry.make(games.game, **games.options).unit
    sides = ", ".join(
        f"{name} {games.players[players[k]]}" for k, name in enumerate(("North-South", "East-West"))
    )
    return board_article(board, f"{sides}: {points[0]:+g} {unit}s to North-South")


REPLAYS[Auction.name] = auction_article


def board_article(board: Board, note: str = "", default_system: str | None = None) -> Markup:
    """Return a bridge board as HTML: deal, auction with meanings, result and card play, if known.

    `note`: a line of text below the board. `default_system`: the bidding system of a pair whose
    system is not recorded or not available; None: show no meanings then.
    """
    played = board.play and board.declarer is not None
    return elements.render(
        "board.html",
        board=board, note=note, seat_names=SEAT_NAMES, hands=_hands(board),
        names=dict(zip(SEATS, board.players, strict=True)), heading=_heading(board),
        alerts=_alerts(board),
        auction=_auction(board, default_system) if board.auction else None,
        tricks=_card_play(board) if played else "",
    )  # fmt: skip


def _heading(board: Board) -> str:
    """Return the event, the stage and the teams of a board, as far as they are known."""
    event = [board.tags[name] for name in ("Event", "Stage", "Site", "Date") if name in board.tags]
    return ", ".join(filter(None, [*event, " - ".join(filter(None, board.teams))]))


def _alerts(board: Board) -> list[tuple[str, str, str]]:
    """Return seat, call and explanation of each alerted or explained call."""
    dealer = SEATS.index(board.dealer)
    return [
        (
            SEAT_NAMES[SEATS[(dealer + k) % 4]],
            diagram.format_call(auction_rules.CALLS.index(call)),
            board.explanations.get(k) or "alerted",
        )
        for k, call in enumerate(board.auction)
        if k in board.alerted or k in board.explanations
    ]


def _hands(board: Board) -> list[tuple[str, list[str]]]:
    """Return the four hands in the order North, East, South, West, each with its suits.

    Screen readers read the hands in this order.
    """
    return [
        (letter, diagram.format_hand(board.holder, seat).split("  "))
        for seat, letter in enumerate(SEATS)
    ]


def _auction(board: Board, default_system: str | None) -> dict[str, Any]:
    """Return a table of an auction, its explained calls, and the bidding systems of both pairs.

    Keys: `table`, with a column for each seat; `calls`, the seat, call and meaning of each; and
    `systems`. `default_system`: as in `board_article`. `calls` is empty if the system of a pair is
    not one of ours and there is no default.
    """
    calls = [auction_rules.CALLS.index(each) for each in board.auction]
    dealer = SEATS.index(board.dealer)
    cells = [""] * ((dealer - diagram.WEST) % 4) + [diagram.format_call(call) for call in calls]
    rows = [(cells[first : first + 4] + [""] * 4)[:4] for first in range(0, len(cells), 4)]
    columns = elements.table(diagram.COLUMNS, rows)
    ours, stated = loader.system_names(), board.systems
    names = [name if name in ours else default_system for name in stated]
    if names[0] is None or names[1] is None:
        systems = [name or "unknown" for name in stated]
        return {"table": columns, "calls": [], "systems": systems}
    ns, ew = (loader.load(name) for name in names if name is not None)
    vulnerable = VULNERABILITIES.index(board.vulnerable)
    meanings = auction_simulation.explain_calls(calls, dealer, vulnerable, ns, ew)
    explained = [
        (SEAT_NAMES[SEATS[(dealer + k) % 4]], diagram.format_call(call), meaning)
        for k, (call, meaning) in enumerate(zip(calls, meanings, strict=True))
    ]
    return {"table": columns, "calls": explained, "systems": [ns.name, ew.name]}


def _card_play(board: Board) -> str:
    """Return the card play of a board trick by trick; a star marks the winning card."""
    assert board.declarer is not None
    declarer = SEATS.index(board.declarer)
    deal = np.array([*((board.holder - declarer) % 4), board.strain, 0])
    from_declarer = SEATS[declarer:] + SEATS[:declarer]
    lines, _ = diagram.format_tricks(deal, np.array(board.play), seats=from_declarer)
    return "\n".join(lines)
