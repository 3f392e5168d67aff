"""Text presentation of the auction game: seats, hands, calls, contract and par."""

from __future__ import annotations

from collections.abc import Sequence

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, contract_results, diagram
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_DEALER, DEAL_VULNERABLE
from overtrick.games.bridge.cardplay.presentation import held_cards
from overtrick.games.bridge.cards import CARDS, SEATS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import par
from overtrick.games.presentation import PlayedActions, Presentation, action_array


class AuctionPresentation(Presentation):
    """Text presentation of the auction game.

    During the auction it shows one hand and the calls; afterwards it shows all hands and the
    result.
    """

    def seat_names(self) -> tuple[str, ...]:
        """Return the letters N, E, S and W; in a game with two seats, the seats' numbers."""
        return tuple(SEATS) if self.game.seats == 4 else super().seat_names()

    def default_human_seat(self) -> int | None:
        """Return South, the customary seat of a person; None in a game with two seats."""
        return SEATS.index("S") if self.game.seats == 4 else super().default_human_seat()

    def action_name_of(self, word: str) -> str:
        """Return the name of a typed call such as 1NT, pass or dbl; other words are unchanged."""
        upper, known = word.upper(), auction_rules.CALL_SYNONYMS
        if upper.endswith("NT"):
            return upper[:-1]
        return auction_rules.CALLS[known[upper]] if upper in known else word

    def format_actions(self, legal: Sequence[int]) -> str:
        """Return the names of the legal calls, bids first, in one line such as "2H to 7N  P  X"."""
        names = [auction_rules.CALLS[call] for call in legal]
        bids = [name for name in names if name in auction_rules.CALLS[: auction_rules.BIDS]]
        lowest = [f"{bids[0]} to {bids[-1]}"] if len(bids) > 1 else bids
        return "  ".join([*lowest, *names[len(bids) :]])

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return one observation (K,) as text: hand, dealer, vulnerability and the calls so far.

        `played` is not used: the observation contains all calls.
        """
        dealer = int(observation[obs.DEALER])
        hand = diagram.format_hand(held_cards(observation[obs.OWN]), 0, self.signs)
        return (
            f"{SEATS[observation[obs.SEAT]]} holds {hand}\n"
            f"dealer {SEATS[dealer]}, vulnerable {VULNERABILITIES[observation[obs.VULNERABLE]]}\n\n"
            f"{diagram.auction_table(obs.calls_from_observation(observation), dealer, self.signs)}"
        )

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return all hands, the auction, the contract and par with North-South's points, as text.

        The points of the contract are those of double-dummy play. deal: (74,), with the columns in
        the docstring of Auction. Missing double-dummy tricks are computed. played: all calls of the
        auction.
        """
        calls = action_array(played)
        deal = self.game.with_double_dummy(deal[None])[0]
        dealer, vulnerable = deal[[DEAL_DEALER]], deal[[DEAL_VULNERABLE]]
        contract = auction_rules.final_contracts(calls[None], dealer)
        table = deal[DD_TABLE:].reshape(4, 5)
        tricks = table[contract.declarer, contract.strain]
        points = contract_results.north_south_points(contract, vulnerable, tricks)
        best = par(table[None], dealer, vulnerable)
        (reached,) = contract_results.describe_contracts(contract)
        (at_par,) = contract_results.describe_contracts(best.contracts)
        made = f", {tricks[0]} tricks double dummy" if contract.level[0] else ""
        return (
            f"{diagram.hands_diagram(deal[:CARDS], signs=self.signs)}\n\n"
            f"{diagram.auction_table(calls.tolist(), int(dealer[0]), self.signs)}\n\n"
            f"{reached}{made}: {points[0]:+d} to North-South; par {at_par}: {best.score[0]:+d}"
        )
