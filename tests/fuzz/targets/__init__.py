"""The table of fuzz targets."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import environment, files_of_boards, games, jobs, models, runs, small_files

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (jobs, runs, models, small_files, files_of_boards, games, environment)
    for target in module.TARGETS
}
"""All fuzz targets by name."""
