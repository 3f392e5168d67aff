"""Measure payoff and exploitability of an adapting model under bounds on its exploitability."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import apply_overrides
from overtrick.core import Array, UserError
from overtrick.core.files import local_path, write_text
from overtrick.distributed.workers import RngStream, WorkerPool, generator, open_pool
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.evaluation.game_cache import cached_opponent, game_with_tree
from overtrick.evaluation.reference_opponents import resolve_opponent
from overtrick.reports import figures
from overtrick.runs import lifecycle
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.storage import bucket_copy, locate, model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import JOBS, TRAINERS, adapts

BOUNDS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # exploitability, in points a game
TRUSTS = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
"""Probabilities with which the opponent plays its known strategy in a restricted Nash response."""


def evaluate_safety(
    what: str, against: Sequence[str], overrides: Sequence[str], workers: int, out: Path | None
) -> tuple[dict[str, Any], Path | None]:
    """Evaluate a stored adapting model under several upper bounds on its exploitability.

    The bounds are those in BOUNDS. One more evaluation has no bound.

    - `what`: a run or a model folder.
    - `against`: held-out opponents; if empty, those of the job.
    - `overrides`: `key=value` overrides of the job that trained the model.
    - `out`: a folder for safety.json and safety.png; None: the folder figures/ of the run.

    Returns the values that `overtrick safety --json` prints, and the folder of the files (None if
    there is neither `out` nor a run). Raises UserError for a model that does not adapt, or a game
    without a tree.
    """
    if out is not None:
        local_path(out, "--out")
    folder = locate.existing_model(what)
    stored = model_files.load(folder)
    jobs = _jobs_by_bound(stored.job, f"{folder / model_files.CARD}", against, overrides)
    game, tree = game_with_tree(jobs[None].game)
    model_files.policy(folder, game)  # refuses weights that do not fit the game
    with open_pool(workers) as pool:
        rows = _safety_rows(jobs, tree, stored.weights, pool)
    answer = {"game": jobs[None].game.name, "unit": game.unit, "rows": rows}
    run = RunFolder(folder.parent)
    if out is None and run.job.exists():
        out = run.figures
        with lifecycle.locked(run) if bucket_copy.copy_of(out) else nullcontext():
            _save(answer, out)
    elif out is not None:
        _save(answer, out)
    return answer, out


def _save(answer: Mapping[str, Any], folder: Path) -> None:
    """Save the results of a study, as a figure and as JSON."""
    figures.save({"safety": figures.safety(answer["rows"], answer["unit"])}, folder)
    write_text(folder / "safety.json", json.dumps(answer, indent=1) + "\n")


def _jobs_by_bound(
    card: Mapping[str, Any], source: str, against: Sequence[str], overrides: Sequence[str]
) -> dict[float | None, Job]:
    """Return a job for each upper bound on exploitability under which a model is evaluated.

    The keys are the bounds, and None for a job without a bound.

    - `card`: the job that trained the model, as plain data.
    - `source`: the file that holds this job, named in errors.
    - `against`: held-out opponents that replace those of the job; if empty, the job keeps its own.
    - `overrides`: `key=value` overrides of the job.

    Raises UserError.
    """
    plain = apply_overrides(card, overrides)
    changed = {each.partition("=")[0] for each in overrides}
    job = job_file.parse_stored(plain, JOBS, source, changed)
    if not adapts(job.trainer):
        raise UserError(f"{source}: a model of {job.trainer} does not adapt: name a model of meta")
    game, tree = game_with_tree(job.game)
    sequence_form.check_two_player_zero_sum(tree, "a bound on exploitability")
    evaluation = dict(plain.get("evaluate", {}))
    if against:
        evaluation["opponents"] = [resolve_opponent(name, game) for name in against]
    jobs = {}
    for bound in (None, *BOUNDS):
        content = {**plain, "evaluate": {**evaluation, "exploitability_bound": bound}}
        if bound is None and "adaptation" in content:  # a best response needs a bound
            content["adaptation"] = {**content["adaptation"], "policy": "network"}
        jobs[bound] = job_file.parse_stored(content, JOBS, source)
        TRAINERS[job.trainer].validate(jobs[bound])
    return jobs


def _safety_rows(
    jobs: Mapping[float | None, Job], tree: Tree, weights: Mapping[str, Array], pool: WorkerPool
) -> list[dict[str, Any]]:
    """Evaluate a model against each held-out opponent under several bounds on its exploitability.

    `jobs`: the evaluation job for each bound. Returns a dictionary for each opponent:

    - `stranger`: name of the held-out opponent.
    - `frontier`: points on the Pareto frontier of payoff and exploitability, from
      `response_frontier`.
    - `adapted`: for each bound, a dictionary with the results of the model.

    The dictionary with the results under one bound has these keys:

    - `bound`: the upper bound on exploitability, or None.
    - `payoff`, `standard_error`, `exploitability`: of the model after its last adaptation step.
    - `most`: the maximum payoff of all strategies that are no more exploitable than the model.

    Payoffs and exploitability are in points a game. The model adapts in sampled games; the results
    are otherwise exact.
    """
    tables = {}
    for bound, job in jobs.items():
        rng = generator(job.seed, RngStream.EVALUATE)
        tables[bound] = TRAINERS[job.trainer].evaluate_model(job, weights, pool, rng)
    rows = []
    for k, name in enumerate(row["stranger"] for row in tables[None]):
        opponent = best_response.sigma_of(tree, [cached_opponent(jobs[None].game, name)] * 2)
        adapted = []
        for bound, table in tables.items():
            gap = max(table[k]["exploitability"][-1], 0)
            best = safe_exploitation.safe_best_response(tree, opponent, gap)
            adapted.append(
                {
                    "bound": bound,
                    "payoff": table[k]["steps"][-1],
                    "standard_error": table[k]["standard_error"][-1],
                    "exploitability": gap,
                    "most": exact_payoff(tree, best, opponent),
                }
            )
        frontier = response_frontier(tree, opponent)
        rows.append({"stranger": name, "frontier": frontier, "adapted": adapted})
    return rows


def response_frontier(tree: Tree, opponent: Array) -> list[dict[str, float]]:
    """Evaluate restricted Nash responses to an opponent, from equilibrium to best response.

    `opponent`: its strategy (N, A). A restricted Nash response assumes that the opponent plays this
    strategy with probability `trust`. Returns for each value of TRUSTS a dictionary with `trust`,
    `payoff` and `exploitability`, in points a game.
    """
    points = []
    for trust in TRUSTS:
        sigma = safe_exploitation.restricted_nash_response(tree, opponent, trust)
        payoff, gap = exact_payoff(tree, sigma, opponent), best_response.exploitability(tree, sigma)
        points.append({"trust": trust, "payoff": payoff, "exploitability": gap})
    return points
