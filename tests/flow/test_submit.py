"""Jobs on a running cluster: sent, followed, listed, stopped; or why that cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import head
import outside
import pytest
import yaml
from mlflow import MlflowClient

from overtrick import cli, config, environment, model, submit
from overtrick.core import Refused
from overtrick.trainers import JOBS, TRAINERS
from overtrick.workers import LocalCrew

JOB: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 3},
    "coevolve": {"generations": 2},
}
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with head.started(cpus=4, token=os.environ[head.TOKEN]) as found:
        yield found


@pytest.fixture
def overtrick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command in a folder with a job; its exit code, its last line, all that it printed."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "MADE_UP", set())  # the head has the token of these tests
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "shared"))
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        monkeypatch.setattr(sys, "argv", ["overtrick", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        last = out.splitlines()[-1] if "--json" in arguments else "{}"
        return int(stop.value.code or 0), json.loads(last), out + err

    return run


def sent(overtrick: Any, address: str, *arguments: str) -> str:
    """The id of a job that was sent and is not waited for."""
    code, told, _ = overtrick("submit", "job.yaml", "--address", address, "--json", *arguments)
    assert code == 0
    return str(told["id"])


def test_a_job_runs_there_as_it_would_here(overtrick: Any, address: str, tmp_path: Path) -> None:
    at = ("--address", address)
    code, told, said = overtrick("submit", "job.yaml", *at, "--follow", "--json", "seed=3")
    assert code == 0, said
    assert told["exit_code"] == 0
    assert "3/3" in said
    # what came of it is what would have come of it here
    (place,) = (tmp_path / "shared").glob("job-*/model")
    job = config.parse({**JOB, "seed": 3}, JOBS, "job")
    trainer = TRAINERS["coevolve"].trainer(job, LocalCrew())
    for _ in range(3):
        trainer.step()
    assert (model.load(place).weights["sigma"] == trainer.model()["sigma"]).all()
    client = MlflowClient(f"sqlite:///{tmp_path}/shared/mlflow.db")
    experiment = client.get_experiment_by_name("overtrick").experiment_id
    (found,) = client.search_runs([experiment], f"attributes.run_name = '{place.parent.name}'")
    assert found.info.status == "FINISHED"
    assert found.data.tags["overtrick.version"]
    _, listed, shown = overtrick("jobs", *at, "--json")
    (each,) = listed["jobs"]
    assert (each["id"], each["job"], each["status"], each["exit_code"]) == (
        told["id"], "train job", "SUCCEEDED", 0,
    )  # fmt: skip
    # nothing secret went along
    there = submit.Cluster(address)
    everything = shown + "".join(map(str, there._client.list_jobs())) + there.log(told["id"])
    assert SECRET not in everything
    assert os.environ[head.TOKEN] not in everything
    with pytest.raises(Refused, match=f"no job 'raysubmit_no' at {address}: `overtrick jobs`"):
        there.log("raysubmit_no")


@pytest.mark.slow
def test_jobs_fail_and_stop_there_as_they_would_here(
    overtrick: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--address", address)
    long = sent(overtrick, address, "stop.iterations=100000")
    wide = sent(overtrick, address, "workers=50")
    # one that can never fit says so and carries its exit code
    code, _, said = overtrick("logs", wide, *at, "--follow")
    assert code == 2
    assert "error: the job asks for 51 CPU and the cluster has 4: lower 'workers'" in said
    # whoever stops looking does not stop the job
    there = submit.Cluster(address)
    while "training" not in (said := there.log(long)) and "1/" not in said:
        assert there.job(long).status in ("PENDING", "RUNNING"), said
        time.sleep(0.2)

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(submit.Cluster, "_tail", ctrl_c)
        code, _, said = overtrick("logs", long, *at, "--follow")
    assert code == cli.INTERRUPTED
    assert f"{long} goes on. To see more: overtrick logs {long} --address {address} --foll" in said
    assert there.job(long).status == "RUNNING"
    code, told, _ = overtrick("stop", long, *at, "--json")
    assert (code, told) == (0, {"id": long, "status": "STOPPED"})
    assert "stopped; `overtrick resume RUN` goes on from the last checkpoint" in there.log(long)
    assert there.follow(long, lambda text: None) == submit.STOPPED
    _, told, _ = overtrick("jobs", *at, "--json")
    listed = {each["id"]: (each["job"], each["status"], each["exit_code"]) for each in told["jobs"]}
    assert listed[wide] == ("train job", "FAILED", 2)
    assert listed[long][:2] == ("train job", "STOPPED")


def test_a_log_goes_on_where_it_was_when_the_connection_broke(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = submit.Cluster(address)
    job = there.jobs()[0].id
    tail, breaks = there._client.tail_job_logs, iter((3, 5, None))

    async def fragile(submission: str) -> AsyncIterator[str]:
        left = next(breaks)
        async for text in tail(submission):
            for line in text.splitlines(keepends=True):
                if left == 0:
                    raise RuntimeError("WebSocket connection closed unexpectedly")
                yield line
                left = None if left is None else left - 1

    monkeypatch.setattr(there._client, "tail_job_logs", fragile)
    statuses = iter(("RUNNING", "RUNNING"))
    known = there.job

    def not_yet(submission: str) -> submit.Listed:
        found = known(submission)
        status = next(statuses, found.status)
        return submit.Listed(job, "", status, found.start, found.seconds, found.exit_code)

    monkeypatch.setattr(there, "job", not_yet)
    shown: list[str] = []
    there.follow(job, shown.append)
    assert "".join(shown) == there.log(job)


@pytest.mark.parametrize(
    ("token", "said"),
    [({head.TOKEN: "wrong-token"}, "does not take this token"), ({}, "asks for a token")],
)
def test_a_missing_or_wrong_token_is_told_apart(
    address: str, token: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overtrick", "jobs", "--address", address],
        env=outside.environment() | token, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the cluster at {address} {said}: set RAY_AUTH_MODE=token and")


def test_another_version_of_ray_on_the_head_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "version", lambda name: "2.1.0")
    with pytest.raises(Refused, match=r"runs Ray \d+\.\d+\.\d+ and this machine 2\.1\.0: install"):
        submit.Cluster(address)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("coevolve.stepp=1",), "unknown key 'coevolve.stepp' in job.yaml: did you mean"),
        (("--address", ""), "where is the cluster? --address http://HEAD:8265"),
        (
            ("--address", "HEAD:8265"),
            "--address HEAD:8265: must be that of the cluster's dashboard",
        ),
        (("--runs", "runs"), "--runs 'runs': name the folder where the cluster keeps runs"),
        (("--sweep",), "job.yaml has no search"),
        (("track.uri=http://me:secret@mlflow",), "leave the password out"),
        (("--resume", "job-1"), "submit needs a job file, or --resume RUN"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(
    overtrick: Any, arguments: tuple[str, ...], said: str
) -> None:
    port = head.free_ports(1)[0]
    at = () if "--address" in arguments else ("--address", f"http://127.0.0.1:{port}")
    code, told, shown = overtrick("submit", "job.yaml", *arguments, *at, "--json")
    assert code == 2
    assert said in told["error"]
    assert "secret" not in shown


def test_where_no_cluster_answers_is_told(overtrick: Any) -> None:
    nowhere = f"http://127.0.0.1:{head.free_ports(1)[0]}"
    code, _, said = overtrick("submit", "job.yaml", "--address", nowhere)
    assert code == 2
    assert f"no Ray cluster answers at {nowhere} (ConnectionError): start one" in said


def order(job: dict[str, Any]) -> submit.Order:
    return submit.Order("train", "job", job, "/shared/runs", {})


def test_the_files_that_a_job_names_travel_with_it_and_stay(tmp_path: Path) -> None:
    named = tmp_path / "given" / "model"
    named.mkdir(parents=True)
    (named / "weights").write_bytes(b"w" * 100)
    packed = tmp_path / "packed"
    packed.mkdir()
    entry = submit._packed(order({"a": {"b": [str(named), "call", str(named)]}}), packed)
    shipped = json.loads((packed / "job.yaml").read_text())
    there, stranger, again = shipped["a"]["b"]
    assert stranger == "call"
    assert there == again
    assert there.startswith("/shared/runs/.files/")
    assert (packed / "files" / Path(there).relative_to("/shared/runs/.files") / "weights").exists()
    assert entry.startswith(
        "mkdir -p /shared/runs/.files && cp -r files/. /shared/runs/.files/ && "
    )
    assert entry.endswith('mlflow.db}" && exec python -m overtrick train job.yaml')


def test_a_file_too_large_to_travel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deals.parquet").write_bytes(b"x" * 2**20)
    monkeypatch.setattr(submit, "LARGEST", 2**19)
    job = {"deals": str(tmp_path / "deals.parquet")}
    with pytest.raises(Refused, match=r"are 1 MiB, .*deals.parquet the largest.*--files-there"):
        submit._packed(order(job), tmp_path)
