"""The rules of each poker game as data. To add a dialect, add a constant; no code reads a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from overtrick.core import UserError
from overtrick.games.poker.hand_ranking import MAX_CARDS, RANKS, SUITS

VERBS = FOLD, CHECK, CALL, RAISE = "fold", "check", "call", "raise"
CLOSER_LEFT = -1  # the seat after the one who closed the round before opens this one


@dataclass(frozen=True)
class PokerRules:
    """One limit poker game. Chips are integers; a tuple over rounds has one entry a round."""

    name: str
    ranks: int  # ranks in the deck, lowest first
    suits: int  # copies of each rank
    posts: tuple[int, ...]  # chips that each seat posts before the deal (ante or blind); S = len
    board: tuple[int, ...]  # cards turned up at the start of each round
    raises: tuple[int, ...]  # size of a raise in each round, in chips
    caps: tuple[int, ...]  # raises allowed in each round
    openers: tuple[int, ...]  # seat that opens each round, or CLOSER_LEFT
    actions: tuple[tuple[str, tuple[str, ...]], ...]  # each action and the verbs it stands for
    fold_when_free: bool  # may a seat fold although checking costs nothing
    unit: str  # of one point of payoff
    chips_a_unit: int
    rank_names: Sequence[str]  # one a rank, lowest first
    suit_names: Sequence[str] = "1234"  # one a suit, where suits are told apart
    hole: int = 1  # cards that each seat is dealt for itself

    def __post_init__(self) -> None:
        if not self.best_five and (self.hole != 1 or sum(self.board) > 1):
            raise UserError(
                f"{self.name}: a hand is a hole card and at most 1 of the board, or 5 to 7"
            )
        if self.best_five and (self.ranks, self.suits) != (RANKS, SUITS):
            raise UserError(f"{self.name}: hands of 5 cards need a deck of 13 ranks in 4 suits")
        if self.ranks * self.suits < self.cards:
            raise UserError(f"{self.name}: {self.ranks} ranks are too few for {self.cards} cards")

    @property
    def cards(self) -> int:
        """C, the cards that a whole game takes."""
        return len(self.posts) * self.hole + sum(self.board)

    @property
    def best_five(self) -> bool:
        """Is a hand the best five of its cards, so that suits matter?"""
        return 5 <= self.hole + sum(self.board) <= MAX_CARDS


LEDUC = PokerRules(
    name="leduc",
    ranks=3,
    suits=2,
    posts=(1, 2),
    board=(0, 1),
    raises=(2, 4),
    caps=(2, 2),
    openers=(0, CLOSER_LEFT),
    actions=(("call", (CALL,)), ("raise", (RAISE,)), ("fold", (FOLD,)), ("check", (CHECK,))),
    fold_when_free=True,
    unit="big blind",
    chips_a_unit=2,
    rank_names="JQK",
)
"""The benchmark dialect (RLCard's leduc-holdem): blinds, payoffs in big blinds."""

LEDUC_TEXTBOOK = PokerRules(
    name="leduc_textbook",
    ranks=3,
    suits=2,
    posts=(1, 1),
    board=(0, 1),
    raises=(2, 4),
    caps=(2, 2),
    openers=(0, 0),
    actions=(("fold", (FOLD,)), ("call", (CHECK, CALL)), ("raise", (RAISE,))),
    fold_when_free=False,
    unit="chip",
    chips_a_unit=1,
    rank_names="JQK",
)
"""Southey et al. 2005, "Bayes' bluff" (OpenSpiel's leduc_poker): antes, payoffs in chips."""

KUHN = PokerRules(
    name="kuhn",
    ranks=3,
    suits=1,
    posts=(1, 1),
    board=(0,),
    raises=(1,),
    caps=(1,),
    openers=(0,),
    actions=(("pass", (CHECK, FOLD)), ("bet", (RAISE, CALL))),
    fold_when_free=False,
    unit="chip",
    chips_a_unit=1,
    rank_names="JQK",
)
"""Kuhn 1950, "A simplified two-person poker" (OpenSpiel's kuhn_poker)."""

KUHN_THREE = replace(KUHN, name="kuhn_three", ranks=4, posts=(1, 1, 1), rank_names="JQKA")
"""Kuhn poker for three seats and four cards (OpenSpiel's kuhn_poker(players=3))."""

ONE_CARD = PokerRules(
    name="one_card",
    ranks=13,
    suits=1,
    posts=(1, 1),
    board=(0,),
    raises=(1,),
    caps=(1,),
    openers=(0,),
    actions=KUHN.actions,
    fold_when_free=False,
    unit="chip",
    chips_a_unit=1,
    rank_names="23456789TJQKA",
)
"""Koller and Pfeffer 1997, "Representations and solutions for game-theoretic problems"."""

LIMIT_HOLDEM = PokerRules(
    name="holdem",
    ranks=13,
    suits=4,
    posts=(1, 2),
    board=(0, 3, 1, 1),
    raises=(2, 2, 4, 4),
    caps=(4, 4, 4, 4),
    openers=(0, *(CLOSER_LEFT,) * 3),
    actions=LEDUC.actions,
    fold_when_free=True,
    unit="big blind",
    chips_a_unit=2,
    rank_names="23456789TJQKA",
    suit_names="cdhs",
    hole=2,
)
"""Heads-up limit hold'em in the benchmark dialect (RLCard's limit-holdem)."""

LIMIT_HOLDEM_TEXTBOOK = replace(
    LIMIT_HOLDEM,
    name="abstract_holdem",
    caps=(3, 4, 4, 4),  # the big blind is the first of four bets
    openers=(0, 1, 1, 1),  # the button is the small blind
    actions=LEDUC_TEXTBOOK.actions,
    fold_when_free=False,
    unit="bet",
)
"""Heads-up limit Texas hold'em as it is played; chips are half bets."""

SMALL = (KUHN, KUHN_THREE, ONE_CARD, LEDUC, LEDUC_TEXTBOOK)
"""The games of which every deal can be listed."""
