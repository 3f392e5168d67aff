"""The auction as a game: four see their cards and the calls, and win what their contract is worth.

The cards are not played: a contract is worth what its side makes double dummy, and by IMPs the
difference to par (Zhang et al. 2022, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.auction.observation import (
    OBS_CALLERS,
    OBS_OWN,
    OBS_SEAT,
    calls_from_observation,
)
from overtrick.games.bridge.auction_rules import (
    BIDS,
    CALLS,
    LAST_BID,
    NEXT_SEAT,
    PASS,
    PASSES,
    STATE_WIDTH,
)
from overtrick.games.bridge.cardplay.minibridge import format_hand
from overtrick.games.bridge.cards import CARDS, SEATS, TRICKS, hand_bits, random_deals
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import SIDE_VULNERABLE, par
from overtrick.games.observation_checks import check_limits, check_rows

# the last is a unit that nobody wins
SCORINGS = {"imps": "imp", "points": "point", "nothing": "call"}
DEAL_DEALER, DEAL_VULNERABLE, DD_TABLE = (
    CARDS,
    CARDS + 1,
    CARDS + 2,
)  # columns of a deal, after the cards
DEAL_WIDTH = DD_TABLE + 20
UNSOLVED = -1

FEATURES = CARDS + 4 + 2 + 4 + 3 * BIDS * 4


@dataclass(slots=True)
class AuctionState:
    """G auctions."""

    deal: Array  # (G, 74)
    hand: Array  # (G, 4) sets of cards
    now: Array  # (G, NOW) as `auction` has it
    made: Array  # (G, 105) int8 by bid who made it, then who doubled it, then who redoubled it; -1


class Auction:
    """Bidding by four seats, or by two sides of which each calls for both its hands in turn, by
    what the hand that calls may see.

    scoring: imps, of the score against that of par, or points of duplicate bridge; North-South win
    what East-West lose. Or nothing, for who only wants to know what is called. A deal has 74
    columns: the seat that holds each card; dealer; vulnerability (None, NS, EW, All); the
    double-dummy tricks of North, then East, South and West as declarer in clubs, diamonds, hearts,
    spades and notrump, or -1 where they are not solved yet: then they are at the end of the game,
    if its worth depends on them.

    Facts: 0 the seat that calls; 1 dealer; 2 vulnerability; 3 passes since the last other call; 4
    own cards; 5-39 by bid from 1C to 7N who made it, -1 if nobody did; 40-74 who doubled it; 75-109
    who redoubled it. The seats tell the passes between, so that the facts tell every call.
    """

    name = "auction"
    actions: int | None = len(CALLS)
    action_names = CALLS
    infosets: int | None = None
    observation_fields = (
        "seat", "dealer", "vulnerable", "passes", "own",
        *(f"{what}_{bid}" for what in ("bid", "doubled", "redoubled") for bid in CALLS[:BIDS]),
    )  # fmt: skip

    def __init__(self, scoring: str = "imps", seats: int = 4) -> None:
        if scoring not in SCORINGS:
            raise UserError(f"scoring must be imps, points or nothing, not {scoring!r}")
        if seats not in (2, 4):
            raise UserError(f"seats must be 2 or 4, not {seats!r}")
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats

    def deal(self, games: int, rng: Generator) -> Deals:
        """(G, 74) deals, dealers and vulnerabilities, all equally likely; none is solved."""
        deals = np.full((games, DEAL_WIDTH), UNSOLVED, np.int8)
        deals[:, :CARDS] = random_deals(games, rng)
        deals[:, DEAL_DEALER] = rng.integers(4, size=games)
        deals[:, DEAL_VULNERABLE] = rng.integers(4, size=games)
        return deals

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """(R, 74) the 39 hidden cards dealt again to the other three, all ways alike."""
        deals = np.full((len(observations), DEAL_WIDTH), UNSOLVED, np.int8)
        deals[:, DEAL_DEALER], deals[:, DEAL_VULNERABLE] = (
            observations.observation[:, 1],
            observations.observation[:, 2],
        )
        places = random_deals(len(observations), rng)
        turned = places[places > 0].reshape(
            len(observations), -1
        )  # the others in any order, 13 times each
        seat = observations.observation[:, OBS_SEAT, None]
        own = observations.observation[:, OBS_OWN, None] >> np.arange(CARDS) & 1 == 1
        holder = np.broadcast_to(seat, own.shape).copy()
        holder[~own] = ((seat + turned) % 4).ravel()
        deals[:, :CARDS] = holder
        return deals

    def with_double_dummy(self, deals: Deals) -> Deals:
        """(G, 74) the same deals, all solved: for deals that are bid more than once."""
        from overtrick.games.bridge import double_dummy  # here, for endplay takes a moment

        deals = deals.copy()
        missing = np.flatnonzero(deals[:, DD_TABLE] == UNSOLVED)
        if len(missing):
            tables = double_dummy.trick_tables(deals[missing, :CARDS])
            deals[missing, DD_TABLE:] = tables.reshape(len(missing), -1)
        return deals

    def start(self, deals: Deals) -> AuctionState:
        now = initial_auctions(deals[:, DEAL_DEALER].astype(np.int64))
        made = np.full((len(deals), 3 * BIDS), auction_rules.NO_SEAT, np.int8)
        return AuctionState(deals.copy(), hand_bits(deals[:, :CARDS]), now, made)

    def observe(self, state: AuctionState) -> Observations:
        game, seen, legal = _turns(state.deal, state.hand, state.now, state.made)
        return Observations(game, seen[:, OBS_SEAT] % self.seats, seen, legal, None)

    def validated_observations(self, seen: Array) -> Observations:
        """The rows (R, K) as `turn` gives them. Raises UserError for facts that nobody sees."""
        seats = dict.fromkeys(("seat", "dealer", "vulnerable", "passes"), (0, 3))
        made = dict.fromkeys(self.observation_fields[OBS_CALLERS:], (-1, 3))
        check_limits(self.observation_fields, seen, {**seats, "own": (0, (1 << CARDS) - 1), **made})
        check_rows(
            self.observation_fields,
            seen,
            np.bitwise_count(seen[:, OBS_OWN]) == TRICKS,
            "tell of no 13 cards",
        )
        turns = [
            self.observation_after(int(r[1]), int(r[2]), int(r[OBS_OWN]), calls_from_observation(r))
            for r in seen
        ]
        same = [
            np.array_equal(observations.observation[0], row)
            for observations, row in zip(turns, seen, strict=True)
        ]
        check_rows(self.observation_fields, seen, np.array(same, bool), "do not go together")
        legal: list[Any] = [observations.legal for observations in turns]
        return Observations(
            np.arange(len(seen)), seen[:, OBS_SEAT] % self.seats, seen, np.concatenate(legal), None
        )

    def observation_after(
        self, dealer: int, vulnerable: int, own: int, calls: Sequence[int]
    ) -> Observations:
        """The one row of who calls next with a set of cards, of 13, after some calls. Raises
        UserError if they are not lawful, or nothing is to be called any more."""
        auction_rules.check_auction(calls, done=False)
        seat = (dealer + len(calls)) % 4
        deals = np.full((1, DEAL_WIDTH), UNSOLVED, np.int8)
        held = own >> np.arange(CARDS) & 1 == 1
        deals[0, np.flatnonzero(held)] = seat
        others = [who for who in range(4) if who != seat]
        deals[0, np.flatnonzero(~held)] = np.repeat(others, TRICKS)  # in any way: they are not seen
        deals[0, DEAL_DEALER], deals[0, DEAL_VULNERABLE] = dealer, vulnerable
        state = self.start(deals)
        for made in calls:
            _advance(np.zeros(1, np.int64), np.array([made]), state.now, state.made)
        observations = self.observe(state)
        if not len(observations):
            raise UserError("the auction is over: there is nothing to call")
        return observations

    def step(self, state: AuctionState, observations: Observations, action: Array) -> Array:
        """(G, S) points, all with the last pass."""
        wrong = _advance(observations.game, action, state.now, state.made)
        if wrong >= 0:
            game = int(observations.game[wrong])
            raise ValueError(f"illegal action {int(action[wrong])} in game {game}")
        points = np.zeros((len(state.now), self.seats))
        passes, bid = (state.now[observations.game, column] for column in (PASSES, LAST_BID))
        over = observations.game[passes >= np.where(bid < 0, 4, 3)]
        if len(over):
            worth = self.payoffs(state.deal[over], auction_rules.current_contracts(state.now[over]))
            points[over] = worth[:, None] * np.where(np.arange(self.seats) % 2 == 0, 1, -1)
        return points

    @property
    def lowest_payoff(self) -> float:
        """The least that a seat can win of a game; of points: a grand slam that, redoubled and
        vulnerable, loses every trick."""
        return {"imps": -24.0, "points": -7600.0, "nothing": 0.0}[self.scoring]

    def payoffs(self, deals: Deals, contracts: auction_rules.Contracts) -> Array:
        """(G,) what contracts bring to North-South."""
        if self.scoring == "nothing":
            return np.zeros(len(deals))
        if self.scoring == "points":  # nobody needs to know what a passed-out deal holds
            played = contracts.level > 0
            points = np.zeros(len(deals), np.int64)
            chosen = auction_rules.Contracts(*(column[played] for column in contracts))
            points[played] = _points(self.with_double_dummy(deals[played]), chosen)
            return points
        deals = self.with_double_dummy(deals)
        best = par(
            deals[:, DD_TABLE:].reshape(-1, 4, 5), deals[:, DEAL_DEALER], deals[:, DEAL_VULNERABLE]
        )
        return scoring.imps(_points(deals, contracts) - best.score)

    def features(self, observations: Observations) -> Array:
        """(R, 482) float32, all 0 or 1. 0-51 own cards; 52-55 who dealt; 56 own side vulnerable; 57
        the other one; 58-61 how many passes since the last other call; from 62 four numbers a bid,
        1C to 7N: who made it; from 202, who doubled it; from 342, who redoubled it. Who is: own
        seat, left, partner, right."""
        return _features(observations.observation, SIDE_VULNERABLE)

    def hand(self, observations: Observations) -> Array:
        """(R,) the cards held, spades first."""
        return np.array([format_hand(int(own)) for own in observations.observation[:, OBS_OWN]])

    def describe(self, seen: Array) -> str:
        """Who calls, with what, and the calls so far."""
        seat, dealer = SEATS[seen[OBS_SEAT]], SEATS[seen[1]]
        calls = auction_rules.format_calls(calls_from_observation(seen)) or "nothing"
        return (
            f"{seat} holds {format_hand(int(seen[OBS_OWN]))}, "
            f"vulnerable {VULNERABILITIES[seen[2]]}, after {calls} from {dealer} on"
        )


def _points(deals: Deals, contracts: auction_rules.Contracts) -> Array:
    """(G,) points of North-South in contracts of solved deals."""
    tricks = deals[np.arange(len(deals)), DD_TABLE + 5 * contracts.declarer + contracts.strain]
    return contract_results.north_south_points(contracts, deals[:, DEAL_VULNERABLE], tricks)


@njit(cache=True)
def initial_auctions(dealer):  # type: ignore[no-untyped-def]
    """(G, NOW) auctions before the first call."""
    now = np.empty((len(dealer), STATE_WIDTH), np.int64)
    for game in range(len(dealer)):
        auction_rules.start_auction(now[game], dealer[game])
    return now


@njit(cache=True)
def _turns(deals, hand, now, made):  # type: ignore[no-untyped-def]
    """The games that go on (R,), what who calls next knows (R, K), and may call (R, 38)."""
    rows = 0
    for game in range(len(now)):
        rows += not auction_rules.auction_over(now[game])
    games = np.empty(rows, np.int64)
    seen = np.empty((rows, OBS_CALLERS + 3 * BIDS), np.int64)
    legal = np.empty((rows, PASS + 3), np.bool_)
    row = 0
    for game in range(len(now)):
        if auction_rules.auction_over(now[game]):
            continue
        seat = now[game, NEXT_SEAT]
        games[row], seen[row, OBS_SEAT], seen[row, OBS_OWN] = game, seat, hand[game, seat]
        seen[row, 1], seen[row, 2] = deals[game, DEAL_DEALER], deals[game, DEAL_VULNERABLE]
        seen[row, 3] = now[game, PASSES]
        for k in range(3 * BIDS):
            seen[row, OBS_CALLERS + k] = made[game, k]
        auction_rules.write_legal_calls(now[game], legal[row])
        row += 1
    return games, seen, legal


@njit(cache=True)
def _advance(games, calls, now, made):  # type: ignore[no-untyped-def]
    """Make one call in each of some games, in place; in none if one of them is not lawful: then
    the first such row is returned, else -1."""
    for row in range(len(games)):
        if not auction_rules.is_legal_call(now[games[row]], calls[row]):
            return row
    for row in range(len(games)):
        game, chosen = games[row], calls[row]
        if chosen < BIDS:
            made[game, chosen] = now[game, NEXT_SEAT]
        elif chosen != PASS:
            made[game, now[game, LAST_BID] + (chosen - PASS) * BIDS] = now[game, NEXT_SEAT]
        auction_rules.make_call(now[game], chosen)
    return -1


@njit(cache=True)
def _features(seen, vulnerable):  # type: ignore[no-untyped-def]
    """(R, FEATURES) float32, as Auction.features says."""
    out = np.zeros((len(seen), FEATURES), np.float32)
    for row in range(len(seen)):
        facts, numbers = seen[row], out[row]
        seat = facts[OBS_SEAT]
        for card in range(CARDS):
            numbers[card] = facts[OBS_OWN] >> card & 1
        numbers[CARDS + (facts[1] - seat) % 4] = 1
        numbers[CARDS + 4] = vulnerable[facts[2], seat % 2]
        numbers[CARDS + 5] = vulnerable[facts[2], (seat + 1) % 2]
        numbers[CARDS + 6 + facts[3]] = 1
        for k in range(3 * BIDS):
            who = facts[OBS_CALLERS + k]
            if who >= 0:
                numbers[CARDS + 10 + 4 * k + (who - seat) % 4] = 1
    return out
