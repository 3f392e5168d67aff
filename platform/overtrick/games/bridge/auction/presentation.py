"""The auction as people at the table see it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, contract_results, diagram
from overtrick.games.bridge.auction import observation
from overtrick.games.bridge.auction.game import DD_TABLE, Auction
from overtrick.games.bridge.cardplay.presentation import held_cards
from overtrick.games.bridge.cards import CARDS, SEATS, STRAINS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import par
from overtrick.games.presentation import PlayedActions, Presentation, action_array


class AuctionPresentation(Presentation):
    """One hand and the calls; in the end four hands, the contract and par."""

    def seat_names(self) -> tuple[str, ...]:
        return tuple(SEATS) if self.game.seats == 4 else super().seat_names()

    def default_human_seat(self) -> int | None:
        return SEATS.index("S")

    def action_name_of(self, word: str) -> str:
        said, known = word.upper(), auction_rules.CALL_SYNONYMS
        if said.endswith("NT"):
            return said[:-1]
        return auction_rules.CALLS[known[said]] if said in known else word

    def format_actions(self, names: Sequence[str]) -> str:
        bids = [name for name in names if name in auction_rules.CALLS[: auction_rules.BIDS]]
        lowest = [f"{bids[0]} to {bids[-1]}"] if len(bids) > 1 else bids
        return "  ".join([*lowest, *names[len(bids) :]])

    def describe_observation(self, seen: Array, moves: PlayedActions, signs: bool = True) -> str:
        seat, calls = int(seen[0]), observation.calls_from_observation(seen)
        said = diagram.auction_table([*calls], int(seen[1]), signs)
        own = diagram.format_hand(held_cards(seen[observation.OBS_OWN]), 0, signs)
        return (
            f"{SEATS[seat]} holds {own}\n"
            f"dealer {SEATS[seen[1]]}, vulnerable {VULNERABILITIES[seen[2]]}\n\n{said}"
        )

    def describe_deal(self, deal: Array, moves: PlayedActions, signs: bool = True) -> str:
        return _bid(self.game, deal, action_array(moves), signs)


def _bid(game: Auction, deal: Array, calls: Array, signs: bool) -> str:
    """Four hands, the contract, its points at double-dummy tricks, and par."""
    deal = game.with_double_dummy(deal[None])[0]
    dealer, vulnerable = deal[CARDS : CARDS + 1], deal[CARDS + 1 : CARDS + 2]
    contract = auction_rules.final_contracts(calls[None], dealer)
    table = deal[DD_TABLE:].reshape(4, 5)
    tricks = table[contract.declarer, contract.strain].astype(np.int64)
    points = int(
        contract_results.north_south_points(contract, vulnerable.astype(np.int64), tricks)[0]
    )
    best = par(table[None], dealer, vulnerable)
    by_par = "all pass"
    if best.level[0]:
        doubled = "X" if best.doubled[0] else ""
        strain = STRAINS[best.strain[0]]
        by_par = f"{best.level[0]}{strain}{doubled} by {SEATS[best.declarer[0]]}"
    made = f", {tricks[0]} tricks double dummy" if contract.level[0] else ""
    return (
        f"{diagram.hands_diagram(deal[:CARDS], signs=signs)}\n\n"
        f"{diagram.auction_table([int(call) for call in calls], int(dealer[0]), signs)}\n\n"
        f"{contract_results.describe_contracts(contract)[0]}{made}: {points:+d} to North-South; "
        f"par {by_par}: {int(best.score[0]):+d}"
    )
