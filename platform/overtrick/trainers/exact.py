"""Exact questions about a game: how close to equilibrium, how much against an opponent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from overtrick import games, model
from overtrick.core import Array, Enumerable, Redealable, Refused, nearest
from overtrick.solvers import value
from overtrick.solvers.tree import Tree, build
from overtrick.trainers.bound import lower_bound
from overtrick.trainers.solve import GIB, PLANS, SolveJob, closeness, solver_of
from overtrick.trainers.strangers import stranger
from overtrick.workers import Part, generator

LOOK_SECONDS = 0.5  # of iterations between two signs of progress


def solve_game(
    name: str,
    plan: str,
    iterations: int,
    seed: int = 0,
    memory: float | None = None,
    save: Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Find a strategy near an equilibrium; the keys of `overtrick solve --json`.

    memory is what the tree may take in GiB; save, a folder for the strategy as a model; progress
    is told the iterations done. seconds counts the iterations alone, after the kernels are
    compiled. Raises Refused for an unknown game or plan, or a tree that does not fit.
    """
    if plan not in PLANS:
        raise Refused(f"unknown plan '{plan}': did you mean '{nearest(plan, PLANS)}'?")
    game = games.make(name)
    tree = build(game, None if memory is None else int(memory * GIB))
    iterations = 1 if plan == "lp" else iterations  # the linear program knows no iterations
    sigma, seconds = _iterate(tree, plan, iterations, seed, progress)
    if save is not None:
        _save(name, plan, seed, sigma, save)
    return {
        "game": name,
        "plan": plan,
        "iterations": iterations,
        "seconds": seconds,
        "iterations_per_second": iterations / seconds,
        **closeness(tree, sigma),
    }


def best_response_to(name: str, against: str, asked: Mapping[str, int] = {}) -> dict[str, Any]:
    """Best-response values by seat; the keys of `overtrick best-response --json`.

    A game too large for a tree gets a lower bound, its samples as asked: see lower_bound.
    """
    game = games.make(name)
    if isinstance(game, Redealable) and not isinstance(game, Enumerable):
        return lower_bound(game, against, asked)
    if asked:
        raise Refused(f"{name} is answered exactly, without samples: leave out --{min(asked)}")
    tree = build(game)
    opponent = stranger(against, game, tree)
    sigma = value.sigma_of(tree, [opponent] * tree.seats)
    values = [value.best_response(tree, sigma, seat)[0] for seat in range(tree.seats)]
    return {
        "game": name,
        "stranger": against,
        "unit": game.unit,
        "kind": "exact",
        "values": values,
        "mean": sum(values) / len(values),
    }


def _iterate(
    tree: Tree, plan: str, iterations: int, seed: int, progress: Callable[[int], None]
) -> tuple[Array, float]:
    """The average strategy, and the seconds that the iterations took."""
    solver_of(plan, tree, generator(seed, Part.TRAIN)).run(1)  # compiles, or reads the kernel
    solver = solver_of(plan, tree, generator(seed, Part.TRAIN))
    seconds, stretch = 0.0, 1
    while solver.iteration < iterations:
        began = time.perf_counter()
        solver.run(min(stretch, iterations - solver.iteration))
        took = time.perf_counter() - began
        seconds += took
        stretch = stretch * 2 if took < LOOK_SECONDS / 2 else stretch
        progress(solver.iteration)
    return solver.average(), seconds


def _save(name: str, plan: str, seed: int, sigma: Array, folder: Path) -> None:
    job = {"trainer": "solve", "game": name, "seed": seed, "solve": {"plans": [plan]}}
    record = SolveJob.model_validate(job).model_dump(mode="json")
    model.save(model.Model({"sigma": sigma}, name, record), folder)
