"""Mini-Bridge as people at the table see it."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import diagram
from overtrick.games.bridge.cardplay.minibridge import POSITIONS, MiniBridge
from overtrick.games.bridge.cards import CARDS
from overtrick.games.presentation import PlayedActions, Presentation, action_array

UNSEEN = -1


class CardPlayPresentation(Presentation):
    """Two hands as a diagram, and the tricks."""

    def seat_names(self) -> tuple[str, ...]:
        return ("declarer", "defence") if self.game.seats == 2 else super().seat_names()

    def default_human_seat(self) -> int | None:
        return 0

    def describe_observation(self, seen: Array, moves: PlayedActions, signs: bool = True) -> str:
        return _cards(self.game, seen, moves, signs)

    def describe_deal(self, deal: Array, moves: PlayedActions, signs: bool = True) -> str:
        play = diagram.format_play(deal, action_array(moves), signs)
        return f"{diagram.deal_diagram(deal, signs)}\n{play}"


def held_cards(cards: int) -> Array:
    """Return (52,): 0 for the cards of a bit set, UNSEEN for others."""
    return np.where(np.int64(cards) >> np.arange(CARDS) & 1 == 1, 0, UNSEEN)


def _cards(game: MiniBridge, seen: Array, moves: PlayedActions, signs: bool) -> str:
    """The hands that a position may see, and the tricks so far."""
    at = dict(zip(game.observation_fields, (int(fact) for fact in seen), strict=True))
    holder = np.full(CARDS, UNSEEN)
    other = 0 if at["position"] == 2 else 2  # all see dummy, who sees declarer
    for who, cards in ((other, at["shown"]), (at["position"], at["own"])):
        holder[held_cards(cards) == 0] = who
    deal = np.array([*holder, at["strain"], at["needed"]])
    played = np.array([action for _, action in moves], np.int64)
    tricks, _ = diagram.format_tricks(deal, played, signs)
    return "\n".join(
        [
            diagram.deal_diagram(deal, signs),
            f"{at['needed']} tricks needed, {at['won']} won; {POSITIONS[at['position']]} plays",
            *tricks,
        ]
    )
