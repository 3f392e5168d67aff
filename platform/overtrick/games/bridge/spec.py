"""Registrations (GameSpec) of the bridge games: Mini-Bridge, the auction, and whole boards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overtrick.core import BehaviouralPolicy
from overtrick.games.bridge.auction import stored_networks
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.auction.presentation import AuctionPresentation
from overtrick.games.bridge.board_presentation import BridgePresentation
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer
from overtrick.games.bridge.cardplay.minibridge import MiniBridge
from overtrick.games.bridge.cardplay.presentation import CardPlayPresentation
from overtrick.games.bridge.cardplay.rule_defenders import RuleDefender
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.board_player import BoardPolicy
from overtrick.games.bridge.system import loader
from overtrick.games.spec import GameSpec


def _board_players(game: Any) -> Mapping[str, Callable[[Any], BehaviouralPolicy]]:
    """Return the scripted players of whole boards, which bid by the system `natural`."""

    def player(cards: BehaviouralPolicy) -> BehaviouralPolicy:
        system = loader.load("natural")
        return BoardPolicy(SystemBidder(system, system), cards)

    return {
        "rules": lambda game: player(RuleDefender()),
        "careful": lambda game: player(CarefulPlayer()),
    }


SPECS = (
    GameSpec(
        MiniBridge.name,
        MiniBridge,
        scripted_players=lambda game: {
            "rules": lambda game: RuleDefender(),
            "careful": lambda game: CarefulPlayer(),
        },
        presentation=CardPlayPresentation,
    ),
    GameSpec(
        Auction.name,
        Auction,
        match_options={"seats": 2},
        presentation=AuctionPresentation,
        model_answers=stored_networks.answers,
    ),
    GameSpec(
        Bridge.name,
        Bridge,
        match_options={"seats": 2},
        scripted_players=_board_players,
        presentation=BridgePresentation,
    ),
)
