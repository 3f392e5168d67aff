"""Names of metrics in MLflow: build them from opponents and units, and parse them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

History = Sequence[tuple[int, Mapping[str, float]]]
"""The iterations of one run in order, each with its metrics."""

OPPONENTS = "opponents"
"""Stands for all training opponents together, in place of an opponent's name."""

ITERATIONS = "solver_iterations"
"""Metric: iterations of the solvers so far."""

EVALUATIONS = "evaluations"
"""Metric: genomes that an evolution strategy has evaluated so far."""

GAMES = "games"
"""Metric: games that a card-play learner has played so far."""

MADE = "made/"
"""Prefix of a metric: share of contracts that a declarer makes against given defenders."""

RECOGNISED = "recognised"
"""Metric: share of decisions for which a Q-table of card play has an entry."""


def gap_name(policy: str, unit: str) -> str:
    """Return the MLflow name of the exploitability metric of a policy or solver, with the unit.

    A plus sign, which MLflow does not accept, becomes "_plus".
    """
    return f"exploitability_{unit.replace(' ', '_')}/{policy.replace('+', '_plus')}"


def opponent_label(opponent: str) -> str:
    """Return the short name of an opponent for metrics and figures.

    `opponent`: a name, or the path of a model folder. For the model of a run, the short name is the
    name of the run.
    """
    path = Path(opponent)
    if "/" not in opponent:
        return opponent
    return path.parent.name if path.name == "model" else path.name


def payoff_name(opponent: str, step: int, unit: str) -> str:
    """Return the MLflow name of the payoff against an opponent after `step` adaptation steps."""
    return f"{opponent}/after_{step}_{unit.replace(' ', '_')}"


def last_steps(history: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, int]:
    """Return for each opponent the largest number of adaptation steps with a measured payoff.

    `history`: pairs of an iteration and its metrics.
    """
    last: dict[str, int] = {}
    for _, metrics in history:
        for name in metrics:
            if found := re.fullmatch(r"(.+)/after_(\d+)_.+", name):
                opponent, step = found[1], int(found[2])
                if opponent != OPPONENTS:
                    last[opponent] = max(last.get(opponent, 0), step)
    return last
