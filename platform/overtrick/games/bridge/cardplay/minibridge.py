"""Mini-Bridge: the play of the cards in a contract that the deal itself decides.

Everything is told from the declarer's side of the table: position 0 declares, 1 leads to the first
trick, 2 is dummy, 3 the other defender (Hadjur 2018, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError, nearest
from overtrick.games.bridge import scoring
from overtrick.games.bridge.cardplay import kernels, minibridge_contract
from overtrick.games.bridge.cardplay.rule_defenders import PolicyByPosition
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS
from overtrick.games.bridge.cardplay.suit_canonical import CanonicalPolicy, canonical_observations
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    RANKS,
    STRAINS,
    SUITS,
    TRICKS,
    hand_bits,
    random_deals,
)
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.games.observation_checks import check_limits, check_rows

ALL_CARDS = (1 << CARDS) - 1  # of all cards
POSITIONS = ("declarer", "left", "dummy", "right")
DEAL_STRAIN, DEAL_NEEDED = CARDS, CARDS + 1  # columns of a deal after who holds each card
SCORINGS = {"made": "contract", "tricks": "trick", "report": "point", "duplicate": "point"}
"""What a game is worth to the declaring side, and its unit. made: 1 for a contract made, -1 for
one that is not. tricks: those above the contract, one more if it is made. report and duplicate: as
score.py has them, nobody doubled or vulnerable."""


@dataclass(slots=True)
class MiniBridgeState:
    """G tables, as `tricks` has them."""

    hand: Array  # (G, 4)
    played: Array  # (G, 4)
    trick: Array  # (G, 4)
    now: Array  # (G, 8)


class MiniBridge:
    """The play as a game of two seats, the declaring side and the defence, or of four.

    A seat that plays two hands decides for each by what that hand may see: a defender its own
    cards and dummy's, from the first lead on; the declaring side both of its hands. A deal has 54
    columns: the position that holds each card, the strain, and the tricks to be made. strain:
    notrump, or trump, where a pair with eight cards of a suit plays in it.

    Facts: position; strain; tricks needed; tricks won by the declaring side; cards played; the
    cards of the position, and those that it sees of another; the card of each position in this
    trick, -1 if none; what each has played; who is known to be void in which suit.
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
                said = " or ".join(", ".join(map(str, known)).rsplit(", ", 1))
                raise UserError(f"{key} must be {said}, not {value!r}")
        self.strain = strain
        self.trumps = strain == "trump"
        self.scoring = scoring
        self.unit = SCORINGS[scoring]
        self.seats = seats

    def deal(self, games: int, rng: Generator) -> Deals:
        """(G, 54) deals in which somebody declares, all equally likely."""
        found = np.empty((0, CARDS + 2), np.int8)
        while len(found) < games:  # one deal in eight has 20 points on both sides
            holder = random_deals(games - len(found) + 16, rng)
            called = minibridge_contract.decide_contracts(holder, self.trumps)
            some = called.declarer != minibridge_contract.NO_DECLARER
            turned = (holder - called.declarer[:, None]) % 4
            dealt = np.column_stack([turned, called.strain, called.needed])[some]
            found = np.concatenate([found, dealt.astype(np.int8)])
        return found[:games]

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """(R, 54) the hidden hands drawn again from what the row has not seen, all ways alike that
        fit the cards played and the suits that somebody is known not to have."""
        deals = np.empty((len(observations), CARDS + 2), np.int8)
        deals[:, DEAL_STRAIN], deals[:, DEAL_NEEDED] = (
            observations.observation[:, 1],
            observations.observation[:, 2],
        )
        kernels.redeal(observations.observation, deals, rng)
        return deals

    def start(self, deals: Deals) -> MiniBridgeState:
        held = hand_bits(deals[:, :CARDS])
        strain, needed = (
            deals[:, DEAL_STRAIN].astype(np.int64),
            deals[:, DEAL_NEEDED].astype(np.int64),
        )
        return MiniBridgeState(held, *kernels.initial_tables(held, strain, needed))

    def resume(self, observations: Observations, deals: Deals) -> MiniBridgeState:
        """(R,) games that stand where the rows do, with the cards as in the deals (R, 54)."""
        hand, played, trick = np.empty((3, len(observations), 4), np.int64)
        now = np.empty((len(observations), kernels.PROGRESS_WIDTH), np.int64)
        kernels.resume(observations.observation, deals, hand, played, trick, now)
        return MiniBridgeState(hand, played, trick, now)

    def observe(self, state: MiniBridgeState) -> Observations:
        game = np.flatnonzero(state.now[:, kernels.CARDS_PLAYED] < CARDS)
        seen, legal = kernels.observe(game, state.hand, state.played, state.trick, state.now)
        return Observations(game, seen[:, kernels.OBS_POSITION] % self.seats, seen, legal, None)

    def validated_observations(self, seen: Array) -> Observations:
        """The rows (R, K) as `turn` gives them. Raises UserError for facts that nobody sees, as far
        as one position can tell."""
        one, some = (-1, CARDS - 1), (0, ALL_CARDS)
        check_limits(self.observation_fields, seen, {
            "position": (0, 3), "strain": (0, len(STRAINS) - 1), "needed": (0, TRICKS),
            "won": (0, TRICKS), "count": (0, CARDS - 1), "own": some, "shown": some,
            **{f"trick_{who}": one for who in POSITIONS},
            **{f"played_{who}": some for who in POSITIONS}, "void": (0, (1 << 16) - 1),
        })  # fmt: skip
        position, count, own = (
            seen[:, kernels.OBS_POSITION],
            seen[:, kernels.OBS_COUNT],
            seen[:, kernels.OBS_OWN],
        )
        lying = seen[:, kernels.OBS_TRICK : kernels.OBS_TRICK + 4] >= 0
        ago = (position[:, None] - np.arange(4) - 1) % 4  # cards of the trick after a position's
        played = seen[:, kernels.OBS_PLAYED : kernels.OBS_PLAYED + 4]
        fit = (lying == (ago < count[:, None] % 4)).all(axis=1)
        fit &= np.bitwise_count(own) == TRICKS - count // 4
        fit &= np.bitwise_count(played).sum(axis=1) == count
        fit &= (np.bitwise_or.reduce(played, axis=1) & (own | seen[:, kernels.OBS_SHOWN])) == 0
        check_rows(self.observation_fields, seen, fit, "do not go together")
        return Observations(
            np.arange(len(seen)), position % self.seats, seen, kernels.legal_cards(seen), None
        )

    def step(self, state: MiniBridgeState, observations: Observations, action: Array) -> Array:
        """(G, S) points, all with the last card."""
        wrong = kernels.advance(
            observations.game, action, state.hand, state.played, state.trick, state.now
        )
        if wrong != NO_CARD:
            game = int(observations.game[wrong])
            raise ValueError(f"illegal action {int(action[wrong])} in game {game}")
        points = np.zeros((len(state.now), self.seats))
        over = observations.game[state.now[observations.game, kernels.CARDS_PLAYED] == CARDS]
        now = state.now[over]
        worth = self.payoffs(
            *(now[:, each] for each in (kernels.STRAIN, kernels.NEEDED, kernels.TRICKS_WON))
        )
        points[over] = worth[:, None] * np.where(np.arange(self.seats) % 2 == 0, 1, -1)
        return points

    def payoffs(self, strain: Array, needed: Array, won: Array) -> Array:
        """(G,) points of the declaring side."""
        above = won - needed
        if self.scoring == "report":
            return scoring.minibridge_points(needed - 6, strain, won)
        if self.scoring == "duplicate":
            nobody = np.zeros_like(won)
            return scoring.duplicate_points(needed - 6, strain, nobody, nobody, won)
        return (
            scoring.trick_difference_reward(above)
            if self.scoring == "tricks"
            else np.where(above >= 0, 1, -1)
        )

    @property
    def lowest_payoff(self) -> float:
        """The least that a seat can win of a game."""
        strain, needed, won = np.indices((len(STRAINS), TRICKS + 1, TRICKS + 1)).reshape(3, -1)
        some = needed > 6
        return float(-np.abs(self.payoffs(strain[some], needed[some], won[some])).max())

    def features(self, observations: Observations) -> Array:
        """(R, 723) float32. 0-3 position; 4-8 strain; 9-13 in 13ths: tricks needed and won, those
        over, those still needed, and how many of those left may be lost, negative; 14-29 by
        position and suit, who is void; 30-33 place in the trick; 34 own side has it so far; 35-46
        by suit, in 13ths, cards own, shown and unseen; then a number a card for: own, shown, played
        by each position (6), in this trick by position (4), unseen, held or shown and beaten by
        none unseen, takes the trick so far."""
        return kernels.features(observations.observation)

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """What a table of values knows the rows by. Raises UserError for an unknown name."""
        if representation not in REPRESENTATIONS:
            near = nearest(representation, REPRESENTATIONS)
            raise UserError(f"unknown representation '{representation}': did you mean '{near}'?")
        return REPRESENTATIONS[representation]

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """One policy of those who play for declarer (and dummy), left and right, and others."""
        declarer = players.get("declarer", others)
        by = (declarer, players.get("left", others), declarer, players.get("right", others))
        return PolicyByPosition(dict(enumerate(by)))

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """The same rows with other names for the suits, and (R, 52) each card's own (suits.py)."""
        return canonical_observations(observations)

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """One who plays as a policy that has learnt with renamed suits (suits.py)."""
        return CanonicalPolicy(policy)

    def hand(self, observations: Observations) -> Array:
        """(R,) the cards held, spades first."""
        return np.array([format_hand(int(own)) for own in observations.observation[:, 5]])

    def describe(self, seen: Array) -> str:
        """Who plays, in which contract, with what, and what lies on the table."""
        at = dict(zip(self.observation_fields, (int(fact) for fact in seen), strict=True))
        level = f"{at['needed'] - 6}{STRAINS[at['strain']]}"
        table = [
            f"{who} {CARD_NAMES[at[f'trick_{who}']]}"
            for who in POSITIONS
            if at[f"trick_{who}"] != NO_CARD
        ]
        return (
            f"{POSITIONS[at['position']]} holds {format_hand(at['own'])} in {level}, "
            f"{at['won']} tricks won, after {at['count']} cards; "
            f"on the table: {', '.join(table) or 'nothing'}"
        )


def format_hand(cards: int) -> str:
    """A set of cards, spades first: KT8.A96.A95.7542."""
    suits: list[Any] = []
    for suit in reversed(range(len(SUITS))):
        held = (cards >> (TRICKS * suit)) & ((1 << TRICKS) - 1)
        suits.append("".join(RANKS[r] for r in reversed(range(TRICKS)) if held >> r & 1))
    return ".".join(suits)
