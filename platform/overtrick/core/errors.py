"""Errors that the command line prints as one line, and spelling suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MOST_LISTED = 20  # known words in a message
SIMILAR = 0.55  # least similarity of a suggestion; 1 is equal
MOST_COMPARED = 100  # characters of a misspelt word; comparing takes their square in time


class UserError(ValueError):
    """Invalid input, such as an unknown option; the command exits with code 2.

    The message is one line that names the input and the remedy. Line breaks in it, such as those of
    a quoted input, become blanks.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class RunError(RuntimeError):
    """Failure of a valid request, such as a full disk; the command exits with code 1.

    The message is one line. Line breaks in it, such as those of a library's message, become blanks.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class RayDiedError(RunError):
    """The Ray that this process started on its machine has died; a run can be resumed."""


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise UserError unless `value` is among the choices of the option `name`.

    `choices`: at least two values.
    """
    if value not in choices:
        known = " or ".join(", ".join(map(str, choices)).rsplit(", ", 1))
        raise UserError(f"{name} must be {known}, not {value!r}")


def suggestion(word: str, words: Iterable[str], prefix: str = "") -> str:
    """Return a hint for an unknown word: the most similar known word, or the list of known words.

    `words`: the known words. `prefix`: written before each of them in the message.
    """
    known = list(words)
    if near := difflib.get_close_matches(word[:MOST_COMPARED], known, n=1, cutoff=SIMILAR):
        return f"did you mean '{prefix}{near[0]}'?"
    listed = ", ".join(f"{prefix}{each}" for each in known[:MOST_LISTED])
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"known: {listed}{more}." if known else "none are known."
