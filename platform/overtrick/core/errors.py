"""Errors that the command line prints as one line, and spelling suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(ValueError):
    """Invalid input. The message is one line that names the input and the remedy; exit code 2."""


class RunError(RuntimeError):
    """Failure of a valid request. The message is one line; the command exits with code 1."""


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise UserError unless the value of the option `name` is one of its two or more choices."""
    if value not in choices:
        known = " or ".join(", ".join(map(str, choices)).rsplit(", ", 1))
        raise UserError(f"{name} must be {known}, not {value!r}")


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the entry of `words` whose spelling is most similar to `word`, for a suggestion."""
    return difflib.get_close_matches(word, list(words), n=1, cutoff=0.0)[0]
