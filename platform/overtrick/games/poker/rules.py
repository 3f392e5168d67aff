"""The rules of each poker game as data. To add a dialect, add a constant; no code reads a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

VERBS = FOLD, CHECK, CALL, RAISE = "fold", "check", "call", "raise"
CLOSER_LEFT = -1  # the seat after the one who closed the round before opens this one


@dataclass(frozen=True)
class Rules:
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


LEDUC = Rules(
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

LEDUC_TEXTBOOK = Rules(
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

KUHN = Rules(
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

ONE_CARD = Rules(
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

ALL = (KUHN, KUHN_THREE, ONE_CARD, LEDUC, LEDUC_TEXTBOOK)
