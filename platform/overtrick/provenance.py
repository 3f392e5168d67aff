"""What made a run: its job, and the code."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from overtrick.config import Work


def tags(job: Work) -> dict[str, str]:
    """What code made the run, as MLflow tags."""
    found = {
        "overtrick.version": version("overtrick"),
        "overtrick.trainer": job.trainer,
        "overtrick.game": job.game.name,
        "python": platform.python_version(),
        "mlflow.source.name": "overtrick",
    }
    root = Path(__file__).parents[2]
    if (root / ".git").exists():  # a checkout; an installed wheel may lie in somebody else's
        found["mlflow.source.git.commit"] = _git(root, "rev-parse", "HEAD")
        found["overtrick.uncommitted"] = str(bool(_git(root, "status", "--porcelain")))
    return found


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _git(root: Path, *arguments: str) -> str:
    """What git says, or nothing where there is no git."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return asked.stdout.strip()
