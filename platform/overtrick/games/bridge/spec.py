"""Registrations (GameSpec) of the bridge games: Mini-Bridge and the auction."""

from __future__ import annotations

from overtrick.games.bridge.auction import stored_networks
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.presentation import AuctionPresentation
from overtrick.games.bridge.cardplay.minibridge import MiniBridge
from overtrick.games.bridge.cardplay.presentation import CardPlayPresentation
from overtrick.games.bridge.cardplay.rule_defenders import RuleDefender
from overtrick.games.spec import GameSpec

SPECS = (
    GameSpec(
        MiniBridge.name,
        MiniBridge,
        scripted_players=lambda game: {"rules": lambda game: RuleDefender()},
        presentation=CardPlayPresentation,
    ),
    GameSpec(
        Auction.name,
        Auction,
        match_options={"seats": 2},
        presentation=AuctionPresentation,
        model_answers=stored_networks.answers,
    ),
)
