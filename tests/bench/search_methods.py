"""Compare the best of 40 trials by Optuna's TPE and CMA-ES with that of random draws: twenty seeds,
two synthetic functions, and the training of a best response in Leduc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.bench.measure import Result

from overtrick.config import job_file
from overtrick.config.search_space import Search, TrialValues
from overtrick.distributed.workers import LocalPool, RngStream, generator
from overtrick.reports.metric_names import payoff_name
from overtrick.sweeps.optuna_search import BatchedStudy
from overtrick.training.registry import JOBS, TRAINERS

TRIALS, SEEDS, ITERATIONS = 40, 20, 15
Score = Callable[[TrialValues], float]

HARTMANN_C = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_A = np.array([
    [10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
    [17, 8, 0.05, 10, 0.1, 14],
])  # fmt: skip
HARTMANN_P = 1e-4 * np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
])  # fmt: skip


def branin(values: TrialValues) -> float:
    """Return minus Branin's function, whose maximum is -0.398 (Surjanovic and Bingham 2013)."""
    x, y = values["x"], values["y"]
    bend = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return float(-(bend**2) - 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) - 10)


def hartmann(values: TrialValues) -> float:
    """Return minus Hartmann's function of six numbers, whose maximum is 3.322."""
    x = np.array([values[f"x{k}"] for k in range(6)])
    return float(HARTMANN_C @ np.exp(-(HARTMANN_A * (x - HARTMANN_P) ** 2).sum(axis=1)))


def best_response(values: TrialValues) -> float:
    """Train PPO against `bluff` in Leduc for a second; return the exact payoff in big blinds."""
    content = {
        "trainer": "exploit", "game": "leduc", "stop": {"iterations": ITERATIONS},
        "exploit": {"opponent": "bluff", "games": 200, "eval_interval": ITERATIONS, **values},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "the bench")
    trainer = TRAINERS["exploit"].trainer(job, LocalPool())
    for _ in range(ITERATIONS):
        metrics = trainer.step()
    return metrics[payoff_name("bluff", 0, "big blind")]


PROBLEMS: dict[str, tuple[Score, dict[str, Any]]] = {
    "Branin": (branin, {"x": {"uniform": [-5, 10]}, "y": {"uniform": [0, 15]}}),
    "Hartmann 6": (hartmann, {f"x{k}": {"uniform": [0, 1]} for k in range(6)}),
    "Leduc": (
        best_response,
        {
            "learning_rate": {"loguniform": [1e-4, 0.3]},
            "critic_learning_rate": {"loguniform": [1e-4, 0.3]},
            "gae_lambda": {"uniform": [0, 1]},
            "entropy_coef": {"loguniform": [1e-3, 1]},
        },
    ),
}


def run() -> Result:
    """Measure the three problems. The result is TPE's payoff in Leduc beside that of random."""
    lines = []
    for name, (score, spaces) in PROBLEMS.items():
        found = {
            method: np.array([best_of(method, spaces, score, seed) for seed in range(SEEDS)])
            for method in ("random", "tpe", "cmaes")
        }
        line = f"{name}: random {found['random'].mean():.3f}"
        for method in ("tpe", "cmaes"):
            more = found[method] - found["random"]
            error = more.std(ddof=1) / np.sqrt(SEEDS)
            line += f", {method} {found[method].mean():.3f} ({more.mean():+.3f} ± {error:.3f})"
        print(line, flush=True)
        lines.append(line)
    return Result(
        name="search_methods",
        work=f"best of {TRIALS} trials, mean of {SEEDS} seeds, batches of 8, difference to random "
        f"and its standard error: {'; '.join(lines)}",
        ours=float(found["tpe"].mean()),
        peer=float(found["random"].mean()),
        peer_name="random draws",
        unit="big blinds in Leduc",
        ratio=float(found["tpe"].mean() / found["random"].mean()),
        goal=1.0,
    )


def best_of(method: str, spaces: dict[str, Any], score: Score, seed: int) -> float:
    """Return the best score of a search's trials."""
    search = Search.model_validate({"method": method, "trials": TRIALS, **spaces})
    if not search.by_optuna:
        drawn = search.trial_values(lambda k: generator(seed, RngStream.SEARCH, k))
        return max(map(score, drawn))
    study = BatchedStudy(search, seed, None)
    while batch := study.ask():
        study.tell([[score(values)] for values in batch])
    return max(each[0] for each in study.scores if each)
