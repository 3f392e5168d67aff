"""MLflow tags and parameters that record the job and the code version of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from overtrick.core import UserError

COMMIT = "mlflow.source.git.commit"
"""MLflow's tag of the git commit of a run's code."""
_TAGS = TypeAdapter(dict[str, str])
SENT = "OVERTRICK_PROVENANCE"
"""The environment variable in which a cluster job finds the `code_tags` of the submitter."""


def run_tags(trainer: str, games: str) -> dict[str, str]:
    """Return MLflow tags with a run's trainer, its game or games, and the version of the code."""
    return code_tags() | {
        "overtrick.trainer": trainer,
        "overtrick.game": games,
        "python": platform.python_version(),
        "mlflow.source.name": "overtrick",
    }


def code_tags() -> dict[str, str]:
    """Return MLflow tags with the version and the git commit of this code.

    A cluster has a copy of the code without git. There, the function returns the tags that the
    submitting machine has sent in the environment variable SENT. Raises UserError if it is damaged.
    """
    if SENT in os.environ:
        try:
            return _TAGS.validate_json(os.environ[SENT])
        except (ValidationError, UnicodeEncodeError):
            raise UserError(f"{SENT} must be a JSON object of texts: unset it") from None
    tags = {"overtrick.version": version("overtrick")}
    root = Path(__file__).parents[3]
    if (root / ".git").exists():  # an installed wheel may lie in another project's repository
        tags[COMMIT] = _git(root, "rev-parse", "HEAD")
        tags["overtrick.uncommitted"] = str(bool(_git(root, "status", "--porcelain")))
    return tags


def dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings into one dictionary whose keys are joined by dots.

    `prefix`: put before each key.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= dotted(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _git(root: Path, *arguments: str) -> str:
    """Run git in a folder and return its output, or an empty string if git is not installed."""
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
