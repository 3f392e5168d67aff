"""Show pages in headless Chromium, if this machine has it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt install chromium"
)


def screenshot(url: str, milliseconds: int = 0, picture: Path | None = None) -> str:
    """Return the HTML of a page after some milliseconds of its own time, and save a picture of
    it."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--window-size=1300,1500"]
        command += [f"--virtual-time-budget={milliseconds}"] if milliseconds else []
        command += [f"--screenshot={picture}"] if picture else []
        return subprocess.run(
            [*command, "--dump-dom", url],
            capture_output=True, text=True, check=True, timeout=180,
        ).stdout  # fmt: skip


def text_of(page: str) -> str:
    """Return the text of a page without its tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())
