"""Text presentation of poker games to people who play or watch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from overtrick.core import Array
from overtrick.games.presentation import PlayedActions, Presentation

SUIT_SYMBOLS = str.maketrans({"c": "♣", "d": "♦", "h": "♥", "s": "♠"})


class PokerPresentation(Presentation):
    """Text presentation of a poker game: cards, actions and pot."""

    def __init__(self, game: Any, signs: bool = True) -> None:
        super().__init__(game, signs)
        after_words = "(?:(?<=hold )|(?<=held )|(?<=board: ))"
        self.card_pattern = re.compile(
            r"\b[2-9TJQKA][cdhs♣♦♥♠]" if game.rules.best_five else rf"{after_words}\w+"
        )

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return the visible cards, the actions of each round and the pot, as text."""
        game = self.game
        hole, board = map(self._format_cards, np.split(observation[:-4], [game.rules.hole]))
        own, others = observation[-4:-2]
        shown = f", board: {board}" if board else ""
        rounds = self._describe_rounds(game.betting.history[observation[-1]])
        chips = game.rules.chips_a_unit
        return (
            f"you hold {hole}{shown}\n{rounds}"
            f"in the pot: {own / chips:g} of yours, {others / chips:g} of others ({game.unit}s)"
        )

    def _format_cards(self, cards: Array) -> str:
        """Return the names of cards (n,), with suits as symbols if the presentation has them."""
        names = str(self.game.card_names(cards))
        if self.signs and self.game.rules.best_five:
            return names.translate(SUIT_SYMBOLS)
        return names

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
            f"seat {1 + seat} held {self._format_cards(hand)}"
            for seat, hand in enumerate(hands.reshape(game.seats, -1))
        ]
        shown = [f"board: {self._format_cards(board)}"] if len(board) else []
        rounds = self._describe_rounds([action for _, action in played])
        return rounds + "; ".join([*held, *shown])
