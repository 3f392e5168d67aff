"""The table of targets."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import files_of_boards, games, jobs, models, runs

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (jobs, runs, models, files_of_boards, games)
    for target in module.TARGETS
}
"""All targets by name."""
