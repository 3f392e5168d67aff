"""Iterations a second of CFR+ on textbook Leduc, against OpenSpiel's C++ solver."""

from __future__ import annotations

import pyspiel
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.solvers import tree, value
from overtrick.solvers.cfr import CFR_PLUS, Solver

ITERATIONS, PEER_ITERATIONS, ROUNDS = 5_000, 100, 9
JUDGED = 1_000  # iterations after which both average strategies are compared


def run() -> Result:
    """A stretch of ours in turns with a stretch of theirs, on the same folded game."""
    whole = tree.build(make("leduc_textbook", fold=True))
    game = pyspiel.load_game("leduc_poker(suit_isomorphism=true)")
    solver, theirs = Solver(whole, CFR_PLUS), pyspiel.CFRPlusSolver(game)

    def peer() -> None:
        for _ in range(PEER_ITERATIONS):
            theirs.evaluate_and_update_policy()

    our_seconds, peer_seconds = in_turns(lambda: solver.run(ITERATIONS), peer, ROUNDS)
    our_rate, peer_rate = ITERATIONS / our_seconds, PEER_ITERATIONS / peer_seconds
    our_gap, peer_gap = _exploitabilities(whole, game)
    return Result(
        name="cfr_plus_leduc",
        work=f"CFR+ on leduc_textbook, suits folded ({whole.nodes:,} nodes); exploitability after "
        f"{JUDGED:,} iterations: ours {our_gap:.9g}, peer {peer_gap:.9g} chips",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel.CFRPlusSolver",
        unit="iterations/s",
        ratio=our_rate / peer_rate,
        goal=20,
    )


def _exploitabilities(whole: tree.Tree, game: pyspiel.Game) -> tuple[float, float]:
    """Of both average strategies, from fresh solvers, each judged by its own library."""
    solver, theirs = Solver(whole, CFR_PLUS), pyspiel.CFRPlusSolver(game)
    solver.run(JUDGED)
    for _ in range(JUDGED):
        theirs.evaluate_and_update_policy()
    gap = pyspiel.exploitability(game, theirs.tabular_average_policy())
    return value.exploitability(whole, solver.average()), gap
