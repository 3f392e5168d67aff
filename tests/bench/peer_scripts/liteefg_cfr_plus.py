"""CFR+ of LiteEFG on a game of OpenSpiel: iterations and exploitability computations in a second.

Arguments: the game, the measured iterations, the iterations after which to compare.
"""

import json
import os
import sys
import tempfile
from time import process_time

import LiteEFG
import pyspiel
from LiteEFG.baselines.CFRplus import graph

EVALUATIONS = 100
AVERAGE = "linear-avg-iterate"

name, iterations, compared = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(tempfile.mkdtemp())  # LiteEFG writes the game tree to a file


def fresh():
    """Return a game tree with untrained CFR+, and a function that runs iterations."""
    tree, solver = LiteEFG.OpenSpielEnv(pyspiel.load_game(name), traverse_type="Enumerate"), graph()
    tree.set_graph(solver)

    def run(count):
        for _ in range(count):
            solver.update_graph(tree)
            tree.update_strategy(solver.current_strategy())

    return tree, solver, run


tree, solver, run = fresh()
run(compared)
gap = sum(tree.exploitability(solver.current_strategy(), AVERAGE)) / 2
began = process_time()
run(iterations)
rate = iterations / (process_time() - began)
began = process_time()
for _ in range(EVALUATIONS):
    tree.exploitability(solver.current_strategy(), AVERAGE)
evaluations = EVALUATIONS / (process_time() - began)
print(json.dumps({"iterations": rate, "exploitability": gap, "evaluations": evaluations}))
