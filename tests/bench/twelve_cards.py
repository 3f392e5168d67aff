"""Repeat the preliminary study of Hadjur 2018: queens, kings and aces only, two tricks of three,
random defenders. Measure the games that Q-learning and SARSA need to find the best line."""

from __future__ import annotations

from statistics import median

import numpy as np
from tests import exhaustive_search
from tests.bench.measure import Result

from overtrick.games.bridge.cardplay.play_records import decision_trajectories
from overtrick.games.bridge.cardplay.playout import play_out
from overtrick.games.bridge.cardplay.state_abstractions import full
from overtrick.games.bridge.cards import CARDS
from overtrick.learners.value_based.tabular import QTable, TabularConfig

DEALS, MOST, FIRST, MORE = 20, 100_000, 10, 1.25  # games: maximum, first evaluation, growth


def run() -> Result:
    """Return the median games over deals until the greedy line wins as often as the best line."""
    needed: dict[str, list[int]] = {"q": [], "sarsa": []}
    for number, deal in enumerate(
        exhaustive_search.deal_twelve_cards(DEALS, np.random.default_rng(0))
    ):
        best, line = exhaustive_search.contract_probability(deal)
        for rule, counts in needed.items():
            counts.append(_games_until(deal, best, rule, number))
        print(
            f"deal {number}: made {best:.4f} of games by {' '.join(line)}; "
            f"Q-learning after {needed['q'][-1]}, SARSA after {needed['sarsa'][-1]} games"
        )
    ours, peer = median(needed["q"]), median(needed["sarsa"])
    return Result(
        name="twelve_cards",
        work=f"games until the greedy line of a 12-card deal is the best, {DEALS} deals; "
        "the report: SARSA is ten times as slow",
        ours=ours,
        peer=peer,
        peer_name="SARSA",
        unit="games",
        ratio=peer / ours,
        goal=None,
    )


def _games_until(deal: np.ndarray, best: float, rule: str, seed: int) -> int:
    """Return the games until the greedy line is as good as the best; MOST if it never is."""
    rng, games = np.random.default_rng(seed), 0
    table = QTable(full, TabularConfig(rule, 0.3, 0.9))  # type: ignore[arg-type]
    while games < MOST:
        more = max(FIRST, int(games * (MORE - 1)))
        deals = np.repeat(deal[None], more, axis=0)
        cards, won = play_out(deals, "random", "random", rng)
        batch = decision_trajectories(deals, cards, (0, 2), won >= deal[CARDS + 1])
        batch.reward[~batch.last] = 0  # as in the report: the result is known at the end only
        table.learn(batch)
        games += more
        if exhaustive_search.contract_probability(deal, table.policy(False))[0] > best - 1e-9:
            return games
    return MOST
