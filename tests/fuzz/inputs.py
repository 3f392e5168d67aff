"""One input of a fuzz target: a few small files, stored together as JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import NamedTuple

Files = dict[str, bytes]
"""Content by path, relative to an empty folder."""


class Stored(NamedTuple):
    """A stored input."""

    target: str
    files: Files
    expected: str  # the outcome once nothing breaks: "refused" or "accepted"


def save(path: Path, target: str, files: Files, note: str = "") -> None:
    """Write an input to a JSON file; bytes that are not text are written in base64.

    `note`: a description of the finding that the input caused. The file says that the input must be
    refused; whoever keeps an input that must be accepted changes that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = {name: _encode(each) for name, each in files.items()}
    content = {"target": target, "note": note, "expected": "refused", "files": encoded}
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> Stored:
    """Read an input."""
    content = json.loads(path.read_text())
    files = {name: _decode(each) for name, each in content["files"].items()}
    return Stored(content["target"], files, content["expected"])


def write_folder(files: Files, folder: Path) -> None:
    """Write the files of an input into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_folder(folder: Path) -> Files:
    """Return all files in a folder by relative path, sorted by path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _encode(content: bytes) -> str | dict[str, str]:
    """Return text as text, other bytes as {"base64": ...}."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _decode(stored: str | dict[str, str]) -> bytes:
    return stored.encode() if isinstance(stored, str) else base64.b64decode(stored["base64"])
