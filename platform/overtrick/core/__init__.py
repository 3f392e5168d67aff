"""The nouns that flow between the rooms, and the letters that their shapes are written in.

G games side by side, S seats, R rows that must act now, K facts, A actions (or the width of a real
vector), D decisions, N information sets, C chance outcomes of one game, M members of a population,
F features. In poker B betting nodes; in the solvers V nodes of a tree, I inner ones, L legal
actions of all information sets in a row; in a network H units of a layer; in Chains K buckets.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator

Array = np.ndarray
Deals = np.ndarray  # (G, C) all chance of a game, in the order in which play reveals it


class Refused(ValueError):
    """Bad input: one line that names the place and the remedy. The command line exits with 2."""


class Failed(RuntimeError):
    """Work that was rightly asked for and failed: one line. The command line exits with 1."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The most similar of some words: what the user may have meant."""
    return difflib.get_close_matches(word, list(words), n=1, cutoff=0.0)[0]


@dataclass(frozen=True, slots=True)
class Turn:
    """The rows that must act now; at most one row for each (game, seat)."""

    game: Array  # (R,) which of the G games
    seat: Array  # (R,) which seat acts
    seen: Array  # (R, K) what this seat knows, integers of cards; names in Game.facts
    legal: Array | None  # (R, A) bool; None when actions are real vectors
    infoset: Array | None  # (R,) number of the information set; None when too many to number

    def __len__(self) -> int:
        return len(self.game)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a player does with each row of a turn."""

    action: Array  # (R,), or (R, A) real vectors
    logp: Array  # (R,) natural logarithm of the probability, or density, that this action had
    note: dict[str, Array] = field(default_factory=dict)  # (R,) each: what a learner wants back


@dataclass(frozen=True, slots=True)
class Batch:
    """D decisions of whole games, ordered by (game, seat, time)."""

    games: int  # G, also those in which nobody who was watched had to decide
    game: Array  # (D,)
    seat: Array  # (D,)
    seen: Array  # (D, K)
    legal: Array | None  # (D, A)
    infoset: Array | None  # (D,)
    action: Array  # (D,), or (D, A) real vectors
    logp: Array  # (D,)
    reward: Array  # (D,) points gained by this seat from this decision to its next one
    last: Array  # (D,) bool: this seat decides no more in this game
    note: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.game)

    def turn(self) -> Turn:
        """The decisions as rows of one turn, so that a policy or a game can look at them again."""
        return Turn(self.game, self.seat, self.seen, self.legal, self.infoset)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of G games."""

    batch: Batch
    payoff: Array  # (G, S) points won by each seat, also by one that never had to act
    astray: int = 0  # games that ended because a simulator could not follow them


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
    facts: tuple[str, ...]  # names of the K columns of Turn.seen
    infosets: int | None  # N; None when too many to number

    def deal(self, games: int, rng: Generator) -> Deals:
        """All chance of the games, drawn before play."""

    def start(self, deals: Deals) -> Any:
        """The games before the first decision. No randomness from here on."""

    def turn(self, state: Any) -> Turn:
        """Who must act now and what they know; empty when every game is over."""

    def step(self, state: Any, turn: Turn, action: Array) -> Array:
        """Play one action a row: (G, S) points gained. The state advances in place."""

    def features(self, turn: Turn) -> Array:
        """(R, F) float32: the rows' facts as numbers for a network."""

    def hand(self, turn: Turn) -> Array:
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

    def redeal(self, turn: Turn, rng: Generator) -> Deals:
        """(R, C) for each row a deal from the rules' distribution, given all that the row sees.

        It knows the turn and nothing else, so nobody can peek at the cards that were dealt. What
        the others' choices tell is left out: who knows how they play weighs the deals by it.
        """


CHANCE, END = -1, -2  # what Nodes.seat says where nobody acts


@dataclass(frozen=True)
class Nodes:
    """V nodes of a game tree in breadth-first order; a node's children are neighbours, by edge."""

    seats: int  # S
    parent: Array  # (V,) int32, -1 for the root
    edge: Array  # (V,) int32 action of the parent that leads here; of chance, the outcome's rank
    seat: Array  # (V,) int32 who acts, CHANCE or END
    infoset: Array  # (V,) int32 information set, -1 where nobody acts
    chance: Array  # (V,) float64 probability of the edge if chance chose it, else 1
    gain: Array  # (V, S) float64 points gained on the edge into the node
    turn: Turn  # one row for each of the N information sets, in their order


@runtime_checkable
class Unfolded(Protocol):
    """A game that lays out its own tree: it can be solved exactly, but not played."""

    name: str
    seats: int
    unit: str
    actions: int
    action_names: tuple[str, ...]

    def nodes(self, fits: Callable[[float, int], bool]) -> Nodes:
        """The whole tree. Raises Refused, early if possible, unless fits(V, N): there is room."""


@dataclass(frozen=True)
class Chains:
    """A zero-sum game of public moves between two seats; chance alone moves what each holds.

    A seat holds one of K buckets and sees no other. At the start, and wherever the round number
    rises by one, chance moves both buckets: independently of each other by one table a round, or
    jointly. An end pays seat 0 gain + stake x (2 win - 1), and seat 1 the opposite.
    """

    name: str
    unit: str  # of one point of payoff
    action_names: tuple[str, ...]
    after: Array  # (B, A) int32 next public node, -1 where illegal; node 0 is the start
    seat: Array  # (B,) int32 who acts, END at an end
    round: Array  # (B,) int32 from 0
    gain: Array  # (B,) float64 points of seat 0 at an end whatever the buckets are; else 0
    stake: Array  # (B,) float64 points at an end that the buckets decide; 0 where nobody shows
    start: Array  # (K, K) probability of both seats' first buckets, seat 0's first
    moves: Array  # (rounds - 1, K, K) from, to; or joint, (rounds - 1, K, K, K, K) both from, to
    win: Array  # (K, K) probability that seat 0's last bucket beats seat 1's, plus half a tie's

    @property
    def joint(self) -> bool:
        """Are the seats' buckets moved together? If not, start is the product of its sums."""
        return self.moves.ndim == 5


class Player(Protocol):
    """A policy during one sitting: it holds tonight's memory and generator."""

    def act(self, turn: Turn) -> Choice: ...


class Policy(Protocol):
    """What a player knows."""

    def sit(self, games: int, rng: Generator) -> Player: ...


@runtime_checkable
class Mixed(Policy, Protocol):
    """A policy without memory, known by its probabilities: it can be valued exactly."""

    def probs(self, turn: Turn) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""


class Learner(Protocol):
    """An algorithm: batches in, numbers out."""

    def policy(self, explore: bool = True) -> Policy: ...
    def learn(self, batch: Batch, rng: Generator) -> dict[str, float]: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


class Trainer(Protocol):
    """Who plays whom and who learns."""

    iteration: int  # how many are done; also in the state, under this name

    def step(self) -> dict[str, float]:
        """One training iteration and its metrics."""

    def state(self) -> dict[str, Array]:
        """Everything that the next iteration depends on."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Go on from a state as if nothing had happened."""

    def model(self) -> dict[str, Array]:
        """The weights worth keeping."""

    def report(self, history: Any) -> Any:
        """The final table and the figures, from every iteration's metrics."""

    def close(self) -> None:
        """Give the crew back."""


def join(batches: Sequence[Batch]) -> Batch:
    """The decisions of several batches as one; games are numbered on."""
    starts = np.cumsum([0] + [b.games for b in batches])
    columns: dict[str, Any] = {}
    for name in ("seat", "seen", "legal", "infoset", "action", "logp", "reward", "last"):
        parts = [getattr(b, name) for b in batches]
        columns[name] = None if parts[0] is None else np.concatenate(parts)
    game = np.concatenate([b.game + start for b, start in zip(batches, starts[:-1], strict=True)])
    note = {n: np.concatenate([b.note[n] for b in batches]) for n in batches[0].note}
    return Batch(games=int(starts[-1]), game=game, note=note, **columns)


StateT = TypeVar("StateT")


def take(state: StateT, rows: Array) -> StateT:
    """Some of the games of a state, in the given order and as often as given; a copy."""
    names = state.__dataclass_fields__  # type: ignore[attr-defined]
    return type(state)(**{name: getattr(state, name)[rows] for name in names})


def take_turn(turn: Turn, rows: Array | slice) -> Turn:
    """Some of the rows of a turn."""
    return Turn(
        turn.game[rows],
        turn.seat[rows],
        turn.seen[rows],
        None if turn.legal is None else turn.legal[rows],
        None if turn.infoset is None else turn.infoset[rows],
    )
