"""The registry of games. To add a game, add its `GameSpec` to `SPECS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from overtrick.core import (
    BehaviouralPolicy,
    EvaluatedOnAnother,
    Game,
    Policy,
    PortableOptions,
    Trajectories,
    UserError,
    is_zero_sum,
    nearest,
)
from overtrick.games import liars_dice, matrix
from overtrick.games.bridge import spec as bridge
from overtrick.games.openspiel_tree import OpenSpiel
from overtrick.games.poker import spec as poker
from overtrick.games.presentation import Presentation
from overtrick.games.spec import GameSpec
from overtrick.games.sumo import spec as sumo

SPECS: tuple[GameSpec, ...] = (
    matrix.BRPS,
    *poker.SPECS,
    liars_dice.SPEC,
    *bridge.SPECS,
    sumo.SPEC,
)
_SPECS = {spec.name: spec for spec in SPECS}


def names() -> tuple[str, ...]:
    """Return the names of the games that can be made and played."""
    return tuple(spec.name for spec in SPECS if spec.played)


def solve_only_names() -> tuple[str, ...]:
    """Return the names of games that can be solved, but not played, beside openspiel/NAME."""
    return tuple(spec.name for spec in SPECS if not spec.played)


def spec_of(game: Any) -> GameSpec:
    """Return the registration of a game by its name; the defaults if it is not registered."""
    return _SPECS.get(game.name) or GameSpec(game.name, type(game))


def make(name: str, /, **options: Any) -> Any:
    """Make a game by its name; options are those of its class, such as fold=False for poker.

    openspiel/NAME is any game of OpenSpiel, an ExplicitTreeGame, with its parameters in the name
    as OpenSpiel writes them. Games of `names` are core.Game, and Enumerable if they are small.
    Raises UserError with the nearest name for an unknown game or option.
    """
    door, slash, theirs = name.partition("/")
    if slash and door == "openspiel":
        if options:
            raise UserError(f"game '{name}' takes no options: write 'openspiel/NAME(option=value)'")
        return OpenSpiel(theirs)
    if name not in _SPECS:
        near = nearest(name, _SPECS)
        raise UserError(
            f"unknown game '{name}': did you mean '{near}'? OpenSpiel's games are openspiel/NAME"
        )
    takes = _options_of(_SPECS[name]) if options else []
    for option in options:
        if option not in takes:
            near = f": did you mean '{nearest(option, takes)}'?" if takes else ": it takes none"
            raise UserError(f"game '{name}' has no option '{option}'{near}")
    try:
        return _SPECS[name].make(**options)
    except TypeError as error:
        raise UserError(f"game '{name}' does not take these options: {error}") from None


def check_playable(game: Any) -> None:
    """Raise UserError for a game that can be solved, but not played."""
    if not isinstance(game, Game):
        raise UserError(f"{game.name} can be solved, but not played")


def _options_of(spec: GameSpec) -> list[str]:
    """Return the names of the options of a game."""
    return [
        name
        for name, parameter in inspect.signature(spec.loaded()).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    ]


def portable_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that make the same game from any folder and later on. Raises UserError."""
    game = make(name, **options)
    return game.portable_options() if isinstance(game, PortableOptions) else dict(options)


def scripted_players(game: Any) -> Mapping[str, Callable[[Any], Policy]]:
    """Return the scripted players of a game by name; each makes a policy of the game."""
    return spec_of(game).scripted_players(game)


def single_game(game: Any) -> Any:
    """Return a quick way to play one game at a time; None where the engine has to."""
    return spec_of(game).single_game(game)


def presentation(game: Any) -> Presentation:
    """Return how a game is shown to people."""
    return spec_of(game).presentation(game)


def evaluation_game(game: Any) -> Any:
    """Return the game on which policies are evaluated: the game itself by default."""
    return game.evaluation_game() if isinstance(game, EvaluatedOnAnother) else game


def match_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a match: the defaults of the game's matches, and the given ones."""
    known = _SPECS.get(name)
    return dict(known.match_options if known else {}) | dict(options)


def check_zero_sum(game: Any) -> None:
    """Raise UserError unless the payoffs of a game sum to zero."""
    if not is_zero_sum(game):
        raise UserError(f"in {game.name} only results cancel: set its reward to result")


def check_has_video(game: Any) -> None:
    """Raise UserError for a game without video."""
    if spec_of(game).video is None:
        able = " and ".join(spec.name for spec in SPECS if spec.video is not None)
        raise UserError(f"{game.name} cannot be filmed: only {able} can")


def video_writer(game: Any, path: Path) -> Callable[[Trajectories], None]:
    """Return what writes the first game of trajectories as a video.

    Raises UserError for a game without video or a file that cannot be written, RunError on a
    machine that cannot draw.
    """
    check_has_video(game)
    video = spec_of(game).video
    assert video is not None
    return video(path)


def fallback_policies(game: Any) -> list[BehaviouralPolicy]:
    """Return the simple policies by which a local best response imagines to go on."""
    return spec_of(game).fallbacks(game)
