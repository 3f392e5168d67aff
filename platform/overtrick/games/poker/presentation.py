"""Text presentation of poker games to people who play or watch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.presentation import PlayedActions, Presentation


class PokerPresentation(Presentation):
    """Text presentation of a poker game: cards, actions and pot."""

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return the visible cards, the actions of each round and the pot, as text."""
        game = self.game
        hole, board = map(game.card_names, np.split(observation[:-4], [game.rules.hole]))
        own, others = observation[-4:-2]
        shown = f", the board is {board}" if board else ""
        rounds = self._describe_rounds(game.betting.history[observation[-1]])
        chips = game.rules.chips_a_unit
        return (
            f"you hold {hole}{shown}\n{rounds}"
            f"in the pot: {own / chips:g} of yours, {others / chips:g} of others ({game.unit}s)"
        )

    def _describe_rounds(self, actions: Sequence[int]) -> str:
        """Return a line for each betting round that has begun: the seats and their actions.

        `actions`: all actions from the start of the game.
        """
        betting, node = self.game.betting, 0
        lines: list[list[str]] = []
        for action in actions:
            done = f"seat {1 + betting.seat[node]} {self.game.action_names[action]}"
            if betting.round[node] == len(lines):
                lines.append([])
            lines[-1].append(done)
            node = betting.after[node, action]
        return "".join(f"round {k}: {', '.join(line)}\n" for k, line in enumerate(lines, 1))

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return the actions of each round, the hole cards of every seat and the board, as text."""
        game = self.game
        hands, board = np.split(deal, [game.seats * game.rules.hole])
        held = [
            f"seat {1 + seat} held {game.card_names(hand)}"
            for seat, hand in enumerate(hands.reshape(game.seats, -1))
        ]
        shown = [f"board {game.card_names(board)}"] if len(board) else []
        rounds = self._describe_rounds([action for _, action in played])
        return rounds + "; ".join([*held, *shown])
