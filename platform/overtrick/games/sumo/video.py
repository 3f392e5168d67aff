"""A match of sumo as a film, drawn off screen."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from overtrick.core import Array, RunError, Trajectories, UserError
from overtrick.core.files import replacing
from overtrick.games.sumo import mujoco_model
from overtrick.games.sumo.observation import in_world_axes
from overtrick.games.sumo.physics import STEP_SECONDS

RENDERERS = ("egl", "osmesa")
PROBE = """
import mujoco
mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
"""
WIDTH, HEIGHT = 960, 720  # pixels
FRAMES_PER_SECOND = round(1 / STEP_SECONDS)  # a second


def check_video_path(path: Path) -> None:
    """Raise UserError unless a film can be written there."""
    if path.suffix != ".mp4" or not path.absolute().parent.is_dir():
        raise UserError(
            f"no film can be written to {path}: name a .mp4 file in a folder that exists"
        )


def write_video(batch: Trajectories, path: Path, renderer: str) -> None:
    """Write the first match of a batch, in which both seats were watched, as MP4.

    Drawn in a process of its own, for the renderer is chosen when MuJoCo is loaded. Raises RunError
    if the drawing goes wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        moments, drawn = Path(folder) / "positions.npy", Path(folder) / "film.mp4"
        np.save(moments, recorded_positions(batch))
        wrong = _child(renderer, "-m", __name__, str(moments), str(drawn))
        if wrong is not None:
            raise RunError(f"no film: {wrong}")
        with replacing(path) as temporary:
            temporary.write_bytes(drawn.read_bytes())


def working_renderer() -> str:
    """The first of RENDERERS that works on this machine. Raises RunError if none does."""
    wrong: str | None = ""
    for name in RENDERERS:
        wrong = _child(name, "-c", PROBE)
        if wrong is None:
            return name
    raise RunError(
        f"no film: MuJoCo can draw neither by EGL nor by OSMesa here ({wrong}): install libegl1 or "
        "libosmesa6"
    )


def _child(renderer: str, *arguments: str) -> str | None:
    """Run Python with a renderer: the last line of what went wrong, or None."""
    environment = {**os.environ, "MUJOCO_GL": renderer}
    environment.pop("PYOPENGL_PLATFORM", None)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def recorded_positions(batch: Trajectories) -> Array:
    """(steps, 30) where both ants were in the first match, from what they saw of themselves."""
    rows = batch.game == batch.game.min()
    seen, _ = in_world_axes(batch.observation[rows])
    ants = [seen[batch.seat[rows] == seat][:, : mujoco_model.POSITIONS] for seat in (0, 1)]
    found = np.stack(ants, axis=1)
    found[..., 2] += mujoco_model.PLATFORM
    return found.reshape(len(found), -1)


def render_frames(moments: Path, out: Path) -> None:
    """A frame a moment."""
    import imageio_ffmpeg
    import mujoco

    model = mujoco_model.build()
    data = mujoco.MjData(model)
    writer = imageio_ffmpeg.write_frames(
        str(out), (WIDTH, HEIGHT), fps=FRAMES_PER_SECOND, quality=8
    )
    writer.send(None)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        for position in np.load(moments):
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera="ring")
            writer.send(renderer.render())
    writer.close()


if __name__ == "__main__":
    render_frames(Path(sys.argv[1]), Path(sys.argv[2]))
