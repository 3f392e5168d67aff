"""One input of a fuzz target: a few small files, stored together as JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path

Files = dict[str, bytes]
"""Content by path, relative to an empty folder."""


def save(path: Path, target: str, files: Files, note: str = "") -> None:
    """Write an input to a JSON file; bytes that are not text are written in base64.

    `note`: a description of the finding that the input caused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"target": target, "note": note, "files": {k: _encode(v) for k, v in files.items()}}
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> tuple[str, Files]:
    """Read an input; return the name of its target and its files."""
    content = json.loads(path.read_text())
    return content["target"], {name: _decode(each) for name, each in content["files"].items()}


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
