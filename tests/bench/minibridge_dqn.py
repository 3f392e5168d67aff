"""Deep Q-learning of a declarer after 1,000 games: RLlib's, on one seat and on all four, beside
ours with the same network on the same observation, and ours with its suits renamed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.stats import binomtest
from tests.bench.measure import Result

from overtrick import make, rllib
from overtrick.games.bridge.suits import Renaming, renamed_batch
from overtrick.learners.dqn import Dqn, Plan
from overtrick.learners.networks import initial
from overtrick.play import play
from overtrick.policies import inputs
from overtrick.trainers.strangers import stranger
from overtrick.workers import start_ray

GAMES, TURNS, AT_ONCE, DEALS, ROWS, UPDATES = 1000, 26, 100, 10_000, 256, 3000
OPTIONS = {"scoring": "tricks"}


def run() -> Result:
    """Contracts made on unseen deals against the rules, and the seconds of learning."""
    start_ray([{"CPU": 1.0}] * 2)
    theirs: dict[str, Any] = {
        "gamma": 1.0, "lr": 0.001, "train_batch_size_per_learner": ROWS, "double_q": True,
        "dueling": False, "num_steps_sampled_before_learning_starts": 1000,
        "target_network_update_freq": 1000, "epsilon": [[0, 1.0], [GAMES * TURNS // 2, 0.1]],
        "training_intensity": ROWS * UPDATES / (GAMES * TURNS),
    }  # fmt: skip
    found = {}
    for name, how in (
        ("RLlib, one seat", {"whole": False}),
        ("RLlib, four seats", {"whole": True}),
        ("ours, the next decision's value", {"renamed": False, "whole": False}),
        ("ours, what whole games brought", {"renamed": False, "whole": True}),
        ("ours, the same with suits renamed", {"renamed": True, "whole": True}),
    ):
        began = time.perf_counter()
        if name.startswith("RLlib"):
            seats, options = ([0, 2], {**OPTIONS, "seats": 4}) if how["whole"] else ([0], OPTIONS)
            turns = 2 * TURNS if how["whole"] else TURNS
            policy, games = rllib.dqn(
                "minibridge", options, seats, "rules", GAMES * turns, 0, **how, **theirs
            )
        else:
            policy, games = _ours(**how), GAMES
        found[name] = _made(policy)
        print(f"{name}: {_said(found[name])}, {games} games in {time.perf_counter() - began:.0f} s")
    best = found["ours, the same with suits renamed"]
    return Result(
        name="minibridge_dqn",
        work=f"contracts made after {GAMES:,} games, {DEALS:,} unseen deals, in per cent ("
        + "; ".join(f"{name}: {_said(made)}" for name, made in found.items())
        + "; the report: 42 %)",
        ours=100 * best,
        peer=100 * found["RLlib, one seat"],
        peer_name="RLlib's DQN, one seat",
        unit="% made",
        ratio=best / found["RLlib, one seat"],
        goal=1,
    )


def _ours(renamed: bool, whole: bool) -> Any:
    game, rng = make("minibridge", **OPTIONS), np.random.default_rng(0)
    rules = stranger("rules", game, None)
    plan = Plan(0.001, UPDATES * AT_ONCE // GAMES, ROWS, 100_000, 300, 1.0, "squared", True, whole)
    learner = Dqn(game.features, initial((inputs(game), 256, 256, 52), rng, 0.1), plan)
    for first in range(0, GAMES, AT_ONCE):
        policy = learner.policy(True, max(0.1, 1 - 1.8 * first / GAMES))
        player = Renaming(policy) if renamed else policy
        batch = play(game, (player, rules), AT_ONCE, rng, watch=[0]).batch
        learner.adam.pace(plan.rate * (1 - first / GAMES))
        learner.learn(renamed_batch(batch) if renamed else batch, rng)
    best = learner.policy(False)
    return Renaming(best) if renamed else best


def _made(policy: Any) -> float:
    game = make("minibridge")
    rules = stranger("rules", game, None)
    payoff = play(game, (policy, rules), DEALS, np.random.default_rng(1), watch=()).payoff[:, 0]
    return float((payoff > 0).mean())


def _said(made: float) -> str:
    found = binomtest(round(made * DEALS), DEALS).proportion_ci(method="wilson")
    return f"{made:.1%} ({found.low:.1%} to {found.high:.1%})"
