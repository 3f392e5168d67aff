"""Registration of the game sumo; its modules are imported on first use, as MuJoCo loads slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import Policy, Trajectories
from overtrick.core.files import check_output
from overtrick.games.spec import GameSpec


def _scripted_players(game: Any) -> Mapping[str, Callable[[Any], Policy]]:
    """Return the scripted players by name: ants that stand or walk, AgentZoo's policies."""
    from overtrick.games.sumo import scripted_players

    return scripted_players.PLAYERS


def _video_writer(path: Path) -> Callable[[Trajectories], None]:
    """Return a function that writes a video of a batch's first match to a file.

    path: the video file. Raises UserError if it cannot be written, and RunError if no renderer
    works.
    """
    from overtrick.games.sumo import video

    check_output(path, ".mp4")
    return partial(video.write_video, path=path, renderer=video.working_renderer())


SPEC = GameSpec(
    "sumo",
    "overtrick.games.sumo.game:Sumo",
    module="mujoco",
    extra="sumo",
    match_options={"reward": "result"},
    training_options=("reward", "integrator"),  # a match uses RoboSumo's integrator, RK4
    machine_options=("zoo", "threads", "engine"),
    scripted_players=_scripted_players,
    video=_video_writer,
)
