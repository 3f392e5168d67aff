"""Games, trees and opponents, made once and kept by each process."""

from __future__ import annotations

from typing import Any

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Enumerable, ExplicitTreeGame, Game, UserError
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games import registry
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree, build

_cache: dict[str, Any] = {}


def cached_game(choice: GameChoice, memory: int | None = None) -> tuple[Any, Tree | None]:
    """A game and its tree; None if it is no game that has one.

    memory: bytes that the tree may take. Raises UserError if it would not fit, or for a game that
    is played but too large for a tree.
    """
    key = f"{choice.model_dump_json()} {memory}"
    if key not in _cache:
        game = registry.make(choice.name, **choice.options)
        tree = build(game, memory) if isinstance(game, (Game, ExplicitTreeGame)) else None
        _cache[key] = game, tree
    return _cache[key]


def game_with_tree(choice: GameChoice) -> tuple[Any, Tree]:
    """The same, of a game that two can play. Raises UserError for another."""
    game, tree = two_seat_game(choice)
    if tree is None:
        raise UserError(f"{game.name} is too large for a tree, which this trainer needs")
    return game, tree


def two_seat_game(choice: GameChoice) -> tuple[Any, Tree | None]:
    """A game that two can play, and its tree; None if it is too large. Raises UserError."""
    game = _game(choice)
    if not isinstance(game, Game) or game.seats != 2:
        raise UserError(f"{game.name} is no game that 2 seats play: this trainer needs one")
    return playable_game(choice)


def playable_game(choice: GameChoice) -> tuple[Any, Tree | None]:
    """A game that is played, by any number of seats, and its tree; None if it is too large. Raises
    UserError."""
    game = _game(choice)
    registry.check_playable(game)
    return cached_game(choice) if isinstance(game, Enumerable) else (game, None)


def _game(choice: GameChoice) -> Any:
    key = f"{choice.model_dump_json()} game"
    if key not in _cache:
        _cache[key] = registry.make(choice.name, **choice.options)
    return _cache[key]


def check_discrete_actions(game: Game) -> None:
    """Raise UserError for a game in which one moves by real vectors."""
    if game.actions is None:
        raise UserError(f"{game.name} moves by real vectors: this trainer needs single actions")


def cached_opponent(choice: GameChoice, name: str) -> Any:
    """A stranger: CFR takes a moment."""
    key = choice.model_dump_json() + name
    if key not in _cache:
        _cache[key] = make_opponent(name, *playable_game(choice))
    return _cache[key]


def cached_equilibrium(choice: GameChoice) -> Array:
    """(N, A) the exact equilibrium nearest to the strategy of the stranger cfr.

    An equilibrium of a linear program alone makes nothing of mistakes where it need not; CFR+ does,
    but can itself be exploited a little. Raises UserError without a tree, or unless zero-sum.
    """
    key = f"{choice.model_dump_json()} equilibrium"
    if key not in _cache:
        _, tree = game_with_tree(choice)
        exact = sequence_form.equilibrium(tree)[1]
        near = best_response.sigma_of(tree, [cached_opponent(choice, "cfr")] * 2)
        _cache[key] = safe_exploitation.nearest_safe_strategy(tree, exact, near, 0)
    return _cache[key]
