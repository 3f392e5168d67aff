"""A match of sumo as a film, drawn off screen."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from overtrick.core import Array, Batch, Failed, Refused
from overtrick.games.sumo import scene
from overtrick.games.sumo.physics import SECONDS

RENDERERS = ("egl", "osmesa")
WIDTH, HEIGHT = 960, 720  # pixels
FRAMES = round(1 / SECONDS)  # a second


def film(batch: Batch, path: Path) -> None:
    """Write the first match of a batch, in which both seats were watched, as MP4.

    Drawn in a process of its own, for which of the two renderers is there can only be tried once.
    Raises Refused for a file of another kind or in no folder, Failed if neither renderer works.
    """
    if path.suffix != ".mp4" or not path.absolute().parent.is_dir():
        raise Refused(f"no film can be written to {path}: name a .mp4 file in a folder that exists")
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        moments, drawn = Path(folder) / "positions.npy", Path(folder) / "film.mp4"
        np.save(moments, positions(batch))
        for renderer in RENDERERS:
            environment = {**os.environ, "MUJOCO_GL": renderer}
            environment.pop("PYOPENGL_PLATFORM", None)
            command = [sys.executable, "-m", __name__, str(moments), str(drawn)]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                beside = path.with_name(f".{path.name}.new")
                beside.write_bytes(drawn.read_bytes())
                beside.replace(path)
                return
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise Failed(
        f"no film: MuJoCo can draw neither by EGL nor by OSMesa here ({said}): install libegl1 or "
        "libosmesa6"
    )


def positions(batch: Batch) -> Array:
    """(steps, 30) where both ants were in the first match, from what they saw of themselves."""
    rows = batch.game == batch.game.min()
    ants = [batch.seen[rows & (batch.seat == seat)][:, : scene.POSITIONS] for seat in (0, 1)]
    found = np.stack(ants, axis=1)
    found[..., 2] += scene.PLATFORM
    return found.reshape(len(found), -1)


def draw(moments: Path, out: Path) -> None:
    """A frame a moment."""
    import imageio_ffmpeg
    import mujoco

    model = scene.build()
    data = mujoco.MjData(model)
    writer = imageio_ffmpeg.write_frames(str(out), (WIDTH, HEIGHT), fps=FRAMES, quality=8)
    writer.send(None)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        for position in np.load(moments):
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera="ring")
            writer.send(renderer.render())
    writer.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
