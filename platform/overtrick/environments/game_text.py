"""Text of a game in progress, for the render mode "ansi" of the environments."""

from __future__ import annotations

from overtrick.core import Game, UserError
from overtrick.environments.single_game import SingleGame
from overtrick.games import registry


class GameText:
    """The latest observation of a game as text or, once the game is over, the list of its actions.

    Without a render mode, `text` stays None and nothing is recorded.
    """

    def __init__(self, game: Game, render_mode: str | None) -> None:
        """Raises UserError for a render mode that the environments of the game do not have."""
        if render_mode not in (None, "ansi"):
            raise UserError(f"render_mode must be ansi or None, not {render_mode!r}")
        if render_mode is not None and game.actions is None:
            raise UserError(f"{game.name} has no text: `overtrick match --video` shows its games")
        self.text: str | None = None
        self._active = render_mode is not None
        self._game = game
        self._presentation = registry.presentation(game)
        self._played: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Forget the actions of the previous game."""
        self._played.clear()

    def add(self, seat: int, action: int) -> None:
        """Add an action that a seat takes now."""
        if self._active:
            self._played.append((seat, int(action)))

    def update(self, game: SingleGame) -> None:
        """Describe what the seat to act observes now or, if the game is over, all its actions."""
        if not self._active:
            return
        if game.seat < 0:
            self.end()
        else:
            (observation,) = game.observations.observation
            self.text = self._presentation.describe_observation(observation, self._played)

    def end(self) -> None:
        """List all actions of the game, which is over."""
        if self._active:
            names = self._game.action_names
            self.text = ", ".join(f"seat {1 + seat} {names[k]}" for seat, k in self._played)
