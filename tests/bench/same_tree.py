"""Measure CFR+ on a game of OpenSpiel with OpenSpiel's node order, beside OpenSpiel's own
solver."""

from __future__ import annotations

import pyspiel
from tests.bench.measure import Result, as_good, in_turns

from overtrick import make
from overtrick.solvers.cfr import CFR_PLUS, CfrSolver
from overtrick.solvers.extensive import best_response, tree

COMPARED_AFTER = 50  # iterations after which both average strategies are compared


def compare(
    name: str, title: str, goal: float, iterations: int, peer_iterations: int, rounds: int = 5
) -> Result:
    """Run both solvers in turns. Raises AssertionError if ours converges more slowly."""
    whole = tree.build(make(f"openspiel/{title}"))
    game = pyspiel.load_game(title)
    solver, theirs = CfrSolver(whole, CFR_PLUS), pyspiel.CFRPlusSolver(game)

    def peer() -> None:
        for _ in range(peer_iterations):
            theirs.evaluate_and_update_policy()

    our_seconds, peer_seconds = in_turns(lambda: solver.run(iterations), peer, rounds)
    our_rate, peer_rate = iterations / our_seconds, peer_iterations / peer_seconds
    compared_after = min(COMPARED_AFTER, peer_iterations * (rounds + 1))
    ours = CfrSolver(whole, CFR_PLUS)
    ours.run(compared_after)
    fresh = pyspiel.CFRPlusSolver(game)
    for _ in range(compared_after):
        fresh.evaluate_and_update_policy()
    our_gap = best_response.exploitability(whole, ours.average())
    peer_gap = pyspiel.exploitability(game, fresh.tabular_average_policy())
    as_good(our_gap, peer_gap, compared_after)
    return Result(
        name=name,
        work=f"CFR+ on {title} ({whole.nodes:,} nodes, {whole.infosets:,} information sets); "
        f"exploitability after {compared_after} iterations: "
        f"ours {our_gap:.9g}, peer {peer_gap:.9g}",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel.CFRPlusSolver",
        unit="iterations/s",
        ratio=our_rate / peer_rate,
        goal=goal,
    )
