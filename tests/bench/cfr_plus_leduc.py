"""Measure iterations of CFR+ per second on textbook Leduc with suits merged, beside OpenSpiel's C++
solver."""

from __future__ import annotations

import pyspiel
from tests.bench.measure import Result, as_good, in_turns

from overtrick import make
from overtrick.solvers.cfr import CFR_PLUS, CfrSolver
from overtrick.solvers.extensive import best_response, tree

ITERATIONS, PEER_ITERATIONS, ROUNDS = 10_000, 20, 5
DEFAULT, FOLDED = "leduc_poker", "leduc_poker(suit_isomorphism=true)"


def run() -> Result:
    """Run both solvers in turns, OpenSpiel's on leduc_poker with default parameters."""
    whole = tree.build(make("leduc_textbook"))
    solver = CfrSolver(whole, CFR_PLUS)

    def rates(title: str) -> tuple[float, float]:
        """Return the iterations per second of ours and of OpenSpiel's on one form of the game."""
        theirs = pyspiel.CFRPlusSolver(pyspiel.load_game(title))
        our_seconds, peer_seconds = in_turns(
            lambda: solver.run(ITERATIONS), lambda: _iterate(theirs, PEER_ITERATIONS), ROUNDS
        )
        return ITERATIONS / our_seconds, PEER_ITERATIONS / peer_seconds

    our_rate, peer_rate = rates(DEFAULT)
    our_second, folded_rate = rates(FOLDED)
    # rounding makes two trees of one game diverge after about 100 iterations; on one tree it never
    # does
    default_gaps = _exploitabilities(whole, DEFAULT, 100)
    folded_gaps = _exploitabilities(whole, FOLDED, 1_000)
    return Result(
        name="cfr_plus_leduc",
        work=f"CFR+ on leduc_textbook, suits merged ({whole.nodes:,} nodes); exploitability after "
        f"100 iterations: ours {default_gaps[0]:.9g}, peer {default_gaps[1]:.9g} chips. The peer's "
        f"isomorphic form: {folded_rate:.0f} iterations/s, ratio {our_second / folded_rate:.0f}; "
        f"after 1,000 iterations: ours {folded_gaps[0]:.9g}, it {folded_gaps[1]:.9g}",
        ours=our_rate,
        peer=peer_rate,
        peer_name=f"pyspiel.CFRPlusSolver on {DEFAULT}",
        unit="iterations/s",
        ratio=our_rate / peer_rate,
        goal=100,
    )


def _iterate(solver: pyspiel.CFRPlusSolver, iterations: int) -> None:
    for _ in range(iterations):
        solver.evaluate_and_update_policy()


def _exploitabilities(whole: tree.Tree, title: str, iterations: int) -> tuple[float, float]:
    """Return the exploitability of both average strategies from fresh solvers, each computed by its
    own library.

    Raises AssertionError if ours is worse.
    """
    game = pyspiel.load_game(title)
    solver, theirs = CfrSolver(whole, CFR_PLUS), pyspiel.CFRPlusSolver(game)
    solver.run(iterations)
    _iterate(theirs, iterations)
    gap = pyspiel.exploitability(game, theirs.tabular_average_policy())
    ours = best_response.exploitability(whole, solver.average())
    as_good(ours, gap, iterations)
    return ours, gap
