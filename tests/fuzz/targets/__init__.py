"""The table of targets."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import jobs

TARGETS: dict[str, Target] = {
    target.name: target for module in (jobs,) for target in module.TARGETS
}
"""All targets by name."""
