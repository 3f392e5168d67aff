"""Card players of whole bridge boards, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from overtrick.core import Policy
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer
from overtrick.games.bridge.cardplay.rule_defenders import RuleDefender
from overtrick.games.bridge.players.board_player import BoardPolicy
from overtrick.games.bridge.players.pimc_player import PimcPlayer
from overtrick.games.bridge.players.worlds import Beliefs
from overtrick.games.bridge.system.loader import System

RULE_SHARE = 0.4
"""Share of cards that the search expects to follow the rules of `careful`."""

CARD_PLAYERS: Mapping[str, Callable[[System, System, int], Policy]] = {
    "rules": lambda ns, ew, worlds: BoardPolicy(SystemBidder(ns, ew), RuleDefender()),
    "careful": lambda ns, ew, worlds: BoardPolicy(SystemBidder(ns, ew), CarefulPlayer()),
    "search": lambda ns, ew, worlds: PimcPlayer(worlds, Beliefs((ns, ew), rule_share=RULE_SHARE)),
    "plain_search": lambda ns, ew, worlds: PimcPlayer(worlds),
}
"""Functions from the systems of both sides, and a number of sampled deals, to a card player:

    rules         the rules of `rule_defenders`, and random cards where none applies
    careful       the rules of `careful_player`
    search        PIMC: double dummy on sampled deals, weighted by the calls and the cards played
    plain_search  the same on deals that agree with the visible cards, without weights
"""
