"""Text presentation of poker games to people who play or watch."""

from __future__ import annotations

from overtrick.core import Array
from overtrick.games.presentation import PlayedActions, Presentation


class PokerPresentation(Presentation):
    """Text presentation of a poker game: cards, actions and pot."""

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return the visible cards, the actions so far and the chips in the pot, as text."""
        game = self.game
        cards = [game.card_name(int(card)) for card in observation[:-4]]
        board = " ".join(filter(None, cards[game.rules.hole :]))
        own, others = int(observation[-4]), int(observation[-3])
        history = [game.action_names[action] for action in game.betting.history[observation[-1]]]
        hole = " ".join(cards[: game.rules.hole])
        board = f", the board is {board}" if board else ""
        return (
            f"you hold {hole}{board}\nso far: {', '.join(history) or 'nothing'}\n"
            f"chips in the pot: {own} of yours, {others} of others"
        )

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return the hole cards of every seat and the board, as text."""
        game = self.game
        each, names = game.rules.hole, [game.card_name(int(card)) for card in deal]
        held = [
            f"seat {1 + seat} held {' '.join(names[seat * each : (seat + 1) * each])}"
            for seat in range(game.seats)
        ]
        board = names[game.seats * each :]
        return "; ".join([*held, *([f"board {' '.join(board)}"] if board else [])])
