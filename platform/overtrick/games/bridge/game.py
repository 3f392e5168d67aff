"""Bridge as a game: the auction and the play of all 52 cards, from the deal to the score."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, check_choice, select_rows
from overtrick.games.bridge import auction_rules, claims, contract_results, scoring
from overtrick.games.bridge import board_observation as board
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.game import (
    DD_TABLE,
    DEAL_DEALER,
    DEAL_VULNERABLE,
    DEAL_WIDTH,
    UNSOLVED,
    Auction,
    record_call,
)
from overtrick.games.bridge.auction.game import FEATURE_WIDTH as AUCTION_FEATURES
from overtrick.games.bridge.auction_rules import (
    BIDS,
    CALLS,
    LAST_BID,
    NEXT_SEAT,
    NO_SEAT,
    PASSES,
)
from overtrick.games.bridge.board_observation import DUMMY, FIRST_CARD, FIRST_PLAY
from overtrick.games.bridge.board_state import BridgeState
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    TRICKS,
    format_hand,
)
from overtrick.games.bridge.deal_completion import complete_deals
from overtrick.games.bridge.par import par
from overtrick.games.bridge.trick_rules import NO_CARD, playable_cards
from overtrick.games.observation_validation import check_limits, check_rows

SCORINGS = {"points": "point", "imps": "imp"}
"""Unit of payoffs by scoring."""


class Bridge:
    """Bridge as a game for four seats, or for two seats: the auction, then the play of the cards.

    The declarer plays dummy's cards. Dummy's hand is open after the opening lead. With two seats, a
    seat bids and plays for both hands of its side, but observes only the hand that is to act. The
    payoffs of North-South and East-West sum to 0.

    scoring: the payoff. `points`: the score of duplicate bridge. `imps`: the difference of the
        score to par, in IMPs.
    seats: 4, or 2 for the two sides.
    claims: end a board early, after a trick, if the hand to lead holds only cards that no other
        hand can beat, or if known voids reveal all hands to all players. The remaining tricks are
        those of double-dummy play.

    A deal has the 74 columns of the game `auction`. Its double-dummy tricks are needed only for
    par.

    Columns of an observation, which together determine all calls and all cards played:

        0 - 109    the columns of the game `auction`: seat, dealer, vulnerability, passes at the end
                   of the auction, own cards, seats that bid, doubled and redoubled
        110        the 13 cards that dummy was dealt, as a bit mask; 0 before the opening lead
        111 - 162  the cards in the order played, then -1

    The column `seat` is the player that acts: the declarer when dummy is to play. `own` is the 13
    cards that this player was dealt.
    """

    name = "bridge"
    actions: int | None = len(CALLS) + CARDS
    action_names = (*CALLS, *CARD_NAMES)
    infosets: int | None = None
    observation_fields = (
        *Auction.observation_fields,
        "dummy",
        *(f"card_{k}" for k in range(1, CARDS + 1)),
    )

    def __init__(self, scoring: str = "points", seats: int = 4, claims: bool = False) -> None:
        check_choice("scoring", scoring, tuple(SCORINGS))
        check_choice("seats", seats, (2, 4))
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats
        self.claims = claims
        self.auction = Auction("nothing", seats)

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample cards, dealer and vulnerability of deals (G, 74) uniformly.

        The columns of double-dummy tricks are -1.
        """
        return self.auction.deal(games, rng)

    def are_possible_deals(self, deals: Deals) -> Array:
        """Return (G,) bool: whether each row of `deals` (G, 74) is a deal of this game."""
        return self.auction.are_possible_deals(deals)

    def start(self, deals: Deals) -> BridgeState:
        """Return the state of G boards before the first call.

        deals: (G, 74), with the columns in the docstring of Auction.
        """
        games, first = len(deals), self.auction.start(deals)
        hand, played = np.zeros((2, games, 4), np.int64)
        return BridgeState(
            first.deal, first.hand, first.now, first.callers, np.full(games, NO_SEAT),
            hand, played, np.full((games, 4), NO_CARD),
            np.zeros((games, kernels.PROGRESS_WIDTH), np.int64),
            np.full((games, CARDS), NO_CARD, np.int8), np.zeros(games, np.bool_),
        )  # fmt: skip

    def observe(self, state: BridgeState) -> Observations:
        """Return the observation of the seat that acts in each board that is not over."""
        game = np.flatnonzero(~state.over)
        observation, legal = _observe(game, *_arrays(state))
        return Observations(game, observation[:, obs.SEAT] % self.seats, observation, legal, None)

    def step(self, state: BridgeState, observations: Observations, action: Array) -> Array:
        """Make the calls and play the cards `action` (R,); return the payoffs (G, S) of the boards.

        The payoffs of boards that go on are 0. Raises ValueError for an illegal call or card,
        before the state is changed.
        """
        wrong = _advance(observations.game, action, *_arrays(state))
        if wrong >= 0:
            game = int(observations.game[wrong])
            raise ValueError(f"illegal action {int(action[wrong])} in game {game}")
        if self.claims:
            claims.end_settled_boards(state, observations.game)
        payoff = np.zeros((len(state.over), self.seats))
        over = observations.game[state.over[observations.game]]
        if len(over):
            won = self.payoffs(
                state.deal[over],
                auction_rules.current_contracts(state.now[over]),
                state.progress[over, kernels.TRICKS_WON],
            )
            payoff[over] = won[:, None] * np.where(np.arange(self.seats) % 2 == 0, 1, -1)
        return payoff

    def payoffs(self, deals: Deals, contracts: auction_rules.Contracts, tricks: Array) -> Array:
        """Return North-South's payoffs (G,) of finished boards, in the unit of `scoring`.

        deals: (G, 74). contracts: of G boards. tricks: (G,) tricks of the declaring side, ignored
        where all four players passed.
        """
        points = contract_results.north_south_points(contracts, deals[:, DEAL_VULNERABLE], tricks)
        if self.scoring == "points":
            return points
        tables = self.auction.with_double_dummy(deals)[:, DD_TABLE:].reshape(-1, 4, 5)
        best = par(tables, deals[:, DEAL_DEALER], deals[:, DEAL_VULNERABLE])
        return scoring.imps(points - best.score)

    @property
    def lowest_payoff(self) -> float:
        """Return the lowest possible payoff of a seat, in the unit of `scoring`.

        In points, it is the score of a vulnerable redoubled grand slam that loses every trick.
        """
        return {"imps": -24.0, "points": -7600.0}[self.scoring]

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, 74) consistent with observations: hidden cards are dealt uniformly.

        Calls are ignored. During card play, no hand gets a card of a suit that it did not follow.
        """
        deals = np.empty((len(observations), DEAL_WIDTH), np.int8)
        play = board.in_card_play(observations)
        rows = np.flatnonzero(~play)
        if len(rows):
            chosen = board.auction_observations(select_rows(observations, rows))
            deals[rows] = self.auction.redeal(chosen, rng)
        rows = np.flatnonzero(play)
        if len(rows):
            chosen = select_rows(observations, rows)
            positions = np.empty((len(rows), CARDS + 2), np.int8)
            kernels.redeal(board.card_play_observations(chosen).observation, positions, rng)
            declarer = _declarers(chosen.observation)
            deals[rows] = UNSOLVED
            deals[rows, :CARDS] = (positions[:, :CARDS] + declarer[:, None]) % 4
            columns = chosen.observation[:, [obs.DEALER, obs.VULNERABLE]]
            deals[rows[:, None], [DEAL_DEALER, DEAL_VULNERABLE]] = columns
        return deals

    def resume(self, observations: Observations, deals: Deals) -> BridgeState:
        """Rebuild the state of R boards from their observations and deals.

        deals: (R, 74) consistent with the observations, as returned by `redeal`.
        """
        state = self.start(deals)
        _replay(observations.observation, *_arrays(state))
        return state

    def features(self, observations: Observations) -> Array:
        """Return the network inputs (R, 1206) float32.

        0           1 during card play, 0 during the auction
        1 - 482     the inputs of the game `auction`; all calls stay in them during card play
        483 - 1205  the inputs of the game `minibridge` for the hand to play, with positions
                    relative to the declarer; 0 during the auction
        """
        play = np.flatnonzero(board.in_card_play(observations))
        inputs = np.zeros(
            (len(observations), 1 + AUCTION_FEATURES + kernels.FEATURE_WIDTH), np.float32
        )
        inputs[play, 0] = 1
        calls = board.auction_observations(observations)
        inputs[:, 1 : 1 + AUCTION_FEATURES] = self.auction.features(calls)
        if len(play):
            cards = board.card_play_observations(select_rows(observations, play))
            inputs[play, 1 + AUCTION_FEATURES :] = kernels.features(cards.observation)
        return inputs

    def hand(self, observations: Observations) -> Array:
        """Return the 13 cards (R,) str dealt to the seat that acts, such as KT8.A96.A95.7542."""
        return np.array([format_hand(int(own)) for own in observations.observation[:, obs.OWN]])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: seat, cards, calls, dummy and cards so far."""
        said = self.auction.describe(observation[:DUMMY])
        cards = [CARD_NAMES[card] for card in observation[FIRST_CARD:] if card != NO_CARD]
        if observation[DUMMY]:
            said += f"; dummy {format_hand(int(observation[DUMMY]))}"
        return f"{said}; played {' '.join(cards)}" if cards else said

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal actions.

        Raises UserError for the first row that cannot occur in a legal board.
        """
        cards = dict.fromkeys(self.observation_fields[FIRST_CARD:], (NO_CARD, CARDS - 1))
        limits = {**self.auction.observation_limits(), "dummy": (0, (1 << CARDS) - 1), **cards}
        check_limits(self.observation_fields, observation, limits)
        thirteen = np.bitwise_count(observation[:, obs.OWN]) == TRICKS
        check_rows(self.observation_fields, observation, thirteen, "must contain 13 own cards")
        deals = np.full((len(observation), DEAL_WIDTH), UNSOLVED, np.int8)
        deals[:, [DEAL_DEALER, DEAL_VULNERABLE]] = observation[:, [obs.DEALER, obs.VULNERABLE]]
        possible = complete_deals(observation, deals)
        check_rows(self.observation_fields, observation, possible, "contradict each other")
        state = self.start(deals)
        replayed = _replay(observation, *_arrays(state))
        check_rows(self.observation_fields, observation, replayed, "contradict each other")
        rebuilt = self.observe(state)
        same = np.zeros(len(observation), np.bool_)
        same[rebuilt.game] = (rebuilt.observation == observation[rebuilt.game]).all(axis=1)
        check_rows(self.observation_fields, observation, same, "contradict each other")
        return rebuilt


def _arrays(state: BridgeState) -> tuple[Array, ...]:
    """Return the arrays of a state as the compiled functions take them."""
    return (
        state.deal, state.dealt, state.now, state.callers, state.declarer, state.hand,
        state.played, state.trick, state.progress, state.cards, state.over,
    )  # fmt: skip


@njit(cache=True)
def _observe(  # type: ignore[no-untyped-def]
    games, deal, dealt, now, callers, declarer, hand, played, trick, progress, cards, over
):
    """Return observations (R, K) and legal actions (R, 90) of the seats that act.

    games: (R,) indices of the boards that are not over. The other arguments are the arrays of
    BridgeState.
    """
    observation = np.empty((len(games), board.WIDTH), np.int64)
    legal = np.zeros((len(games), FIRST_PLAY + CARDS), np.bool_)
    for row in range(len(games)):
        game, out = games[row], observation[row]
        seat = now[game, NEXT_SEAT]
        out[DUMMY] = 0
        if declarer[game] == NO_SEAT:
            auction_rules.write_legal_calls(now[game], legal[row])
        else:
            turn = progress[game, kernels.TURN]
            seat = board.acting_seat(declarer[game], turn)
            if progress[game, kernels.CARDS_PLAYED]:
                out[DUMMY] = dealt[game, (declarer[game] + 2) % 4]
            able = playable_cards(hand[game, turn], progress[game, kernels.LED])
            kernels.write_cards(able, legal[row, FIRST_PLAY:])
        out[obs.SEAT], out[obs.OWN], out[obs.PASSES] = seat, dealt[game, seat], now[game, PASSES]
        out[obs.DEALER], out[obs.VULNERABLE] = deal[game, DEAL_DEALER], deal[game, DEAL_VULNERABLE]
        out[obs.CALLERS : DUMMY] = callers[game]
        out[FIRST_CARD:] = cards[game]
    return observation, legal


@njit(cache=True)
def _is_legal(game, action, now, declarer, hand, progress, over):  # type: ignore[no-untyped-def]
    """Return whether an action is legal on one board."""
    if over[game]:
        return False
    if declarer[game] == NO_SEAT:
        return auction_rules.is_legal_call(now[game], action)
    card, turn = action - FIRST_PLAY, progress[game, kernels.TURN]
    if card < 0 or card >= CARDS:
        return False
    return playable_cards(hand[game, turn], progress[game, kernels.LED]) >> card & 1 == 1


@njit(cache=True)
def _act(  # type: ignore[no-untyped-def]
    game, action, dealt, now, callers, declarer, hand, played, trick, progress, cards, over
):
    """Make one legal call or play one legal card on a board, in place."""
    if declarer[game] == NO_SEAT:
        record_call(now[game], callers[game], action)
        if auction_rules.auction_over(now[game]):
            if now[game, LAST_BID] < 0:
                over[game] = True
            else:
                declarer[game] = board.start_play(
                    now[game], dealt[game], hand[game], progress[game]
                )
        return
    cards[game, progress[game, kernels.CARDS_PLAYED]] = action - FIRST_PLAY
    kernels.play_card(action - FIRST_PLAY, hand[game], played[game], trick[game], progress[game])
    over[game] = progress[game, kernels.CARDS_PLAYED] == CARDS


@njit(cache=True)
def _advance(  # type: ignore[no-untyped-def]
    games, actions, deal, dealt, now, callers, declarer, hand, played, trick, progress, cards, over
):
    """Act once on each of the given boards, in place, and return -1.

    If any action is illegal, change nothing and return the row of the first illegal action.
    """
    for row in range(len(games)):
        if not _is_legal(games[row], actions[row], now, declarer, hand, progress, over):
            return row
    for row in range(len(games)):
        _act(
            games[row], actions[row], dealt, now, callers, declarer, hand, played, trick, progress,
            cards, over,
        )  # fmt: skip
    return -1


@njit(cache=True)
def _replay(  # type: ignore[no-untyped-def]
    observation, deal, dealt, now, callers, declarer, hand, played, trick, progress, cards, over
):
    """Make all calls and play all cards of observations (R, K) on R new boards, in place.

    Return (R,) bool: whether all were legal. A board stops before its first illegal action.
    """
    legal = np.ones(len(observation), np.bool_)
    actions = np.empty(obs.MAX_CALLS + CARDS, np.int64)
    for game in range(len(observation)):
        count = obs.write_calls(observation[game], actions)
        for k in range(CARDS):
            card = observation[game, FIRST_CARD + k]
            if card == NO_CARD:
                break
            actions[count] = FIRST_PLAY + card
            count += 1
        for k in range(count):
            if not _is_legal(game, actions[k], now, declarer, hand, progress, over):
                legal[game] = False
                break
            _act(
                game, actions[k], dealt, now, callers, declarer, hand, played, trick, progress,
                cards, over,
            )  # fmt: skip
    return legal


def _declarers(observation: Array) -> Array:
    """Return the declarers (R,) at observations (R, K) made during card play."""
    bids = observation[:, obs.CALLERS : obs.CALLERS + BIDS]
    last = BIDS - 1 - (bids[:, ::-1] >= 0).argmax(axis=1)
    rows = np.arange(len(bids))
    bidder = bids[rows, last]
    ours = (bids % 2 == bidder[:, None] % 2) & (bids >= 0)
    same = np.arange(BIDS) % 5 == last[:, None] % 5
    return bids[rows, (ours & same).argmax(axis=1)]
