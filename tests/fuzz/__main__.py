"""Feed N damaged inputs to all fuzz targets, or one stored input again.

python -m tests.fuzz N SEED [TARGET ...]; python -m tests.fuzz --replay FILE ...; with --shrink FILE
it writes a smaller input with the same finding to tests/fuzz/cases.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from overtrick import startup

startup.prepare()  # before numpy and torch are imported

from tests.fuzz import inputs, pool, shrink, target  # noqa: E402
from tests.fuzz.inputs import Files  # noqa: E402
from tests.fuzz.target import Outcome  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402

CASES = Path(__file__).parent / "cases"
KEPT = Path(__file__).parents[2] / "build" / "fuzz"
SHOWN = 3  # findings of one kind that are printed and kept


def main() -> int:
    """Run the command; return its exit code, 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("inputs", nargs="?", type=int, default=1000, help="inputs in all")
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("targets", nargs="*", help="only these targets")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", default=[])
    parser.add_argument("--shrink", nargs="+", type=Path, metavar="FILE", default=[])
    parser.add_argument("--processes", type=int, default=pool.PROCESSES)
    asked = parser.parse_args()
    if asked.replay:
        return max(map(replay, asked.replay))
    for file in asked.shrink:
        name, files, _ = inputs.load(file)
        kept = shrink.smaller(TARGETS[name], files)
        inputs.save(CASES / file.name, name, kept, shrink.finding(TARGETS[name], kept))
        print(f"{CASES / file.name}: {sum(map(len, kept.values()))} bytes")
    if asked.shrink:
        return 0
    return fuzz(asked.inputs, asked.seed, asked.targets or list(TARGETS), asked.processes)


def fuzz(count: int, seed: int, names: list[str], processes: int) -> int:
    """Feed inputs to the targets with these names and print a table; return the exit code."""
    total = sum(TARGETS[name].weight for name in names)
    shares = {name: max(round(count * TARGETS[name].weight / total), 1) for name in names}
    batches = [
        pool.Batch(name, seed, first, min(pool.CHUNK, share - first))
        for name, share in shares.items()
        for first in range(0, share, pool.CHUNK)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    began = time.monotonic()

    def report(name: str, number: int, outcome: Outcome, files: Files | None) -> None:
        counts[name, outcome.status] += 1
        if outcome.status != "finding":
            return
        kind = name, outcome.text.partition(":")[0] + outcome.text.partition(".py:")[2][:24]
        kinds[kind] += 1
        if kinds[kind] <= SHOWN:
            file = KEPT / f"{name.replace(' ', '_')}-{seed}-{number}.json"
            assert files is not None
            inputs.save(file, name, files, outcome.text)
            print(f"{file.relative_to(Path.cwd())}: {outcome.text}", flush=True)

    pool.run(batches, report, processes)
    print(f"{'target':<24}{'inputs':>9}{'refused':>9}{'accepted':>9}{'findings':>9}")
    rows = [
        (name, *(counts[name, s] for s in ("refused", "accepted", "finding"))) for name in names
    ]
    rows.append(("all", *(sum(row[k] for row in rows) for k in (1, 2, 3))))
    for name, refused, accepted, found in rows:
        print(f"{name:<24}{refused + accepted + found:>9}{refused:>9}{accepted:>9}{found:>9}")
    print(f"seed {seed}, {time.monotonic() - began:.0f} s, {len(kinds)} kinds of findings")
    return int(rows[-1][3] > 0)


def replay(file: Path) -> int:
    """Feed a stored input again in this process and print the outcome; return 1 for a finding."""
    name, files, _ = inputs.load(file)
    outcome = target.feed(TARGETS[name], files)
    print(f"{file}: {name} {outcome.status} {outcome.text}")
    return int(outcome.status == "finding")


if __name__ == "__main__":
    sys.exit(main())
