"""Names of metrics: how they are built from opponents and units, and how they are read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

OPPONENTS = "opponents"
"""Takes the place of an opponent's name in metrics of the training opponents as a whole."""

ITERATIONS = "solver_iterations"
"""Iterations of the solvers of a run so far."""

EVALUATIONS = "evaluations"
"""Genomes that an evolution strategy has scored so far."""

GAMES = "games"
"""Games that a card-play learner has played so far."""

MADE = "made/"
"""Prefix of the share of contracts that a declarer makes against some defenders."""

RECOGNISED = "recognised"
"""Share of decisions at which a table of card play has an entry."""


def gap_name(policy: str, unit: str) -> str:
    """Return the metric of the exploitability of a policy or solver, with its unit.

    A plus sign, which MLflow does not accept, becomes "_plus".
    """
    return f"exploitability_{unit.replace(' ', '_')}/{policy.replace('+', '_plus')}"


def opponent_label(opponent: str) -> str:
    """Return the name of an opponent for people and metrics; a model has the name of its run."""
    path = Path(opponent)
    if "/" not in opponent:
        return opponent
    return path.parent.name if path.name == "model" else path.name


def payoff_name(opponent: str, step: int, unit: str) -> str:
    """Return the metric of the payoff against an opponent after some adaptation steps."""
    return f"{opponent}/after_{step}_{unit.replace(' ', '_')}"


def last_steps(history: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, int]:
    """Return the largest number of adaptation steps measured against each opponent.

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
