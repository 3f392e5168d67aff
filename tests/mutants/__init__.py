"""Mutations: wrong changes of the package, each of which a test must detect; see `make mutants`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "platform/overtrick"


def digest(content: bytes) -> str:
    """Return a short digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True)
class Mutation:
    """One change of one file: the text `old`, which occurs exactly once, becomes `new`."""

    file: str  # relative to the repository
    old: str
    new: str
    about: str  # what is wrong after the change
    equivalent: str = ""  # why no test can detect it; empty if one can

    @property
    def key(self) -> str:
        """Return a digest that names the mutation."""
        return digest("\n".join((self.file, self.old, self.new)).encode())

    def line(self, source: str) -> int:
        """Return the number of the first changed line in the unchanged source."""
        same = 0  # characters that old and new text begin with alike
        while self.old[same : same + 1] == self.new[same : same + 1] != "":
            same += 1
        return source[: source.index(self.old) + same].count("\n") + 1

    def apply(self, source: str) -> str:
        """Return the changed source. Raises ValueError unless the old text occurs exactly once."""
        if (times := source.count(self.old)) != 1:
            raise ValueError(f"{self.file}: the text occurs {times} times, not once: {self.old}")
        return source.replace(self.old, self.new)


def parse(text: str) -> list[Mutation]:
    """Parse a list of mutations.

    A line without a mark names a file of the package; the mutations of this file follow. The lines
    of a mutation begin with a mark and a space:

        # what is wrong after the change
        - the old text; it may start within a line; further lines keep their indentation
        + the new text
        = why no test can detect the change (only if this is so)
    """
    found: list[Mutation] = []
    file, parts = "", dict[str, list[str]]()

    def finish() -> None:
        if parts:
            about, old, new = (" ".join(parts["#"]), *("\n".join(parts[m]) for m in "-+"))
            reason = " ".join(parts.get("=", ()))
            found.append(Mutation(f"{PACKAGE}/{file}", old, new, about, reason))
            parts.clear()

    for line in text.splitlines():
        mark, content = line[:1], line[2:]
        if mark in ("", "#") and "-" in parts:
            finish()
        if mark in ("#", "-", "+", "="):
            parts.setdefault(mark, []).append(content)
        elif line:
            finish()
            file = line
    finish()
    return found


def hand_picked() -> list[Mutation]:
    """Return the hand-written mutations that the files in `changes` list."""
    texts = [path.read_text() for path in sorted((Path(__file__).parent / "changes").glob("*.txt"))]
    return [mutation for text in texts for mutation in parse(text)]
