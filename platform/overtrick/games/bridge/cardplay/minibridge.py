"""Mini-Bridge as a game: card play in a contract that is computed from the deal, without auction.

The four hands have positions relative to the declarer: 0 is the declarer, 1 the left-hand defender,
who leads to the first trick, 2 dummy, 3 the right-hand defender (Hadjur 2018, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError
from overtrick.core.errors import check_choice, suggestion
from overtrick.games.bridge import scoring
from overtrick.games.bridge.cardplay import kernels, minibridge_contract, suit_canonical
from overtrick.games.bridge.cardplay.rule_defenders import PolicyByPosition
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    NOTRUMP,
    STRAINS,
    TRICKS,
    are_deals,
    format_hand,
    random_deals,
)
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.games.observation_validation import check_limits, check_rows

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

    With two seats, a seat plays both hands of its side, but its observation is always that of the
    hand to play. A defender sees its own cards and, after the first lead, dummy's cards. The
    declarer and dummy see each other's cards after the first lead.

    A deal has 54 columns: the position (0 to 3) that holds each card, the strain, and the number of
    tricks that the declaring side needs.

    strain: `notrump`, or `trump`. With `trump`, the longest suit of the declaring pair is trumps if
        the pair has at least eight cards in it; otherwise the strain is notrump.
    scoring: the payoff of the declaring side; the defenders get its negative.
        - `made`: 1 for a contract made, otherwise -1
        - `tricks`: tricks won minus tricks needed, plus 1 if the contract is made
        - `report`: Mini-Bridge points (Hadjur 2018, Table 3.1)
        - `duplicate`: points of duplicate bridge, undoubled and not vulnerable
    seats: 2 or 4.

    Columns of an observation (cards are bit masks):

        0        position of the hand to play
        1        strain
        2, 3     tricks needed; tricks won by the declaring side
        4        number of cards played
        5, 6     own cards; cards of the other visible hand
        7 - 10   card that each position has played to the current trick, or -1
        11 - 14  cards that each position has played
        15       known voids: bit 4 * position + suit
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
        """Sample deals (G, 54) uniformly among the deals that have a declarer.

        The docstring of MiniBridge lists the columns of a deal. Deals in which both pairs have 20
        high-card points have no declarer.
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

    def are_possible_deals(self, deals: Deals) -> Array:
        """Return (G,) bool: whether each row of `deals` (G, 54) is a deal of this game."""
        strain, needed = deals[:, CARDS], deals[:, CARDS + 1]
        least = 0 if self.trumps else NOTRUMP
        known = (strain >= least) & (strain <= NOTRUMP) & (needed >= 0) & (needed <= TRICKS)
        return known & are_deals(deals[:, :CARDS])

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, 54) that are consistent with the observations.

        All deals that agree with the visible cards and the known voids are equally likely.
        """
        observation = observations.observation
        deals = np.empty((len(observation), CARDS + 2), np.int8)
        deals[:, CARDS:] = observation[:, [kernels.OBS_STRAIN, kernels.OBS_NEEDED]]
        kernels.redeal(observation, deals, rng)
        return deals

    def start(self, deals: Deals) -> MiniBridgeState:
        """Return the state of G games before the opening lead.

        deals: (G, 54) the position that holds each of the 52 cards, the strain, and the number of
        tricks that the declaring side needs.
        """
        return MiniBridgeState(*kernels.initial_tables(deals))

    def resume(self, observations: Observations, deals: Deals) -> MiniBridgeState:
        """Rebuild the state of R games from their observations and deals.

        deals: (R, 54) consistent with the observations, as returned by `redeal`.
        """
        hand, played, trick = np.empty((3, len(observations), 4), np.int64)
        progress = np.empty((len(observations), kernels.PROGRESS_WIDTH), np.int64)
        kernels.resume(observations.observation, deals, hand, played, trick, progress)
        return MiniBridgeState(hand, played, trick, progress)

    def observe(self, state: MiniBridgeState) -> Observations:
        """Return what the hand to play sees in each game that is not over, as Observations."""
        game = np.flatnonzero(state.progress[:, kernels.CARDS_PLAYED] < CARDS)
        return self._rows(game, *kernels.observe(game, *_arrays(state)))

    def _rows(self, game: Array, observation: Array, legal: Array) -> Observations:
        """Build Observations from arrays, and add the seat that plays each observed hand.

        game: (R,) index of the game. observation: (R, K). legal: (R, 52) legal cards.
        """
        seat = observation[:, kernels.OBS_POSITION] % self.seats
        return Observations(game, seat, observation, legal, None)

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal cards.

        Raises UserError for the first row whose columns contradict each other. The check is
        incomplete: a row that passes may still be unreachable in play.
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
        """Play the cards `action` (R,); return the payoffs (G, S) of the games that they end.

        The payoffs of the other games are 0. Raises ValueError for an illegal card, before the
        state is changed.
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
        """Return the declaring side's payoffs (G,) of finished games, in the unit of `scoring`.

        strain: (G,). needed: (G,) tricks needed for the contract. won: (G,) tricks that the
        declaring side won.
        """
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
        """Return the lowest possible payoff of a seat in any contract, in the unit of `scoring`."""
        strain, needed, won = np.indices((len(STRAINS), TRICKS + 1, TRICKS + 1)).reshape(3, -1)
        some = needed > 6
        return float(-np.abs(self.payoffs(strain[some], needed[some], won[some])).max())

    def features(self, observations: Observations) -> Array:
        """Return the network inputs (R, 723) float32.

        Positions are in the order declarer, left-hand defender, dummy, right-hand defender. Unseen
        cards are neither played nor visible.

        0 - 3    position of the hand to play, one-hot
        4 - 8    strain, one-hot
        9        number of tricks needed, divided by 13
        10       number of tricks won by the declaring side, divided by 13
        11       number of cards played, divided by 52
        12       number of tricks still needed, divided by 13
        13       number of tricks still needed minus number of unfinished tricks, divided by 13:
                 0 if the declaring side must win all of them, negative if it may lose some
        14 - 29  known voids by position and suit
        30 - 33  number of cards already played to the trick, 0 to 3, one-hot
        34       whether the own side is winning the trick
        35 - 46  by suit, divided by 13: number of own cards, of cards in the other visible hand,
                 and of unseen cards
        47 - 722 13 sets of cards, each as 52 numbers, 1 for a card in the set:

                 - own cards
                 - cards of the other visible hand
                 - cards played by each position (4 sets)
                 - card of each position in the trick (4 sets)
                 - unseen cards
                 - master cards of both visible hands, higher than all unseen cards of their suit
                 - own cards that beat all cards in the trick; empty if the hand leads
        """
        return kernels.features(observations.observation)

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the state abstraction with the given name, for tables of action values.

        It is a function from R observations to keys (R, 1) of states or (R, 52) of state-action
        pairs, uint64. Equal keys share their action values (see state_abstractions). Raises
        UserError for an unknown name.
        """
        if representation not in REPRESENTATIONS:
            hint = suggestion(representation, REPRESENTATIONS)
            raise UserError(f"unknown state abstraction '{representation}': {hint}")
        return REPRESENTATIONS[representation]

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Combine policies for the declarer and each defender into one policy for all four hands.

        players: policy by position: `declarer` (who also plays dummy), `left` and `right` (the
        defenders). others: policy of the positions that are not in `players`.
        """
        declarer = players.get("declarer", others)
        by = (declarer, players.get("left", others), declarer, players.get("right", others))
        return PolicyByPosition(dict(enumerate(by)))

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Relabel the suits of observations in a canonical order (see suit_canonical).

        Return the relabelled observations, and the original card (R, 52) of each relabelled card.
        """
        return suit_canonical.canonical_observations(observations)

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Wrap a policy that expects relabelled suits, so that it accepts the game's observations.

        policy: policy on the observations that `canonical_observations` returns.
        """
        return suit_canonical.CanonicalPolicy(policy)

    def hand(self, observations: Observations) -> Array:
        """Return the cards (R,) str of the hand to play, spades first."""
        own = observations.observation[:, kernels.OBS_OWN]
        return np.array([format_hand(int(cards)) for cards in own])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: position to play, its hand, contract and trick."""
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
