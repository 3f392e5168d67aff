"""Card players of whole bridge boards, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from overtrick.core import Policy
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer
from overtrick.games.bridge.cardplay.rule_defenders import RuleDefender
from overtrick.games.bridge.players.board_player import BoardPolicy
from overtrick.games.bridge.players.search_player import WORLDS, SearchPlayer
from overtrick.games.bridge.players.worlds import Beliefs
from overtrick.games.bridge.system.loader import System

RULE_SHARE, BEST_SHARE = 0.25, 0.55
"""Shares of cards that the search expects to follow the rules of `careful`, and to be best double
dummy."""
MOVES = 2
"""Moves of the search's alpha-mu, see SearchPlayer."""


class Budget(NamedTuple):
    """Effort of a search for each card: a number of deals, or the seconds in place of it."""

    worlds: int = WORLDS
    seconds: float | None = None


DEFAULT_BUDGET = Budget()


def _search(ns: System, ew: System, budget: Budget) -> SearchPlayer:
    beliefs = Beliefs((ns, ew), rule_share=RULE_SHARE, best_share=BEST_SHARE)
    return SearchPlayer(budget.worlds, beliefs, moves=MOVES, seconds=budget.seconds)


CARD_PLAYERS: Mapping[str, Callable[[System, System, Budget], Policy]] = {
    "rules": lambda ns, ew, budget: BoardPolicy(SystemBidder(ns, ew), RuleDefender()),
    "careful": lambda ns, ew, budget: BoardPolicy(SystemBidder(ns, ew), CarefulPlayer()),
    "search": _search,
    "plain_search": lambda ns, ew, budget: SearchPlayer(budget.worlds, seconds=budget.seconds),
}
"""Functions from the systems of both sides, and a budget, to a card player:

    rules         the rules of `rule_defenders`, and random cards where none applies
    careful       the rules of `careful_player`
    search        double dummy on sampled deals, weighted by the calls and the cards played, with
                  signals in defence, and alpha-mu as declarer
    plain_search  double dummy on deals that agree with the visible cards, without weights
"""
SEARCHES = ("search", "plain_search")
"""Card players that sample deals."""
