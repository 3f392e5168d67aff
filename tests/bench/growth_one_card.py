"""Measure time and memory of CFR+ by the size of the tree: one-card poker with growing decks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure
from tests.bench.measure import Result

RANKS = (13, 50, 200, 800)
FIGURE = Path("build/growth.png")
ROUNDS, NODES_A_ROUND = 5, 2e7  # node visits of a measurement

ALONE = """
import json, resource, sys
from statistics import median
from overtrick import make, startup
startup.prepare()
from overtrick.solvers.cfr import CfrSolver
from overtrick.solvers.extensive.tree import build
from tests.bench.measure import seconds_of

def held():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

ranks, rounds, visits = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
CfrSolver(build(make("kuhn"))).run(1)
before = held()
whole = build(make("one_card", ranks=ranks))
solver, iterations = CfrSolver(whole), max(1, round(visits / whole.nodes))
solver.run(1)
seconds = median(seconds_of(lambda: solver.run(iterations)) for _ in range(rounds)) / iterations
print(json.dumps({"ranks": ranks, "nodes": whole.nodes, "ms": seconds * 1e3,
                  "mib": held() - before}))
"""


def run() -> Result:
    """Measure each size in its own process, so that its peak memory is its own."""
    rows = [measure_in_process(ranks) for ranks in RANKS]
    each = [row["ms"] * 1e6 / row["nodes"] for row in rows]  # ns per node
    sizes = "; ".join(
        f"{r['ranks']} ranks: {r['nodes']:,} nodes, {r['ms']:.3g} ms, {r['mib']:.0f} MiB"
        for r in rows
    )
    _draw(rows)
    return Result(
        name="growth_one_card",
        work=f"CFR+ on one_card, time of an iteration and peak memory above the start ({sizes}; "
        f"{FIGURE}); ours is the largest tree's time per node, peer the median of all sizes",
        ours=each[-1],
        peer=median(each),
        peer_name="itself",
        unit="ns/node",
        ratio=median(each) / each[-1],
        goal=0.5,
    )


def measure_in_process(ranks: int) -> dict[str, float]:
    command = [sys.executable, "-c", ALONE, str(ranks), str(ROUNDS), str(NODES_A_ROUND)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _draw(rows: list[dict[str, float]]) -> None:
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    nodes = [row["nodes"] for row in rows]
    labels = (("ms", "ms per iteration"), ("mib", "peak memory, MiB"))
    for axis, (key, label) in zip(figure.subplots(1, 2), labels, strict=True):
        last = rows[-1][key]
        axis.plot(nodes, [row[key] for row in rows], marker="o", label="CFR+ on one_card")
        axis.plot(nodes, [last * n / nodes[-1] for n in nodes], "k:", lw=1, label="linear")
        axis.set(xscale="log", yscale="log", xlabel="nodes of the tree", ylabel=label)
        axis.legend(fontsize=7)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
