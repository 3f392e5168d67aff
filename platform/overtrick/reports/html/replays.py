"""Games and bridge boards as pieces of a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from overtrick.games import registry
from overtrick.games.bridge import auction_rules, diagram
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.cards import CARDS, SEATS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats.pbn_lin import Board
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.reports.html import elements
from overtrick.storage import game_records
from overtrick.storage.game_records import Games, Move

NAMES = dict(zip(SEATS, ("North", "East", "South", "West"), strict=True))


def games_of(kept: Games) -> list[str]:
    """A piece for each game: step by step, or an auction as a board. Raises Refused for games that
    are not by the rules."""
    rules = registry.make(kept.game, **kept.options)
    if isinstance(rules, Auction):
        return [_auction(kept, number) for number in range(len(kept.moves))]
    shown = registry.presentation(rules)
    seats = [f"seat {name}" if name.isdigit() else name for name in shown.seat_names()]
    pieces = []
    for number in range(len(kept.moves)):
        who = [kept.players[player] for player in kept.who[number]]
        names = [f"{seat} ({player})" for seat, player in zip(seats, who, strict=True)]
        steps, before = [], list[Move]()
        for step in game_records.steps(kept, number):
            done = rules.action_names[step.move.action]
            steps.append(
                f"<li><p><strong>{escape(names[step.move.seat])}: {escape(done)}</strong></p>"
                f"{elements.text(shown.describe_observation(step.observation, before))}</li>\n"
            )
            before.append(step.move)
        end = elements.text(shown.describe_deal(kept.deals[number], before))
        won = ", ".join(
            f"{name} {points:+g}" for name, points in zip(names, kept.payoff[number], strict=True)
        )
        pieces.append(
            f"<article><h3>Game {1 + number}</h3>"
            f'<ol class="steps">{"".join(steps)}<li><p><strong>The end</strong></p>{end}</li></ol>'
            f"<p>{escape(won)} {escape(rules.unit)}s</p></article>\n"
        )
    return pieces


def _auction(kept: Games, number: int) -> str:
    """An auction that was kept, by the systems of its sides."""
    deal, calls = kept.deals[number], [move.action for move in kept.moves[number]]
    dealer, vulnerable = SEATS[deal[CARDS]], VULNERABILITIES[deal[CARDS + 1]]
    contract, declarer = auction_rules.describe_contract(calls, dealer)
    who, points = kept.who[number], kept.payoff[number]
    systems = tuple(kept.systems[who[side]] if kept.systems else "" for side in range(2))
    board = Board(
        deal[:CARDS], dealer, vulnerable, tuple(auction_rules.CALLS[call] for call in calls),
        contract, declarer, number=1 + number, systems=(systems[0], systems[1]),
    )  # fmt: skip
    unit = registry.make(kept.game, **kept.options).unit
    sides = (
        f"{name} {kept.players[who[k]]}" for k, name in enumerate(("North-South", "East-West"))
    )
    return board_of(board, f"{', '.join(sides)}: {points[0]:+g} {unit}s to North-South")


def board_of(board: Board, note: str = "", system_of: str | None = None) -> str:
    """A deal, its auction with what each call shows, and its play, as far as they are known.
    system_of: of sides whose system the board does not name, or that is not one of ours."""
    dealer = SEATS.index(board.dealer)
    pieces = [
        f"<article><h3>Board {board.number or ''}</h3>"
        f"<p>Dealer {NAMES[board.dealer]}, vulnerable {escape(board.vulnerable)}"
        f"{f', {escape(board.kind)}' if board.kind else ''}</p>\n{_hands(board)}"
    ]
    if board.auction:
        calls = [auction_rules.CALLS.index(each) for each in board.auction]
        pieces.append(_calls(calls, dealer, board, system_of))
    if board.contract is not None:
        by = "" if board.declarer is None else f" by {NAMES[board.declarer]}"
        tricks = "" if board.tricks is None else f", {board.tricks} tricks"
        pieces.append(f"<p><strong>{escape(board.contract)}{by}{tricks}</strong></p>\n")
    if board.play and board.declarer is not None:
        pieces.append(_play(board))
    return "".join([*pieces, f"<p>{escape(note)}</p>" if note else "", "</article>\n"])


def _hands(board: Board) -> str:
    """Four hands, North's on top; a screen reader hears them clockwise."""
    hands = []
    for seat, letter in enumerate(SEATS):
        suits = [
            f'<p><span class="{"red" if suit[0] in "♥♦" else "black"}">{suit[0]}</span>'
            f"{escape(suit[1:])}</p>"
            for suit in diagram.format_hand(board.holder, seat).split("  ")
        ]
        hands.append(f'<div class="{letter}"><h4>{NAMES[letter]}</h4>{"".join(suits)}</div>')
    return f'<div class="deal">{"".join(hands)}</div>\n'


def _calls(calls: Sequence[int], dealer: int, board: Board, system_of: str | None) -> str:
    """The auction in four columns, then what each call shows, if both systems are known."""
    said = [""] * ((dealer - diagram.WEST) % 4) + [diagram.format_call(made) for made in calls]
    rows = [(said[first : first + 4] + [""] * 4)[:4] for first in range(0, len(said), 4)]
    columns = elements.table(diagram.COLUMNS, rows)
    ours, called = loader.system_names(), board.systems
    names = [name if name in ours else system_of for name in called]
    if names[0] is None or names[1] is None:
        told_of = f"North-South {called[0] or 'unknown'}, East-West {called[1] or 'unknown'}"
        return f'{columns}<p class="pale">Systems: {escape(told_of)}</p>\n'
    ns, ew = (loader.load(name) for name in names if name is not None)
    vulnerable = VULNERABILITIES.index(board.vulnerable)
    lines = [
        f"<li>{NAMES[SEATS[(dealer + k) % 4]]} "
        f"<strong>{escape(diagram.format_call(made))}</strong> {escape(meaning)}</li>"
        for k, (made, meaning) in enumerate(
            zip(
                calls,
                auction_simulation.explain_calls(calls, dealer, vulnerable, ns, ew),
                strict=True,
            )
        )
    ]
    summary = f"What the calls show: North-South {ns.name}, East-West {ew.name}"
    return (
        f"{columns}<details open><summary>{escape(summary)}</summary>"
        f"<ol>{''.join(lines)}</ol></details>\n"
    )


def _play(board: Board) -> str:
    """The tricks, with a star at the card that takes each."""
    assert board.declarer is not None
    declarer = SEATS.index(board.declarer)
    deal = np.array([*((board.holder - declarer) % 4), board.strain, 0])
    around = SEATS[declarer:] + SEATS[:declarer]
    lines, _ = diagram.format_tricks(deal, np.array(board.play), seats=around)
    return elements.text("\n".join(lines))
