"""Rules of the poker games as data. A new game is a new constant; no code depends on its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from overtrick.core import UserError
from overtrick.games.poker.deck import MAX_CARDS, RANKS, SUITS

VERBS = FOLD, CHECK, CALL, RAISE = "fold", "check", "call", "raise"
CHIP_COLUMNS = 15  # of networks' one-hot inputs for chips in the pot, from 0 chips
CLOSER_LEFT = -1  # the seat after the last seat that acted in the previous round


@dataclass(frozen=True)
class PokerRules:
    """Rules of one limit poker game; amounts are integer numbers of chips.

    `posts` (antes or blinds) has one entry for each seat. Tuples with one entry for each betting
    round:

    `board`: number of board cards dealt at the start of the round.
    `raises`: size of a raise.
    `caps`: largest number of raises.
    `openers`: the seat that acts first.
    """

    name: str
    ranks: int  # ranks in the deck
    suits: int  # suits in the deck: copies of each rank
    posts: tuple[int, ...]  # chips that each of S seats posts before the deal (ante or blind)
    board: tuple[int, ...]
    raises: tuple[int, ...]
    caps: tuple[int, ...]
    openers: tuple[int, ...]  # a seat, or CLOSER_LEFT
    actions: tuple[tuple[str, tuple[str, ...]], ...]  # each action's name and the VERBS it can mean
    fold_when_free: bool  # whether a seat may fold when it could check
    unit: str  # unit of payoffs
    chips_a_unit: int  # chips in one unit of payoff
    rank_names: Sequence[str]  # one for each rank, lowest first
    suit_names: Sequence[str] = "1234"  # one for each suit
    hole: int = 1  # hole cards dealt to each seat

    def __post_init__(self) -> None:
        if not self.best_five and (self.hole != 1 or sum(self.board) > 1):
            raise UserError(
                f"{self.name}: a hand has 1 hole card and at most 1 board card, or 5 to 7 cards"
            )
        if self.best_five and (self.ranks, self.suits) != (RANKS, SUITS):
            raise UserError(f"{self.name}: hands of 5 cards need a deck of 13 ranks in 4 suits")
        if self.ranks * self.suits < self.cards:
            raise UserError(f"{self.name}: {self.ranks} ranks are too few for {self.cards} cards")
        theirs = self.most_chips * (len(self.posts) - 1)
        if not self.best_five and any(self.board) and theirs >= CHIP_COLUMNS:
            raise UserError(
                f"{self.name}: the opponents can have {theirs} chips in the pot, and networks for "
                f"games with a board card see at most {CHIP_COLUMNS - 1}: lower raises or caps"
            )

    @property
    def cards(self) -> int:
        """Return C, the number of cards dealt in a game: all hole cards and the board."""
        return len(self.posts) * self.hole + sum(self.board)

    @property
    def most_chips(self) -> int:
        """Return the most chips that one seat can have in the pot."""
        raised = sum(r * cap for r, cap in zip(self.raises, self.caps, strict=True))
        return max(self.posts) + raised

    @property
    def best_five(self) -> bool:
        """Return True if a showdown compares the best five cards of hole cards and board.

        There are flushes in such a game, so suits matter.
        """
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
"""Leduc hold'em as RLCard's leduc-holdem: blinds, payoffs in big blinds."""

LEDUC_TEXTBOOK = replace(
    LEDUC,
    name="leduc_textbook",
    posts=(1, 1),
    openers=(0, 0),
    actions=(("fold", (FOLD,)), ("call", (CHECK, CALL)), ("raise", (RAISE,))),
    fold_when_free=False,
    unit="chip",
    chips_a_unit=1,
)
"""Leduc hold'em as in Southey et al. 2005, "Bayes' bluff", and OpenSpiel's leduc_poker: antes,
payoffs in chips."""

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
"""Kuhn poker: Kuhn 1950, "A simplified two-person poker" (OpenSpiel's kuhn_poker)."""

KUHN_THREE = replace(KUHN, name="kuhn_three", ranks=4, posts=(1, 1, 1), rank_names="JQKA")
"""Kuhn poker for three seats and four cards (OpenSpiel's kuhn_poker(players=3))."""

ONE_CARD = replace(KUHN, name="one_card", ranks=13, rank_names="23456789TJQKA")
"""Kuhn poker with 13 ranks: Koller and Pfeffer 1997, "Representations and solutions for
game-theoretic problems"."""

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
"""Heads-up limit Texas hold'em as RLCard's limit-holdem; payoffs in big blinds."""

LIMIT_HOLDEM_TEXTBOOK = replace(
    LIMIT_HOLDEM,
    name="abstract_holdem",
    caps=(3, 4, 4, 4),  # the big blind is the first of four bets
    openers=(0, 1, 1, 1),  # the button is the small blind
    actions=LEDUC_TEXTBOOK.actions,
    fold_when_free=False,
    unit="bet",
)
"""Heads-up limit Texas hold'em by its usual rules; payoffs in small bets of two chips."""

SMALL = (KUHN, KUHN_THREE, ONE_CARD, LEDUC, LEDUC_TEXTBOOK)
"""Rules of the games that are small enough to list every deal."""
