"""Measure what it costs to store a run in a bucket instead of a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.bench.measure import Result, in_turns
from tests.bucket_server import BUCKET, bucket_server, client_settings, free_port

ITERATIONS, ROUNDS = 40, 3
JOB = ("jobs/leduc_meta.yaml", f"stop.iterations={ITERATIONS}", "workers=0")
COMMAND = [sys.executable, "-c", "from overtrick.cli import main; main()", "train", *JOB]
REQUEST = re.compile(r'"(PUT|GET|HEAD|POST|DELETE) (\S*)')


def run() -> Result:
    """Run the same command with a bucket and with a folder in turns, each after a first run.

    The bucket is moto's, on this machine, which takes some of its processors. The time is that of
    the whole command. The requests are those of the runs in the bucket, divided by the iterations.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, base = folder / "log", {**os.environ, "OVERTRICK_CACHE": str(folder / "cache")}
        base["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        on_disk = base | {"OVERTRICK_RUNS": str(folder / "runs")}
        in_bucket = base | client_settings(port) | {"OVERTRICK_RUNS": f"s3://{BUCKET}/runs"}
        with bucket_server(port, log):
            ours, peer = in_turns(lambda: _train(in_bucket), lambda: _train(on_disk), ROUNDS)
        counts = _requests(log)
    each = ", ".join(f"{kind} {n / ITERATIONS / (ROUNDS + 1):.2f}" for kind, n in counts.items())
    return Result(
        name="bucket_runs",
        work=f"overtrick train {' '.join(JOB)} (a checkpoint every 10 iterations); ours in a "
        f"bucket of moto on this machine, peer in a folder; requests an iteration: {each}; ratio = "
        "seconds with the folder / seconds with the bucket",
        ours=ours,
        peer=peer,
        peer_name="a local folder",
        unit="s",
        ratio=peer / ours,
        goal=1 / 1.1,
    )


def _train(environment: dict[str, str]) -> None:
    subprocess.run(COMMAND, env=environment, check=True, capture_output=True)


def _requests(log: Path) -> dict[str, int]:
    """Count the requests in the log of the server by kind."""
    counts: Counter[str] = Counter()
    for method, path in REQUEST.findall(log.read_text()):
        listing = method == "GET" and (path.endswith(f"/{BUCKET}") or "?" in path)
        counts["list" if listing else method.lower()] += 1
    return dict(sorted(counts.items()))
