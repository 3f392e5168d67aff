"""Exact solutions of games: equilibria with their exploitability, and best-response values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overtrick import core
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import Array, UserError, suggestion
from overtrick.distributed.workers import open_pool
from overtrick.evaluation import exact_by_walks
from overtrick.evaluation.lower_bound import lower_bound
from overtrick.evaluation.reference_opponents import make_opponent, resolve_opponent
from overtrick.games import openspiel_tree, registry
from overtrick.reports.progress import OnProgress
from overtrick.solvers.auto_solver import AutoSolver
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.magnetic_mirror_descent import MirrorDescentSolver
from overtrick.storage import model_files
from overtrick.storage.bucket_copy import output
from overtrick.training.equilibrium import strategy_evaluator
from overtrick.training.equilibrium.solve import (
    QUANTAL_RESPONSE,
    SOLVERS,
    TEMPERATURE,
    SolveJob,
    check_estimated_time,
    check_solver,
    make_solver,
    tree_bytes,
)

PROGRESS_SECONDS = 0.5  # of iterations between two reports of progress


@dataclass(frozen=True)
class Solution:
    """A strategy profile that a solver has found for a game, with its distance to equilibrium."""

    evaluator: strategy_evaluator.SolvableEvaluator
    plan: str  # the solver
    iterations: int
    strategy: Array  # (N, A) action probabilities by information set; (L,) if evaluated by walks
    values: tuple[float, ...]  # expected points per game of each seat
    exploitability: float  # points per game: nash_conv divided by the number of seats
    nash_conv: float
    seconds: float  # of the iterations, without compilation and evaluation
    history: Mapping[int, float]  # exploitability after the numbers of iterations asked for
    qre_gap: float | None = None  # of mmd-qre: NashConv of the game with entropy, in points
    choice: str | None = None  # of auto: the chosen algorithm, and why

    @property
    def game(self) -> Any:
        """The game that was solved."""
        return self.evaluator.game

    def policy(self) -> core.BehaviouralPolicy:
        """Return the strategy as a policy for every seat."""
        return strategy_evaluator.strategy_policy(self.evaluator, self.strategy)


def solve(
    game: Any,
    plan: str = "cfr+",
    iterations: int = 1000,
    seed: int = 0,
    memory: float | None = None,
    measure_at: Iterable[int] = (),
    progress: OnProgress = lambda done: None,
    temperature: float = TEMPERATURE,
    max_minutes: float | None = None,
) -> Solution:
    """Compute or approximate an equilibrium of a game.

    - `game`: a game, or the GameChoice of a registered one.
    - `plan`: the solver, a name in SOLVERS.
    - `memory`: limit for the game tree in GiB; None: all free memory.
    - `measure_at`: numbers of iterations after which the exploitability is measured.
    - `progress`: called with the number of finished iterations; first with 0, when the tree is
      built and the kernels are compiled.
    - `temperature`: of the plan mmd-qre, in points.
    - `max_minutes`: limit of the estimated time in a game evaluated by walks; None: no limit.

    Raises UserError for an unknown game or solver, a game that the solver does not support, or a
    tree that does not fit in memory.
    """
    if plan not in SOLVERS:
        raise UserError(f"unknown plan '{plan}': {suggestion(plan, SOLVERS)}")
    if temperature != TEMPERATURE and plan != QUANTAL_RESPONSE:
        raise UserError(f"plan {plan} has no temperature: leave it out, or name {QUANTAL_RESPONSE}")
    for name, value, least in (("iterations", iterations, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise UserError(f"{name} must be a whole number of at least {least}, not {value}")
    limit = tree_bytes(memory)
    evaluator: strategy_evaluator.SolvableEvaluator
    if isinstance(game, GameChoice):
        evaluator = strategy_evaluator.solvable_evaluator(game, limit)
    elif isinstance(game, core.WalkedGame):
        evaluator = strategy_evaluator.WalkEvaluator(game)
    else:
        evaluator = strategy_evaluator.TreeEvaluator(game, build(game, limit))
    iterations = 1 if plan == "lp" else iterations  # the linear program has no iterations
    check_solver(plan, evaluator)
    check_estimated_time(evaluator, [plan], iterations, 1, max_minutes, "--max-minutes")
    solver = make_solver(plan, evaluator, seed, iterations, temperature)
    if not isinstance(evaluator, strategy_evaluator.WalkEvaluator):  # a walk may take minutes
        solver.run(0)  # compiles the kernels or loads them; so does equilibrium_distance
        strategy_evaluator.equilibrium_distance(evaluator, solver.average())
    progress(0)
    history, seconds = {}, 0.0
    for stop in sorted({min(each, iterations) for each in (*measure_at, iterations)}):
        seconds += _iterate(solver, stop, progress)
        found = strategy_evaluator.equilibrium_distance(evaluator, solver.average())
        history[stop] = found["exploitability"]
    return Solution(
        evaluator, plan, iterations, solver.average(), tuple(found["values"]),
        found["exploitability"], found["nash_conv"], seconds, history,
        solver.qre_gap() if plan == QUANTAL_RESPONSE and isinstance(solver, MirrorDescentSolver)
        else None,
        solver.reason if isinstance(solver, AutoSolver) else None,
    )  # fmt: skip


def solve_game(
    name: str,
    plan: str,
    iterations: int,
    seed: int = 0,
    memory: float | None = None,
    save: str | Path | None = None,
    progress: OnProgress = lambda done: None,
    temperature: float = TEMPERATURE,
    max_minutes: float | None = None,
) -> dict[str, Any]:
    """Solve a game as `solve` does; return the values that `overtrick solve --json` prints.

    `save`: the path or URL of a folder in which the strategy is stored as a model; None: do not
    store it. Raises UserError, also for an unusable folder.
    """
    with output(str(save), "--save") if save is not None else nullcontext() as folder:
        if folder is not None:
            model_files.check_place(folder)
        done = solve(
            GameChoice(name=name), plan, iterations, seed, memory, (), progress, temperature,
            max_minutes,
        )  # fmt: skip
        found: dict[str, Any] = {
            "exploitability": done.exploitability,
            "nash_conv": done.nash_conv,
            "values": list(done.values),
        }
        if done.qre_gap is not None:
            found["qre_gap"] = done.qre_gap
        if done.choice is not None:
            found["choice"] = done.choice
        if folder is not None:
            section: dict[str, Any] = {"variants": [plan]}
            if temperature != TEMPERATURE:
                section["temperature"] = temperature
            job = SolveJob.model_validate(
                {"trainer": "solve", "game": name, "seed": seed, "solve": section}
            )
            record = job.model_dump(mode="json", exclude_unset=True)  # without unused defaults
            result = {"plan": plan, "iterations": done.iterations, **found}
            weights = {strategy_evaluator.strategy_name(done.evaluator): done.strategy}
            model = model_files.Model(weights, name, record, result)
            model_files.save(model, folder)
    return {
        "game": name,
        "plan": plan,
        "iterations": done.iterations,
        "seconds": done.seconds,
        "iterations_per_second": done.iterations / done.seconds,
        **found,
    }


def best_response_to(
    name: str,
    against: str,
    asked: Mapping[str, int] = {},
    progress: OnProgress = lambda done: None,
    workers: int = 0,
) -> dict[str, Any]:
    """Compute the best-response value in each seat against an opponent in all other seats.

    `against`: the opponent by name, a run, or a model folder. `asked`: settings of `lower_bound`,
    which estimates the values in a game that is too large for a tree. `progress`: see
    exact_by_walks.evaluate_players. `workers`: Ray workers that walk over the game, if it is
    evaluated by walks; 0: threads of this process. Returns the values that `overtrick best-response
    --json` prints. Raises UserError.
    """
    game = registry.make(name)
    if workers and not isinstance(game, core.WalkedGame):
        raise UserError(
            f"--workers is for games evaluated by walks, such as goofspiel: leave it out for {name}"
        )
    if isinstance(game, core.Redealable) and not isinstance(game, core.Enumerable):
        return lower_bound(game, against, asked)
    if asked:
        raise UserError(f"the value of {name} is exact, without samples: leave out --{min(asked)}")
    if isinstance(game, core.WalkedGame):
        opponent = make_opponent(resolve_opponent(against, game), game, None)
        core.require_action_probabilities(opponent, against)
        players = [opponent] * game.seats
        with open_pool(workers) as pool:
            shared = pool if workers else None
            found = exact_by_walks.evaluate_players(game, players, progress, shared)
        values = found.best_response_values.tolist()
    else:
        tree = build(game)
        opponent = make_opponent(resolve_opponent(against, game), game, tree)
        sigma = best_response.sigma_of(tree, [opponent] * tree.seats)
        values = [best_response.best_response(tree, sigma, seat)[0] for seat in range(tree.seats)]
    return {
        "game": name,
        "stranger": against,
        "unit": game.unit,
        "kind": "exact",
        "values": values,
        "mean": sum(values) / len(values),
    }


def openspiel_policy(folder: Path, twin: str | None = None) -> Any:
    """Convert a stored model to a pyspiel.TabularPolicy.

    `folder`: the model of a game openspiel/NAME, or of a game of this project that OpenSpiel also
    has. `twin`: in the second case, the game in OpenSpiel, such as
    "leduc_poker(suit_isomorphism=true)" for leduc_textbook.

    Raises UserError for a model that cannot be read, a missing `twin`, or a `twin` with another
    game tree; ValueError if two seats share an information-state string.
    """
    from overtrick.training.registry import JOBS  # imports every trainer

    stored = model_files.load(folder)
    job = job_file.parse_stored(stored.job, JOBS, f"{folder / model_files.CARD}")
    game = registry.make(job.game.name, **job.game.options)
    tree = build(game)
    sigma = best_response.sigma_of(tree, [model_files.policy(folder, game)] * tree.seats)
    if isinstance(game, core.InformationStateStrings):
        strings = game.information_state_strings
    elif twin is None:
        raise UserError(f"{folder} plays {game.name}: give this game's name in OpenSpiel as `twin`")
    else:
        theirs = openspiel_tree.OpenSpiel(twin)
        nodes = build(theirs)
        try:
            strings = openspiel_tree.matched_information_state_strings(
                nodes, theirs.information_state_strings, tree
            )
        except ValueError as error:
            raise UserError(
                f"{game.name} is not OpenSpiel's {twin} ({error}): for a game with merged "
                "suits add suit_isomorphism=true"
            ) from None
    return openspiel_tree.tabular_policy(strings, tree.legal, sigma)


def _iterate(solver: IterativeSolver, iterations: int, progress: OnProgress) -> float:
    """Run a solver until it has done `iterations`; return the wall-clock seconds that this took.

    The time excludes the calls of `progress`, with the number of finished iterations.
    """
    seconds, stretch = 0.0, 1
    while solver.iteration < iterations:
        began = time.perf_counter()
        solver.run(min(stretch, iterations - solver.iteration))
        took = time.perf_counter() - began
        seconds += took
        stretch = stretch * 2 if took < PROGRESS_SECONDS / 2 else stretch
        progress(solver.iteration)
    return seconds
