"""Measure the exact evaluation of uniform play in phantom games, on two cores."""

from __future__ import annotations

import resource
from time import perf_counter, process_time

from tests.bench.measure import Result

from overtrick import make
from overtrick.solvers.phantom import exact_evaluation
from overtrick.solvers.phantom.numbering_cache import stored_numbering

LIMITS = {  # seconds that an evaluation may take, with the numbers of the information sets stored
    "phantom_ttt": 150,
    "dark_hex_3": 150,
    "abrupt_phantom_ttt": 210,
    "abrupt_dark_hex_3": 240,
}
THREADS = 2


def run() -> Result:
    """Evaluate each game; the ratio is the smallest of limit / seconds."""
    lines, ratios = [], []
    for name, limit in LIMITS.items():
        game = make(name)
        numbering = stored_numbering(game)
        first, second = (exact_evaluation.uniform(views) for views in numbering.seats)
        began, cpu_began = perf_counter(), process_time()
        found = exact_evaluation.evaluate(game, numbering, (first, second), THREADS)
        seconds, cpu = perf_counter() - began, process_time() - cpu_began
        ratios.append(limit / seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        lines.append(
            f"{name}: {numbering.ends:,} ends in {seconds:.1f} s, {cpu:.1f} CPU s, "
            f"{cpu / numbering.ends * 1e9:.2f} ns an end, peak of the process {peak:.1f} GiB; "
            f"NashConv of uniform play {found.nash_conv:.9f}"
        )
    return Result(
        name="phantom_evaluation",
        work="values, best responses and NashConv of uniform play; " + "; ".join(lines),
        ours=min(ratios),
        peer=None,
        peer_name="",
        unit="limit / seconds",
        ratio=min(ratios),
        goal=1,
    )
