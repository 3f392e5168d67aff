"""Registration of the game of sumo; its modules load on use, since importing MuJoCo is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import Policy, Trajectories
from overtrick.games.spec import GameSpec


def _scripted_players(game: Any) -> Mapping[str, Callable[[Any], Policy]]:
    """Return the scripted players by name: a motionless ant and AgentZoo's policies."""
    from overtrick.games.sumo import scripted_players

    return scripted_players.PLAYERS


def _video_writer(path: Path) -> Callable[[Trajectories], None]:
    """Return a function that writes a match as a video to a path.

    Raises UserError if the path cannot be written, RunError if no renderer works.
    """
    from overtrick.games.sumo import video

    video.check_video_path(path)
    return partial(video.write_video, path=path, renderer=video.working_renderer())


SPEC = GameSpec(
    "sumo",
    "overtrick.games.sumo.game:Sumo",
    match_options={"reward": "result"},
    scripted_players=_scripted_players,
    video=_video_writer,
)
