"""Measure CFR+ and exploitability a second of the processor beside LiteEFG, on three games."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.peers import ask, cpu_rate, exploitability_rate, rates_in_turns

from overtrick import make
from overtrick.solvers.cfr import CFR_PLUS, CfrSolver
from overtrick.solvers.extensive import best_response, tree

COMPARED = 100  # iterations after which both average strategies are compared
GAMES = {  # iterations of ours, and of the peer
    "kuhn_poker": (100_000, 20_000),
    "liars_dice(numdice=1,dice_sides=5)": (200, 50),
    "leduc_poker(suit_isomorphism=true)": (10_000, 1_000),
}


def run() -> Result:
    """Compare both libraries on each game; the ratio is that of iterations on the last one."""
    lines = []
    for title, (iterations, peer_iterations) in GAMES.items():
        ours, peer, line = _compare(title, iterations, peer_iterations)
        lines.append(line)
    return Result(
        name="cfr_plus_liteefg",
        work="CFR+ on trees of OpenSpiel, seconds of the processor; " + "; ".join(lines),
        ours=ours,
        peer=peer,
        peer_name="LiteEFG 1.0.0, baselines.CFRplus",
        unit="iterations/CPU s",
        ratio=ours / peer,
        goal=1,
    )


def _compare(title: str, iterations: int, peer_iterations: int) -> tuple[float, float, str]:
    """Return the iterations a second of ours and of the peer, and a line with all figures."""
    whole = tree.build(make(f"openspiel/{title}"))
    solver = CfrSolver(whole, CFR_PLUS)
    solver.run(COMPARED)
    sigma = solver.average()
    gap = best_response.exploitability(whole, sigma)
    arguments = "liteefg", "liteefg_cfr_plus", title, str(peer_iterations), str(COMPARED)
    ours, peer, theirs = rates_in_turns(
        lambda: cpu_rate(solver.run, iterations), lambda: ask(*arguments), "iterations"
    )
    evaluations = exploitability_rate(whole, sigma, 100)
    line = (
        f"{title}: {ours:,.0f} and {peer:,.0f} iterations, {evaluations:,.0f} and "
        f"{theirs['evaluations']:,.0f} exploitabilities a second; exploitability after {COMPARED} "
        f"iterations {gap:.6g} and {theirs['exploitability']:.6g}"
    )
    return ours, peer, line
