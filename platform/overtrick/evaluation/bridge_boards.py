"""Play the cards of bridge boards: as declarer, as defenders, and in duplicate."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Policy, UserError, select_rows
from overtrick.games.bridge import auction_rules, scoring
from overtrick.games.bridge.auction.game import DEAL_DEALER, DEAL_VULNERABLE
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.board_state import BridgeState
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.board_player import BoardPlayer
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.loader import System
from overtrick.policies.rollout import play


def contract_deals(system: System, count: int, rng: Generator) -> Deals:
    """Sample deals (count, 74) on which four players of a bidding system reach a contract.

    Raises UserError if fewer than `count` of 100 * `count` deals have a contract.
    """
    game, found = Bridge(), list[Deals]()
    while sum(map(len, found)) < count:
        if len(found) == 100:
            raise UserError(f"{system.name} passes out nearly all deals: name another system")
        deals = game.deal(count, rng)
        found.append(deals[contracts_of(system, deals).level > 0])
    return np.concatenate(found)[:count]


def contracts_of(system: System, deals: Deals) -> auction_rules.Contracts:
    """Return the contracts that four players of a bidding system reach on deals (G, 74)."""
    dealer, vulnerable = deals[:, [DEAL_DEALER, DEAL_VULNERABLE]].astype(np.int64).T
    hands = hand_bits(deals[:, :CARDS])
    calls = auction_simulation.bid_auctions(hands, dealer, vulnerable, system, system)
    return auction_rules.final_contracts(calls, dealer)


def play_boards(player: Policy, deals: Deals, rng: Generator) -> BridgeState:
    """Play boards of the game `bridge` with one policy at all seats; return their final states.

    deals: (G, 74) as from `Bridge.deal`.
    """
    game = Bridge()
    state, session = game.start(deals), player.start(len(deals), rng)
    while len(observations := game.observe(state)):
        game.step(state, observations, session.act(observations).action)
    return state


def play_cards(deals: Deals, calls: Array, ns: Policy, ew: Policy, rng: Generator) -> BridgeState:
    """Play the cards of boards whose auctions are given; return the final states.

    deals: (G, 74) as from `Bridge.deal`. calls: (G, L) complete auctions, padded with -1. ns, ew:
    policies of the game `bridge` that play the cards of each side.
    """
    game = Bridge()
    state = game.start(deals)
    for made in calls.T.astype(np.int64):
        rows = game.observe(state)
        calling = np.flatnonzero(made[rows.game] >= 0)
        if len(calling):
            rows = select_rows(rows, calling)
            game.step(state, rows, made[rows.game])
    sessions = [
        side.start(len(deals), child) for side, child in zip((ns, ew), rng.spawn(2), strict=True)
    ]
    while len(rows := game.observe(state)):
        card = np.zeros(len(rows), np.int64)
        for side, session in enumerate(sessions):
            ours = np.flatnonzero(rows.seat % 2 == side)
            if len(ours):
                card[ours] = session.act(select_rows(rows, ours)).action
        game.step(state, rows, card)
    return state


def duplicate_imps(
    player: Policy, other: Policy, system: System, deals: Deals, rng: Generator
) -> Array:
    """Return the IMPs (G,) that a card player wins from another in duplicate.

    All players bid by `system`. At the first table the player sits North-South, at the second
    East-West. Both tables have the same deals, and start from the same random state. deals: (G, 74)
    as from `Bridge.deal`.
    """
    bidder, points = SystemBidder(system, system), []
    for pair in ((player, other), (other, player)):
        sides = [BoardPlayer(bidder, cards, cards) for cards in pair]
        points.append(_north_south_points(sides[0], sides[1], deals, deepcopy(rng)))
    return scoring.imps(points[0] - points[1])


def _north_south_points(ns: Policy, ew: Policy, deals: Deals, rng: Generator) -> Array:
    """Play boards between two sides; return North-South's points (G,) int64."""
    payoff = play(Bridge(seats=2), (ns, ew), deals, rng, recorded=()).payoff
    return payoff[:, 0].astype(np.int64)
