"""The contract of a game: the rules every game has, and the capabilities that a game may add.

A capability is a protocol with one purpose. Ask for it by isinstance, never by a game's name or
class. `overtrick.testing.check_game` checks a game against all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Deals, Observations
from overtrick.core.policies import BehaviouralPolicy


class State(Protocol):
    """G games in progress: a dataclass in which every field is an array with G first.

    It is the only record that is edited in place: `Game.step` advances it.
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
        """Draw all chance of some games, (G, C), before play."""

    def start(self, deals: Deals) -> Any:
        """Start games from their deals (G, C). Play is deterministic from here on."""

    def observe(self, state: Any) -> Observations:
        """Return the rows that must act now, at most one a seat; empty once every game is over."""

    def step(self, state: Any, observations: Observations, action: Array) -> Array:
        """Play one action a row and return (G, S) points gained. The state advances in place.

        Raises ValueError with "illegal action", before anything has changed, for such an action.
        """

    def features(self, observations: Observations) -> Array:
        """Return (R, F) float32: the observations as network inputs; each row on its own."""

    def hand(self, observations: Observations) -> Array:
        """Return (R,) str: a name for the private part of each row, by which figures group."""

    def describe(self, seen: Array) -> str:
        """Describe one observation (K,) in words."""


@runtime_checkable
class Enumerable(Game, Protocol):
    """A game small enough for the exact solvers: every deal can be listed.

    Its information sets are numbered from 0 to N - 1 and have perfect recall.
    """

    @property
    def min_tree_size(self) -> int:
        """A lower bound on the deals or nodes of the tree, known before any is made."""

    def every_deal(self) -> tuple[Deals, Array]:
        """Return all distinct deals (G, C) and their probabilities (G,), each above 0."""

    def revealed_columns(self, state: Any) -> Array:
        """Return (G,) the number of columns of the deal that any seat has observed so far."""


@runtime_checkable
class Redealable(Game, Protocol):
    """A game whose hidden part can be sampled again, given what one seat has observed."""

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Return (R, C): for each row a deal from the rules' distribution given its observation.

        It uses the rows alone. It ignores what the other seats' actions reveal of their cards:
        callers that know the other policies weigh the deals by them.
        """


@runtime_checkable
class BoundedPayoff(Game, Protocol):
    """A game with a known lowest payoff. The environments pay it for an illegal action."""

    @property
    def lowest_payoff(self) -> float:
        """The lowest payoff of any seat in any game, in points."""


@runtime_checkable
class ValidatesObservations(Game, Protocol):
    """A game that rebuilds decision rows from their observations alone, as serving needs."""

    def validated_observations(self, observation: Array) -> Observations:
        """Rebuild the rows of integer observations (R, K): seat, legal actions, information set.

        Raises UserError for the first row that no seat can observe.
        """


@runtime_checkable
class Resumable(Redealable, Protocol):
    """A game that can be resumed at any observed decision, as search by sampled deals needs."""

    def resume(self, observations: Observations, deals: Deals) -> Any:
        """Return R games that stand at the rows' decisions; hidden cards as in deals (R, C)."""


@runtime_checkable
class PublicSituations(Game, Protocol):
    """A game with few public situations, in which the actions of opponents are counted."""

    @property
    def public_situations(self) -> int:
        """The number of public situations."""

    def public_situation(self, observations: Observations) -> Array:
        """Return (R,) int64: the public situation of each row, from 0."""


@runtime_checkable
class CompactFeatures(Game, Protocol):
    """A game with a short feature vector, for evolved networks of few weights."""

    def compact_features(self, observations: Observations) -> Array:
        """Return (R, F) float64 features, each from -1 to 1."""


@runtime_checkable
class PrivilegedFeatures(Game, Protocol):
    """A game with features for a privileged critic, which sees the whole deal in training."""

    def privileged_features(self, observations: Observations, deals: Deals) -> Array:
        """Return (R, F) float32 features of the rows and of their whole deals (R, C)."""


@runtime_checkable
class DeclaresZeroSum(Protocol):
    """A game of which the payoffs may have another sum than zero; all others are zero-sum."""

    @property
    def zero_sum(self) -> bool:
        """Whether the payoffs of every game sum to zero."""


def is_zero_sum(game: Any) -> bool:
    """Return whether the payoffs of a game sum to zero: true unless the game says otherwise."""
    return game.zero_sum if isinstance(game, DeclaresZeroSum) else True


@runtime_checkable
class EvaluatedOnAnother(Protocol):
    """A game with shaped rewards, whose policies are evaluated on the same game without them."""

    def evaluation_game(self) -> Any:
        """Return the game on which policies are evaluated."""


@runtime_checkable
class PortableOptions(Protocol):
    """A game with options that depend on the working folder or the environment."""

    def portable_options(self) -> dict[str, Any]:
        """Return options that make the same game from any folder and on any worker."""


@runtime_checkable
class SuitSymmetric(Game, Protocol):
    """A game in which action-value networks learn with suits in a canonical order."""

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Return the rows with suits in canonical order, and (R, A) each action's original."""

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Wrap a policy of canonical observations as a policy of the game's own observations."""


@runtime_checkable
class AbstractStates(Game, Protocol):
    """A game with named state abstractions for tables of action values."""

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the function from rows to table keys (R,). Raises UserError for another name."""

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Return one policy that plays each named position by its player, the rest by others."""


@runtime_checkable
class InformationStateStrings(Protocol):
    """A game with a string for each information set, as OpenSpiel has them."""

    @property
    def information_state_strings(self) -> tuple[str, ...]:
        """(N,) the strings; empty before the tree is built."""


@runtime_checkable
class CountsDivergedGames(Protocol):
    """A state of games whose simulator may fail."""

    diverged_games: Array  # (G,) bool: the game ended because its simulator diverged


def count_diverged_games(state: Any) -> int:
    """Return the number of games that ended because their simulator diverged."""
    return int(state.diverged_games.sum()) if isinstance(state, CountsDivergedGames) else 0
