"""How much a model wins from strangers, and how much it can lose, by the bound that it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overtrick import config
from overtrick.config import Job
from overtrick.core import Array, Refused
from overtrick.solvers import safety, sequence_form, value
from overtrick.solvers.tree import Tree
from overtrick.trainers import JOBS, TRAINERS
from overtrick.trainers.evaluate import exact_payoff
from overtrick.trainers.kept import game_and_tree, opponent_of
from overtrick.trainers.strangers import located
from overtrick.workers import Crew, Part, generator

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
        file. Raises Refused for a job that judges no adaptation, or a game without a tree.
        """
        plain = config.overridden(card, overrides)
        job = config.parse(plain, JOBS, source)
        if "evaluate" not in type(job).model_fields:
            raise Refused(
                f"{source}: a model of {job.trainer} does not adapt to strangers: name one of meta"
            )
        game, tree = game_and_tree(job.game)
        sequence_form.check(tree, "a bound on exploitability")
        judged = dict(plain.get("evaluate", {}))
        if against:
            judged["strangers"] = [located(name, game) for name in against]
        jobs = {}
        for bound in (None, *BOUNDS):
            content = {**plain, "evaluate": {**judged, "safe": bound}}
            if bound is None and "meta" in content:  # a response needs a bound
                content["meta"] = {**content["meta"], "test_play": "network"}
            jobs[bound] = config.parse(content, JOBS, source)
            TRAINERS[job.trainer].check(jobs[bound])
        return cls(jobs, game, tree)


def study(plan: Study, weights: Mapping[str, Array], crew: Crew) -> dict[str, Any]:
    """The keys of `overtrick safety --json`: game, unit, and a row a stranger.

    A row has the frontier, a list of {trust, payoff, exploitability} of restricted Nash responses;
    and adapted, a list of {bound, payoff, standard_error, exploitability, most}: the model after
    its last step with each bound (None: free), and the most that any strategy of at most that
    exploitability wins. All in points a game, exact but for the draws of adaptation.
    """
    tables = {}
    for bound, job in plan.jobs.items():
        rng = generator(job.seed, Part.JUDGE)
        tables[bound] = TRAINERS[job.trainer].judge(job, weights, crew, rng)
    choice = plan.jobs[None].game
    rows = []
    for place, first in enumerate(tables[None]):
        name = first["stranger"]
        opponent = value.sigma_of(plan.tree, [opponent_of(choice, name)] * 2)
        adapted = []
        for bound, table in tables.items():
            row, gap = table[place], max(table[place]["exploitability"][-1], 0)
            best = safety.safest_response(plan.tree, opponent, gap)
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
        sigma = safety.restricted_response(tree, opponent, trust)
        points.append(
            {
                "trust": trust,
                "payoff": exact_payoff(tree, sigma, opponent),
                "exploitability": value.exploitability(tree, sigma),
            }
        )
    return points
