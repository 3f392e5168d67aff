"""Measure how fast Monte Carlo tree search approaches the exact best response, as table and
figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tests.bench.measure import Result

from overtrick import make
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree, build
from overtrick.solvers.lookahead import expectimax_mcts

SIMULATIONS = (100, 1_000, 10_000, 100_000)
SEEDS = 10
FIGURE = Path("build/search_rate.png")


def run() -> Result:
    """Measure the mean shortfall of the found response, over seeds and both seats."""
    curves = {}
    for name in ("kuhn", "leduc"):
        tree = build(make(name))
        opponents = {"random": tree.uniform(), "100 iterations of CFR+": cfr.solve(tree, 100)}
        for opponent, sigma in opponents.items():
            curves[f"{name} against {opponent}"] = _shortfalls(tree, sigma)
    _draw(curves)
    table = "; ".join(
        f"{title}: {', '.join(f'{shortfall:.2g}' for shortfall in curve)}"
        for title, curve in curves.items()
    )
    last = curves["leduc against random"]
    return Result(
        name="search_rate",
        work=f"MCTS, best-response value less the value of the found response after "
        f"{', '.join(f'{n:,}' for n in SIMULATIONS)} simulations, mean of {SEEDS} seeds and both "
        f"seats ({table}; {FIGURE}); ours is leduc against random after {SIMULATIONS[-1]:,}, peer "
        f"after {SIMULATIONS[0]:,}",
        ours=last[-1],
        peer=last[0],
        peer_name="itself",
        unit="big blind",
        ratio=last[0] / last[-1],
        goal=30,
    )


def _shortfalls(tree: Tree, sigma: np.ndarray) -> list[float]:
    curve = []
    for simulations in SIMULATIONS:
        missed = []
        for seat in range(tree.seats):
            best, _ = best_response.best_response(tree, sigma, seat)
            for seed in range(SEEDS):
                rng = np.random.default_rng(seed)
                found = expectimax_mcts.mcts(tree, sigma, seat, simulations, rng)
                missed.append(best - best_response.expected(tree, found.sigma)[seat])
        curve.append(float(np.mean(missed)))
    return curve


def _draw(curves: dict[str, list[float]]) -> None:
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axis = figure.subplots()
    for title, curve in curves.items():
        axis.plot(SIMULATIONS, curve, marker="o", label=title)
    rate = [(SIMULATIONS[0] / n) ** 0.5 for n in SIMULATIONS]
    axis.plot(SIMULATIONS, rate, "k:", lw=1, label="1 / sqrt(simulations)")
    axis.set_xscale("log")
    # a search that finds the best response has no shortfall
    axis.set_yscale("symlog", linthresh=1e-3)
    axis.set(xlabel="simulations", ylabel="shortfall of the found response, points")
    axis.legend(fontsize=7)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
