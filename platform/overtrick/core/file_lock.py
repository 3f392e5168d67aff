"""Locks of files between the processes of this machine. Those of a dead process are freed."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_locked(file: Path) -> bool:
    """Return whether a process of this machine holds the lock of a file."""
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def waiting_for_lock(file: Path) -> Iterator[None]:
    """Context manager that waits for the lock of a file and holds it."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed when it is closed
        yield
