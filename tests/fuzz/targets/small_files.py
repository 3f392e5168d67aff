"""Targets: state files of sweeps and comparisons, and small files beside models and in caches."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target

from overtrick.comparison import runner
from overtrick.config.job_file import GameChoice
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import cardplay
from overtrick.games.poker.holdem import hand_percentile
from overtrick.storage import job_inputs, locate, parquet
from overtrick.sweeps import asha, pbt
from overtrick.tracking import mlflow_tracker, server_address

BOARDS = 3  # rows of the table of percentiles
DEALS = 5  # deals that are solved double dummy
CREDENTIALS = ".mlflow/credentials"
ORIGIN = {"model": "models:/x/1", "sha256": dict.fromkeys(locate.FILES, "0" * 64)}
CELL = {"stranger": "random", "steps": [1.0, 2.0], "standard_error": [0.0, 0.0],
        "best_response": 2.0, "share": 1.0}  # fmt: skip
ROUNDS = [
    [{"copied": None, "values": {"meta.discount": value}} for value in (0.5, 1.0)],
    [{"copied": copied, "values": {"meta.discount": 0.6}} for copied in (None, 0)],
]
DECISIONS = [{"trial": trial, "iteration": 1, "score": trial / 2} for trial in range(4)]
ABOUT = """
artifact_path: model
flavors: {python_function: {loader_module: loader}}
metadata: {overtrick: {format: 1, version: '0.1', sha256: {model.json: '0', weights: '1'}}}
model_uuid: m-0
utc_time_created: '2026-01-01 00:00:00.000000'
"""


def states() -> list[Files]:
    """Return the state of a sweep by PBT, of one by ASHA, and stored evaluations."""
    lines = "".join(f"{json.dumps(each)}\n" for each in DECISIONS)
    return [
        {pbt.SCHEDULE: json.dumps(ROUNDS).encode()},
        {"decisions.jsonl": lines.encode()},
        {f"{runner.CELLS}/{k}.json": json.dumps(CELL).encode() for k in range(2)},
    ]


def read_state(folder: Path) -> None:
    """Read the state of a sweep or comparison as `resume` does."""
    if (folder / pbt.SCHEDULE).exists():
        first = [entry["values"] for entry in ROUNDS[0]]
        rounds = pbt.read_rounds(folder / pbt.SCHEDULE, first, len(ROUNDS))
        json.dumps([pbt.trial_schedule(rounds, trial, 2) for trial in range(len(ROUNDS[0]))])
    asha.Asha(folder / "decisions.jsonl", 1, 2, 100, lambda _: None).stopped_at()
    cells = sorted((folder / runner.CELLS).glob("*.json"))
    rows = runner.read_cells([(("ours", 0), file) for file in cells], "delete it")
    np.mean([row["steps"] for row in rows] or [0], axis=0)


def small_files() -> list[Files]:
    """Return files that lie beside a model or in a cache, and MLflow's file of credentials."""
    table, out = np.ones((BOARDS, hand_percentile.HOLDINGS), np.uint16), io.BytesIO()
    np.save(out, table)
    made_with = {"strain": "notrump", "seed": 0, "deals": DEALS}
    solved = Path("solved.parquet")
    parquet.save(solved, cardplay.DOUBLE_DUMMY, made_with, {"tricks": np.arange(DEALS)})
    account = "[mlflow]\nmlflow_tracking_username = a\nmlflow_tracking_password = b\n"
    return [
        {f"model/{locate.ORIGIN}": json.dumps(ORIGIN).encode()},
        {"MLmodel.yaml": ABOUT.encode()},
        {"table.npy": out.getvalue()},
        {f"minibridge-notrump-0-{DEALS}.parquet": solved.read_bytes()},
        {CREDENTIALS: account.encode()},
    ]


def read_small_file(folder: Path) -> None:
    """Read the file of an input as the commands do that meet it."""
    job_inputs.model_inputs({"opponents": [str(folder / "model")]})
    if (folder / "table.npy").exists():
        hand_percentile._read(folder / "table.npy", BOARDS)
    if list(folder.glob("*.parquet")):
        game = GameChoice(name="minibridge", options={})
        cardplay.double_dummy_share(game, str(folder), DEALS, 0, LocalPool())
    os.environ["HOME"] = str(folder)
    server_address._credentials()
    if (folder / "MLmodel.yaml").exists():
        before, mlflow_tracker.fetch = mlflow_tracker.fetch, lambda *_: folder / "MLmodel.yaml"
        try:
            locate._metadata("sqlite:///m.db", "l", "models:/x/1", folder)
        finally:
            mlflow_tracker.fetch = before


TARGETS = (
    Target("state of many runs", states, read_state, 4),
    Target("small files", small_files, read_small_file, 6, {".parquet": cardplay.DOUBLE_DUMMY}),
)
