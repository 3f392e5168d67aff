"""Errors that end a command in one line, and the nearest spelling of a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input: one line that names the place and the remedy. The command line exits with 2."""


class RunError(RuntimeError):
    """Work that was rightly asked for and failed: one line. The command line exits with 1."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The most similar of some words: what the user may have meant."""
    return difflib.get_close_matches(word, list(words), n=1, cutoff=0.0)[0]
