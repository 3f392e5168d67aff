"""Jobs on a running cluster: submit, follow, list and stop them, and the errors of each."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import command_process
import pytest
import ray_head
import yaml
from mlflow import MlflowClient

from overtrick import cli
from overtrick.config import job_file
from overtrick.core import RunError, UserError
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
    with ray_head.started(4, os.environ[ray_head.TOKEN], command_process.environment()) as found:
        yield found


@pytest.fixture
def overtrick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs a command in a folder with a job and returns its exit code, its
    JSON answer and all output."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    monkeypatch.chdir(tmp_path)
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


def submit(overtrick: Any, address: str, *arguments: str) -> str:
    """Submit a job without waiting for it and return its id."""
    code, reply, _ = overtrick(
        "cluster", "submit", "job.yaml", "--address", address, "--json", *arguments
    )
    assert code == 0
    return str(reply["id"])


def test_a_job_on_the_cluster_gives_the_result_of_this_machine(
    overtrick: Any, address: str, tmp_path: Path
) -> None:
    at = ("--address", address)
    code, reply, output = overtrick(
        "cluster", "submit", "job.yaml", *at, "--follow", "--json", "seed=3"
    )
    assert code == 0, output
    assert reply["exit_code"] == 0
    assert "3/3" in output
    # the result is that of this machine
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
        reply["id"], "train job", "SUCCEEDED", 0,
    )  # fmt: skip
    assert each["run"] == reply["run"] == place.parent.name
    assert place.parent.name in shown
    # no secret was sent
    cluster = job_client.Cluster(address)
    everything = shown + "".join(map(str, cluster._client.list_jobs())) + cluster.log(reply["id"])
    assert SECRET not in everything
    assert os.environ[ray_head.TOKEN] not in everything
    with pytest.raises(
        UserError, match=f"no job 'raysubmit_no' at {address}: `overtrick cluster jobs`"
    ):
        cluster.log("raysubmit_no")


@pytest.mark.slow
def test_the_example_sends_a_job(overtrick: Any, address: str, tmp_path: Path) -> None:
    example = ROOT / "docs" / "examples" / "submit.py"
    done = subprocess.run(
        [sys.executable, str(example), address, str(tmp_path / "shared")],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ended with exit code 0" in done.stdout
    assert list((tmp_path / "shared").glob("kuhn-*/model"))


@pytest.mark.slow
def test_jobs_on_the_cluster_fail_and_stop_as_on_this_machine(
    overtrick: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--address", address)
    long = submit(overtrick, address, "stop.iterations=100000", "--name", "long-run")
    # a job that can never fit is refused before it is sent
    code, reply, _ = overtrick("cluster", "submit", "job.yaml", *at, "--json", "workers=50")
    assert code == 2
    assert "the job asks for 51 CPU and the cluster has 4: lower 'workers'" in reply["error"]
    # or, if its autoscaler could add nodes, by the cluster, with its exit code
    with monkeypatch.context() as patch:
        patch.setattr(job_client, "NODE_GROUP", "ray.io/node-id")  # a label of every node
        wide = submit(overtrick, address, "workers=50")
    code, _, output = overtrick("cluster", "logs", wide, *at, "--follow")
    assert code == 2
    assert "error: the job asks for 51 CPU and the cluster has 4: lower 'workers'" in output
    # Ctrl-C ends the following and not the job
    cluster = job_client.Cluster(address)
    while "training" not in (output := cluster.log(long)) and "1/" not in output:
        assert cluster.job(long).status in ("PENDING", "RUNNING"), output
        time.sleep(0.2)

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job_client.Cluster, "_tail", ctrl_c)
        code, _, output = overtrick("cluster", "logs", long, *at, "--follow")
    assert code == cli.INTERRUPTED
    assert (
        f"{long} continues. To see more: overtrick cluster logs {long} --address {address} --foll"
        in output
    )
    assert cluster.job(long).status == "RUNNING"
    code, reply, _ = overtrick("cluster", "stop", long, *at, "--json")
    assert (code, reply) == (0, {"id": long, "status": "STOPPED", "run": "long-run"})
    assert "stopped; `overtrick resume RUN` continues it" in cluster.log(long)
    assert cluster.follow(long, lambda text: None) == job_client.STOPPED
    _, reply, _ = overtrick("cluster", "jobs", *at, "--json")
    listed = {
        each["id"]: (each["job"], each["status"], each["exit_code"]) for each in reply["jobs"]
    }
    assert listed[wide] == ("train job", "FAILED", 2)
    assert listed[long][:2] == ("train job", "STOPPED")


def test_a_log_continues_where_the_connection_broke(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = job_client.Cluster(address)
    job = cluster.jobs()[0].id
    tail, breaks = cluster._client.tail_job_logs, iter((3, 5, None))

    async def fragile(submission: str) -> AsyncIterator[str]:
        left = next(breaks)
        async for text in tail(submission):
            for line in text.splitlines(keepends=True):
                if left == 0:
                    raise RuntimeError("WebSocket connection closed unexpectedly")
                yield line
                left = None if left is None else left - 1

    monkeypatch.setattr(cluster._client, "tail_job_logs", fragile)
    statuses = iter(("RUNNING", "RUNNING"))
    fetch_status = cluster.job

    def not_yet(submission: str) -> job_client.SubmittedJob:
        found = fetch_status(submission)
        status = next(statuses, found.status)
        return job_client.SubmittedJob(
            job, "", None, status, found.start, found.seconds, found.exit_code
        )

    monkeypatch.setattr(cluster, "job", not_yet)
    shown: list[str] = []
    cluster.follow(job, shown.append)
    assert "".join(shown) == cluster.log(job)


JOBS_PAGE = "/api/jobs/x"
DETAILS = {"type": "SUBMISSION", "entrypoint": "work", "submission_id": "x"}
OVER = {**DETAILS, "status": "SUCCEEDED", "driver_exit_code": 0}
LOG = "first line\nlast line\n"
SILENT = object()
WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@pytest.fixture
def blinking() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Start a cluster whose network fails, and yield its address and the list of its answers, which
    are used in turn: the requested page, a status, data, None for a broken connection, SILENT for
    one without an answer, or the last words of a websocket that stays open."""
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
                self.send_frame(answer)
                done.wait()
                return
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            if not isinstance(answer, int):
                self.wfile.write(json.dumps(answer).encode())

        def send_frame(self, words: str) -> None:
            key = (self.headers["Sec-WebSocket-Key"] + WEBSOCKET).encode()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            accepted = base64.b64encode(hashlib.sha1(key).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accepted)
            self.end_headers()
            self.wfile.write(bytes([0x81, len(words)]) + words.encode())  # one frame of text

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cluster) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers.append(("/api/version", {"ray_version": version("ray")}))
        yield f"http://127.0.0.1:{server.server_port}", answers
        done.set()
        server.shutdown()


def test_short_failures_of_the_network_do_not_end_the_following(
    blinking: tuple[str, list[tuple[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where, answers = blinking
    cluster = job_client.Cluster(where)
    monkeypatch.setattr(job_client, "POLL_INTERVAL", 0.01)
    tail, log = f"{JOBS_PAGE}/logs/tail", f"{JOBS_PAGE}/logs"
    answers[:] = [
        (tail, None), (JOBS_PAGE, None), (JOBS_PAGE, 502),
        (JOBS_PAGE, {**OVER, "status": "RUNNING"}), (tail, 502), (JOBS_PAGE, None),
        (JOBS_PAGE, OVER), (log, 503), (log, None), (log, {"logs": LOG}), ("/the end", None),
    ]  # fmt: skip
    shown: list[str] = []
    assert cluster.follow("x", shown.append) == 0
    assert "".join(shown) == LOG
    assert answers == [("/the end", None)]
    assert len(caplog.messages) == 3  # each interruption is reported once
    # it waits only for a limited time, and not at all for errors that waiting cannot mend
    monkeypatch.setattr(job_client, "MAX_OUTAGE", 0.1)
    answers[:] = [(tail, None), (JOBS_PAGE, None)]
    with pytest.raises(UserError, match=f"no Ray cluster answers at {where}"):
        cluster.follow("x", shown.append)
    caplog.clear()
    answers[:] = [(tail, None), (JOBS_PAGE, 404)]
    with pytest.raises(UserError, match="status code 404"):
        cluster.follow("x", shown.append)
    assert caplog.messages == []


NODES = "/api/v0/nodes?limit=10000"


def nodes_page(*nodes: tuple[str, dict[str, float], dict[str, str]]) -> dict[str, Any]:
    """Return the answer of Ray's state API for nodes, each given by state, resources and labels."""
    found = [{"state": s, "resources_total": r, "labels": labels} for s, r, labels in nodes]
    return {"result": True, "msg": "", "data": {"result": {"result": found}}}


def test_a_job_that_no_node_can_hold_is_refused(
    blinking: tuple[str, list[tuple[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, answers = blinking
    cluster = job_client.Cluster(where)
    monkeypatch.setattr(job_client, "POLL_INTERVAL", 0.01)
    monkeypatch.delenv("OVERTRICK_MACHINES", raising=False)
    two, dead = ("ALIVE", {"CPU": 2.0}, {}), ("DEAD", {"CPU": 64.0}, {})
    three = [{"CPU": 1.0}] * 3
    answers[:] = [(NODES, nodes_page()), (NODES, nodes_page(two, dead)), ("/the end", None)]
    with pytest.raises(UserError, match="asks for 3 CPU and the cluster has 2: lower 'workers'"):
        cluster.check_fits([three])
    assert answers == [("/the end", None)]  # a head that has just started is asked again
    answers[:] = [(NODES, nodes_page(two, two))]
    cluster.check_fits([three])
    # an autoscaler may add nodes; OVERTRICK_MACHINES says how many
    grown = ("ALIVE", {"CPU": 2.0}, {"ray.io/node-group": "small"})
    answers[:] = [(NODES, nodes_page(grown))]
    cluster.check_fits([three])
    monkeypatch.setenv("OVERTRICK_MACHINES", "1x2CPU")
    with pytest.raises(UserError, match="asks for 3 CPU and the cluster has 2"):
        cluster.check_fits([three])
    monkeypatch.setenv("OVERTRICK_MACHINES", "2x2CPU")
    cluster.check_fits([three])
    answers[:] = [(NODES, 404)]
    with pytest.raises(UserError, match="status code 404"):
        cluster.check_fits([three])


def test_a_silently_lost_network_is_detected(
    blinking: tuple[str, list[tuple[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where, answers = blinking
    cluster = job_client.Cluster(where)
    monkeypatch.setattr(job_client, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(job_client, "SILENCE", 0.5)
    tail, log, going = f"{JOBS_PAGE}/logs/tail", f"{JOBS_PAGE}/logs", {**OVER, "status": "RUNNING"}
    first, _ = LOG.splitlines(keepends=True)
    answers[:] = [
        (tail, first),
        (JOBS_PAGE, going), (log, {"logs": first}),  # no new output yet
        (JOBS_PAGE, going), (log, {"logs": LOG}), (JOBS_PAGE, going),  # and now there is
        (tail, SILENT), (JOBS_PAGE, SILENT), (JOBS_PAGE, SILENT), (JOBS_PAGE, OVER),
        (log, {"logs": LOG}), ("/the end", None),
    ]  # fmt: skip
    shown: list[str] = []
    assert cluster.follow("x", shown.append) == 0
    assert "".join(shown) == LOG
    assert answers == [("/the end", None)]
    assert len(caplog.messages) == 1
    monkeypatch.setattr(job_client, "MAX_OUTAGE", 0.1)
    answers[:] = [(tail, SILENT), (JOBS_PAGE, SILENT)]
    with pytest.raises(
        UserError, match=rf"no Ray cluster answers at {where} \(ReadTimeout\): start"
    ):
        cluster.follow("x", shown.append)


@pytest.mark.parametrize(
    ("token", "output"),
    [({ray_head.TOKEN: "wrong-token"}, "rejects this token"), ({}, "asks for a token")],
)
def test_a_missing_token_and_a_wrong_one_have_different_messages(
    address: str, token: dict[str, str], output: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overtrick", "cluster", "jobs", "--address", address],
        env=command_process.environment() | token, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the cluster at {address} {output}: set RAY_AUTH_MODE=token and")


def test_another_version_of_ray_on_the_head_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_client, "version", lambda name: "2.1.0")
    with pytest.raises(
        UserError, match=r"runs Ray \d+\.\d+\.\d+ and this machine 2\.1\.0: install"
    ):
        job_client.Cluster(address)


@pytest.mark.parametrize(
    ("arguments", "output"),
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
        (("--resume", "job-1"), "submit --resume job-1: leave out job.yaml: a resumed run keeps"),
        (("track=x",), "'track' in job.yaml: input should be"),
        (("track.uri=5",), "'track.uri' in job.yaml: input should be"),
        (("trainer=[a]",), "unknown trainer"),
        (("--name", "a/b"), "--name 'a/b': must be a folder name: not empty, without '/'"),
    ],
)
def test_an_invalid_submission_is_refused_before_anything_is_sent(
    overtrick: Any, arguments: tuple[str, ...], output: str
) -> None:
    port = ray_head.free_ports(1)[0]
    at = () if "--address" in arguments else ("--address", f"http://127.0.0.1:{port}")
    code, reply, shown = overtrick("cluster", "submit", "job.yaml", *arguments, *at, "--json")
    assert code == 2
    assert output in reply["error"]
    assert "secret" not in shown


def test_a_job_that_does_not_stop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = job_client.Cluster.__new__(job_client.Cluster)
    cluster.address = "http://head"
    running = job_client.SubmittedJob(
        "raysubmit_a", "train job", "job-1", "RUNNING", None, None, None
    )
    monkeypatch.setattr(cluster, "_client", Mock(), raising=False)
    monkeypatch.setattr(cluster, "job", lambda submission: running)
    monkeypatch.setattr(job_client, "GRACE", 0)
    with pytest.raises(
        RunError, match="raysubmit_a was told to stop 0 seconds ago and is still RU"
    ):
        cluster.stop("raysubmit_a")


def test_an_unreachable_cluster_is_reported(overtrick: Any) -> None:
    nowhere = f"http://127.0.0.1:{ray_head.free_ports(1)[0]}"
    code, _, output = overtrick("cluster", "submit", "job.yaml", "--address", nowhere)
    assert code == 2
    assert f"no Ray cluster answers at {nowhere} (ConnectionError): start one" in output


@pytest.mark.parametrize(
    "words", [("jobs",), ("submit", str(ROOT / "jobs" / "coevolve_kuhn.yaml"))]
)
def test_a_cluster_is_asked_although_local_ray_would_get_a_token(words: tuple[str, ...]) -> None:
    """Ray reads the mode of tokens once, when it is imported."""
    nowhere = f"http://127.0.0.1:{ray_head.free_ports(1)[0]}"
    done = subprocess.run(
        [sys.executable, "-m", "overtrick", "cluster", *words, "--address", nowhere],
        env=command_process.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: no Ray cluster answers at {nowhere}")


PRINTED = {
    f"{path.stem} {k}": command
    for path in [*(ROOT / "cluster").rglob("*.yaml"), *ROOT.glob("docker/*.yaml")]
    for k, command in enumerate(
        re.findall(r"^# +(overtrick cluster submit .*)", path.read_text(), re.M)
    )
}


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_commands_in_the_files_of_clusters_can_be_submitted(
    overtrick: Any, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("OVERTRICK_RUNS")
    nowhere = f"http://127.0.0.1:{ray_head.free_ports(1)[0]}"
    command = re.sub(r"http://127.0.0.1:8265\b", nowhere, printed)
    assert command != printed
    code, _, output = overtrick(*shlex.split(command)[1:])
    assert code == 2
    assert f"error: no Ray cluster answers at {nowhere}" in output  # so everything else is valid


def test_the_files_of_clusters_contain_commands_to_submit() -> None:
    assert {name.split()[0] for name in PRINTED} >= {"aws", "onpremise", "raycluster"}


def run_entrypoint(entry: str, tmp_path: Path, **environment: str) -> tuple[int, str]:
    """Run an entry point as a cluster does; return the exit code and all output."""
    # the environment of the cluster, which sets the folder of runs
    python = tmp_path / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(
        '#!/bin/sh\necho "$OVERTRICK_RUNS $MLFLOW_TRACKING_URI $*"\n'
        'if [ -n "$DEADLY" ]; then echo >> deaths; kill -$DEADLY $$; fi\nexit ${ENDS:-0}\n'
    )
    python.chmod(0o755)
    fetch_status = {"PATH": f"{python.parent}:/usr/bin:/bin", **environment}
    # tests in the background ignore Ctrl-C, and would hand that down
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    done = subprocess.run(
        ["/bin/sh", "-c", entry], env=fetch_status, cwd=tmp_path, capture_output=True, text=True,
        check=False, preexec_fn=heed,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("job", [{}, None])
def test_runs_are_stored_in_the_clusters_folder_by_default(
    tmp_path: Path, job: dict[str, Any] | None
) -> None:
    ours = job_package.pack(job_package.ClusterTask("train", "job", "job-1", job, "", {}), tmp_path)
    runs = f"{tmp_path}/its own runs"
    code, output = run_entrypoint(ours, tmp_path, OVERTRICK_RUNS=runs)
    assert code == 0
    what = "job" if job is None else "job.yaml --name job-1"
    assert output == f"{runs} sqlite:///{runs}/mlflow.db -m overtrick train {what}\n"
    assert Path(runs).is_dir()
    _, output = run_entrypoint(
        ours, tmp_path, OVERTRICK_RUNS=runs, MLFLOW_TRACKING_URI="http://mlflow:5000"
    )
    assert output.startswith(f"{runs} http://mlflow:5000 -m")
    for none in ({}, {"OVERTRICK_RUNS": ""}, {"OVERTRICK_RUNS": "runs"}):
        code, output = run_entrypoint(ours, tmp_path, **none)
        assert code == 2
        assert output.startswith(
            "error: the folder of runs on this cluster is unknown: name an abs"
        )
        assert output.count("\n") == 1


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_runs_may_be_stored_in_a_bucket(tmp_path: Path, scheme: str) -> None:
    runs = f"{scheme}://bucket/runs"
    named = tmp_path / "deals.parquet"
    named.write_bytes(b"deals")
    job = {"deals": str(named)}
    packed = tmp_path / "packed"
    packed.mkdir()
    entry = job_package.pack(job_package.ClusterTask("train", "job", "run", job, runs, {}), packed)
    (there,) = job_file.read(packed / "job.yaml").values()
    assert there.startswith(f"{runs}/.files/")
    assert there.endswith("/deals.parquet")
    code, output = run_entrypoint(entry, packed, OVERTRICK_RUNS=runs, HOME="/home/me")
    assert code == 0
    first, second = output.splitlines()
    assert first.startswith(f"{runs}  -c from overtrick.storage.bucket_copy import upload")
    assert first.endswith(f" files {runs}/.files")
    assert second.startswith(f"{runs} sqlite:////home/me/mlflow.db -m overtrick train job.yaml")


def test_a_killed_driver_is_started_again_a_few_times(tmp_path: Path) -> None:
    entry = job_package.pack(job_package.ClusterTask("resume", "r", "r", None, "", {}), tmp_path)
    runs = {"OVERTRICK_RUNS": str(tmp_path / "runs")}
    code, output = run_entrypoint(entry, tmp_path, DEADLY="9", **runs)
    assert code == 137
    assert output.count("-m overtrick resume r") == job_package.TRIES
    assert output.count("the driver was killed (exit code 137)") == job_package.TRIES
    for end in ("0", "1", "2"):  # it ended by itself
        code, output = run_entrypoint(entry, tmp_path, ENDS=end, **runs)
        assert (code, output.count("-m overtrick resume r")) == (int(end), 1)
    for stop in ("2", "15"):  # Ctrl-C and SIGTERM
        code, output = run_entrypoint(entry, tmp_path, DEADLY=stop, **runs)
        assert (code, output.count("-m overtrick resume r")) == (128 + int(stop), 1)


def test_a_job_with_files_needs_a_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "deals.parquet").touch()
    job = {"deals": str(tmp_path / "deals.parquet")}
    with pytest.raises(
        UserError, match=r"job names .*deals.parquet, which is stored with .* by --run"
    ):
        job_package.pack(job_package.ClusterTask("train", "job", "job-1", job, "", {}), tmp_path)


def submission_of(job: dict[str, Any]) -> job_package.ClusterTask:
    return job_package.ClusterTask("train", "job", "job 1", job, "/shared/runs", {})


def test_the_files_of_a_job_are_sent_with_it_and_stored(tmp_path: Path) -> None:
    named = tmp_path / "given" / "model"
    named.mkdir(parents=True)
    (named / "weights").write_bytes(b"w" * 100)
    packed = tmp_path / "packed"
    packed.mkdir()
    card = "\N{PLAYING CARD ACE OF SPADES}"
    job = {"a": {"b": [str(named), "call", str(named), card]}}
    entry = job_package.pack(submission_of(job), packed)
    shipped = job_file.read(packed / "job.yaml")
    cluster, other_file, again, shipped_card = shipped["a"]["b"]
    assert shipped_card == card
    assert other_file == "call"
    assert cluster == again
    assert cluster.startswith("/shared/runs/.files/")
    assert (
        packed / "files" / Path(cluster).relative_to("/shared/runs/.files") / "weights"
    ).exists()
    # and exist there before the job begins
    runs = tmp_path / "runs"
    code, output = run_entrypoint(entry, packed, OVERTRICK_RUNS=str(runs))
    assert code == 0
    assert output.endswith("-m overtrick train job.yaml --name job 1\n")
    assert (runs / Path(cluster).relative_to("/shared/runs") / "weights").read_bytes() == b"w" * 100


def test_equal_copies_and_a_model_for_each_seed_are_sent(tmp_path: Path) -> None:
    for name in ("one/model", "two/model", "of 0/model", "of 1/model"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "weights").write_text(name if name[0] == "o" else "one/model")
    packed = tmp_path / "packed"
    packed.mkdir()
    names = ["one/model", "two/model", "of {seed}/model", "absent {seed}/model"]
    named = [str(tmp_path / name) for name in names]
    job_package.pack(submission_of({"models": named}), packed)
    *sent, absent = job_file.read(packed / "job.yaml")["models"]
    assert absent == named[3]
    stored = [packed / "files" / Path(path).relative_to("/shared/runs/.files") for path in sent]
    assert [(path / "weights").read_text() for path in stored[:2]] == ["one/model"] * 2
    for seed in (0, 1):
        path = Path(str(stored[2]).replace("{seed}", str(seed)))
        assert (path / "weights").read_text() == f"of {seed}/model"


def test_too_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deals.parquet").write_bytes(b"x" * 2**20)
    monkeypatch.setattr(job_package, "MAX_SIZE", 2**19)
    job = {"deals": str(tmp_path / "deals.parquet")}
    with pytest.raises(UserError, match=r"names 1 MiB of files.*deals\.parquet.*--files-there"):
        job_package.pack(submission_of(job), tmp_path)
