"""The bridge auction as a game: four hands bid, and the contract is scored double dummy.

The cards are not played. The declarer is assumed to take the double-dummy number of tricks. The
payoff is the score, or its difference to par in IMPs (Zhang et al. 2022, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError, check_choice, concat_columns
from overtrick.games.bridge import auction_rules, contract_results, double_dummy, scoring
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction_rules import (
    BIDS,
    CALLERS_WIDTH,
    CALLS,
    LAST_BID,
    NEXT_SEAT,
    PASS,
    PASSES,
)
from overtrick.games.bridge.cards import (
    CARDS,
    SEATS,
    TRICKS,
    are_deals,
    format_hand,
    hand_bits,
    random_deals,
)
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.par import SIDE_VULNERABLE, par
from overtrick.games.observation_validation import check_limits, check_rows

SCORINGS = {"imps": "imp", "points": "point", "nothing": "call"}
"""Unit of payoffs by scoring; with the scoring `nothing` all payoffs are 0."""

DEAL_DEALER, DEAL_VULNERABLE, DD_TABLE = range(CARDS, CARDS + 3)
"""Columns of a deal after the 52 columns of cards; DD_TABLE is the first of 20 columns."""

DEAL_WIDTH = DD_TABLE + 20
UNSOLVED = -1
FEATURE_WIDTH = CARDS + 4 + 2 + 4 + 4 * CALLERS_WIDTH


@dataclass(slots=True)
class AuctionState:
    """State of G auctions in progress."""

    deal: Array  # (G, 74) with the columns in the docstring of Auction
    hand: Array  # (G, 4) hand of each seat, as card bit masks
    now: Array  # (G, STATE_WIDTH) states of the auctions, as in `auction_rules`
    callers: Array  # (G, 105) int8 seats that made, doubled and redoubled each bid, or -1


class Auction:
    """The bridge auction as a game for four seats, or for two seats.

    With two seats, a seat bids both hands of its side, and observes only the hand that is to call.
    The payoffs of North-South and East-West sum to 0.

    scoring: the payoff. `imps`: the difference of the score to par, in IMPs. `points`: the score of
        duplicate bridge. `nothing`: 0, for rollouts that need only the calls.
    seats: 4, or 2 for the two sides.

    A deal has 74 columns:

        0 - 51   the seat that holds each card
        52       dealer
        53       vulnerability: 0 None, 1 NS, 2 EW, 3 All
        54 - 73  double-dummy tricks of N, E, S, W as declarer, each in C, D, H, S, NT; -1 if they
                 have not been computed. They are computed at the end of a game that needs them.

    Columns of an observation, which together determine every call of the auction:

        0         seat to call
        1         dealer
        2         vulnerability
        3         number of consecutive passes at the end of the auction so far
        4         own cards, as a bit mask
        5 - 39    for each bid from 1C to 7N, the seat that made it, or -1
        40 - 74   for each bid, the seat that doubled it, or -1
        75 - 109  for each bid, the seat that redoubled it, or -1
    """

    name = "auction"
    actions: int | None = len(CALLS)
    action_names = CALLS
    infosets: int | None = None
    observation_fields = (
        "seat", "dealer", "vulnerable", "passes", "own",
        *(f"{kind}_{bid}" for kind in ("bid", "doubled", "redoubled") for bid in CALLS[:BIDS]),
    )  # fmt: skip

    def __init__(self, scoring: str = "imps", seats: int = 4) -> None:
        check_choice("scoring", scoring, tuple(SCORINGS))
        check_choice("seats", seats, (2, 4))
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample cards, dealer and vulnerability of deals (G, 74) uniformly.

        The columns of double-dummy tricks are -1.
        """
        deals = np.full((games, DEAL_WIDTH), UNSOLVED, np.int8)
        deals[:, :CARDS] = random_deals(games, rng)
        deals[:, DEAL_DEALER] = rng.integers(4, size=games)
        deals[:, DEAL_VULNERABLE] = rng.integers(4, size=games)
        return deals

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, 74) consistent with observations: hidden cards are dealt uniformly.

        Calls are ignored: all distributions of the 39 cards of the other seats are equally likely.
        """
        observation = observations.observation
        deals = np.full((len(observation), DEAL_WIDTH), UNSOLVED, np.int8)
        deals[:, [DEAL_DEALER, DEAL_VULNERABLE]] = observation[:, [obs.DEALER, obs.VULNERABLE]]
        holders = random_deals(len(observation), rng)
        others = holders[holders > 0].reshape(len(observation), -1)  # 1, 2, 3, each 13 times
        seat = observation[:, obs.SEAT, None]
        own = observation[:, obs.OWN, None] >> np.arange(CARDS) & 1 == 1
        holder = np.broadcast_to(seat, own.shape).copy()
        holder[~own] = ((seat + others) % 4).ravel()
        deals[:, :CARDS] = holder
        return deals

    def are_possible_deals(self, deals: Deals) -> Array:
        """Return (G,) bool: whether each row of `deals` (G, 74) is a deal of this game."""
        dealer, vulnerable = deals[:, DEAL_DEALER], deals[:, DEAL_VULNERABLE]
        tricks = deals[:, DD_TABLE:]
        solved = ((tricks >= 0) & (tricks <= TRICKS)).all(axis=1)
        known = solved | (tricks == UNSOLVED).all(axis=1)
        placed = (dealer >= 0) & (dealer < len(SEATS)) & (vulnerable >= 0)
        return known & placed & (vulnerable < len(VULNERABILITIES)) & are_deals(deals[:, :CARDS])

    def with_double_dummy(self, deals: Deals) -> Deals:
        """Return a copy of the deals (G, 74) with missing double-dummy tricks filled in.

        Call this before a deal is bid more than once, so that the double-dummy solver solves the
        deal only once.
        """
        deals = deals.copy()
        missing = np.flatnonzero(deals[:, DD_TABLE] == UNSOLVED)
        if len(missing):
            tables = double_dummy.trick_tables(deals[missing, :CARDS])
            deals[missing, DD_TABLE:] = tables.reshape(len(missing), -1)
        return deals

    def start(self, deals: Deals) -> AuctionState:
        """Return the state of G auctions before the first call.

        deals: (G, 74), with the columns in the docstring of Auction.
        """
        no_calls = np.empty((len(deals), 0), np.int64)
        now = auction_rules.states_after(no_calls, deals[:, DEAL_DEALER].astype(np.int64))
        callers = np.full((len(deals), CALLERS_WIDTH), auction_rules.NO_SEAT, np.int8)
        return AuctionState(deals.copy(), hand_bits(deals[:, :CARDS]), now, callers)

    def state_at(self, observations: Observations, deals: Deals) -> AuctionState:
        """Rebuild the state of R auctions at the decisions of R observations.

        deals: (R, 74) the deal of each auction, with the columns in the docstring of Auction.
        """
        state = self.start(deals)
        _replay_calls(observations.observation, state.now, state.callers)
        return state

    def observe(self, state: AuctionState) -> Observations:
        """Return the observation of the seat to call in each auction that is not over."""
        game = np.flatnonzero(~_over(state.now))
        observation, legal = _observe(game, state.deal, state.hand, state.now, state.callers)
        return Observations(game, observation[:, obs.SEAT] % self.seats, observation, legal, None)

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal calls.

        Raises UserError for the first row that cannot occur in a legal auction.
        """
        check_limits(self.observation_fields, observation, self.observation_limits())
        thirteen = np.bitwise_count(observation[:, obs.OWN]) == TRICKS
        check_rows(self.observation_fields, observation, thirteen, "must contain 13 cards")
        columns = observation[:, [obs.DEALER, obs.VULNERABLE, obs.OWN]].T.tolist()
        calls = map(obs.calls_from_observation, observation)
        rebuilt = concat_columns(list(map(self.observation_after, *columns, calls)))
        same = (rebuilt.observation == observation).all(axis=1)
        check_rows(self.observation_fields, observation, same, "contradict each other")
        return replace(rebuilt, game=np.arange(len(observation)))

    def observation_limits(self) -> dict[str, tuple[int, int]]:
        """Return the lowest and the highest value of each column of an observation, by name."""
        seats = dict.fromkeys(("seat", "dealer", "vulnerable", "passes"), (0, 3))
        callers = dict.fromkeys(self.observation_fields[obs.CALLERS :], (-1, 3))
        return {**seats, "own": (0, (1 << CARDS) - 1), **callers}

    def observation_after(
        self, dealer: int, vulnerable: int, own: int, calls: Sequence[int]
    ) -> Observations:
        """Return the observation, in one row, of the seat to call after the given calls.

        dealer: a seat. vulnerable: 0 None, 1 NS, 2 EW, 3 All. own: the 13 cards of the seat to
        call, as a bit mask. Raises UserError if a call is illegal or the auction is over.
        """
        auction_rules.check_auction(calls, done=False)
        seat = (dealer + len(calls)) % 4
        held = own >> np.arange(CARDS) & 1 == 1
        deals = np.full((1, DEAL_WIDTH), UNSOLVED, np.int8)
        deals[0, np.flatnonzero(held)] = seat
        # the other seats hold the other cards in any order: the observation does not show them
        deals[0, np.flatnonzero(~held)] = np.repeat(np.delete(np.arange(4), seat), TRICKS)
        deals[0, DEAL_DEALER], deals[0, DEAL_VULNERABLE] = dealer, vulnerable
        state = self.start(deals)
        for call in calls:
            _advance(np.zeros(1, np.int64), np.array([call]), state.now, state.callers)
        observations = self.observe(state)
        if not len(observations):
            raise UserError("the auction is over: there is nothing to call")
        return observations

    def step(self, state: AuctionState, observations: Observations, action: Array) -> Array:
        """Make the calls `action` (R,); return the payoffs (G, S) of the auctions that they end.

        The payoffs of the other auctions are 0. Raises ValueError for an illegal call, before the
        state is changed.
        """
        wrong = _advance(observations.game, action, state.now, state.callers)
        if wrong >= 0:
            game = int(observations.game[wrong])
            raise ValueError(f"illegal action {int(action[wrong])} in game {game}")
        points = np.zeros((len(state.now), self.seats))
        over = observations.game[_over(state.now[observations.game])]
        if len(over):
            won = self.payoffs(state.deal[over], auction_rules.current_contracts(state.now[over]))
            points[over] = won[:, None] * np.where(np.arange(self.seats) % 2 == 0, 1, -1)
        return points

    @property
    def lowest_payoff(self) -> float:
        """Return the lowest possible payoff of a seat, in the unit of `scoring`.

        In points, it is the score of a vulnerable redoubled grand slam that loses every trick.
        """
        return {"imps": -24.0, "points": -7600.0, "nothing": 0.0}[self.scoring]

    def payoffs(self, deals: Deals, contracts: auction_rules.Contracts) -> Array:
        """Return North-South's payoffs (G,), in the unit of `scoring`, from final contracts.

        deals: (G, 74), with the columns in the docstring of Auction. contracts: the final contract
        of each deal.
        """
        if self.scoring == "nothing":
            return np.zeros(len(deals))
        if self.scoring == "points":  # passed-out deals score 0 and need not be solved
            played = contracts.level > 0
            points = np.zeros(len(deals), np.int64)
            chosen = auction_rules.Contracts(*(column[played] for column in contracts))
            points[played] = _points(self.with_double_dummy(deals[played]), chosen)
            return points
        deals = self.with_double_dummy(deals)
        tables = deals[:, DD_TABLE:].reshape(-1, 4, 5)
        best = par(tables, deals[:, DEAL_DEALER], deals[:, DEAL_VULNERABLE])
        return scoring.imps(_points(deals, contracts) - best.score)

    def features(self, observations: Observations) -> Array:
        """Return the network inputs (R, 482) float32, all 0 or 1.

            0 - 51     own cards
            52 - 55    dealer
            56, 57     whether the own side, the other side is vulnerable
            58 - 61    number of consecutive passes at the end of the auction so far, one-hot
            62 - 201   the seat that made each bid from 1C to 7N
            202 - 341  the seat that doubled each bid
            342 - 481  the seat that redoubled each bid

        Seats are one-hot and relative to the seat to call: own, left-hand opponent, partner,
        right-hand opponent. A bid that nobody has made, doubled or redoubled has four zeros.
        """
        return _features(observations.observation, SIDE_VULNERABLE)

    def hand(self, observations: Observations) -> Array:
        """Return the cards (R,) str of the seat to call, spades first, such as KT8.A96.A95.7542."""
        return np.array([format_hand(int(own)) for own in observations.observation[:, obs.OWN]])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: seat, cards, vulnerability and the calls so far."""
        seat, dealer = SEATS[observation[obs.SEAT]], SEATS[observation[obs.DEALER]]
        calls = auction_rules.format_calls(obs.calls_from_observation(observation)) or "nothing"
        return (
            f"{seat} holds {format_hand(int(observation[obs.OWN]))}, vulnerable "
            f"{VULNERABILITIES[observation[obs.VULNERABLE]]}, after {calls} from {dealer} on"
        )


def _points(deals: Deals, contracts: auction_rules.Contracts) -> Array:
    """Return the duplicate points (G,) of North-South if each contract is played double dummy.

    deals: (G, 74), with the columns in the docstring of Auction, and double-dummy tricks.
    """
    tricks = deals[np.arange(len(deals)), DD_TABLE + 5 * contracts.declarer + contracts.strain]
    return contract_results.north_south_points(contracts, deals[:, DEAL_VULNERABLE], tricks)


def _over(now: Array) -> Array:
    """Return whether each auction is over, (G,) bool.

    now: (G, STATE_WIDTH) states of auctions.
    """
    return now[:, PASSES] >= np.where(now[:, LAST_BID] < 0, 4, 3)


@njit(cache=True)
def _observe(games, deals, hand, now, callers):  # type: ignore[no-untyped-def]
    """Return the observations (R, K) and legal calls (R, 38) of the seats to call.

    games: (R,) indices of the games that are not over. The other arguments are the arrays of
    AuctionState.
    """
    observation = np.empty((len(games), obs.CALLERS + CALLERS_WIDTH), np.int64)
    legal = np.empty((len(games), PASS + 3), np.bool_)
    for row in range(len(games)):
        game, out = games[row], observation[row]
        seat = now[game, NEXT_SEAT]
        out[obs.SEAT], out[obs.OWN], out[obs.PASSES] = seat, hand[game, seat], now[game, PASSES]
        out[obs.DEALER] = deals[game, DEAL_DEALER]
        out[obs.VULNERABLE] = deals[game, DEAL_VULNERABLE]
        out[obs.CALLERS :] = callers[game]
        auction_rules.write_legal_calls(now[game], legal[row])
    return observation, legal


@njit(cache=True)
def _advance(games, calls, now, callers):  # type: ignore[no-untyped-def]
    """Make one call in each of the given games, in place, and return -1.

    If any call is illegal, change nothing and return the row of the first illegal call. games: (R,)
    indices of the games. calls: (R,). now, callers: arrays of AuctionState.
    """
    for row in range(len(games)):
        if not auction_rules.is_legal_call(now[games[row]], calls[row]):
            return row
    for row in range(len(games)):
        record_call(now[games[row]], callers[games[row]], calls[row])
    return -1


@njit(cache=True)
def _replay_calls(observation, now, callers):  # type: ignore[no-untyped-def]
    calls = np.empty(obs.MAX_CALLS, np.int64)
    for row in range(len(observation)):
        count = obs.write_calls(observation[row], calls)
        for call in calls[:count]:
            record_call(now[row], callers[row], call)


@njit(cache=True)
def record_call(now, callers, call):  # type: ignore[no-untyped-def]
    """Make a legal call in one auction, in place.

    now: (STATE_WIDTH,) and callers: (105,), a row of the arrays of AuctionState.
    """
    if call != PASS:
        callers[auction_rules.caller_column(call, now[LAST_BID])] = now[NEXT_SEAT]
    auction_rules.make_call(now, call)


@njit(cache=True)
def _features(observation, vulnerable):  # type: ignore[no-untyped-def]
    """Return the network inputs (R, FEATURE_WIDTH) float32 listed in `Auction.features`.

    vulnerable: the lookup table `par.SIDE_VULNERABLE`, (4, 2).
    """
    features = np.zeros((len(observation), FEATURE_WIDTH), np.float32)
    for row in range(len(observation)):
        seen, numbers = observation[row], features[row]
        seat = seen[obs.SEAT]
        for card in range(CARDS):
            numbers[card] = seen[obs.OWN] >> card & 1
        numbers[CARDS + (seen[obs.DEALER] - seat) % 4] = 1
        for side in range(2):
            numbers[CARDS + 4 + side] = vulnerable[seen[obs.VULNERABLE], (seat + side) % 2]
        numbers[CARDS + 6 + seen[obs.PASSES]] = 1
        for k in range(CALLERS_WIDTH):
            caller = seen[obs.CALLERS + k]
            if caller >= 0:
                numbers[CARDS + 10 + 4 * k + (caller - seat) % 4] = 1
    return features
