"""The registry: a name to a game, and to the scripted players that know it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import BehaviouralPolicy, Game, Trajectories, UserError, nearest
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.cardplay.minibridge import MiniBridge
from overtrick.games.bridge.cardplay.rule_defenders import ByRules
from overtrick.games.matrix import BIASED_RPS, Matrix
from overtrick.games.openspiel_tree import OpenSpiel
from overtrick.games.poker import rules
from overtrick.games.poker import scripted_players as poker_players
from overtrick.games.poker.enumerable_game import SmallPoker
from overtrick.games.poker.game import Poker
from overtrick.games.poker.holdem.abstract_game import AbstractHoldem
from overtrick.games.poker.single_game import Alone


def _sumo_class() -> Callable[..., Any]:
    from overtrick.games.sumo.game import Sumo  # here, for MuJoCo takes a moment

    return Sumo


def _sumo(**options: Any) -> Any:
    return _sumo_class()(**options)


_GAMES: dict[str, Callable[..., Any]] = {
    "brps": partial(Matrix, "brps", BIASED_RPS, ("rock", "paper", "scissors")),
    **{each.name: partial(SmallPoker, each) for each in rules.SMALL},
    rules.LIMIT_HOLDEM.name: partial(Poker, rules.LIMIT_HOLDEM),
    MiniBridge.name: MiniBridge,
    Auction.name: Auction,
    "sumo": _sumo,
}
_IN_MATCHES: dict[str, dict[str, Any]] = {"sumo": {"reward": "result"}, "auction": {"seats": 2}}
_JUDGED: dict[str, Callable[..., Any]] = {AbstractHoldem.name: AbstractHoldem}


def names() -> tuple[str, ...]:
    """The games that `make` knows and that can be played."""
    return tuple(_GAMES)


def judged() -> tuple[str, ...]:
    """The games that can be solved and evolved on, but not played; and any openspiel/NAME."""
    return tuple(_JUDGED)


def make(name: str, /, **options: Any) -> Any:
    """A game by its name; options are those of its class, such as fold=False for poker.

    openspiel/NAME is any game of OpenSpiel, its parameters in the name as OpenSpiel writes them:
    a core.Unfolded; games of `names` are core.Game, and Enumerable if they are small; those of
    `judged` are neither. Raises UserError with the nearest name if there is none such, or if an
    option is unknown.
    """
    door, slash, theirs = name.partition("/")
    if slash and door == "openspiel":
        if options:
            raise UserError(f"game '{name}' takes no options: write 'openspiel/NAME(option=value)'")
        return OpenSpiel(theirs)
    known = _GAMES | _JUDGED
    if name not in known:
        near = nearest(name, known)
        raise UserError(
            f"unknown game '{name}': did you mean '{near}'? OpenSpiel's games are openspiel/NAME"
        )
    takes = _options_of(known[name]) if options else []
    for option in options:
        if option not in takes:
            near = f": did you mean '{nearest(option, takes)}'?" if takes else ": it takes none"
            raise UserError(f"game '{name}' has no option '{option}'{near}")
    try:
        return known[name](**options)
    except TypeError as error:
        raise UserError(f"game '{name}' does not take these options: {error}") from None


def check_played(game: Any) -> None:
    """Raise UserError for a game that can be solved, but not played."""
    if not isinstance(game, Game):
        raise UserError(f"{game.name} can be solved, but not played")


def _options_of(maker: Callable[..., Any]) -> list[str]:
    """The options that a game takes, by name."""
    maker = _sumo_class() if maker is _sumo else maker
    return [
        name
        for name, parameter in inspect.signature(maker).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    ]


def settled(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that make the same game from any folder and later on. Raises UserError."""
    game = make(name, **options)
    return game.settled() if hasattr(game, "settled") else dict(options)


def scripted_players(game: Any) -> dict[str, Callable[[Any], Any]]:
    """The scripted players of a game, by name: policies, if they are given the game."""
    if isinstance(game, Poker):
        return poker_players.players(game)
    if isinstance(game, MiniBridge):
        return {"rules": lambda game: ByRules()}
    if game.name == "sumo":
        from overtrick.games.sumo import scripted_players as sumo_players

        return sumo_players.PLAYERS
    return {}


def alone(game: Any) -> Any:
    """A quick way to play one game at a time, as doors do; None where the engine has to."""
    return Alone(game) if isinstance(game, Poker) and game.infosets is None else None


def scored(game: Any) -> Any:
    """The game by whose payoff policies are judged: the same, or with what is won and nothing else
    where it is trained on more than that."""
    return game.scored() if hasattr(game, "scored") else game


def for_match(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by which matches are played: for results and by two, unless something else is
    asked for."""
    return _IN_MATCHES.get(name, {}) | dict(options)


def check_zero_sum(game: Any) -> None:
    """Raise UserError unless what one seat wins always comes from the others."""
    if not getattr(game, "zero_sum", True):
        raise UserError(f"in {game.name} only results cancel: set its reward to result")


def check_film(game: Any) -> None:
    """Raise UserError for a game that cannot be seen."""
    if game.name != "sumo":
        raise UserError(f"{game.name} cannot be filmed: only sumo can")


def film_of(game: Any, path: Path) -> Callable[[Trajectories], None]:
    """What writes the first game of a batch as a film. Raises UserError for a game that cannot be
    seen, or a file that cannot be written, Failed on a machine that cannot draw."""
    check_film(game)
    from overtrick.games.sumo import video

    video.check(path)
    return partial(video.film, path=path, renderer=video.renderer())


def simplest_players(game: Any) -> list[BehaviouralPolicy]:
    """Players of a game who need no thought: how a local best response imagines to go on."""
    return (
        [poker_players.Caller(game), poker_players.Folder(game)] if isinstance(game, Poker) else []
    )
