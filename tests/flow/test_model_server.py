"""A registered model behind MLflow's model server answers as it plays."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rounding import assert_float32_close

import overtrick
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.serving import predictor
from overtrick.storage import model_files
from overtrick.tracking import mlflow_tracker

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
PATIENCE = 120  # seconds until a server must answer


def post(url: str, question: dict[str, Any]) -> list[dict[str, float]]:
    body = json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["predictions"]


@pytest.fixture
def server(store, tmp_path, game_and_tree, random_strategy, rng):
    """Return the address of a server of models:/served/1, and the folder of that model."""
    folder = tmp_path / "model"
    sigma = random_strategy(game_and_tree("leduc")[1], rng)
    job = {"trainer": "tests", "game": {"name": "leduc", "options": {}}}
    model_files.save(model_files.Model({"sigma": sigma}, "leduc", job), folder)
    tracker = mlflow_tracker.Tracker(store, "models", "served", tmp_path, {})
    tracker.model(folder, predictor.mlflow_description(folder), 1)
    tracker.register("served")
    assert tracker.close("FINISHED") == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = "mlflow models serve -m models:/served/1 --env-manager local --host 127.0.0.1"
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it looks for uvicorn
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(
            [sys.executable, "-m", *command.split(), "--port", str(port)],
            stdout=log, stderr=log, cwd=tmp_path,
            env={**os.environ, "PATH": here, "MLFLOW_TRACKING_URI": store}, start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(PATIENCE):
            assert serving.poll() is None, (tmp_path / "log").read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5).close()
                break
            except OSError:
                time.sleep(1)
        yield f"http://127.0.0.1:{port}", folder
    finally:
        os.killpg(serving.pid, signal.SIGTERM)  # also the server that it started
        serving.wait(30)


@pytest.mark.slow
def test_the_server_answers_as_the_model_plays(server):
    url, folder = server
    game = overtrick.make("leduc")
    observations = play(
        game, [UniformPolicy()] * 2, 40, np.random.default_rng(1)
    ).batch.observations()
    question = {
        "dataframe_split": {
            "columns": game.observation_fields,
            "data": observations.observation.tolist(),
        }
    }
    answers = post(f"{url}/invocations", question)
    rows = np.array([[row[name] for name in game.action_names] for row in answers])
    assert_float32_close(rows, model_files.policy(folder, game).probs(observations))
    page = re.search(r"-d '([^']+)' http://127.0.0.1:5001(/\w+)", PAGE.read_text())
    assert page is not None
    (one,) = post(url + page[2], json.loads(page[1]))
    assert sum(one.values()) == pytest.approx(1)
    question["dataframe_split"]["data"][0][0] = 9
    with pytest.raises(urllib.error.HTTPError) as wrong:
        post(f"{url}/invocations", question)
    assert wrong.value.code == 400
    assert "row 0: hole must be 0 to 2, not 9" in wrong.value.read().decode()
