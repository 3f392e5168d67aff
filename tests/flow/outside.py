"""`overtrick` in a process of its own, as a person runs it."""

from __future__ import annotations

import os
import sys

COMMAND = [sys.executable, "-c", "from overtrick.cli import main; main()"]


def environment() -> dict[str, str]:
    """As a person has it: nothing of what a test's own Ray has set."""
    return {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
