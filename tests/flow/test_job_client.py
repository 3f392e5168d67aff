"""Jobs on a running cluster: sent, followed, listed, stopped; or why that cannot be."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import head
import outside
import pytest
import yaml
from mlflow import MlflowClient

from overtrick import cli, startup
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed import job_client, job_package
from overtrick.distributed.workers import LocalPool
from overtrick.storage import model_files
from overtrick.training.registry import JOBS, TRAINERS

JOB: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 3},
    "coevolve": {"generations": 2},
}
SECRET = "hunter2-hunter2"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with head.started(4, os.environ[head.TOKEN], outside.environment()) as found:
        yield found


@pytest.fixture
def overtrick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command in a folder with a job; its exit code, its last line, all that it printed."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "GENERATED", set())  # the head has the token of these tests
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
    code, told, _ = overtrick(
        "cluster", "submit", "job.yaml", "--address", address, "--json", *arguments
    )
    assert code == 0
    return str(told["id"])


def test_a_job_runs_there_as_it_would_here(overtrick: Any, address: str, tmp_path: Path) -> None:
    at = ("--address", address)
    code, told, said = overtrick(
        "cluster", "submit", "job.yaml", *at, "--follow", "--json", "seed=3"
    )
    assert code == 0, said
    assert told["exit_code"] == 0
    assert "3/3" in said
    # what came of it is what would have come of it here
    (place,) = (tmp_path / "shared").glob("job-*/model")
    job = job_file.parse({**JOB, "seed": 3}, JOBS, "job")
    trainer = TRAINERS["coevolve"].trainer(job, LocalPool())
    for _ in range(3):
        trainer.step()
    assert (model_files.load(place).weights["sigma"] == trainer.model()["sigma"]).all()
    client = MlflowClient(f"sqlite:///{tmp_path}/shared/mlflow.db")
    experiment = client.get_experiment_by_name("overtrick").experiment_id
    (found,) = client.search_runs([experiment], f"attributes.run_name = '{place.parent.name}'")
    assert found.info.status == "FINISHED"
    assert found.data.tags["overtrick.version"]
    _, listed, shown = overtrick("cluster", "jobs", *at, "--json")
    (each,) = listed["jobs"]
    assert (each["id"], each["job"], each["status"], each["exit_code"]) == (
        told["id"], "train job", "SUCCEEDED", 0,
    )  # fmt: skip
    # nothing secret went along
    there = job_client.Cluster(address)
    everything = shown + "".join(map(str, there._client.list_jobs())) + there.log(told["id"])
    assert SECRET not in everything
    assert os.environ[head.TOKEN] not in everything
    with pytest.raises(
        UserError, match=f"no job 'raysubmit_no' at {address}: `overtrick cluster jobs`"
    ):
        there.log("raysubmit_no")


@pytest.mark.slow
def test_jobs_fail_and_stop_there_as_they_would_here(
    overtrick: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--address", address)
    long = sent(overtrick, address, "stop.iterations=100000")
    wide = sent(overtrick, address, "workers=50")
    # one that can never fit says so and carries its exit code
    code, _, said = overtrick("cluster", "logs", wide, *at, "--follow")
    assert code == 2
    assert "error: the job asks for 51 CPU and the cluster has 4: lower 'workers'" in said
    # whoever stops looking does not stop the job
    there = job_client.Cluster(address)
    while "training" not in (said := there.log(long)) and "1/" not in said:
        assert there.job(long).status in ("PENDING", "RUNNING"), said
        time.sleep(0.2)

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job_client.Cluster, "_tail", ctrl_c)
        code, _, said = overtrick("cluster", "logs", long, *at, "--follow")
    assert code == cli.INTERRUPTED
    assert (
        f"{long} continues. To see more: overtrick cluster logs {long} --address {address} --foll"
        in said
    )
    assert there.job(long).status == "RUNNING"
    code, told, _ = overtrick("cluster", "stop", long, *at, "--json")
    assert (code, told) == (0, {"id": long, "status": "STOPPED"})
    assert "stopped; `overtrick resume RUN` continues it" in there.log(long)
    assert there.follow(long, lambda text: None) == job_client.STOPPED
    _, told, _ = overtrick("cluster", "jobs", *at, "--json")
    listed = {each["id"]: (each["job"], each["status"], each["exit_code"]) for each in told["jobs"]}
    assert listed[wide] == ("train job", "FAILED", 2)
    assert listed[long][:2] == ("train job", "STOPPED")


def test_a_log_goes_on_where_it_was_when_the_connection_broke(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = job_client.Cluster(address)
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

    def not_yet(submission: str) -> job_client.SubmittedJob:
        found = known(submission)
        status = next(statuses, found.status)
        return job_client.SubmittedJob(job, "", status, found.start, found.seconds, found.exit_code)

    monkeypatch.setattr(there, "job", not_yet)
    shown: list[str] = []
    there.follow(job, shown.append)
    assert "".join(shown) == there.log(job)


JOBS_PAGE = "/api/jobs/x"
DETAILS = {"type": "SUBMISSION", "entrypoint": "work", "submission_id": "x"}
OVER = {**DETAILS, "status": "SUCCEEDED", "driver_exit_code": 0}
LOG = "first line\nlast line\n"
SILENT = object()
WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@pytest.fixture
def blinking() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The address of a cluster behind a network that blinks, and what it answers to each question
    in turn: the page that is asked for; a status, data, None for a connection that breaks, SILENT
    for one that never says a word, or the last words of a websocket that stays open."""
    answers: list[tuple[str, Any]] = []
    done = threading.Event()

    class Cluster(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page, answer = answers.pop(0) if len(answers) > 1 else answers[0]
            assert self.path == page
            if answer is None:
                return
            if answer is SILENT:
                done.wait()
                return
            if isinstance(answer, str):
                self.say(answer)
                done.wait()
                return
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            if not isinstance(answer, int):
                self.wfile.write(json.dumps(answer).encode())

        def say(self, words: str) -> None:
            key = (self.headers["Sec-WebSocket-Key"] + WEBSOCKET).encode()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            accepted = base64.b64encode(hashlib.sha1(key).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accepted)
            self.end_headers()
            self.wfile.write(bytes([0x81, len(words)]) + words.encode())  # one frame of text

        def log_message(self, *_: object) -> None:
            """Nothing to be told."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cluster) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers.append(("/api/version", {"ray_version": version("ray")}))
        yield f"http://127.0.0.1:{server.server_port}", answers
        done.set()
        server.shutdown()


def test_a_network_that_blinks_does_not_end_the_looking(
    blinking: tuple[str, list[tuple[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where, answers = blinking
    there = job_client.Cluster(where)
    monkeypatch.setattr(job_client, "POLL_INTERVAL", 0.01)
    tail, log = f"{JOBS_PAGE}/logs/tail", f"{JOBS_PAGE}/logs"
    answers[:] = [
        (tail, None), (JOBS_PAGE, None), (JOBS_PAGE, 502),
        (JOBS_PAGE, {**OVER, "status": "RUNNING"}), (tail, 502), (JOBS_PAGE, None),
        (JOBS_PAGE, OVER), (log, 503), (log, None), (log, {"logs": LOG}), ("/the end", None),
    ]  # fmt: skip
    shown: list[str] = []
    assert there.follow("x", shown.append) == 0
    assert "".join(shown) == LOG
    assert answers == [("/the end", None)]
    assert len(caplog.messages) == 3  # each time that nobody answers is told once
    # it does not wait for ever, and not at all for what no waiting mends
    monkeypatch.setattr(job_client, "MAX_OUTAGE", 0.1)
    answers[:] = [(tail, None), (JOBS_PAGE, None)]
    with pytest.raises(UserError, match=f"no Ray cluster answers at {where}"):
        there.follow("x", shown.append)
    caplog.clear()
    answers[:] = [(tail, None), (JOBS_PAGE, 404)]
    with pytest.raises(UserError, match="status code 404"):
        there.follow("x", shown.append)
    assert caplog.messages == []


def test_a_network_that_vanishes_without_a_word_is_noticed(
    blinking: tuple[str, list[tuple[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where, answers = blinking
    there = job_client.Cluster(where)
    monkeypatch.setattr(job_client, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(job_client, "SILENCE", 0.5)
    tail, log, going = f"{JOBS_PAGE}/logs/tail", f"{JOBS_PAGE}/logs", {**OVER, "status": "RUNNING"}
    first, _ = LOG.splitlines(keepends=True)
    answers[:] = [
        (tail, first),
        (JOBS_PAGE, going), (log, {"logs": first}),  # there is nothing more to hear yet
        (JOBS_PAGE, going), (log, {"logs": LOG}), (JOBS_PAGE, going),  # and now there is
        (tail, SILENT), (JOBS_PAGE, SILENT), (JOBS_PAGE, SILENT), (JOBS_PAGE, OVER),
        (log, {"logs": LOG}), ("/the end", None),
    ]  # fmt: skip
    shown: list[str] = []
    assert there.follow("x", shown.append) == 0
    assert "".join(shown) == LOG
    assert answers == [("/the end", None)]
    assert len(caplog.messages) == 1
    monkeypatch.setattr(job_client, "MAX_OUTAGE", 0.1)
    answers[:] = [(tail, SILENT), (JOBS_PAGE, SILENT)]
    with pytest.raises(
        UserError, match=rf"no Ray cluster answers at {where} \(ReadTimeout\): start"
    ):
        there.follow("x", shown.append)


@pytest.mark.parametrize(
    ("token", "said"),
    [({head.TOKEN: "wrong-token"}, "rejects this token"), ({}, "asks for a token")],
)
def test_a_missing_or_wrong_token_is_told_apart(
    address: str, token: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overtrick", "cluster", "jobs", "--address", address],
        env=outside.environment() | token, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the cluster at {address} {said}: set RAY_AUTH_MODE=token and")


def test_another_version_of_ray_on_the_head_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_client, "version", lambda name: "2.1.0")
    with pytest.raises(
        UserError, match=r"runs Ray \d+\.\d+\.\d+ and this machine 2\.1\.0: install"
    ):
        job_client.Cluster(address)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("coevolve.stepp=1",), "unknown key 'coevolve.stepp' in job.yaml: did you mean"),
        (("--address", ""), "name the cluster by --address http://HEAD:8265"),
        (
            ("--address", "HEAD:8265"),
            "--address HEAD:8265: must be that of the cluster's dashboard",
        ),
        (("--runs", "runs"), "--runs 'runs': name the folder where the cluster keeps runs"),
        (("--sweep",), "job.yaml has no search"),
        (("track.uri=http://me:secret@mlflow",), "leave the password out"),
        (("track.uri=http://me:sec/secret@mlflow",), "leave the password out"),
        (("track.uri=postgresql://me:secret@db",), "'track.uri' in job.yaml: must be sqlite:///"),
        (("--resume", "job-1"), "submit needs a job file, or --resume RUN"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(
    overtrick: Any, arguments: tuple[str, ...], said: str
) -> None:
    port = head.free_ports(1)[0]
    at = () if "--address" in arguments else ("--address", f"http://127.0.0.1:{port}")
    code, told, shown = overtrick("cluster", "submit", "job.yaml", *arguments, *at, "--json")
    assert code == 2
    assert said in told["error"]
    assert "secret" not in shown


def test_where_no_cluster_answers_is_told(overtrick: Any) -> None:
    nowhere = f"http://127.0.0.1:{head.free_ports(1)[0]}"
    code, _, said = overtrick("cluster", "submit", "job.yaml", "--address", nowhere)
    assert code == 2
    assert f"no Ray cluster answers at {nowhere} (ConnectionError): start one" in said


PRINTED = {
    f"{path.stem} {k}": command
    for path in [*(ROOT / "cluster").rglob("*.yaml"), *ROOT.glob("docker/*.yaml")]
    for k, command in enumerate(
        re.findall(r"^# +(overtrick cluster submit .*)", path.read_text(), re.M)
    )
}


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_what_the_files_of_clusters_say_to_submit_is_sent(
    overtrick: Any, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("OVERTRICK_RUNS")
    nowhere = f"http://127.0.0.1:{head.free_ports(1)[0]}"
    command = re.sub(r"http://127.0.0.1:8265\b", nowhere, printed)
    assert command != printed
    code, _, said = overtrick(*shlex.split(command)[1:])
    assert code == 2
    assert f"error: no Ray cluster answers at {nowhere}" in said  # so all else is well


def test_the_files_of_clusters_say_what_to_submit() -> None:
    assert {name.split()[0] for name in PRINTED} >= {"aws", "onpremise", "raycluster"}


def running(entry: str, tmp_path: Path, **environment: str) -> tuple[int, str]:
    """The exit code and all that is said where a cluster runs an entry point."""
    python = tmp_path / "bin" / "python"  # that of the cluster, which tells what it is to do
    python.parent.mkdir(exist_ok=True)
    python.write_text('#!/bin/sh\necho "$OVERTRICK_RUNS $MLFLOW_TRACKING_URI $*"\n')
    python.chmod(0o755)
    known = {"PATH": f"{python.parent}:/usr/bin:/bin", **environment}
    done = subprocess.run(
        ["/bin/sh", "-c", entry], env=known, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("job", [{}, None])
def test_runs_are_kept_where_the_cluster_keeps_its_own_if_nobody_says_where(
    tmp_path: Path, job: dict[str, Any] | None
) -> None:
    ours = job_package.pack(job_package.ClusterTask("train", "job", job, "", {}), tmp_path)
    runs = f"{tmp_path}/its own runs"
    code, said = running(ours, tmp_path, OVERTRICK_RUNS=runs)
    assert code == 0
    what = "job" if job is None else "job.yaml"
    assert said == f"{runs} sqlite:///{runs}/mlflow.db -m overtrick train {what}\n"
    assert Path(runs).is_dir()
    _, said = running(ours, tmp_path, OVERTRICK_RUNS=runs, MLFLOW_TRACKING_URI="http://mlflow:5000")
    assert said.startswith(f"{runs} http://mlflow:5000 -m")
    for none in ({}, {"OVERTRICK_RUNS": ""}, {"OVERTRICK_RUNS": "runs"}):
        code, said = running(ours, tmp_path, **none)
        assert code == 2
        assert said.startswith("error: the folder of runs on this cluster is unknown: name an abs")
        assert said.count("\n") == 1


def test_files_that_travel_want_the_folder_of_runs_named(tmp_path: Path) -> None:
    (tmp_path / "deals.parquet").touch()
    job = {"deals": str(tmp_path / "deals.parquet")}
    with pytest.raises(
        UserError, match=r"job names .*deals.parquet, which is stored with .* by --run"
    ):
        job_package.pack(job_package.ClusterTask("train", "job", job, "", {}), tmp_path)


def order(job: dict[str, Any]) -> job_package.ClusterTask:
    return job_package.ClusterTask("train", "job", job, "/shared/runs", {})


def test_the_files_that_a_job_names_travel_with_it_and_stay(tmp_path: Path) -> None:
    named = tmp_path / "given" / "model"
    named.mkdir(parents=True)
    (named / "weights").write_bytes(b"w" * 100)
    packed = tmp_path / "packed"
    packed.mkdir()
    entry = job_package.pack(order({"a": {"b": [str(named), "call", str(named)]}}), packed)
    shipped = json.loads((packed / "job.yaml").read_text())
    there, stranger, again = shipped["a"]["b"]
    assert stranger == "call"
    assert there == again
    assert there.startswith("/shared/runs/.files/")
    assert (packed / "files" / Path(there).relative_to("/shared/runs/.files") / "weights").exists()
    # and lie there before the job begins
    runs = tmp_path / "runs"
    code, said = running(entry, packed, OVERTRICK_RUNS=str(runs))
    assert code == 0
    assert said.endswith("-m overtrick train job.yaml\n")
    assert (runs / Path(there).relative_to("/shared/runs") / "weights").read_bytes() == b"w" * 100


def test_a_file_too_large_to_travel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deals.parquet").write_bytes(b"x" * 2**20)
    monkeypatch.setattr(job_package, "MAX_SIZE", 2**19)
    job = {"deals": str(tmp_path / "deals.parquet")}
    with pytest.raises(UserError, match=r"are 1 MiB, .*deals.parquet the largest.*--files-there"):
        job_package.pack(order(job), tmp_path)
