"""Registration record of a game: its class, scripted players, presentation and video."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from numpy.random import Generator

from overtrick.core import (
    Array,
    BehaviouralPolicy,
    HandAbstraction,
    Observations,
    Policy,
    Trajectories,
)
from overtrick.core.lazy_modules import not_installed
from overtrick.games.presentation import Presentation


class ModelAnswers(NamedTuple):
    """A stored model's function from observations to outputs, with the names of the outputs."""

    kind: str  # action "probabilities", "moves" (means, then standard deviations), or "imps"
    names: tuple[str, ...]  # names of the output's columns
    answer: Callable[[Observations], Array]  # from R observations to (R, len(names)) float64


AnswersFactory = Callable[[Mapping[str, Array], Mapping[str, Any], str], ModelAnswers | None]
"""Function that returns a stored model's own ModelAnswers, or None to serve the model's policy.
Arguments: the weights by name, the job as plain data, and the model's folder. Raises UserError for
a damaged model."""


@dataclass(frozen=True)
class GameSpec:
    """Registration of a game. Only the fields `name` and `game_class` are required."""

    name: str
    game_class: Callable[..., Any] | str  # or "module:class", imported when the game is first made
    arguments: tuple[Any, ...] = ()  # first arguments of the class, before the options
    playable: bool = True  # False if the game can only be solved
    module: str = ""  # a module that playing the game needs, but not making it
    extra: str = ""  # the extra of this package that installs this module
    match_options: Mapping[str, Any] = field(default_factory=dict)
    """Options with which the game is made for a match, where they differ from its defaults."""
    training_options: tuple[str, ...] = ()
    """Names of the options that a match does not take from the job of a stored model, because
    training chose them for speed or for shaping.
    """
    machine_options: tuple[str, ...] = ()
    """Names of the options that depend on the machine and change neither rules nor observations."""
    scripted_players: Callable[[Any], Mapping[str, Callable[[Any], Policy]]] = lambda game: {}
    """Return the game's scripted players by name; each is a function from the game to a policy."""
    scripted_families: Callable[[Any], Mapping[str, Callable[[Generator], BehaviouralPolicy]]] = (
        lambda game: {}
    )
    """Return families of scripted players by name; each is a function that draws a player."""
    fallback_policies: Callable[[Any], list[BehaviouralPolicy]] = lambda game: []
    """Return simple policies that a local best response may follow after its next action."""
    hand_abstraction: Callable[[Any], HandAbstraction | None] = lambda game: None
    """Return an abstraction of the game's hands, or None if there is none."""
    single_game: Callable[[Any], Any] = lambda game: None
    """Return a fast engine of one game at a time, for environments; None: use the game itself.

    The engine implements `environments.single_game.SingleGame`.
    """
    model_answers: AnswersFactory = lambda weights, job, folder: None
    """Return a stored model's own ModelAnswers, or None to serve the model's policy."""
    presentation: type[Presentation] = Presentation
    video: Callable[[Path], Callable[[Trajectories], None]] | None = None
    """Check a path; return a function that writes a video of a batch's first game to this path."""

    def load_class(self) -> Callable[..., Any]:
        """Return the class of the game; import its module if necessary."""
        found = self.game_class
        return resolve_name(found) if isinstance(found, str) else found

    def check_installed(self) -> None:
        """Raise UserError if the module that playing the game needs is not installed."""
        if self.module and find_spec(self.module) is None:
            raise not_installed(self.module, self.extra)

    def make(self, **options: Any) -> Any:
        """Make the game. Raises TypeError or UserError for options that the game refuses."""
        return self.load_class()(*self.arguments, **options)
