"""Exact questions about a game: how close to equilibrium, how much against an opponent."""

from __future__ import annotations

import time
from typing import Any

from overtrick import games
from overtrick.core import Refused, nearest
from overtrick.solvers import cfr, tree, value
from overtrick.trainers.strangers import stranger


def solve_game(name: str, plan: str, iterations: int) -> dict[str, Any]:
    """Run counterfactual regret minimisation on a game; the keys of `overtrick solve --json`.

    seconds counts the iterations alone, after the kernels are compiled. Raises Refused for an
    unknown game or plan.
    """
    if plan not in cfr.PLANS:
        raise Refused(f"unknown plan '{plan}': did you mean '{nearest(plan, cfr.PLANS)}'?")
    whole = tree.build(games.make(name))
    cfr.Solver(whole, cfr.PLANS[plan]).run(1)  # compiles, or reads the compiled kernel
    solver = cfr.Solver(whole, cfr.PLANS[plan])
    began = time.perf_counter()
    solver.run(iterations)
    seconds = time.perf_counter() - began
    sigma = solver.average()
    gap = value.nash_conv(whole, sigma)
    return {
        "game": name,
        "plan": plan,
        "iterations": iterations,
        "seconds": seconds,
        "iterations_per_second": iterations / seconds,
        "exploitability": gap / whole.seats,
        "nash_conv": gap,
        "values": value.expected(whole, sigma).tolist(),
    }


def best_response_to(name: str, against: str) -> dict[str, Any]:
    """Best-response values by seat; the keys of `overtrick best-response --json`."""
    game = games.make(name)
    whole = tree.build(game)
    opponent = stranger(against, game, whole)
    sigma = value.sigma_of(whole, [opponent] * whole.seats)
    values = [value.best_response(whole, sigma, seat)[0] for seat in range(whole.seats)]
    return {
        "game": name,
        "stranger": against,
        "unit": game.unit,
        "values": values,
        "mean": sum(values) / len(values),
    }
