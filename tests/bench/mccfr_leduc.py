"""Measure iterations of external sampling per second on textbook Leduc beside OpenSpiel's C++
solver."""

from __future__ import annotations

import numpy as np
import pyspiel
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.solvers.extensive import best_response, tree
from overtrick.solvers.mccfr import EXTERNAL, MccfrSolver, solve

ITERATIONS, PEER_ITERATIONS, ROUNDS = 200_000, 4_000, 9
COMPARED_AFTER = 10_000  # iterations after which both average strategies are compared
SEED = 1


def run() -> Result:
    """Run both solvers in turns on the same game with distinct suits."""
    whole = tree.build(make("leduc_textbook", fold=False))
    game = pyspiel.load_game("leduc_poker")
    solver = MccfrSolver(whole, EXTERNAL, np.random.default_rng(SEED))
    theirs = pyspiel.ExternalSamplingMCCFRSolver(game, seed=SEED)

    def peer() -> None:
        for _ in range(PEER_ITERATIONS):
            theirs.run_iteration()

    our_seconds, peer_seconds = in_turns(lambda: solver.run(ITERATIONS), peer, ROUNDS)
    our_rate, peer_rate = ITERATIONS / our_seconds, PEER_ITERATIONS / peer_seconds
    our_gap, peer_gap = _exploitabilities(whole, game)
    return Result(
        name="mccfr_leduc",
        work=f"external sampling on leduc_textbook, suits distinct ({whole.nodes:,} nodes); "
        f"exploitability after {COMPARED_AFTER:,} iterations: "
        f"ours {our_gap:.3g}, peer {peer_gap:.3g} chips",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel.ExternalSamplingMCCFRSolver",
        unit="iterations/s",
        ratio=our_rate / peer_rate,
        goal=10,
    )


def _exploitabilities(whole: tree.Tree, game: pyspiel.Game) -> tuple[float, float]:
    """Return the exploitability of both average strategies from fresh solvers, each computed by its
    own library."""
    sigma = solve(whole, COMPARED_AFTER, EXTERNAL, np.random.default_rng(SEED))
    theirs = pyspiel.ExternalSamplingMCCFRSolver(game, seed=SEED)
    for _ in range(COMPARED_AFTER):
        theirs.run_iteration()
    gap = pyspiel.exploitability(game, theirs.average_policy())
    return best_response.exploitability(whole, sigma), gap
