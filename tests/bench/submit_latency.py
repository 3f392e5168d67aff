"""Measure the time from `overtrick cluster submit` to the record of the job's first iteration."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.measure import Result
from tests.flow import command_process, ray_head

JOB = "jobs/coevolve_kuhn.yaml"
ROUNDS = 3  # after a first submission, which starts the cluster's processes
GOAL = 15.0  # seconds


def run() -> Result:
    """Submit the same job repeatedly on an idle cluster; stop each when its first iteration has
    been written to the run's folder."""
    token = secrets.token_hex(16)
    started = ray_head.started(cpus=2, token=token, environment=command_process.environment())
    with started as address, tempfile.TemporaryDirectory() as runs:
        seconds = [_first_metric(address, token, Path(runs)) for _ in range(ROUNDS + 1)][1:]
    return Result(
        name="submit_latency",
        work=f"from `overtrick cluster submit {JOB}` to the record of its first iteration, "
        f"on a cluster on this machine; median of {ROUNDS}; ratio = {GOAL:g} s / seconds",
        ours=median(seconds),
        peer=None,
        peer_name="",
        unit="s",
        ratio=GOAL / median(seconds),
        goal=1.0,
    )


def _first_metric(address: str, token: str, runs: Path) -> float:
    """Return the seconds from the command to the timestamp of the job's first iteration."""
    environment = {**command_process.environment(), "RAY_AUTH_MODE": "token", ray_head.TOKEN: token}
    known = set(runs.glob("*/track.jsonl"))

    def cluster(command: str, *arguments: str) -> str:
        call = [sys.executable, "-m", "overtrick", "cluster", command, *arguments]
        call += ["--address", address]
        done = subprocess.run(
            [*call, "--json"], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return str(json.loads(done.stdout)["id"])

    began = time.time()
    submission = cluster("submit", JOB, "--runs", str(runs), "stop.iterations=1000000")
    while True:
        for record in set(runs.glob("*/track.jsonl")) - known:
            for line in record.read_text().splitlines(keepends=True):
                if line.endswith("\n") and "metrics" in (event := json.loads(line)):
                    cluster("stop", submission)
                    return float(event["time"]) / 1000 - began
        assert time.time() - began < 300, "no iteration was recorded"
        time.sleep(0.1)
