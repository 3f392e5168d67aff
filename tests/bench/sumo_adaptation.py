"""Measure the champion of sumo before and after three steps of adaptation to new opponents.

For each policy update the bench also estimates the gain in points by importance sampling: once on
the matches of the update, once on as many fresh matches. The excess of the first over the second is
noise that the update has fitted.

The opponents and seeds are those of the grid in the job. Environment variables add opponents:
OVERTRICK_ZOO, the folder of AgentZoo's policies, and OVERTRICK_LEAGUE, a run of
jobs/sumo_league.yaml with another seed than the champion's, or a run of
jobs/sumo_league_continued.yaml from such a run, which gives ten of its past players. An adaptation
takes three minutes of one core. Finished ones are kept in build/sumo_adaptation, so that
a stopped bench goes on; delete that folder after a change of the code or of an opponent.
"""

from __future__ import annotations

import copy
import hashlib
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
from overtrick.policies.rollout import play, random_seating
from overtrick.storage import locate, model_files
from overtrick.storage.champions import champion_folder, is_champion, read_champion
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
    results: dict[str, list[Any]] = defaultdict(list)  # by seed
    for name, seed in work:
        results[name].append(measured(name, seed))
    shares = {name: [each["won"] for each in found] for name, found in results.items()}
    gains = np.array([[each["gains"] for each in found] for found in results.values()])
    lines = [summary(Path(name).name, [shares[name]]) for name in shares]
    lines += [summary(f"all {g}", [shares[n] for n in names]) for g, names in groups.items()]
    own, fresh = (f"{g.mean():.2f} ± {standard_error(g):.2f}" for g in gains.mean(axis=0).T)
    before, after = np.mean(list(shares.values()), axis=(0, 1))
    return Result(
        name="sumo_adaptation",
        work="shares of matches won before and after, standard errors over "
        f"{len(seeds)} seeds of {2 * DEALS} matches: " + "; ".join(lines) + "; gain estimated by "
        "importance sampling, summed over the updates, in points a match: "
        f"{own} on the matches of an update, {fresh} on fresh matches",
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
    check_unrelated(str(run))
    league = model_files.load(locate.model_folder(str(run)), "sumo")
    members = unprefixed(MEMBERS, league.weights)
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


def check_unrelated(run: str) -> None:
    """Raise UserError unless a run and those that it continues are leagues of other seeds.

    The first of these runs must start from nothing. None may have the seed of the run from nothing
    with which the champion's training began.
    """
    job = model_files.load(locate.model_folder(run), "sumo").job
    if job.get("trainer") != "league":
        raise UserError(
            f"OVERTRICK_LEAGUE: {run} is no league: name a run of jobs/sumo_league.yaml or "
            "jobs/sumo_league_continued.yaml"
        )
    start = job["league"]["initial_model"]
    seed = read_champion("sumo").card["seed"]
    if job["seed"] == seed or (start and is_champion(start)):
        raise UserError(
            f"OVERTRICK_LEAGUE: {run} has the seed of the champion's first run, {seed}, or starts "
            "from a champion: name a run with another seed, from nothing or from such a run"
        )
    if start:
        check_unrelated(start)


def result_file(opponent: str, seed: int) -> Path:
    return RESULTS / f"{Path(opponent).name.replace(':', '-')}-{seed}.json"


def adaptation_job(opponent: str, seed: int) -> Any:
    """Return the job of the adaptation to one opponent, without an evaluation in training."""
    overrides = [f"exploit.opponent={opponent}", f"seed={seed}", "exploit.eval_interval=1000000"]
    return job_file.load(JOB, [*overrides, "exploit.eval_deals=2"], JOBS)


def inputs(job: Any) -> dict[str, Any]:
    """Return the job of an adaptation and the digest of the champion from which it starts."""
    weights = champion_folder(job.exploit.initial_model) / model_files.WEIGHTS
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return {"job": job.model_dump(mode="json"), "champion": digest}


def measured(opponent: str, seed: int) -> dict[str, Any] | None:
    """Return the stored figures of an adaptation; None if there are none of this job and champion.

    Key `won`: shares of matches won before and after. Key `gains`: estimated on the matches of the
    updates and on fresh ones, see `adapt_and_evaluate`.
    """
    path = result_file(opponent, seed)
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    same = stored.get("inputs") == inputs(adaptation_job(opponent, seed))
    return stored["figures"] if same else None


def report(shard: int, result: str) -> None:
    print(result, flush=True)


def adapt_and_evaluate(rng: Generator, common: None, opponent: str, seed: int) -> str:
    """Adapt the champion to one opponent, and store the shares of matches won before and after.

    Both evaluations start from the same positions. They use RK4, training uses Euler. Also store
    the estimated gains, summed over the policy updates: on the matches of the update, and on fresh
    matches played by the policy before it.
    """
    job = adaptation_job(opponent, seed)
    trainer = ExploitTrainer(job, LocalPool())
    rival = cached_opponent(job.game, opponent)
    gains = np.zeros(2)  # on the matches of the updates, on fresh ones; points a match
    games, fresh_rng = job.exploit.games, np.random.default_rng([seed, 501])
    for _ in range(job.stop.iterations):
        old = copy.deepcopy(trainer.learner)
        metrics = trainer.step()
        if "gain" in metrics:  # not while only the critic learns
            both, seating = (old.policy(), rival), random_seating(games, fresh_rng)
            fresh = play(trainer.game, both, games, fresh_rng, seating, [0]).batch
            gains += metrics["gain"], old.estimated_gain(fresh, trainer.learner.theta)
    game = registry.evaluation_game(trainer.game)
    before = cached_opponent(job.game, job.exploit.initial_model)
    after = network_policy(game.features, trainer.learner.theta)
    won = [
        payoff_against(game, None, policy, rival, DEALS, np.random.default_rng([seed, 500]))[0]
        for policy in (before, after)
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"inputs": inputs(job), "figures": {"won": won, "gains": gains.tolist()}}
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
