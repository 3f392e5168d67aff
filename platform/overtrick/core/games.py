"""The interface of a game: methods that every game has, and optional capabilities.

Each optional capability is a protocol. Test for a capability with isinstance, never by a game's
name or class. `overtrick.testing.check_game` checks a game against this interface and all its
capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Deals, Observations
from overtrick.core.policies import BehaviouralPolicy


class State(Protocol):
    """State of G games in progress: a dataclass of arrays whose first axis is G.

    `Game.step` changes a state in place. All other records are immutable.
    """

    __dataclass_fields__: Any


@runtime_checkable
class Game(Protocol):
    """The rules of a game: immutable, picklable, cheap to rebuild on a worker."""

    name: str
    seats: int  # S
    unit: str  # unit of payoffs: chip, big blind, IMP, win
    actions: int | None  # A; None when actions are continuous
    action_names: tuple[str, ...]  # names of the A actions, or components of a continuous one
    observation_fields: tuple[str, ...]  # names of the K columns of observations
    infosets: int | None  # N; None when too many to number

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample deals (G, C) of `games` = G new games: all chance outcomes, drawn before play."""

    def start(self, deals: Deals) -> Any:
        """Return the state of G new games with deals (G, C). Play has no further randomness."""

    def observe(self, state: Any) -> Observations:
        """Return one observation for each seat that must act now; no rows if every game is over."""

    def step(self, state: Any, observations: Observations, action: Array) -> Array:
        """Play one action for each row and return (G, S) the points that each seat gains by it.

        `observations`: the rows that `observe` returned for this state. `action`: (R,) or (R, A)
        the action of each row. The state is changed in place. An illegal action leaves the state
        unchanged and raises ValueError with the words "illegal action".
        """

    def features(self, observations: Observations) -> Array:
        """Return network inputs (R, F) float32; each row depends on its own observation only."""

    def hand(self, observations: Observations) -> Array:
        """Return (R,) a name of the private information in each row, for grouping in figures."""

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text for people."""


@runtime_checkable
class Enumerable(Game, Protocol):
    """A game small enough for the exact solvers: every deal can be listed.

    Its information sets are numbered from 0 to N - 1 and have perfect recall.
    """

    @property
    def min_tree_size(self) -> int:
        """Return a lower bound on max(number of tree nodes, number of deals).

        Building the tree needs memory for every node and every deal. The bound must be found
        without enumerating them.
        """

    def every_deal(self) -> tuple[Deals, Array]:
        """Return all distinct deals (G, C) and their probabilities (G,), which are all positive."""

    def revealed_columns(self, state: Any) -> Array:
        """Return (G,) int: the number of deal columns that at least one seat of each game has seen.

        The columns of a deal are the game's chance outcomes, in the order in which seats see them.
        The revealed outcomes are therefore the first columns.
        """


@runtime_checkable
class PhantomGame(Game, Protocol):
    """A phantom game: two seats mark cells of a board in turn and do not see each other's marks.

    A seat tries a cell that it does not know yet. A free cell gets its mark, and the other seat
    moves. If the other seat has marked the cell, the seat only learns this; then it tries again, or
    its turn ends. A seat with a winning set of marks, of at least two cells, gains 1, and the other
    seat loses 1. A full board on which nobody has won is a draw. The actions are the cells. The
    observation of a seat is its number and its attempts, as `view_observations` takes them.
    """

    wins: Array  # (2, 2^A) bool: whether a seat has won with a set of marks, a bit for each cell
    failure_ends_turn: bool  # whether a seat that has tried a marked cell waits for its next turn

    def view_observations(self, seat: int, attempts: Array) -> Observations:
        """Return the observations of a seat after given attempts.

        `attempts`: (R, A) int8, for each cell 0 if unknown, k if marked at the seat's k-th attempt,
        and -k if that attempt found the other seat's mark.
        """


@runtime_checkable
class HiddenBidGame(Game, Protocol):
    """A game of two seats that bid cards for prizes, and whose bids stay hidden after each round.

    Each seat has the cards 1 to N. In each of N rounds a prize is shown, and both seats bid one of
    their remaining cards simultaneously. The higher card wins the prize; after a tie the prize is
    discarded. In the last round each seat bids its last card without a decision. The seat with the
    higher total of prizes gains 1, and the other seat loses 1; with equal totals both gain 0.
    Action k bids the card k + 1. The observation of a seat is its number and its view, as
    `view_observations` takes it.
    """

    cards: int  # N

    def prize_orders(self) -> Array:
        """Return (D, N) integers: all orders of the prizes, which are equally likely.

        Raises UserError if they are too many to list.
        """

    def view_observations(self, seat: int, views: Array) -> Observations:
        """Return the observations of a seat with given views (R, 3 N - 5).

        A view is the prizes of the rounds 1 to N - 1, or 0 if not shown; the seat's own bids in the
        rounds 1 to N - 2, or 0 if not made; and its results in these rounds: 1 won, -1 lost, 0 tied
        or not played.
        """


WalkedGame = PhantomGame | HiddenBidGame
"""A game whose exact values are computed by walks over all its lines, without a stored tree."""


@runtime_checkable
class DealtCards(Protocol):
    """A game whose chance outcomes are cards: each is seen by one seat, or by all."""

    @property
    def column_seats(self) -> tuple[int, ...]:
        """Return the seat that sees each column of a deal during play; -1: all seats."""

    def ends_with_showdown(self, actions: tuple[int, ...]) -> bool:
        """Return whether the seats show their cards at the end of a game with these actions."""


@runtime_checkable
class DecodedObservations(Protocol):
    """A game whose observations can be decoded: into the cards seen, and all actions so far."""

    def decode(self, seat: int, observation: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the cards and the actions in an observation (K,) of a seat.

        There is a card for each column of a deal; -1: hidden from the seat, or not yet dealt.
        """


@runtime_checkable
class PublicActionGame(Enumerable, DealtCards, Protocol):
    """An enumerable game whose actions are public and whose chance outcomes are cards."""


@runtime_checkable
class Redealable(Game, Protocol):
    """A game that can resample its hidden information, given the observation of one seat."""

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, C): for each row, one deal that agrees with the observation in this row.

        Deals are drawn from the game's distribution of deals, conditioned on the part of the deal
        that the seat sees. The actions of other seats are not used for inference; the caller can
        weight the deals by the policies of these seats.
        """


@runtime_checkable
class BoundedPayoff(Game, Protocol):
    """A game with a known lowest payoff, which RL environments pay for an illegal action."""

    @property
    def lowest_payoff(self) -> float:
        """Return a lower bound on the payoff of any seat in any game, in points."""


@runtime_checkable
class ValidatesObservations(Game, Protocol):
    """A game that can check integer observations and derive their seats and legal actions.

    Model servers need it, because they receive observations without the state of a game.
    """

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and add their seats, legal actions and information sets.

        Raises UserError for the first row that is impossible in this game.
        """


@runtime_checkable
class ValidatesDeals(Game, Protocol):
    """A game that can check deals read from a file.

    Recorded games can only be replayed if their game has this capability.
    """

    def are_possible_deals(self, deals: Deals) -> Array:
        """Return (G,) bool: whether each deal can occur in this game.

        `deals`: (G, C) integers of any size, with as many columns as `deal` returns.
        """


@runtime_checkable
class Resumable(Redealable, Protocol):
    """A game that can rebuild the state at a decision from the seat's observation and a full deal.

    Search on sampled deals (PIMC, perfect-information Monte Carlo) plays on from this state.
    """

    def resume(self, observations: Observations, deals: Deals) -> Any:
        """Return the state of R games, each at the decision of one row of the observations.

        `deals`: (R, C) the deal of each game; it must be consistent with the observation.
        """


@runtime_checkable
class PublicSituations(Game, Protocol):
    """A game with an abstraction of its public states.

    The abstraction puts similar public states into one class, called a public situation. Opponent
    models count the opponent's actions separately in each class.
    """

    @property
    def public_situations(self) -> int:
        """Return the number of public situations: classes of similar public states."""

    def public_situation(self, observations: Observations) -> Array:
        """Return (R,) int64: the public situation of each row, a class of similar public states.

        Classes are numbered from 0.
        """


@runtime_checkable
class CompactFeatures(Game, Protocol):
    """A game that offers a short feature vector, as input of evolved networks with few weights."""

    def compact_features(self, observations: Observations) -> Array:
        """Return (R, F) float64 features of R observations, each from -1 to 1."""


@runtime_checkable
class PrivilegedFeatures(Game, Protocol):
    """A game that offers features for a privileged critic, which sees all cards during training."""

    def privileged_features(self, observations: Observations, deals: Deals) -> Array:
        """Return (R, F) float32 features of R decisions, given also the complete deals (R, C)."""


@runtime_checkable
class DeclaresZeroSum(Protocol):
    """A game that states whether it is zero-sum. Games without this property count as zero-sum."""

    @property
    def zero_sum(self) -> bool:
        """Return True if the payoffs of all seats always sum to zero."""


def is_zero_sum(game: Any) -> bool:
    """Return the game's `zero_sum` property, or True if the game does not have it."""
    return game.zero_sum if isinstance(game, DeclaresZeroSum) else True


@runtime_checkable
class EvaluatedOnAnother(Protocol):
    """A game whose policies are evaluated on another: without shaping, or simulated exactly."""

    def evaluation_game(self) -> Any:
        """Return the game on which policies are evaluated.

        It has no reward shaping, and no approximation of the simulation that only training may use.
        """


@runtime_checkable
class ShapesRewards(Protocol):
    """A game that may have shaping rewards: they guide learning, but are no part of the result."""

    @property
    def has_shaping(self) -> bool:
        """Return whether the game has any shaping reward."""

    def with_shaping(self, share: float) -> Any:
        """Return the same game with its shaping rewards multiplied by `share` (0 to 1)."""


@runtime_checkable
class SeveralViews(Protocol):
    """A game whose option `view` chooses the inputs of networks, but changes no rule."""

    view: str
    default_view: str  # of a game that is made without the option

    def policy_of_view(self, view: str, make: Callable[[Any], Any]) -> Any:
        """Return a policy for this game whose network has the inputs and actions of a view.

        `make`: builds the policy for a game; it is called once, with the game of that view.
        """


@runtime_checkable
class ClipsActions(Protocol):
    """A game that clips each component of a continuous action to -1 .. 1 before it takes effect."""

    clips_actions: Literal[True]


@runtime_checkable
class ReportsWinners(Protocol):
    """A game that can report the results of games apart from their payoffs, which may be shaped."""

    def outcome(self, state: Any) -> Array:
        """Return (G, S) for games that are over: 1 for a win, -1 for a loss, 0 for a draw.

        The sum of each game is 0.
        """


def outcomes(game: Any, state: Any, payoff: Array) -> Array:
    """Return the results (G, S) of games that are over, without reward shaping.

    They are `game.outcome(state)` if the game has this method, otherwise the payoffs (G, S).
    """
    return game.outcome(state) if isinstance(game, ReportsWinners) else payoff


@runtime_checkable
class PortableOptions(Protocol):
    """A game that can replace its options by options that are valid on every worker.

    This is for games whose options contain relative paths or depend on environment variables.
    """

    def portable_options(self) -> dict[str, Any]:
        """Return options that create the same game in any working folder and on any worker."""


@runtime_checkable
class SuitSymmetric(Game, Protocol):
    """A card game whose observations can be rewritten with suits in a canonical order."""

    def canonical_observations(self, observations: Observations) -> tuple[Observations, Array]:
        """Relabel the suits of each observation in a canonical order.

        Returns the relabelled observations, and an array (R, A) that maps each action of a
        relabelled row to the same action of the original row.
        """

    def canonical_policy(self, policy: BehaviouralPolicy) -> BehaviouralPolicy:
        """Wrap a policy trained on canonical observations, so that it accepts original ones."""


@runtime_checkable
class AbstractStates(Game, Protocol):
    """A game with named state abstractions for tabular Q-learning."""

    def state_keys(self, representation: str) -> Callable[[Observations], Array]:
        """Return the function that maps R observations to their Q-table keys, uint64.

        The keys are (R, 1), one for each state, or (R, A), one for each state-action pair and 0
        where the action is not available.

        `representation`: the name of the state abstraction. Raises UserError for an unknown name.
        """

    def combined_policy(
        self, players: Mapping[str, BehaviouralPolicy], others: BehaviouralPolicy
    ) -> BehaviouralPolicy:
        """Return a policy that uses one policy for each named player of the game, such as declarer.

        - `players`: the policies by the player's name
        - `others`: the policy of all players without a policy in `players`
        """


@runtime_checkable
class InformationStateStrings(Protocol):
    """A game that gives OpenSpiel's information state string for each information set."""

    @property
    def information_state_strings(self) -> tuple[str, ...]:
        """Return the N information sets' strings; an empty tuple before the game tree is built."""


@runtime_checkable
class CountsDivergedGames(Protocol):
    """A state of simulated games that records which simulations diverged numerically."""

    diverged_games: Array  # (G,) bool: the game ended early because its simulation diverged


def count_diverged_games(state: Any) -> int:
    """Return the number of games whose simulation diverged; 0 if the state does not record it."""
    return int(state.diverged_games.sum()) if isinstance(state, CountsDivergedGames) else 0
