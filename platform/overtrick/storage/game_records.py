"""Recorded games on disk: chance outcomes and actions, from which observations are recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from pydantic import Field, JsonValue, TypeAdapter

from overtrick.core import Array, Deals, Observations, UserError, ValidatesDeals, select_rows
from overtrick.core.json_files import OpenRecord
from overtrick.games import registry
from overtrick.storage import parquet


class GamesMetadata(OpenRecord):
    """Schema of the metadata of recorded games: game, options, players, bidding systems."""

    game: str
    options: dict[str, JsonValue]
    players: Annotated[list[str], Field(min_length=1)]
    systems: list[str]


KIND = parquet.Kind(
    "played games", 1, "play them again with --keep", parameters=TypeAdapter(GamesMetadata)
)
PADDING = -1  # in the columns of seats and actions, after the end of a game


class Move(NamedTuple):
    """One action of a seat."""

    seat: int
    action: int


class Step(NamedTuple):
    """One step of a replayed game: a move, and what its seat observed before it."""

    move: Move
    decision: Observations  # of one row: the acting seat's

    @property
    def observation(self) -> Array:
        """Return the observation (K,) of the acting seat."""
        row: Array = self.decision.observation[0]
        return row


class Recorder:
    """Wrapper of a game that records the deals, moves and payoffs of the games that are played."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.deals: Deals = np.zeros((0, 0))
        self.moves: list[list[Move]] = []  # of each game
        self.payoff: Array = np.zeros((0, 0))  # (G, S)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.game, name)

    def start(self, deals: Deals) -> Any:
        """Start a game for each deal, and discard the games recorded before.

        Returns the state of the started games.
        """
        self.deals, self.moves = deals, [[] for _ in deals]
        self.payoff = np.zeros((len(deals), self.game.seats))
        return self.game.start(deals)

    def step(self, state: Any, observations: Observations, action: Array) -> Array:
        """Play and record the actions of all seats that act now; return the points that seats gain.

        `action`: one action for each row of `observations`. Returns (G, S) for G games and S seats.
        """
        reward: Array = self.game.step(state, observations, action)
        self.payoff += reward
        for game, seat, made in zip(observations.game, observations.seat, action, strict=True):
            self.moves[game].append(Move(int(seat), int(made)))
        return reward


@dataclass(frozen=True)
class Games:
    """G recorded games of S seats, with the players that sat in these seats.

    A player is a person or a policy. One player may sit in several seats of a game.
    """

    game: str
    options: Mapping[str, Any]
    players: tuple[str, ...]
    deals: Deals  # (G, C)
    moves: Sequence[Sequence[Move]]  # of each game
    who: Array  # (G, S) index of the player in each seat
    payoff: Array  # (G, S)
    systems: tuple[str, ...] = ()  # the bidding system of each player, for auctions

    def first(self, count: int) -> Games:
        """Return the first `count` games."""
        by_game = ("deals", "moves", "who", "payoff")
        return replace(self, **{name: getattr(self, name)[:count] for name in by_game})


def save(path: Path, games: Games) -> None:
    """Write recorded games to a Parquet file."""
    longest = max((len(moves) for moves in games.moves), default=0)
    seat, action = np.full((2, len(games.moves), longest), PADDING, np.int16)
    for row, moves in enumerate(games.moves):
        for column, move in enumerate(moves):
            seat[row, column], action[row, column] = move
    about = {"game": games.game, "options": dict(games.options), "players": list(games.players)}
    about |= {"systems": list(games.systems)}
    columns = {"deal": games.deals.astype(np.int16), "seat": seat, "action": action}
    columns |= {"who": games.who, "payoff": games.payoff}
    parquet.save(path, KIND, about, columns)


def load(path: Path) -> Games:
    """Read recorded games from a Parquet file, and check the shape and values of each column.

    Whether moves are legal is checked only when `steps` replays them. Raises UserError for an
    unusable file.
    """
    stored = parquet.load(path, KIND)
    about = cast(GamesMetadata, stored.parameters)
    try:
        columns = {name: stored.columns[name] for name in ("deal", "seat", "action", "who")}
        payoff = stored.columns["payoff"]
    except KeyError as error:
        raise UserError(f"{path} lacks {error}: {KIND.remedy}") from None
    rules = registry.make(about["game"], **about["options"])
    try:
        _check_columns(rules, about, columns, payoff)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): {KIND.remedy}") from None
    moves = [
        [Move(int(s), int(a)) for s, a in zip(*row, strict=True) if s != PADDING]
        for row in zip(columns["seat"], columns["action"], strict=True)
    ]
    return Games(
        about["game"],
        about["options"],
        tuple(about["players"]),
        columns["deal"].astype(np.int16),  # as `save` writes it
        moves,
        columns["who"].astype(np.int64),
        payoff,
        tuple(about["systems"]),
    )


def _check_columns(
    rules: Any, about: GamesMetadata, columns: Mapping[str, Array], payoff: Array
) -> None:
    """Raise ValueError unless all columns have the shapes and values that occur in the game.

    `rules`: the game. `columns`: the columns of integers.
    """
    if not isinstance(rules, ValidatesDeals) or rules.actions is None:
        raise ValueError(f"games of {rules.name} cannot be replayed")
    if len(about["systems"]) not in (0, len(about["players"])):
        raise ValueError("it does not name one system for each player")
    for name, column in columns.items():
        if column.ndim != 2 or column.dtype.kind not in "iu":
            raise ValueError(f"'{name}' must have rows of whole numbers")
    games, width = columns["deal"].shape
    wanted = rules.deal(1, np.random.default_rng(0)).shape[1]
    if width != wanted:
        raise ValueError(f"'deal' must have {wanted} columns, not {width}")
    if columns["who"].shape != (games, rules.seats) or payoff.shape != (games, rules.seats):
        raise ValueError(f"'who' and 'payoff' must have a column for each of {rules.seats} seats")
    if payoff.dtype.kind not in "fiu" or not np.isfinite(payoff).all():
        raise ValueError("'payoff' must be finite numbers")
    seat, action, who = (columns[name] for name in ("seat", "action", "who"))
    over = seat == PADDING
    together = seat.shape == action.shape and np.array_equal(over, action == PADDING)
    if not together or (over[:, :-1] & ~over[:, 1:]).any():
        raise ValueError("'seat' and 'action' must have the same length in each game")
    for name, column, least, count in (
        ("seat", seat, PADDING, rules.seats),
        ("action", action, PADDING, rules.actions),
        ("who", who, 0, len(about["players"])),
    ):
        wrong = (column < least) | (column >= count)
        if wrong.any():
            raise ValueError(f"'{name}' must be from 0 to {count - 1}, not {column[wrong][0]}")
    impossible = ~rules.are_possible_deals(columns["deal"].astype(np.int64))
    if impossible.any():
        raise ValueError(f"the deal of game {1 + int(impossible.argmax())} cannot occur")


def steps(games: Games, game: int) -> Iterator[Step]:
    """Replay one recorded game and yield its moves, each with the observation before it.

    `game`: the index of the game. Raises UserError for illegal moves, for moves after the end of
    the game, and for another payoff than that of the moves.
    """
    rules = registry.make(games.game, **games.options)
    state = rules.start(games.deals[[game]])
    left, payoff = list(games.moves[game]), np.zeros(rules.seats)
    while len(observations := rules.observe(state)):
        now, left = left[: len(observations)], left[len(observations) :]
        seats, actions = zip(*now, strict=True) if now else ((), ())
        if list(seats) != observations.seat.tolist():
            raise UserError(f"game {game + 1} breaks the rules of {games.game}: {KIND.remedy}")
        for row, move in enumerate(now):
            yield Step(move, select_rows(observations, np.array([row])))
        try:
            payoff += rules.step(state, observations, np.array(actions))[0]
        except ValueError as error:
            raise UserError(f"game {game + 1}: {error}: {KIND.remedy}") from None
    if left or not np.allclose(payoff, games.payoff[game]):
        problem = f"{len(left)} moves after its end" if left else "another payoff than its moves"
        raise UserError(f"game {game + 1} has {problem}: {KIND.remedy}")
