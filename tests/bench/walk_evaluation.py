"""Measure the exact evaluation of uniform play in games evaluated by walks, on two cores."""

from __future__ import annotations

import resource
from time import perf_counter, process_time

from tests.bench.measure import Result

from overtrick import make
from overtrick.solvers.walks import exact_evaluation
from overtrick.solvers.walks.make_walk import make_walk

# seconds that an evaluation may take, once the information sets are indexed; in the order of memory
LIMITS = {
    "phantom_ttt": 150,
    "dark_hex_3": 150,
    "goofspiel": 150,
    "abrupt_phantom_ttt": 210,
    "abrupt_dark_hex_3": 240,
}
THREADS = 2


def run() -> Result:
    """Evaluate each game; the ratio is the smallest of limit / seconds."""
    lines, ratios = [], []
    for name, limit in LIMITS.items():
        walk = make_walk(make(name))
        first, second = map(exact_evaluation.uniform, walk.views)
        began, cpu_began = perf_counter(), process_time()
        found = exact_evaluation.evaluate(walk, (first, second), THREADS)
        seconds, cpu = perf_counter() - began, process_time() - cpu_began
        ratios.append(limit / seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        lines.append(
            f"{name}: {walk.ends:,} ends in {seconds:.1f} s, {cpu:.1f} CPU s, "
            f"{cpu / walk.ends * 1e9:.2f} ns an end, peak of the process {peak:.1f} GiB; "
            f"NashConv of uniform play {found.nash_conv:.9f}"
        )
    return Result(
        name="walk_evaluation",
        work="values, best responses and NashConv of uniform play; " + "; ".join(lines),
        ours=min(ratios),
        peer=None,
        peer_name="",
        unit="limit / seconds",
        ratio=min(ratios),
        goal=1,
    )
