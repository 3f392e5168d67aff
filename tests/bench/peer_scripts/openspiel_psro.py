"""Run OpenSpiel's PSRO in Leduc: exact best responses, Nash equilibria of the meta-game.

Arguments: rounds, and games that estimate each entry of the payoffs. Prints JSON: NashConv after
each round, and the seconds of the processor for the rounds without the measurements.
"""

from __future__ import annotations

import json
import sys
from time import process_time

import numpy as np
import pyspiel
from open_spiel.python.algorithms import exploitability, policy_aggregator
from open_spiel.python.algorithms.psro_v2 import best_response_oracle, psro_v2

rounds, games = int(sys.argv[1]), int(sys.argv[2])
np.random.seed(0)
game = pyspiel.load_game("leduc_poker")
solver = psro_v2.PSROSolver(
    game,
    best_response_oracle.BestResponseOracle(game=game, best_response_backend="cpp"),
    meta_strategy_method="nash",
    training_strategy_selector="probabilistic",
    sims_per_entry=games,
    sample_from_marginals=True,
    number_policies_selected=1,
)
aggregator = policy_aggregator.PolicyAggregator(game)
gaps, spent = [], 0.0
for _ in range(rounds):
    began = process_time()
    solver.iteration()
    spent += process_time() - began
    mixture = aggregator.aggregate(range(2), solver.get_policies(), solver.get_meta_strategies())
    gaps.append(exploitability.nash_conv(game, mixture, use_cpp_br=True))
print(json.dumps({"nash_convs": gaps, "seconds": spent}))
