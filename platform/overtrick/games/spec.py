"""The registration of a game: how it is made, who can play it by script, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from overtrick.core import BehaviouralPolicy, Policy, Trajectories
from overtrick.games.presentation import Presentation


def _no_players(game: Any) -> dict[str, Callable[[Any], Policy]]:
    """No scripted players."""
    return {}


def _no_fallbacks(game: Any) -> list[BehaviouralPolicy]:
    """No simple policies."""
    return []


def _no_single_game(game: Any) -> Any:
    """No quick way to play one game."""
    return None


@dataclass(frozen=True)
class GameSpec:
    """A registered game. All but its name and its class has a default."""

    name: str
    kind: Callable[..., Any] | str  # its class, or "module:class" to import it when first made
    rules: tuple[Any, ...] = ()  # the first arguments of the class; its options follow
    played: bool = True  # False: solved only
    match_options: Mapping[str, Any] = field(default_factory=dict)  # unless a match says otherwise
    scripted_players: Callable[[Any], Mapping[str, Callable[[Any], Policy]]] = _no_players
    fallbacks: Callable[[Any], list[BehaviouralPolicy]] = _no_fallbacks
    """Simple policies by which a local best response imagines to go on."""
    single_game: Callable[[Any], Any] = _no_single_game
    """A quick `SingleGame` for environments; None where the engine has to play."""
    presentation: Callable[[Any], Presentation] = Presentation
    video: Callable[[Path], Callable[[Trajectories], None]] | None = None
    """Check a path and return what writes the first game of trajectories to it as a video."""

    def loaded(self) -> Callable[..., Any]:
        """Return the class."""
        return resolve_name(self.kind) if isinstance(self.kind, str) else self.kind

    def make(self, **options: Any) -> Any:
        """Make the game. Raises TypeError or UserError for options that it does not allow."""
        return self.loaded()(*self.rules, **options)
