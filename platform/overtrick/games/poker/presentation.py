"""Text presentation of poker games to people who play or watch."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.presentation import PlayedActions, Presentation


class PokerPresentation(Presentation):
    """Text presentation of a poker game: cards, actions and pot."""

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return the visible cards, the actions so far and the chips in the pot, as text."""
        game = self.game
        hole, board = map(game.card_names, np.split(observation[:-4], [game.rules.hole]))
        own, others = observation[-4:-2]
        history = ", ".join(game.action_names[a] for a in game.betting.history[observation[-1]])
        shown = f", the board is {board}" if board else ""
        return (
            f"you hold {hole}{shown}\nso far: {history or 'nothing'}\n"
            f"chips in the pot: {own} of yours, {others} of others"
        )

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return the hole cards of every seat and the board, as text."""
        game = self.game
        hands, board = np.split(deal, [game.seats * game.rules.hole])
        held = [
            f"seat {1 + seat} held {game.card_names(hand)}"
            for seat, hand in enumerate(hands.reshape(game.seats, -1))
        ]
        return "; ".join([*held, *([f"board {game.card_names(board)}"] if len(board) else [])])
