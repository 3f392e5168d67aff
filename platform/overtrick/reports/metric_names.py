"""Names of metrics, and what can be read from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")


OPPONENTS = "opponents"
"""Stands where a stranger's name does in the metrics of the opponents of training."""


ITERATIONS = "solver_iterations"
"""The metric that says how far the solvers of a run have come."""


EVALUATIONS = "evaluations"
"""The metric that counts the genomes that an evolution has had scored."""


def gap_name(plan: str, unit: str) -> str:
    """The metric of a plan's exploitability, with its unit; MLflow takes no plus sign."""
    return f"exploitability_{unit.replace(' ', '_')}/{plan.replace('+', '_plus')}"


def opponent_label(stranger: str) -> str:
    """What a stranger is called for people and in metrics; a model goes by the name of its run."""
    path = Path(stranger)
    if "/" not in stranger:
        return stranger
    return path.parent.name if path.name == "model" else path.name


def payoff_name(stranger: str, step: int, unit: str) -> str:
    """The metric of a payoff against a stranger after so many steps, with its unit."""
    return f"{stranger}/after_{step}_{unit.replace(' ', '_')}"


def last_steps(history: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, int]:
    """The strangers of a run's metrics, and the most steps that each was met after."""
    last: dict[str, int] = {}
    for _, metrics in history:
        for name in metrics:
            if found := re.fullmatch(r"(.+)/after_(\d+)_.+", name):
                stranger, step = found[1], int(found[2])
                if stranger != OPPONENTS:
                    last[stranger] = max(last.get(stranger, 0), step)
    return last
