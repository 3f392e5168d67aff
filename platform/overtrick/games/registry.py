"""Registry of games.

To add a game to this package, add its `GameSpec` to `SPECS`. Another package adds a game by an
entry point in the group `overtrick.games` that names its `GameSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

from numpy.random import Generator

from overtrick.core import (
    BehaviouralPolicy,
    HandAbstraction,
    Policy,
    Trajectories,
    UserError,
    suggestion,
)
from overtrick.core import games as contract
from overtrick.core.plugins import load_plugins
from overtrick.games import goofspiel, liars_dice, matrix, phantom
from overtrick.games.bridge import spec as bridge
from overtrick.games.openspiel_tree import OpenSpiel
from overtrick.games.poker import spec as poker
from overtrick.games.presentation import Presentation
from overtrick.games.spec import GameSpec
from overtrick.games.sumo import spec as sumo

SPECS: tuple[GameSpec, ...] = (
    matrix.BRPS, *poker.SPECS, liars_dice.SPEC, goofspiel.SPEC, *phantom.SPECS, *bridge.SPECS,
    sumo.SPEC,
)  # fmt: skip
PLUGINS = "overtrick.games"  # entry-point group
_OWN = {spec.name: spec for spec in SPECS}


@cache
def _specs() -> Mapping[str, GameSpec]:
    """Return all games by name: those of this package, then those of other packages.

    Raises UserError if another package adds a game of a name that exists already.
    """
    found = dict(_OWN)
    for spec in load_plugins(PLUGINS):
        if not isinstance(spec, GameSpec):
            raise UserError(f"an entry point of {PLUGINS} is {spec!r}: it must be a GameSpec")
        if spec.name in found:
            raise UserError(f"an entry point of {PLUGINS} adds a second '{spec.name}': rename it")
        found[spec.name] = spec
    return found


def names() -> tuple[str, ...]:
    """Return the names of the games that can be played."""
    return tuple(name for name, spec in _specs().items() if spec.playable)


def solve_only_names() -> tuple[str, ...]:
    """Return the names of the games that can only be solved; openspiel/NAME is not listed."""
    return tuple(name for name, spec in _specs().items() if not spec.playable)


def spec_of(game: Any) -> GameSpec:
    """Return the GameSpec registered under a game's name; a default for an unregistered name."""
    return _OWN.get(game.name) or _specs().get(game.name) or GameSpec(game.name, type(game))


def make(name: str, /, **options: Any) -> Any:
    """Make a game from its name and its options, such as fold=False for poker.

    Games listed by `names` implement core.Game, and small ones also core.Enumerable. The name
    openspiel/NAME makes a game of OpenSpiel, with parameters as OpenSpiel writes them; it
    implements core.ExplicitTreeGame. Raises UserError with the nearest name for an unknown game or
    option.
    """
    library, slash, openspiel_name = name.partition("/")
    if slash and library == "openspiel":
        if options:
            raise UserError(f"game '{name}' takes no options: write 'openspiel/NAME(option=value)'")
        return OpenSpiel(openspiel_name)
    spec = _OWN.get(name) or _specs().get(name)
    if spec is None:
        hint = suggestion(name, _specs())
        raise UserError(f"unknown game '{name}': {hint} OpenSpiel's games are openspiel/NAME")
    known = signature(spec.load_class()).parameters.values() if options else ()
    known_names = [each.name for each in known if each.default is not each.empty]
    for option in options:
        if option not in known_names:
            hint = suggestion(option, known_names) if known_names else "it has no options"
            raise UserError(f"game '{name}' has no option '{option}': {hint}")
    try:
        return spec.make(**options)
    except TypeError as error:
        raise UserError(f"game '{name}' does not take these options: {error}") from None


def check_playable(game: Any) -> None:
    """Raise UserError for a game that can be solved but not played, or that lacks its library."""
    if not isinstance(game, contract.Game):
        raise UserError(f"{game.name} can be solved, but not played")
    check_installed(game)


def check_installed(game: Any) -> None:
    """Raise UserError if the library that playing a game needs is not installed."""
    spec_of(game).check_installed()


def portable_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return game options that make the same game in any working folder and environment.

    Relative paths become absolute, and values of environment variables become options. Raises
    UserError for an unknown game or option.
    """
    game = make(name, **options)
    return game.portable_options() if isinstance(game, contract.PortableOptions) else dict(options)


def scripted_players(game: Any) -> Mapping[str, Callable[[Any], Policy]]:
    """Return the scripted players of a game by name; each is a function from game to policy."""
    return spec_of(game).scripted_players(game)


def scripted_families(game: Any) -> Mapping[str, Callable[[Generator], BehaviouralPolicy]]:
    """Return the families of scripted players of a game by name; each draws a player."""
    return spec_of(game).scripted_families(game)


def hand_abstraction(game: Any) -> HandAbstraction | None:
    """Return an abstraction of a game's hands, or None if there is none."""
    return spec_of(game).hand_abstraction(game)


def presentation(game: Any, signs: bool = True) -> Presentation:
    """Return the text presentation of a game; signs: write card suits as symbols, not letters."""
    return spec_of(game).presentation(game, signs)


def evaluation_game(game: Any) -> Any:
    """Return the game on which policies are evaluated.

    It is the game's variant without reward shaping, or else the game itself.
    """
    return game.evaluation_game() if isinstance(game, contract.EvaluatedOnAnother) else game


def policy_in_own_view(game: Any, options: Mapping[str, Any], build: Callable[[Any], Any]) -> Any:
    """Build a model's policy for a game; its network keeps the view of its training.

    `options`: of the game in the model's training. `build`: builds the policy for a game.
    """
    if not isinstance(game, contract.SeveralViews):
        return build(game)
    view = options.get("view", game.default_view)
    return build(game) if view == game.view else game.policy_of_view(view, build)


def match_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which to make the game `name` for a match between policies.

    They are the match options in the game's GameSpec, updated by `options`.
    """
    known = _OWN.get(name) or _specs().get(name)
    return dict(known.match_options if known else {}) | dict(options)


def without_training_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the game `name` without the training options of its GameSpec."""
    known = _OWN.get(name) or _specs().get(name)
    unused = known.training_options if known else ()
    return {option: value for option, value in options.items() if option not in unused}


def player_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the game `name` that a player must be made for.

    Training options, options of the machine, and options with their default values are left out.
    """
    known = _OWN.get(name) or _specs().get(name)
    if known is None:
        return dict(options)
    unused = {*known.training_options, *known.machine_options}
    defaults = {n: each.default for n, each in signature(known.load_class()).parameters.items()}
    return {
        option: value
        for option, value in options.items()
        if option not in unused and (option not in defaults or defaults[option] != value)
    }


def lowest_payoff(game: Any) -> float:
    """Return a lower bound on the payoffs of a game.

    RL environments give it as the reward for an illegal action.
    Raises UserError if the game does not implement core.BoundedPayoff.
    """
    if not isinstance(game, contract.BoundedPayoff):
        raise UserError(
            f"{game.name} has no lowest_payoff, which an environment pays for an illegal action"
        )
    return float(game.lowest_payoff)


def check_zero_sum(game: Any) -> None:
    """Raise UserError unless the payoffs of a game sum to zero."""
    if not contract.is_zero_sum(game):
        options = spec_of(game).match_options.items()
        remedy = f"set its {' and '.join(f'{k} to {v}' for k, v in options)}"
        if not options:
            remedy = "choose a zero-sum game"
        raise UserError(f"the payoffs of {game.name} do not sum to zero: {remedy}")


def check_has_video(game: Any) -> None:
    """Raise UserError for a game without video."""
    if spec_of(game).video is None:
        able = ", ".join(spec.name for spec in _specs().values() if spec.video is not None)
        raise UserError(f"{game.name} has no video; games with videos: {able}")


def payoff_unit(name: str, options: Mapping[str, Any]) -> str:
    """Return the unit of payoffs when policies of a game are evaluated, such as "chip".

    Raises UserError for an unknown game or option.
    """
    return str(evaluation_game(make(name, **options)).unit)


def video_writer(game: Any, path: Path) -> Callable[[Trajectories], None]:
    """Return a function that writes a video of a batch's first game to the file `path`.

    Raises UserError for a game without video or a file that cannot be written, and RunError on a
    machine that cannot render.
    """
    check_has_video(game)
    video = spec_of(game).video
    assert video is not None
    return video(path)
