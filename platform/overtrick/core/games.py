"""The contract of a game: its rules, and what else a game may offer."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Deals, Observations


class State(Protocol):
    """G games in progress: a dataclass in which every field is an array with G first.

    The only record that is edited in place: `Game.step` advances it.
    """

    __dataclass_fields__: Any


@runtime_checkable
class Game(Protocol):
    """The rules of a game: immutable, picklable, cheap to rebuild on a worker."""

    name: str
    seats: int  # S
    unit: str  # unit of one point of payoff
    actions: int | None  # A; None when actions are real vectors
    action_names: tuple[str, ...]  # or of the numbers of a real vector
    observation_fields: tuple[str, ...]  # names of the K columns of Observations.seen
    infosets: int | None  # N; None when too many to number

    def deal(self, games: int, rng: Generator) -> Deals:
        """All chance of the games, drawn before play."""

    def start(self, deals: Deals) -> Any:
        """The games before the first decision. No randomness from here on."""

    def observe(self, state: Any) -> Observations:
        """Who must act now and what they know; empty when every game is over."""

    def step(self, state: Any, observations: Observations, action: Array) -> Array:
        """Play one action a row: (G, S) points gained. The state advances in place."""

    def features(self, observations: Observations) -> Array:
        """(R, F) float32: the rows' facts as numbers for a network."""

    def hand(self, observations: Observations) -> Array:
        """(R,) str: what a person would call each row's private part; figures group by it."""

    def describe(self, seen: Array) -> str:
        """One row of facts (K,) in words."""


@runtime_checkable
class Enumerable(Game, Protocol):
    """A game small enough for the exact solvers."""

    least: int  # deals or nodes that its tree is sure to need, known before any is made

    def every_deal(self) -> tuple[Deals, Array]:
        """All distinct deals (G, C) and their probabilities (G,)."""

    def shown(self, state: Any) -> Array:
        """(G,) how many columns of the deal play has revealed to anybody so far."""


@runtime_checkable
class Redealable(Game, Protocol):
    """A game whose hidden part can be drawn again as one seat has to imagine it."""

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """(R, C) for each row a deal from the rules' distribution, given all that the row sees.

        It knows the turn and nothing else, so nobody can peek at the cards that were dealt. What
        the others' choices tell is left out: who knows how they play weighs the deals by it.
        """


StateT = TypeVar("StateT")


def select_games(state: StateT, rows: Array) -> StateT:
    """Some of the games of a state, in the given order and as often as given; a copy."""
    names = state.__dataclass_fields__  # type: ignore[attr-defined]
    return type(state)(**{name: getattr(state, name)[rows] for name in names})
