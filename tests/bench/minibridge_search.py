"""Measure a declarer with search: contracts made and decisions per second, by rollout policy and
worlds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from tests.bench.measure import Result

from overtrick import make
from overtrick.core import Policy
from overtrick.evaluation.cardplay import random_games
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge.cardplay.play_records import decision_trajectories
from overtrick.games.bridge.cardplay.state_abstractions import prospects
from overtrick.learners.value_based.tabular import QTable, TabularConfig
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.lookahead.pimc import PimcPolicy

DEALS, TURNS, LEARNT = 200, 26, 200_000


def run() -> Result:
    """Search in one process; the rollout policy is random play, or a table of random games."""
    game: Any = make("minibridge", scoring="tricks")
    rules = make_opponent("rules", game, None)
    table = QTable(prospects, TabularConfig("sarsa", None, 0.0))
    for seed in range(LEARNT // 5000):
        played = random_games(game, 5000, "rules", True, np.random.default_rng(seed))
        table.learn(decision_trajectories(played.deals, played.cards, (0, 2), played.rewards(True)))
    guide, found = table.policy(False), {}
    players: dict[str, Policy] = {
        "the table alone": guide,
        "20 worlds, random": PimcPolicy(game, rules, UniformPolicy(), 20),
        "20 worlds, table": PimcPolicy(game, rules, guide, 20),
        "60 worlds, table": PimcPolicy(game, rules, guide, 60),
    }
    for name, declarer in players.items():
        began = time.perf_counter()
        payoff = play(game, (declarer, rules), DEALS, np.random.default_rng(0), recorded=()).payoff
        rate = DEALS * TURNS / (time.perf_counter() - began)
        found[name] = float((payoff[:, 0] > 0).mean()), rate
    summary = "; ".join(
        f"{name}: {made:.1%}, {rate:,.0f} /s" for name, (made, rate) in found.items()
    )
    _, rate = found["20 worlds, table"]
    return Result(
        name="minibridge_search",
        work=f"decisions per second of a search, 20 worlds and a table; {DEALS} deals: {summary}",
        ours=rate,
        peer=None,
        peer_name="",
        unit="decisions/s",
        ratio=None,
        goal=None,
    )
