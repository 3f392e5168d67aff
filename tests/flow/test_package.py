"""The wheel outside the checkout: its files, and a first hand against a champion."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST = 45_000_000  # bytes of the wheel


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build the wheel and return the folder of its unpacked files."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "site")
    return folder / "site"


def run(unpacked, folder, *words, typed=""):
    """Run a Python command with the wheel's package, in a folder outside the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    return subprocess.run(
        [sys.executable, "-P", *words], cwd=folder, env=environment, input=typed,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.mark.slow
def test_a_wheel_has_its_jobs_systems_champions_and_pages(unpacked, tmp_path):
    place = run(unpacked, tmp_path, "-c", "import overtrick; print(overtrick.__file__)")
    assert Path(place.strip()).is_relative_to(unpacked)
    listed = run(
        unpacked, tmp_path, "-c",
        "import overtrick as ot; from overtrick.config.packaged_jobs import packaged_jobs; "
        "print(len(ot.champions()), len(packaged_jobs()))",
    )  # fmt: skip
    jobs = len(list((ROOT / "jobs").glob("*.yaml")))
    champions = len(list((ROOT / "platform/overtrick/champions").iterdir()))
    assert listed.split() == [str(champions), str(jobs)]
    run(unpacked, tmp_path, "-m", "overtrick", "view", "champion:kuhn")
    assert (tmp_path / "view.html").stat().st_size > 5000
    suggested = run(unpacked, tmp_path, "-m", "overtrick", "bridge", "suggest", "AQ42.K5.QT93.K76")
    assert "1D" in suggested


@pytest.mark.slow
def test_a_first_hand_against_a_champion_needs_no_training(unpacked, tmp_path):
    words = ("-m", "overtrick", "play", "leduc", "--games", "1")
    shown = run(unpacked, tmp_path, *words, typed="call\n" * 9 + "check\n" * 9)
    assert "leduc against champion:leduc" in shown
    assert "in 1 game" in shown
