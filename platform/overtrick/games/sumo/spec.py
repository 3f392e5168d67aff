"""The registration of sumo. MuJoCo takes a moment to import, so all of it is imported when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import Policy, Trajectories
from overtrick.games.spec import GameSpec


def _scripted_players(game: Any) -> Mapping[str, Callable[[Any], Policy]]:
    """A motionless ant and those of AgentZoo."""
    from overtrick.games.sumo import scripted_players

    return scripted_players.PLAYERS


def _video(path: Path) -> Callable[[Trajectories], None]:
    """Raises UserError for a file that cannot be written, RunError where nothing can draw."""
    from overtrick.games.sumo import video

    video.check_video_path(path)
    return partial(video.write_video, path=path, renderer=video.working_renderer())


SPEC = GameSpec(
    "sumo",
    "overtrick.games.sumo.game:Sumo",
    match_options={"reward": "result"},
    scripted_players=_scripted_players,
    video=_video,
)
