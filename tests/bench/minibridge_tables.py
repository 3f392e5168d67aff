"""Repeat Hadjur's study at its own size: every representation by Q-learning and SARSA, on won games
of a random declarer, evaluated on unseen deals and on the deals of training; and two changes that
close the remaining distance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.stats import binomtest
from tests.bench.measure import Result

from overtrick import make
from overtrick.core import Array
from overtrick.evaluation.cardplay import CardplayGames, random_games
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge.cardplay.play_records import decision_trajectories
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS, similar_cards
from overtrick.learners.value_based.tabular import GreedyTable, QTable, TabularConfig
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

GAMES, DEALS, BLOCK = (15_000, 100_000), 10_000, 5000
PAPER = {"alpha": 0.3, "gamma": 0.9, "spread": 0.8}
MEANS = {"alpha": None, "gamma": 0.0, "spread": 0.0}


def run() -> Result:
    """Print a row for each table; ours is the best of them, the peer is the random declarer."""
    game = make("minibridge")
    won, every = (
        random_games(game, max(GAMES), "rules", lost, np.random.default_rng(seed))
        for seed, lost in enumerate((False, True))
    )
    unseen = game.deal(DEALS, np.random.default_rng(2))
    random, _ = _made(UniformPolicy(), unseen)
    print(
        "| games | representation | rule | unseen deals (95 %) | known | training deals | known |"
    )
    print("|---|---|---|---|---|---|---|")
    print(f"| 0 | random card | | {_interval(random)} | | | |")
    best = 0.0
    for count, name, rule in itertools.product(GAMES, REPRESENTATIONS, ("q", "sarsa")):
        best = max(best, _row(won, count, name, rule, PAPER, "won", unseen))
    for count, name in itertools.product(GAMES, REPRESENTATIONS):
        best = max(best, _row(every, count, name, "sarsa", MEANS, "all, means", unseen))
    return Result(
        name="minibridge_tables",
        work=f"contracts made against the rules, notrump, {DEALS:,} unseen deals, in per cent",
        ours=100 * best,
        peer=100 * random,
        peer_name="a random declarer",
        unit="% made",
        ratio=best / random,
        goal=1.7,
    )


def _row(
    games: CardplayGames,
    count: int,
    name: str,
    rule: Any,
    how: dict[str, Any],
    which: str,
    unseen: Array,
) -> float:
    part = CardplayGames(*(column[:count] for column in games))
    table = QTable(REPRESENTATIONS[name], TabularConfig(rule, **how), similar_cards())
    for first in range(0, count, BLOCK):
        block = CardplayGames(*(column[first : first + BLOCK] for column in part))
        table.learn(decision_trajectories(block.deals, block.cards, (0, 2), block.rewards(True)))
    policy = table.policy(False)
    made, known = _made(policy, unseen)
    trained, known_there = _made(policy, part.deals[:DEALS])
    print(
        f"| {count:,} {which} | {name} | {rule} | {_interval(made)} | {known:.1%} | "
        f"{trained:.1%} | {known_there:.1%} |",
        flush=True,
    )
    return made


def _made(policy: Any, deals: Array) -> tuple[float, float]:
    """Return the share of contracts made, and of decisions with an entry in the table."""
    game = make("minibridge")
    rules = make_opponent("rules", game, None)
    made, known = 0, []
    for number, first in enumerate(range(0, len(deals), 1000)):
        part = deals[first : first + 1000]
        played = play(game, (policy, rules), part, np.random.default_rng(number), recorded=[0])
        made += int((played.payoff[:, 0] > 0).sum())
        if isinstance(policy, GreedyTable):
            known.append(np.isfinite(policy.values(played.batch.observations())).any(axis=1).mean())
    return made / len(deals), float(np.mean(known)) if known else 0.0


def _interval(made: float) -> str:
    found = binomtest(round(made * DEALS), DEALS).proportion_ci(method="wilson")
    return f"{made:.1%} ({found.low:.1%} to {found.high:.1%})"
