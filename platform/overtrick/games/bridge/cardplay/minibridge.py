"""Mini-Bridge as a game: card play in a contract that is computed from the deal, without auction.

Positions are relative to the declarer: 0 is the declarer, 1 leads to the first trick, 2 is dummy, 3
is the other defender (Hadjur 2018, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError
from overtrick.core.errors import check_choice, nearest
from overtrick.games.bridge import scoring
from overtrick.games.bridge.cardplay import kernels, minibridge_contract, suit_canonical
from overtrick.games.bridge.cardplay.rule_defenders import PolicyByPosition
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    STRAINS,
    TRICKS,
    format_hand,
    random_deals,
)
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.games.observation_checks import check_limits, check_rows

ALL_CARDS = (1 << CARDS) - 1  # bit mask
POSITIONS = ("declarer", "left", "dummy", "right")
SCORINGS = {"made": "contract", "tricks": "trick", "report": "point", "duplicate": "point"}
"""Unit of payoffs by scoring. Payoffs of the declaring side:

    made       1 for a contract made, otherwise -1
    tricks     tricks won minus tricks needed, plus 1 if the contract is made
    report     points of `scoring.minibridge_points`
    duplicate  points of `scoring.duplicate_points`, undoubled and not vulnerable
"""


@dataclass(slots=True)
class MiniBridgeState:
    """State of G games of card play, described in the docstring of `kernels`."""

    hand: Array  # (G, 4) cards held by each position, as bit masks
    played: Array  # (G, 4) cards played by each position, as bit masks
    trick: Array  # (G, 4) card of each position in the current trick, or NO_CARD
    progress: Array  # (G, 8) columns LED to NEEDED of `kernels`


class MiniBridge:
    """Card play as a game for two seats (the declaring side and the defence) or four seats.

    A seat with two hands chooses each card by the observation of the hand that plays it. A defender
    sees its own cards and, after the first lead, dummy's cards. The declaring side sees both its
    hands. A deal has 54 columns: the position that holds each card, the strain, and the number of
    tricks needed.

    strain: `notrump`, or `trump`. With `trump`, the longest suit of the declaring pair is trumps if
        the pair has at least eight cards in it; otherwise the strain is notrump.
    scoring: a name in SCORINGS.
    seats: 2 or 4.

    Observation fields (cards are bit masks):

        0        position to play
        1        strain
        2, 3     tricks needed; tricks won by the declaring side
        4        number of cards played
        5, 6     own cards; cards of the other visible hand
        7 - 10   card of each position in the current trick, or -1
        11 - 14  cards that each position has played
        15       known voids by position and suit, as bits
    """

    name = "minibridge"
    actions: int | None = CARDS
    action_names = CARD_NAMES
    infosets: int | None = None
    observation_fields = (
        "position", "strain", "needed", "won", "count", "own", "shown",
        *(f"trick_{who}" for who in POSITIONS), *(f"played_{who}" for who in POSITIONS), "void",
    )  # fmt: skip

    def __init__(self, strain: str = "notrump", scoring: str = "made", seats: int = 2) -> None:
        check_choice("strain", strain, ("notrump", "trump"))
        check_choice("scoring", scoring, tuple(SCORINGS))
        check_choice("seats", seats, (2, 4))
        self.strain = strain
        self.trumps = strain == "trump"
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample deals (G, 54) uniformly.

        Deals in which both pairs have 20 honour points are left out, as nobody declares in them.
        """
        deals = np.empty((0, CARDS + 2), np.int8)
        while len(deals) < games:  # in one deal of eight, both sides have 20 points
            holder = random_deals(games - len(deals) + 16, rng)
            contract = minibridge_contract.decide_contracts(holder, self.trumps)
            declared = contract.declarer != minibridge_contract.NO_DECLARER
            position = (holder - contract.declarer[:, None]) % 4
            drawn = np.column_stack([position, contract.strain, contract.needed])[declared]
            deals = np.concatenate([deals, drawn.astype(np.int8)])
        return deals[:games]

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, 54): the hidden cards of each observation are dealt again.

        All deals that are consistent with the cards played and the known voids are equally likely.
        """
        observation = observations.observation
        deals = np.empty((len(observation), CARDS + 2), np.int8)
        deals[:, CARDS:] = observation[:, [kernels.OBS_STRAIN, kernels.OBS_NEEDED]]
        kernels.redeal(observation, deals, rng)
        return deals

    def start(self, deals: Deals) -> MiniBridgeState:
        """Return the state of G games before the opening lead, for deals (G, 54)."""
        return MiniBridgeState(*kernels.initial_tables(deals))

    def resume(self, observations: Observations, deals: Deals) -> MiniBridgeState:
        """Return the state of R games in which the R observations are made.

        deals: (R, 54) deals that contain the hidden cards, as from `redeal`.
        """
        hand, played, trick = np.empty((3, len(observations), 4), np.int64)
        progress = np.empty((len(observations), kernels.PROGRESS_WIDTH), np.int64)
        kernels.resume(observations.observation, deals, hand, played, trick, progress)
        return MiniBridgeState(hand, played, trick, progress)

    def observe(self, state: MiniBridgeState) -> Observations:
        """Return the observation of the hand to play in each game that is not over."""
        game = np.flatnonzero(state.progress[:, kernels.CARDS_PLAYED] < CARDS)
        return self._rows(game, *kernels.observe(game, *_arrays(state)))

    def _rows(self, game: Array, observation: Array, legal: Array) -> Observations:
        """Return Observations from arrays; the seat is the one that plays the observed hand.

        game: (R,). observation: (R, K). legal: (R, 52).
        """
        seat = observation[:, kernels.OBS_POSITION] % self.seats
        return Observations(game, seat, observation, legal, None)

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal cards.

        Raises UserError for the first row with a contradiction. Only contradictions within the row
        are found, so a row that passes may still be unreachable in play.
        """
        card, cards = (-1, CARDS - 1), (0, ALL_CARDS)
        check_limits(self.observation_fields, observation, {
            "position": (0, 3), "strain": (0, len(STRAINS) - 1), "needed": (0, TRICKS),
            "won": (0, TRICKS), "count": (0, CARDS - 1), "own": cards, "shown": cards,
            **{f"trick_{who}": card for who in POSITIONS},
            **{f"played_{who}": cards for who in POSITIONS}, "void": (0, (1 << 16) - 1),
        })  # fmt: skip
        position, _, _, _, count, own, shown = observation[:, : kernels.OBS_TRICK].T
        in_trick = observation[:, kernels.OBS_TRICK : kernels.OBS_PLAYED] >= 0
        turns_ago = (position[:, None] - np.arange(4) - 1) % 4  # 0 for the last to play
        played = observation[:, kernels.OBS_PLAYED : kernels.OBS_VOID]
        consistent = (in_trick == (turns_ago < count[:, None] % 4)).all(axis=1)
        consistent &= np.bitwise_count(own) == TRICKS - count // 4
        consistent &= np.bitwise_count(played).sum(axis=1) == count
        consistent &= (np.bitwise_or.reduce(played, axis=1) & (own | shown)) == 0
        check_rows(self.observation_fields, observation, consistent, "contradict each other")
        legal = kernels.legal_cards(observation)
        return self._rows(np.arange(len(observation)), observation, legal)

    def step(self, state: MiniBridgeState, observations: Observations, action: Array) -> Array:
        """Play one card for each row and return the points (G, S), gained with the last card.

        Raises ValueError for an illegal card, before the state is changed.
        """
        wrong = kernels.advance(observations.game, action, *_arrays(state))
        if wrong != NO_CARD:
            game = int(observations.game[wrong])
            raise ValueError(f"illegal action {int(action[wrong])} in game {game}")
        points = np.zeros((len(state.progress), self.seats))
        over = observations.game[state.progress[observations.game, kernels.CARDS_PLAYED] == CARDS]
        columns = (kernels.STRAIN, kernels.NEEDED, kernels.TRICKS_WON)
        won = self.payoffs(*state.progress[over][:, columns].T)
        points[over] = won[:, None] * np.where(np.arange(self.seats) % 2 == 0, 1, -1)
        return points

    def payoffs(self, strain: Array, needed: Array, won: Array) -> Array:
        """Return the declaring side's payoffs (G,) from strains, tricks needed and tricks won."""
        above = won - needed
        if self.scoring == "report":
            return scoring.minibridge_points(needed - 6, strain, won)
        if self.scoring == "duplicate":
            none = np.zeros_like(won)
            return scoring.duplicate_points(needed - 6, strain, none, none, won)
        if self.scoring == "tricks":
            return scoring.trick_difference_reward(above)
        return np.where(above >= 0, 1, -1)

    @property
    def lowest_payoff(self) -> float:
        """Return the lowest payoff of a seat in any contract."""
        strain, needed, won = np.indices((len(STRAINS), TRICKS + 1, TRICKS + 1)).reshape(3, -1)
        some = needed > 6
        return float(-np.abs(self.payoffs(strain[some], needed[some], won[some])).max())

    def features(self, observations: Observations) -> Array:
        """Return the network inputs (R, 723) float32.

        0 - 3    position, one-hot
        4 - 8    strain, one-hot
        9 - 13   divided by 13: tricks needed, tricks won, finished tricks, tricks still needed,
                 minus the remaining tricks that the declaring side can afford to lose
        14 - 29  known voids by position and suit
        30 - 33  place in the trick, one-hot
        34       whether the own side is winning the trick
        35 - 46  by suit, divided by 13: number of own, visible and unseen cards
        47 -     52 numbers for each of these 13 sets of cards: own cards; cards of the other
                 visible hand; cards played by each position (4 sets); card of each position in
                 the trick (4 sets); unseen cards; own or visible cards higher than all unseen
                 cards of the suit; own cards that would win the trick so far
        """
        return kernels.features(observations.observation)

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the state abstraction with this name: a function from Observations to table keys.

        Raises UserError for an unknown name.
        """
        if representation not in REPRESENTATIONS:
            near = nearest(representation, REPRESENTATIONS)
            raise UserError(f"unknown representation '{representation}': did you mean '{near}'?")
        return REPRESENTATIONS[representation]

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Return a policy that acts by `players[position]`, or by `others` if there is no such key.

        Positions are `declarer` (whose player also plays dummy), `left` and `right`.
        """
        declarer = players.get("declarer", others)
        by = (declarer, players.get("left", others), declarer, players.get("right", others))
        return PolicyByPosition(dict(enumerate(by)))

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Return the observations with suits in canonical order (see suit_canonical).

        Also return the map (R, 52) from canonical cards to original cards.
        """
        return suit_canonical.canonical_observations(observations)

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Return a policy on the game's observations from a policy on canonical observations."""
        return suit_canonical.CanonicalPolicy(policy)

    def hand(self, observations: Observations) -> Array:
        """Return the cards (R,) str of the hand to play, spades first."""
        own = observations.observation[:, kernels.OBS_OWN]
        return np.array([format_hand(int(cards)) for cards in own])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: position, hand, contract and current trick."""
        field = dict(zip(self.observation_fields, observation.tolist(), strict=True))
        contract = f"{field['needed'] - 6}{STRAINS[field['strain']]}"
        cards = ((who, field[f"trick_{who}"]) for who in POSITIONS)
        table = ", ".join(f"{who} {CARD_NAMES[card]}" for who, card in cards if card != NO_CARD)
        return (
            f"{POSITIONS[field['position']]} holds {format_hand(field['own'])} in {contract}, "
            f"{field['won']} tricks won, after {field['count']} cards; "
            f"on the table: {table or 'nothing'}"
        )


def _arrays(state: MiniBridgeState) -> tuple[Array, Array, Array, Array]:
    return state.hand, state.played, state.trick, state.progress
