"""Mini-Bridge as a game: the play of the cards in a contract that the deal itself decides.

Positions are relative to the declarer: 0 declares, 1 leads to the first trick, 2 is dummy, 3 is the
other defender (Hadjur 2018, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError, nearest
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

ALL_CARDS = (1 << CARDS) - 1  # as a set
POSITIONS = ("declarer", "left", "dummy", "right")
SCORINGS = {"made": "contract", "tricks": "trick", "report": "point", "duplicate": "point"}
"""Units by scoring. Payoffs of the declaring side: made, 1 for a contract made and -1 otherwise;
tricks, those above the contract, plus one if it is made; report and duplicate, points as in
`scoring`, undoubled and not vulnerable."""


@dataclass(slots=True)
class MiniBridgeState:
    """G tables of card play, by position, as the docstring of `kernels` describes them."""

    hand: Array  # (G, 4) sets of cards held
    played: Array  # (G, 4) sets of cards played
    trick: Array  # (G, 4) cards in the current trick, or NO_CARD
    progress: Array  # (G, 8)


class MiniBridge:
    """Card play as a game of two seats, the declaring side and the defence, or of four seats.

    A seat of two hands decides for each hand by what that hand may see: a defender sees its own
    cards and, after the first lead, dummy's; the declaring side sees both its hands.

    strain: notrump; or trump, where a pair with eight cards of a suit plays in it. scoring: made,
    tricks, report or duplicate, as SCORINGS says. seats: 2 or 4. A deal has 54 columns: the
    position that holds each card, the strain, and the number of tricks needed.

    Observation fields: position; strain; tricks needed; tricks won by the declaring side; number of
    cards played; own cards; cards of the open hand; the card of each position in the current trick,
    or -1; the cards that each position has played; known voids by position and suit.
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
        for key, value, known in (
            ("strain", strain, ("notrump", "trump")),
            ("scoring", scoring, tuple(SCORINGS)),
            ("seats", seats, (2, 4)),
        ):
            if value not in known:
                options = " or ".join(", ".join(map(str, known)).rsplit(", ", 1))
                raise UserError(f"{key} must be {options}, not {value!r}")
        self.strain = strain
        self.trumps = strain == "trump"
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats

    def deal(self, games: int, rng: Generator) -> Deals:
        """Draw deals (G, 54) uniformly among those in which one pair has more points."""
        deals = np.empty((0, CARDS + 2), np.int8)
        while len(deals) < games:  # one deal in eight has 20 points on both sides
            holder = random_deals(games - len(deals) + 16, rng)
            contract = minibridge_contract.decide_contracts(holder, self.trumps)
            declared = contract.declarer != minibridge_contract.NO_DECLARER
            position = (holder - contract.declarer[:, None]) % 4
            drawn = np.column_stack([position, contract.strain, contract.needed])[declared]
            deals = np.concatenate([deals, drawn.astype(np.int8)])
        return deals[:games]

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample the hidden hands of each observation again and return deals (R, 54).

        All hands that fit the cards played and the known voids are equally likely.
        """
        observation = observations.observation
        deals = np.empty((len(observation), CARDS + 2), np.int8)
        deals[:, CARDS:] = observation[:, [kernels.OBS_STRAIN, kernels.OBS_NEEDED]]
        kernels.redeal(observation, deals, rng)
        return deals

    def start(self, deals: Deals) -> MiniBridgeState:
        """Return the tables of deals (G, 54) before the opening lead."""
        return MiniBridgeState(*kernels.initial_tables(deals))

    def resume(self, observations: Observations, deals: Deals) -> MiniBridgeState:
        """Return R tables at the rows' decisions, with the hidden cards as in deals (R, 54)."""
        hand, played, trick = np.empty((3, len(observations), 4), np.int64)
        progress = np.empty((len(observations), kernels.PROGRESS_WIDTH), np.int64)
        kernels.resume(observations.observation, deals, hand, played, trick, progress)
        return MiniBridgeState(hand, played, trick, progress)

    def observe(self, state: MiniBridgeState) -> Observations:
        """Return the observation of the position to play in each game that is not over."""
        game = np.flatnonzero(state.progress[:, kernels.CARDS_PLAYED] < CARDS)
        return self._rows(game, *kernels.observe(game, *_arrays(state)))

    def _rows(self, game: Array, observation: Array, legal: Array) -> Observations:
        """Return rows of the seats that play the observed positions."""
        seat = observation[:, kernels.OBS_POSITION] % self.seats
        return Observations(game, seat, observation, legal, None)

    def validated_observations(self, observation: Array) -> Observations:
        """Rebuild the decision rows of observations (R, K).

        Raises UserError for the first row that no position can observe, as far as a single
        observation shows.
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
        check_rows(self.observation_fields, observation, consistent, "do not go together")
        return self._rows(
            np.arange(len(observation)), observation, kernels.legal_cards(observation)
        )

    def step(self, state: MiniBridgeState, observations: Observations, action: Array) -> Array:
        """Play one card a row, and return (G, S) points, paid with the last card.

        Raises ValueError for an illegal card, before anything has changed.
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
        """Return (G,) payoffs of the declaring side from strains, tricks needed and tricks won."""
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
        """The lowest payoff of a seat in any contract."""
        strain, needed, won = np.indices((len(STRAINS), TRICKS + 1, TRICKS + 1)).reshape(3, -1)
        some = needed > 6
        return float(-np.abs(self.payoffs(strain[some], needed[some], won[some])).max())

    def features(self, observations: Observations) -> Array:
        """Return (R, 723) float32 network inputs.

        0-3 position; 4-8 strain; 9-13 in 13ths: tricks needed, won, over, still needed, and minus
        the tricks left that may be lost; 14-29 known voids by position and suit; 30-33 place in the
        trick; 34 own side is winning the trick; 35-46 by suit, in 13ths: own, shown and unseen
        cards; then 52 numbers each for the cards own, shown, played by each position (6 sets), in
        the trick by position (4), unseen, own or shown with no unseen card above, and own cards
        that would win the trick so far.
        """
        return kernels.features(observations.observation)

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the state abstraction of a name: a function from rows to table keys.

        Raises UserError for an unknown name.
        """
        if representation not in REPRESENTATIONS:
            near = nearest(representation, REPRESENTATIONS)
            raise UserError(f"unknown representation '{representation}': did you mean '{near}'?")
        return REPRESENTATIONS[representation]

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Return one policy of all positions: players by position name, `others` where missing.

        The player of `declarer` also plays dummy; the defenders are `left` and `right`.
        """
        declarer = players.get("declarer", others)
        by = (declarer, players.get("left", others), declarer, players.get("right", others))
        return PolicyByPosition(dict(enumerate(by)))

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Return the rows with suits in canonical order, and (R, 52) each card's original card."""
        return suit_canonical.canonical_observations(observations)

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Wrap a policy of canonical observations as a policy of the game's own observations."""
        return suit_canonical.CanonicalPolicy(policy)

    def hand(self, observations: Observations) -> Array:
        """Return (R,) str: the cards of the position to play, spades first."""
        own = observations.observation[:, kernels.OBS_OWN]
        return np.array([format_hand(int(cards)) for cards in own])

    def describe(self, observation: Array) -> str:
        """Describe one observation (K,): position, hand, contract, and the cards in the trick."""
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
