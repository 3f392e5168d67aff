"""Fuzz target: values of environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.fuzz.inputs import Files
from tests.fuzz.target import Target

from overtrick.core import UserError
from overtrick.distributed import placement
from overtrick.games import registry
from overtrick.games.sumo import agent_zoo
from overtrick.storage import locate
from overtrick.tracking import server_address


def environment_values() -> list[Files]:
    """Return names and values of environment variables."""
    found = (
        ("OVERTRICK_MACHINES", "20x16CPU,4x8CPU+1GPU"), ("OVERTRICK_RUNS", "/tmp/runs"),
        ("OVERTRICK_RUNS", "s3://bucket/runs"), ("MLFLOW_TRACKING_URI", "sqlite:///m.db"),
        ("MLFLOW_TRACKING_URI", "http://localhost:5000"), ("OVERTRICK_MACHINES", "2x4CPU"),
        ("RAY_ADDRESS", "127.0.0.1:1"), ("OVERTRICK_ZOO", "/tmp/zoo"),
    )  # fmt: skip
    return [{"name.txt": name.encode(), "value.txt": value.encode()} for name, value in found]


def read_environment(folder: Path) -> None:
    """Set an environment variable, and call the functions that read such variables."""
    name, value = (
        (folder / each).read_text(errors="surrogateescape").replace("\0", "")
        if (folder / each).exists() else ""
        for each in ("name.txt", "value.txt")
    )  # fmt: skip
    for variable in ("OVERTRICK_RUNS", "MLFLOW_TRACKING_URI", "OVERTRICK_ZOO", "OVERTRICK_CACHE"):
        if variable in name:
            os.environ[variable] = value
    readers: tuple[Any, ...] = (
        lambda: placement.with_autoscaler_nodes([{"CPU": 4.0}], value),
        locate.runs_folder,
        locate.run_names,
        server_address.default,
        lambda: server_address.check(server_address.default()) if "sqlite" in value else None,
        lambda: registry.make("sumo"),
        lambda: agent_zoo.load("zoo:mlp1", os.environ.get("OVERTRICK_ZOO")),
    )
    for read in readers:
        try:
            read()
        except UserError as error:
            if len(str(error).splitlines()) != 1:
                raise


TARGETS = (Target("environment", environment_values, read_environment, 5),)
