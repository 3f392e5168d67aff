"""A game as people at the table see it: seats by name, what one of them knows, and all at the end.

moves: what everybody did so far, (seat, action) in the order of play.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, contract_results, diagram
from overtrick.games.bridge.auction import observation
from overtrick.games.bridge.auction.game import TABLE, Auction
from overtrick.games.bridge.cardplay.minibridge import POSITIONS, MiniBridge
from overtrick.games.bridge.cards import CARDS, SEATS, STRAINS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import par
from overtrick.games.matrix import Matrix
from overtrick.games.poker.game import Poker

Moves = Sequence[tuple[int, int]]
UNSEEN = -1


def seats(game: Any) -> tuple[str, ...]:
    """The names of a game's seats."""
    if isinstance(game, MiniBridge) and game.seats == 2:
        return ("declarer", "defence")
    if isinstance(game, Auction) and game.seats == 4:
        return tuple(SEATS)
    return tuple(str(1 + seat) for seat in range(game.seats))


def usual_seat(game: Any) -> int | None:
    """Where a person sits by custom; None if all seats are alike and they take turns."""
    if isinstance(game, MiniBridge):
        return 0
    return SEATS.index("S") if isinstance(game, Auction) else None


def meant(game: Any, word: str) -> str:
    """A word that people use for an action, as the game has it; other words as they are."""
    known = auction_rules.OTHER_WORDS if isinstance(game, Auction) else {}
    said = word.upper()
    if isinstance(game, Auction) and said.endswith("NT"):
        return said[:-1]
    return auction_rules.CALLS[known[said]] if said in known else word


def offered(game: Any, names: Sequence[str]) -> str:
    """What may be done, by the names of the actions; numbered, unless the names begin so."""
    if isinstance(game, Auction):
        bids = [name for name in names if name in auction_rules.CALLS[: auction_rules.BIDS]]
        lowest = [f"{bids[0]} to {bids[-1]}"] if len(bids) > 1 else bids
        return "  ".join([*lowest, *names[len(bids) :]])
    return "  ".join(f"{number} {name}" for number, name in enumerate(names, 1))


def view(game: Any, seen: Array, moves: Moves, signs: bool = True) -> str:
    """What a seat knows, from its facts (K,), in words or as a diagram."""
    if isinstance(game, MiniBridge):
        return _cards(game, seen, moves, signs)
    if isinstance(game, Auction):
        seat, calls = int(seen[0]), observation.told(seen)
        said = diagram.auction([*calls], int(seen[1]), signs)
        return (
            f"{SEATS[seat]} holds {diagram.hand(_holder(seen[observation.OWN]), 0, signs)}\n"
            f"dealer {SEATS[seen[1]]}, vulnerable {VULNERABILITIES[seen[2]]}\n\n{said}"
        )
    if isinstance(game, Poker):
        return _betting(game, seen)
    if isinstance(game, Matrix):
        return "all choose at once"
    return str(game.describe(seen))


def _betting(game: Poker, seen: Array) -> str:
    """The cards that a seat sees, and the bets so far."""
    cards = [game.card_name(int(card)) for card in seen[:-4]]
    board = " ".join(filter(None, cards[game.rules.hole :]))
    own, others = int(seen[-4]), int(seen[-3])
    history = [game.action_names[action] for action in game.betting.history[seen[-1]]]
    hole, board = " ".join(cards[: game.rules.hole]), f", the board is {board}" if board else ""
    return (
        f"you hold {hole}{board}\nso far: {', '.join(history) or 'nothing'}\n"
        f"chips in the pot: {own} of yours, {others} of others"
    )


def _holder(cards: int) -> Array:
    """(52,) 0 for the cards of a set, UNSEEN for others."""
    return np.where(np.int64(cards) >> np.arange(CARDS) & 1 == 1, 0, UNSEEN)


def _cards(game: MiniBridge, seen: Array, moves: Moves, signs: bool) -> str:
    """The hands that a position may see, and the tricks so far."""
    at = dict(zip(game.observation_fields, (int(fact) for fact in seen), strict=True))
    holder = np.full(CARDS, UNSEEN)
    other = 0 if at["position"] == 2 else 2  # all see dummy, who sees declarer
    for who, cards in ((other, at["shown"]), (at["position"], at["own"])):
        holder[_holder(cards) == 0] = who
    deal = np.array([*holder, at["strain"], at["needed"]])
    played = np.array([action for _, action in moves], np.int64)
    tricks, _ = diagram.tricks(deal, played, signs)
    return "\n".join(
        [
            diagram.diagram(deal, signs),
            f"{at['needed']} tricks needed, {at['won']} won; {POSITIONS[at['position']]} plays",
            *tricks,
        ]
    )


def revealed(game: Any, deal: Array, moves: Moves, signs: bool = True) -> str:
    """All that was dealt (C,) once a game is over, and what came of it."""
    actions = np.array([action for _, action in moves], np.int64)
    if isinstance(game, MiniBridge):
        return f"{diagram.diagram(deal, signs)}\n{diagram.play(deal, actions, signs)}"
    if isinstance(game, Auction):
        return _bid(game, deal, actions, signs)
    if isinstance(game, Poker):
        each, names = game.rules.hole, [game.card_name(int(card)) for card in deal]
        held = [
            f"seat {1 + seat} held {' '.join(names[seat * each : (seat + 1) * each])}"
            for seat in range(game.seats)
        ]
        board = names[game.seats * each :]
        return "; ".join([*held, *([f"board {' '.join(board)}"] if board else [])])
    chosen = [f"seat {1 + seat} {game.action_names[action]}" for seat, action in moves]
    return ", ".join(chosen)


def _bid(game: Auction, deal: Array, calls: Array, signs: bool) -> str:
    """Four hands, the contract, its points at double-dummy tricks, and par."""
    deal = game.solved(deal[None])[0]
    dealer, vulnerable = deal[CARDS : CARDS + 1], deal[CARDS + 1 : CARDS + 2]
    contract = auction_rules.contract_of(calls[None], dealer)
    table = deal[TABLE:].reshape(4, 5)
    tricks = table[contract.declarer, contract.strain].astype(np.int64)
    points = int(contract_results.points(contract, vulnerable.astype(np.int64), tricks)[0])
    best = par(table[None], dealer, vulnerable)
    by_par = "all pass"
    if best.level[0]:
        doubled = "X" if best.doubled[0] else ""
        strain = STRAINS[best.strain[0]]
        by_par = f"{best.level[0]}{strain}{doubled} by {SEATS[best.declarer[0]]}"
    made = f", {tricks[0]} tricks double dummy" if contract.level[0] else ""
    return (
        f"{diagram.compass(deal[:CARDS], signs=signs)}\n\n"
        f"{diagram.auction([int(call) for call in calls], int(dealer[0]), signs)}\n\n"
        f"{contract_results.in_words(contract)[0]}{made}: {points:+d} to North-South; "
        f"par {by_par}: {int(best.score[0]):+d}"
    )
