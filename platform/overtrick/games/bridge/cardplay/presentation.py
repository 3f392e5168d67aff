"""Text presentation of the Mini-Bridge game: a diagram of the hands, and the tricks."""

from __future__ import annotations

import re

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import diagram
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.minibridge import POSITIONS
from overtrick.games.bridge.cards import CARDS
from overtrick.games.presentation import PlayedActions, Presentation, action_array

UNSEEN = -1


class CardPlayPresentation(Presentation):
    """Text presentation of Mini-Bridge: a diagram of the visible hands, and the tricks."""

    card_pattern = re.compile("[♠♥♦♣][2-9TJQKA]")

    def seat_names(self) -> tuple[str, ...]:
        """Return "declarer" and "defence"; in a game with four seats, the seats' numbers."""
        return ("declarer", "defence") if self.game.seats == 2 else super().seat_names()

    def default_human_seat(self) -> int | None:
        """Return the declarer's seat, the customary seat of a person."""
        return 0

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return one observation (K,) as text: visible hands in a diagram, and tricks so far.

        played: all cards played so far.
        """
        position, strain, needed, won = observation[: kernels.OBS_WON + 1].tolist()
        holder = np.full(CARDS, UNSEEN)
        shown = kernels.shown_position(position)
        for who, column in ((shown, kernels.OBS_SHOWN), (position, kernels.OBS_OWN)):
            holder[held_cards(observation[column]) == 0] = who
        deal = np.array([*holder, strain, needed])
        tricks, _ = diagram.format_tricks(deal, action_array(played), self.signs)
        progress = f"{needed} tricks needed, {won} won; {POSITIONS[position]} plays"
        return "\n".join([diagram.deal_diagram(deal, self.signs), progress, *tricks])

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return a diagram of the deal (54,), all tricks and the result, as text.

        played: all cards of the game.
        """
        play = diagram.format_play(deal, action_array(played), self.signs)
        return f"{diagram.deal_diagram(deal, self.signs)}\n{play}"


def held_cards(cards: int) -> Array:
    """Convert the bit mask of a hand to an array (52,): the seat that holds each card.

    The hand's cards belong to seat 0, all others are UNSEEN. Functions of `diagram` draw this
    array.
    """
    return np.where(np.int64(cards) >> np.arange(CARDS) & 1 == 1, 0, UNSEEN)
