"""Videos of sumo matches, rendered off screen by MuJoCo in a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from overtrick.core import Array, RunError, Trajectories
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
FRAMES_PER_SECOND = round(1 / STEP_SECONDS)


def write_video(batch: Trajectories, path: Path, renderer: str) -> None:
    """Write the first match of a batch as an MP4 file.

    batch: trajectories of both seats. renderer: a name from RENDERERS. A subprocess renders the
    video, because MuJoCo chooses its renderer when it is imported. Raises RunError if rendering
    fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        positions, rendered = Path(folder) / "positions.npy", Path(folder) / "video.mp4"
        np.save(positions, recorded_positions(batch))
        error = _run_python(renderer, "-m", __name__, str(positions), str(rendered))
        if error is not None:
            raise RunError(f"no video: {error}")
        with replacing(path) as temporary:
            temporary.write_bytes(rendered.read_bytes())


def working_renderer() -> str:
    """Return the first of RENDERERS that works on this machine. Raises RunError if none does."""
    error: str | None = ""
    for name in RENDERERS:
        error = _run_python(name, "-c", PROBE)
        if error is None:
            return name
    raise RunError(
        f"no video: MuJoCo can draw neither by EGL nor by OSMesa here ({error}): install libegl1 "
        "or libosmesa6"
    )


def _run_python(renderer: str, *arguments: str) -> str | None:
    """Run Python with the given arguments in a subprocess in which MuJoCo uses `renderer`.

    Return None on success, otherwise the last line of the error output.
    """
    environment = {**os.environ, "MUJOCO_GL": renderer}
    environment.pop("PYOPENGL_PLATFORM", None)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def recorded_positions(batch: Trajectories) -> Array:
    """Return the positions (steps, 30) of both ants in the first match of a batch.

    The positions come from the ants' own observations, in the order of `physics.Bodies.position`.
    """
    rows = batch.game == batch.game.min()
    observation, _ = in_world_axes(batch.observation[rows])
    ants = [observation[batch.seat[rows] == seat] for seat in (0, 1)]
    positions = np.stack(ants, axis=1)[..., : mujoco_model.POSITIONS]
    positions[..., 2] += mujoco_model.PLATFORM
    return positions.reshape(len(positions), -1)


def render_frames(positions: Path, out: Path) -> None:
    """Render the positions (steps, 30) in a .npy file to an MP4 file, one frame per step."""
    import imageio_ffmpeg
    import mujoco

    model = mujoco_model.build()
    data = mujoco.MjData(model)
    writer = imageio_ffmpeg.write_frames(
        str(out), (WIDTH, HEIGHT), fps=FRAMES_PER_SECOND, quality=8
    )
    writer.send(None)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        for position in np.load(positions):
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera="ring")
            writer.send(renderer.render())
    writer.close()


if __name__ == "__main__":
    render_frames(Path(sys.argv[1]), Path(sys.argv[2]))
