"""Text presentation of the bridge game: hands, auction, tricks and score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, contract_results, diagram
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.game import DEAL_DEALER, DEAL_VULNERABLE
from overtrick.games.bridge.auction.presentation import AuctionPresentation
from overtrick.games.bridge.board_observation import (
    DUMMY,
    FIRST_CARD,
    FIRST_PLAY,
    card_play_observations,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.presentation import CardPlayPresentation, held_cards
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.games.presentation import PlayedActions, action_array


class BridgePresentation(AuctionPresentation):
    """Text presentation of the bridge game.

    During the auction and the play it shows the player's own hand, the calls, dummy and the tricks;
    afterwards all hands and the score.
    """

    card_pattern = CardPlayPresentation.card_pattern

    def action_name_of(self, word: str) -> str:
        """Return the name of a typed call or card, such as 1NT, dbl or s7, or any other word."""
        if word.upper() in CARD_NAMES:
            return word.upper()
        return super().action_name_of(word)

    def format_actions(self, legal: Sequence[int]) -> str:
        """Return the legal calls, bids first, or the legal cards, in one line."""
        if legal and legal[0] >= FIRST_PLAY:
            return "  ".join(CARD_NAMES[action - FIRST_PLAY] for action in legal)
        return super().format_actions(legal)

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return one observation (K,) as text: hand, calls, and in card play dummy and the tricks.

        Hands are shown without the cards that they have played. `played` is not used: the
        observation contains all calls and cards.
        """
        calls = obs.calls_from_observation(observation)
        cards = observation[FIRST_CARD:]
        cards = cards[cards != NO_CARD]
        gone = sum(1 << int(card) for card in cards)
        shown = observation.copy()
        shown[[obs.OWN, DUMMY]] &= ~np.int64(gone)
        text = super().describe_observation(shown, played)
        contract = _final_contract(calls, int(observation[obs.DEALER]))
        if contract is None:
            return text
        (said,) = contract_results.describe_contracts(contract)
        lines = [text, "", said]
        if observation[DUMMY]:
            dummy = diagram.format_hand(held_cards(int(shown[DUMMY])), 0, self.signs)
            lines.append(f"dummy {dummy}")
            rows = self.game.validated_observations(observation[None])
            position = card_play_observations(rows).observation[0, kernels.OBS_POSITION]
            if position == 2:
                lines.append("dummy to play")
        return "\n".join([*lines, *self._tricks(contract, cards)])

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return all hands, auction, tricks, result and score of a finished board, as text.

        deal: (74,). played: all calls and cards.
        """
        actions = action_array(played)
        calls, cards = actions[actions < FIRST_PLAY], actions[actions >= FIRST_PLAY] - FIRST_PLAY
        dealer = int(deal[DEAL_DEALER])
        lines = [
            diagram.hands_diagram(deal[:CARDS], signs=self.signs),
            "",
            diagram.auction_table(calls.tolist(), dealer, self.signs),
            "",
        ]
        contract = _final_contract(calls.tolist(), dealer)
        if contract is None:
            return "\n".join([*lines, "passed out: 0"])
        (said,) = contract_results.describe_contracts(contract)
        lines += [said, *self._tricks(contract, cards)]
        state = self.game.start(deal[None])
        for action in actions:
            self.game.step(state, self.game.observe(state), np.array([action]))
        if not state.over[0]:
            return "\n".join(lines)
        won = state.progress[:, kernels.TRICKS_WON]
        points = contract_results.north_south_points(contract, deal[[DEAL_VULNERABLE]], won)
        how = ", claimed" if len(cards) < CARDS else ""
        return "\n".join([*lines, f"{won[0]} tricks{how}: {points[0]:+d} to North-South"])

    def _tricks(self, contract: auction_rules.Contracts, cards: Array) -> list[str]:
        """Return a line for each trick begun, with the seats' letters.

        contract: of one board. cards: in the order played.
        """
        declarer, strain = int(contract.declarer[0]), int(contract.strain[0])
        strain_column = np.append(np.zeros(CARDS, np.int64), strain)
        seats = "".join(SEATS[(declarer + k) % 4] for k in range(4))
        return diagram.format_tricks(strain_column, cards, self.signs, seats)[0]


def _final_contract(calls: Sequence[int], dealer: int) -> auction_rules.Contracts | None:
    """Return the contract of one auction; None before its end, and if all seats passed."""
    if list(calls[-3:]) != [auction_rules.PASS] * 3 or len(calls) < 4:
        return None
    contract = auction_rules.final_contracts(np.array([[*calls, -1]]), np.array([dealer]))
    return contract if contract.level[0] else None
