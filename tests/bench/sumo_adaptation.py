"""Measure the gain of the champion of sumo from three steps of adaptation to held-out opponents.

The opponents and seeds are those of the grid in the job. Environment variables add opponents:
OVERTRICK_ZOO, the folder of AgentZoo's policies, and OVERTRICK_LEAGUE, a run of
jobs/sumo_league.yaml with another seed than the champion's, which gives ten of its past players. An
adaptation takes two minutes of one core. Finished ones are kept in build/sumo_adaptation, so that a
stopped bench goes on; delete that folder after a change of the code or of a model.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from tests.bench.measure import Result
from tests.bench.sumo_zoo import LSTM, MLP

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.files import write_text
from overtrick.distributed.workers import LocalPool, open_pool
from overtrick.evaluation.evaluate import payoff_against
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.evaluation.standard_error import standard_error
from overtrick.games import registry
from overtrick.policies.model_kinds import MEMBERS
from overtrick.policies.network import network_policy
from overtrick.storage import model_files
from overtrick.storage.champions import read_champion
from overtrick.training.exploit import ExploitTrainer
from overtrick.training.registry import JOBS

JOB = "jobs/sumo_adaptation.yaml"
RESULTS = Path("build/sumo_adaptation")
DEALS = 125  # of each evaluation; a deal is played from both seats
LEAGUE_OPPONENTS = 10


def run() -> Result:
    """Adapt to each opponent with each seed, on two workers."""
    grid = job_file.load(JOB, [], JOBS).search.model_dump()
    seeds = grid["seed"]["grid"]
    groups = {"scripted": list(grid["exploit.opponent"]["grid"])}
    if "OVERTRICK_ZOO" in os.environ:
        groups["AgentZoo"] = [*MLP, *LSTM]
    if "OVERTRICK_LEAGUE" in os.environ:
        groups["league"] = league_opponents(Path(os.environ["OVERTRICK_LEAGUE"]))
    work = [(name, seed) for seed in seeds for names in groups.values() for name in names]
    missing = [pair for pair in work if measured(*pair) is None]
    with open_pool(2) as pool:
        pool.map(adapt_and_evaluate, None, missing, np.random.default_rng(0), report)
    shares: dict[str, list[Any]] = defaultdict(list)  # (before, after) by seed
    for name, seed in work:
        shares[name].append(measured(name, seed))
    lines = [summary(Path(name).name, [shares[name]]) for name in shares]
    lines += [summary(f"all {g}", [shares[n] for n in names]) for g, names in groups.items()]
    before, after = np.mean(list(shares.values()), axis=(0, 1))
    return Result(
        name="sumo_adaptation",
        work="shares of matches won before and after, standard errors over "
        f"{len(seeds)} seeds of {2 * DEALS} matches: " + "; ".join(lines),
        ours=float(after),
        peer=float(before),
        peer_name="before adaptation",
        unit="of matches won",
        ratio=float(after / before),
        goal=None,
    )


def league_opponents(run: Path) -> list[str]:
    """Write ten past players of a league as models; return their folders.

    They are spread evenly over the league's training, without the random networks of its start.
    Raises UserError if the run is no league, is related to the champion, or has too few players.
    """
    league = model_files.load(run / "model", "sumo")
    members = unprefixed(MEMBERS, league.weights)
    if league.job.get("trainer") != "league":
        raise UserError(f"OVERTRICK_LEAGUE: {run} is no run of jobs/sumo_league.yaml")
    same_seed = league.job["seed"] == read_champion("sumo").card["seed"]
    if same_seed or league.job["league"]["initial_model"] is not None:
        raise UserError(
            f"OVERTRICK_LEAGUE: {run} has the champion's seed or starts from a model: name a run "
            "from nothing with another seed"
        )
    first, count = league.job["league"]["random_players"], len(members["w0"])
    if count - first < LEAGUE_OPPONENTS:
        raise UserError(f"OVERTRICK_LEAGUE: {run} has fewer than {LEAGUE_OPPONENTS} past players")
    folders = []
    for k in np.linspace(first, count - 1, LEAGUE_OPPONENTS).astype(int):
        weights = prefixed("policy", {n: v[k] for n, v in members.items()})
        folder = (RESULTS / "members" / f"{run.name}-{k}").absolute()
        model_files.save(model_files.Model(weights, "sumo", league.job), folder)
        folders.append(str(folder))
    return folders


def result_file(opponent: str, seed: int) -> Path:
    return RESULTS / f"{Path(opponent).name.replace(':', '-')}-{seed}.json"


def adaptation_job(opponent: str, seed: int) -> Any:
    """Return the job of the adaptation to one opponent, without an evaluation in training."""
    overrides = [f"exploit.opponent={opponent}", f"seed={seed}", "exploit.eval_interval=1000000"]
    return job_file.load(JOB, [*overrides, "exploit.eval_deals=2"], JOBS)


def measured(opponent: str, seed: int) -> list[float] | None:
    """Return the stored shares won before and after, or None if the same job has none."""
    path = result_file(opponent, seed)
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    job = adaptation_job(opponent, seed).model_dump(mode="json")
    return stored["won"] if stored["job"] == job else None


def report(shard: int, result: str) -> None:
    print(result, flush=True)


def adapt_and_evaluate(rng: Generator, common: None, opponent: str, seed: int) -> str:
    """Adapt the champion to one opponent, and store the shares of matches won before and after.

    Both evaluations start from the same positions. They use RK4, training uses Euler.
    """
    job = adaptation_job(opponent, seed)
    trainer = ExploitTrainer(job, LocalPool())
    policies = [trainer.learner.theta]
    for _ in range(job.stop.iterations):
        trainer.step()
    policies.append(trainer.learner.theta)
    game = registry.evaluation_game(trainer.game)
    rival = cached_opponent(job.game, opponent)
    won = [
        payoff_against(
            game, None, network_policy(game.features, theta), rival, DEALS,
            np.random.default_rng([seed, 500]),
        )[0]
        for theta in policies
    ]  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"job": job.model_dump(mode="json"), "won": won}
    write_text(result_file(opponent, seed), json.dumps(content))
    return f"{Path(opponent).name}, seed {seed}: {won[0]:.3f}, then {won[1]:.3f}"


def summary(name: str, shares: list[list[Any]]) -> str:
    """Describe the mean shares before and after, and the gain with its standard error.

    shares: (before, after) by opponent and seed.
    """
    won = np.array(shares)  # (O, seeds, 2)
    gain = (won[..., 1] - won[..., 0]).mean(axis=0)
    before, after = won.mean(axis=(0, 1))
    return f"{name} {before:.3f}, {after:.3f}, gain {gain.mean():+.3f} ± {standard_error(gain):.3f}"
