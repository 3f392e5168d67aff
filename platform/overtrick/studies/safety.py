"""How much a model wins from strangers, and how much it can lose, by the bound that it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import apply_overrides
from overtrick.core import Array, UserError
from overtrick.core.files import write_text
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.evaluation.game_cache import cached_opponent, game_with_tree
from overtrick.evaluation.reference_opponents import resolve_opponent
from overtrick.reports import figures
from overtrick.runs import lifecycle
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import JOBS, TRAINERS

BOUNDS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # points a game of exploitability
TRUSTS = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)


@dataclass(frozen=True)
class Study:
    """A job of a model that adapts once for each bound, and once without; its game and tree."""

    jobs: dict[float | None, Job]
    game: Any
    tree: Tree

    @classmethod
    def of(
        cls, card: Mapping[str, Any], source: str, against: Sequence[str], overrides: Sequence[str]
    ) -> Study:
        """From the job of a model; source is named in errors.

        against: strangers in place of the job's, unless empty; overrides: key=value, as for a job
        file. Raises UserError for a job that judges no adaptation, or a game without a tree.
        """
        plain = apply_overrides(card, overrides)
        job = job_file.parse(plain, JOBS, source)
        if job.evaluation is None:
            raise UserError(
                f"{source}: a model of {job.trainer} does not adapt to strangers: name one of meta"
            )
        game, tree = game_with_tree(job.game)
        sequence_form.check_two_player_zero_sum(tree, "a bound on exploitability")
        judged = dict(plain.get("evaluate", {}))
        if against:
            judged["opponents"] = [resolve_opponent(name, game) for name in against]
        jobs = {}
        for bound in (None, *BOUNDS):
            content = {**plain, "evaluate": {**judged, "exploitability_bound": bound}}
            if bound is None and "adaptation" in content:  # a best response needs a bound
                content["adaptation"] = {**content["adaptation"], "policy": "network"}
            jobs[bound] = job_file.parse(content, JOBS, source)
            TRAINERS[job.trainer].validate(jobs[bound])
        return cls(jobs, game, tree)


def study(plan: Study, weights: Mapping[str, Array], crew: WorkerPool) -> dict[str, Any]:
    """The keys of `overtrick safety --json`: game, unit, and a row a stranger.

    A row has the frontier, a list of {trust, payoff, exploitability} of restricted Nash responses;
    and adapted, a list of {bound, payoff, standard_error, exploitability, most}: the model after
    its last step with each bound (None: free), and the most that any strategy of at most that
    exploitability wins. All in points a game, exact but for the draws of adaptation.
    """
    tables = {}
    for bound, job in plan.jobs.items():
        rng = generator(job.seed, RngStream.EVALUATE)
        tables[bound] = TRAINERS[job.trainer].evaluate_model(job, weights, crew, rng)
    choice = plan.jobs[None].game
    rows = []
    for place, first in enumerate(tables[None]):
        name = first["stranger"]
        opponent = best_response.sigma_of(plan.tree, [cached_opponent(choice, name)] * 2)
        adapted = []
        for bound, table in tables.items():
            row, gap = table[place], max(table[place]["exploitability"][-1], 0)
            best = safe_exploitation.safe_best_response(plan.tree, opponent, gap)
            adapted.append(
                {
                    "bound": bound,
                    "payoff": row["steps"][-1],
                    "standard_error": row["standard_error"][-1],
                    "exploitability": gap,
                    "most": exact_payoff(plan.tree, best, opponent),
                }
            )
        rows.append(
            {"stranger": name, "frontier": frontier(plan.tree, opponent), "adapted": adapted}
        )
    return {"game": choice.name, "unit": plan.game.unit, "rows": rows}


def frontier(tree: Tree, opponent: Array) -> list[dict[str, float]]:
    """Restricted Nash responses from an equilibrium to a best response, by trust."""
    points = []
    for trust in TRUSTS:
        sigma = safe_exploitation.restricted_nash_response(tree, opponent, trust)
        points.append(
            {
                "trust": trust,
                "payoff": exact_payoff(tree, sigma, opponent),
                "exploitability": best_response.exploitability(tree, sigma),
            }
        )
    return points


def judge_safety(
    what: str, against: Sequence[str], overrides: Sequence[str], workers: int, out: Path | None
) -> tuple[dict[str, Any], Path | None]:
    """How much a stored model wins and how much it can lose, by the bound that it keeps.

    The answer of `study`, and the folder where it is kept as safety.json and safety.png:
    out, else figures/ of the run; None for a model alone. Raises UserError.
    """
    folder = lifecycle.find_model(what)
    stored = model_files.load(folder)
    asked = Study.of(stored.job, f"{folder / model_files.CARD}", against, overrides)
    model_files.policy(folder, asked.game)
    with lifecycle.open_pool(workers) as crew:
        answer = study(asked, stored.weights, crew)
    run = RunFolder(folder.parent)
    if out is None and run.job.exists():
        out = run.figures
    if out is not None:
        figures.save({"safety": figures.safety(answer["rows"], answer["unit"])}, out)
        write_text(out / "safety.json", json.dumps(answer, indent=1) + "\n")
    return answer, out
