"""Per-process cache of games, trees, opponents and equilibria, keyed by GameChoice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Enumerable, ExplicitTreeGame, Game, UserError
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games import registry
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree, build

_cache: dict[str, Any] = {}


def _cached(key: str, make: Callable[[], Any]) -> Any:
    """Return the cached object of a key; `make` creates it on the first call in this process."""
    if key not in _cache:
        _cache[key] = make()
    return _cache[key]


def cached_game(choice: GameChoice, memory: int | None = None) -> tuple[Any, Tree | None]:
    """Return a game and its tree; the tree is None if the game does not define one.

    `memory`: largest size of the tree in bytes. Raises UserError if the tree would be larger, or if
    the game is too large for a tree.
    """

    def make() -> tuple[Any, Tree | None]:
        game = _game(choice)
        return game, build(game, memory) if isinstance(game, (Game, ExplicitTreeGame)) else None

    return _cached(f"{choice.model_dump_json()} {memory}", make)


def game_with_tree(choice: GameChoice) -> tuple[Any, Tree]:
    """Return a two-seat game and its tree.

    Raises UserError if the game has another number of seats or is too large for a tree.
    """
    game, tree = two_seat_game(choice)
    if tree is None:
        raise UserError(f"{game.name} is too large for a tree, which this trainer needs")
    return game, tree


def two_seat_game(choice: GameChoice) -> tuple[Any, Tree | None]:
    """Return a two-seat game and its tree; the tree is None if the game is too large for one.

    Raises UserError for a game with another number of seats.
    """
    game = _game(choice)
    registry.check_playable(game)
    if game.seats != 2:
        raise UserError(f"{game.name} is not a two-seat game: this trainer needs one")
    return playable_game(choice)


def playable_game(choice: GameChoice) -> tuple[Any, Tree | None]:
    """Return the chosen game and its tree; the tree is None if the game never has one.

    The number of seats is not checked. Raises UserError if the game exists only as a tree, so that
    it can be solved but not played, and if its tree does not fit in memory.
    """
    game = _game(choice)
    registry.check_playable(game)
    return cached_game(choice) if isinstance(game, Enumerable) else (game, None)


def _game(choice: GameChoice) -> Any:
    key = f"{choice.model_dump_json()} game"
    return _cached(key, lambda: registry.make(choice.name, **choice.options))


def check_discrete_actions(game: Game) -> None:
    """Raise UserError for a game with continuous actions."""
    if game.actions is None:
        raise UserError(
            f"{game.name} has continuous actions, but this trainer needs discrete actions"
        )


def check_tree(key: str, value: str, game: Game, tree: Tree | None, remedy: str) -> None:
    """Raise UserError if the game has no tree, for a job setting that requires a game tree.

    `key`, `value`: the dotted name and the value of the setting. `remedy`: advice to the user, with
    which the message ends.
    """
    if tree is None:
        raise UserError(
            f"{key}: {value} needs a tree, and {game.name} is too large for one: {remedy}"
        )


def cached_opponent(choice: GameChoice, name: str) -> Any:
    """Return the policy of an opponent (see `make_opponent`); each process makes it once."""
    key = choice.model_dump_json() + name
    return _cached(key, lambda: make_opponent(name, *playable_game(choice)))


def cached_exact_equilibrium(choice: GameChoice) -> Array:
    """Return an exact equilibrium (N, A), found by linear programming.

    N are the information sets, A the actions. If there are several equilibria, the solver's choice
    is arbitrary. Each process computes it once.
    Raises UserError for a game without a tree, with other than two seats, or not zero-sum.
    """

    def make() -> Array:
        return sequence_form.equilibrium(game_with_tree(choice)[1])[1]

    return _cached(f"{choice.model_dump_json()} exact equilibrium", make)


def cached_equilibrium(choice: GameChoice) -> Array:
    """Return the exact equilibrium (N, A) that is nearest to the approximate equilibrium of CFR+.

    The distance is measured between realisation plans. Each process computes the result once.
    Raises UserError for a game without a tree, with other than two seats, or not zero-sum.
    """

    def make() -> Array:
        # CFR+ exploits an opponent's mistakes but is only approximately an equilibrium; the
        # equilibrium of a linear program is exact but may not exploit mistakes
        _, tree = game_with_tree(choice)
        exact = cached_exact_equilibrium(choice)
        target = best_response.sigma_of(tree, [cached_opponent(choice, "cfr")] * 2)
        return safe_exploitation.nearest_safe_strategy(tree, exact, target, 0)

    return _cached(f"{choice.model_dump_json()} equilibrium", make)
