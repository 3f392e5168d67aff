"""The contract of a game: methods that every game has, and optional capabilities.

Each optional capability is a protocol. Test for it with isinstance, never by a game's name or
class. `overtrick.testing.check_game` checks a game against the contract and all its capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Deals, Observations
from overtrick.core.policies import BehaviouralPolicy


class State(Protocol):
    """State of G games in progress: a dataclass of arrays whose first axis is G.

    `Game.step` changes it in place. All other records are immutable.
    """

    __dataclass_fields__: Any


@runtime_checkable
class Game(Protocol):
    """The rules of a game: immutable, picklable, cheap to rebuild on a worker."""

    name: str
    seats: int  # S
    unit: str  # unit of payoffs: chip, big blind, IMP, win
    actions: int | None  # A; None when actions are real vectors
    action_names: tuple[str, ...]  # names of the A actions, or of the components of a real vector
    observation_fields: tuple[str, ...]  # names of the K columns of observations
    infosets: int | None  # N; None when too many to number

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample the deals (G, C) of new games: all their chance outcomes, before play."""

    def start(self, deals: Deals) -> Any:
        """Return the state of G new games with deals (G, C). Play has no further randomness."""

    def observe(self, state: Any) -> Observations:
        """Return the observations of all seats that must act now; none once every game is over."""

    def step(self, state: Any, observations: Observations, action: Array) -> Array:
        """Play one action for each row and return the points (G, S) that each seat gains by it.

        The state is changed in place. Raises ValueError with "illegal action", and leaves the state
        unchanged, for an illegal action.
        """

    def features(self, observations: Observations) -> Array:
        """Return (R, F) float32 network inputs for R observations, computed row by row."""

    def hand(self, observations: Observations) -> Array:
        """Return (R,) names of each row's private information, by which figures group rows."""

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text for people."""


@runtime_checkable
class Enumerable(Game, Protocol):
    """A game small enough for the exact solvers: every deal can be listed.

    Its information sets are numbered from 0 to N - 1 and have perfect recall.
    """

    @property
    def min_tree_size(self) -> int:
        """Return a lower bound on the number of deals or tree nodes, without enumerating them."""

    def every_deal(self) -> tuple[Deals, Array]:
        """Return all distinct deals (G, C) and their probabilities (G,), which are all positive."""

    def revealed_columns(self, state: Any) -> Array:
        """Return (G,) how many leading columns of its deal any seat has observed so far."""


@runtime_checkable
class Redealable(Game, Protocol):
    """A game whose hidden part can be sampled again, given what one seat has observed."""

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample (R, C): for each row, a deal that is consistent with its observation.

        Deals have their prior probability given the seat's own observation. Inference from the
        actions of other seats is left to the caller, who can weight the deals by the policies.
        """


@runtime_checkable
class BoundedPayoff(Game, Protocol):
    """A game with a known lowest payoff, which environments pay for an illegal action."""

    @property
    def lowest_payoff(self) -> float:
        """Return a lower bound on the payoff of any seat in any game, in points."""


@runtime_checkable
class ValidatesObservations(Game, Protocol):
    """A game that can check integer observations and rebuild their seats and legal actions.

    Model servers need it: they receive observations without the state of a game.
    """

    def validated_observations(self, observation: Array) -> Observations:
        """Return the rows of `observation` (R, K) with their seats, legal actions and infosets.

        Raises UserError for the first row that is impossible in this game.
        """


@runtime_checkable
class Resumable(Redealable, Protocol):
    """A game that can be resumed at any decision, as search on sampled deals (PIMC) needs."""

    def resume(self, observations: Observations, deals: Deals) -> Any:
        """Return a state of R games at the rows' decisions, with hidden cards from deals (R, C)."""


@runtime_checkable
class PublicSituations(Game, Protocol):
    """A game with few public situations, by which opponent models count observed actions."""

    @property
    def public_situations(self) -> int:
        """Return the number of public situations."""

    def public_situation(self, observations: Observations) -> Array:
        """Return (R,) int64: the index of each row's public situation, from 0."""


@runtime_checkable
class CompactFeatures(Game, Protocol):
    """A game with a short feature vector, for evolved networks with few weights."""

    def compact_features(self, observations: Observations) -> Array:
        """Return (R, F) float64 features of R observations, each from -1 to 1."""


@runtime_checkable
class PrivilegedFeatures(Game, Protocol):
    """A game with features for a privileged critic, which sees all cards during training."""

    def privileged_features(self, observations: Observations, deals: Deals) -> Array:
        """Return (R, F) float32 features of R observations and of their complete deals (R, C)."""


@runtime_checkable
class DeclaresZeroSum(Protocol):
    """A game that states whether it is zero-sum. Games without this property are zero-sum."""

    @property
    def zero_sum(self) -> bool:
        """Return True if the payoffs of all seats always sum to zero."""


def is_zero_sum(game: Any) -> bool:
    """Return True if a game is zero-sum: by its `zero_sum` property, or if it has none."""
    return game.zero_sum if isinstance(game, DeclaresZeroSum) else True


@runtime_checkable
class EvaluatedOnAnother(Protocol):
    """A game with shaped rewards, whose policies are evaluated on a version without shaping."""

    def evaluation_game(self) -> Any:
        """Return the version of this game on which policies are evaluated."""


@runtime_checkable
class PortableOptions(Protocol):
    """A game whose options contain relative paths or depend on environment variables."""

    def portable_options(self) -> dict[str, Any]:
        """Return options that create the same game in any working folder and on any worker."""


@runtime_checkable
class SuitSymmetric(Game, Protocol):
    """A card game whose observations can be rewritten with suits in a canonical order."""

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Return the rows with suits in canonical order, and (R, A) original action indices."""

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Return a policy on ordinary observations from one trained on canonical observations."""


@runtime_checkable
class AbstractStates(Game, Protocol):
    """A game with named state abstractions for tabular Q-learning."""

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the function that maps observations to table keys (R,).

        Raises UserError for an unknown representation.
        """

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Return a policy that uses `players[position]` at each named position, else `others`."""


@runtime_checkable
class InformationStateStrings(Protocol):
    """A game with OpenSpiel's information state string for each information set."""

    @property
    def information_state_strings(self) -> tuple[str, ...]:
        """Return the N strings by information set; empty before the game tree is built."""


@runtime_checkable
class CountsDivergedGames(Protocol):
    """A state of simulated games that records which simulations diverged numerically."""

    diverged_games: Array  # (G,) bool: the game ended early because its simulation diverged


def count_diverged_games(state: Any) -> int:
    """Return the number of games in a state whose simulation diverged; 0 if it records none."""
    return int(state.diverged_games.sum()) if isinstance(state, CountsDivergedGames) else 0
