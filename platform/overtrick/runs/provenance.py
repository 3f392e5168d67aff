"""What makes a run: its job, laid flat, and the code."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

SENT = "OVERTRICK_PROVENANCE"
"""The variable by which a job on a cluster knows what the machine was that sent its code."""


def tags(trainer: str, game: str) -> dict[str, str]:
    """What a run is, and what code made it, as MLflow tags."""
    return code() | {
        "overtrick.trainer": trainer,
        "overtrick.game": game,
        "python": platform.python_version(),
        "mlflow.source.name": "overtrick",
    }


def code() -> dict[str, str]:
    """Version and commit of this code, or of that which was sent here: neither git nor an
    installed distribution knows the latter."""
    if SENT in os.environ:
        return dict(json.loads(os.environ[SENT]))
    tags = {"overtrick.version": version("overtrick")}
    root = Path(__file__).parents[3]
    if (root / ".git").exists():  # a checkout; an installed wheel may lie in somebody else's
        tags["mlflow.source.git.commit"] = _git(root, "rev-parse", "HEAD")
        tags["overtrick.uncommitted"] = str(bool(_git(root, "status", "--porcelain")))
    return tags


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
