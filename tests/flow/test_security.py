"""Files cannot run code, services need authentication, and no secret is stored."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import ray
import yaml
from command_process import COMMAND, PATIENCE, environment, kill, mlflow_server
from mlflow import MlflowClient
from ray_head import free_ports
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.studies.exact_solutions import solve_game
from overtrick.tracking import server_address
from overtrick.training.registry import JOBS

ROOT = Path(__file__).parents[2]
SAID = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class Pickled:
    """Object whose unpickling leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("tag", ["object/apply:os.mkdir", "object/new:os.mkdir", "name:os.mkdir"])
def test_a_job_file_cannot_run_code(tag: str, tmp_path: Path) -> None:
    mark, job = tmp_path / "mark", tmp_path / "job.yaml"
    message = "" if tag.startswith("name") else f" ['{mark}']"
    job.write_text(f"trainer: meta\ngame: !!python/{tag}{message}\n")
    with pytest.raises(UserError, match="is not YAML"):
        job_file.load(job, [], JOBS)
    job.write_text("trainer: meta\ngame: kuhn\n")
    with pytest.raises(UserError, match="override 'game="):
        job_file.load(job, [f"game=!!python/{tag}{message}"], JOBS)
    yaml.unsafe_load(f"!!python/object/apply:os.mkdir ['{mark}']")
    assert mark.exists()  # as it does if it is unpickled


@pytest.mark.parametrize("file", [model_files.WEIGHTS, model_files.CARD])
def test_a_model_file_cannot_run_code(file: str, tmp_path: Path) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "model"
    solve_game("kuhn", "cfr+", 10, save=folder)
    (folder / file).write_bytes(pickle.dumps(Pickled(mark)))
    with pytest.raises(UserError, match="damaged"):
        model_files.load(folder)
    assert not mark.exists()
    pickle.loads((folder / file).read_bytes())
    assert mark.exists()


CODE_RUNS = re.compile(
    r"(pickle|dill|joblib|marshal|shelve)\.loads?\b|torch\.load\b|yaml\.(unsafe|full)_load|"
    r"allow_pickle=True|(?<![\w.])(eval|exec)\("
)
"""Functions that would run code of a file that they read."""


def test_our_code_never_unpickles_files() -> None:
    for path in sorted((ROOT / "platform").rglob("*.py")):
        assert CODE_RUNS.findall(path.read_text()) == [], path
    assert CODE_RUNS.search("weights = torch.load(path)")
    assert CODE_RUNS.search("x = eval(text)")


LISTENS = re.compile(r"\b(mlflow\s+(server|ui|models\s+serve)|ray\s+start\s+--head)\b[^\n`]*")
HERE = ("127.0.0.1", "localhost")
WITHIN = "0.0.0.0"  # of a container or a pod, whose published ports are in other files


def test_servers_listen_on_loopback_or_inside_their_own_network() -> None:
    pages = [*sorted(ROOT.glob("docs/**/*.md")), *sorted((ROOT / "cluster").rglob("*.*")),
             ROOT / "README.md", ROOT / "Makefile"]  # fmt: skip
    found = 0
    for page in pages:
        for line in (m[0] for m in LISTENS.finditer(page.read_text())):
            host = re.search(r"host[= ]\s*([\w.]+)", line)
            # MLflow and Ray's dashboard listen on loopback by default
            assert host is None or host[1] in HERE, f"{page}: {line}"
            found += 1
    assert found >= 4


def test_servers_that_we_start_listen_on_loopback() -> None:
    started = []
    for path in sorted((ROOT / "platform").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value == WITHIN:
                raise AssertionError(f"{path} names {WITHIN}")
            if isinstance(node, ast.List) and "'--port'" in ast.unparse(node):
                started.append((path.name, ast.unparse(node)))
    assert [name for name, _ in started] == ["dashboard.py"]
    assert "'--host', host" in started[0][1]
    # a local Ray listens on all interfaces, so it requires a token
    script = "import os; from overtrick import startup as e; e.prepare(); "
    script += "print(os.environ['RAY_AUTH_MODE'], len(os.environ['RAY_AUTH_TOKEN']))"
    message = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert message.split() == ["token", "64"]


@pytest.mark.parametrize(("own", "left"), [("", "None None"), ("mine", "token mine")])
def test_a_token_of_the_user_is_kept_for_a_cluster(own: str, left: str) -> None:
    """The generated token, for a local Ray, is unset before a cluster is contacted."""
    script = (
        "import os; from overtrick import startup; startup.prepare()\n"
        f"if {own!r}: os.environ['RAY_AUTH_TOKEN'] = {own!r}\n"
        "startup.drop_generated_token()\n"
        "print(os.environ.get('RAY_AUTH_MODE'), os.environ.get('RAY_AUTH_TOKEN'))"
    )
    command = [sys.executable, "-c", script]
    unset = {k: v for k, v in environment().items() if not k.startswith(("RAY_AUTH", "RAY_ADDR"))}
    shown = subprocess.run(command, env=unset, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == left


def test_pods_are_reached_from_their_own_network_only() -> None:
    for path in sorted((ROOT / "cluster" / "kuberay").glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            if resource["kind"] == "Service":
                assert resource["spec"].get("type", "ClusterIP") == "ClusterIP"
            assert "hostPort" not in json.dumps(resource)
            assert "hostNetwork" not in json.dumps(resource)


def files_with(secret: str, *folders: Path) -> list[str]:
    """Return the files in some folders that contain a secret."""
    return [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


@pytest.mark.usefixtures("local_ray")
def test_no_secret_of_the_environment_is_stored_with_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret_settings = {"RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
    for name in ("MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        secret_settings[name] = secrets.token_hex(16)
        monkeypatch.setenv(name, secret_settings[name])
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    job = job_file.parse(
        {**TINY, "stop": {"iterations": 1}, "track": {"uri": f"sqlite:///{tmp_path}/mlflow.db"}},
        JOBS, "tiny",
    )  # fmt: skip
    folder = lifecycle.open_folder(job, "tiny")
    lifecycle.train(folder, lambda *_: None)
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    assert files_with("overtrick.trainer", tmp_path) != []
    assert files_with("PL_DISABLE_FORK", logs) != []  # where Tune reports its variables
    for name, secret in secret_settings.items():
        assert files_with(secret, tmp_path, logs) == [], name
        assert secret not in caplog.text


class Guarded(NamedTuple):
    """An MLflow server with passwords, and the folder of its files."""

    uri: str
    password: str
    folder: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    password, (port,) = secrets.token_hex(16), free_ports(1)
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder}/auth.db\n"
        "admin_username = admin\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    settings = {
        "MLFLOW_AUTH_CONFIG_PATH": f"{folder}/auth.ini",
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16),
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{folder}/mlflow.db",
    }
    serving = mlflow_server(folder, port, "--app-name", "basic-auth", **settings)
    yield Guarded(f"http://127.0.0.1:{port}", password, folder)
    kill(serving)


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder for Ray's logs and sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.mark.slow
def test_mlflow_with_passwords_records_a_run_and_no_file_contains_them(
    guarded: Guarded, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**TINY, "checkpoints": {"retries": 0}}))
    secret = {"RAY_AUTH_TOKEN": secrets.token_hex(32), "AWS_SECRET_ACCESS_KEY": "x" + "0f" * 20}
    settings = environment() | secret | {"RAY_AUTH_MODE": "token", "RAY_TMPDIR": str(short)}
    settings |= {"MLFLOW_TRACKING_URI": guarded.uri, "HOME": str(tmp_path)}

    def train(*words: str, wrong: str | None = None) -> subprocess.Popen[str]:
        secret_settings = {"MLFLOW_TRACKING_USERNAME": "admin"}
        secret_settings["MLFLOW_TRACKING_PASSWORD"] = wrong or guarded.password
        return subprocess.Popen(
            [*COMMAND, "train", "tiny.yaml", *words],
            cwd=tmp_path, env=settings | ({} if wrong == "" else secret_settings),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    without_password, _ = (process := train(wrong="")).communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert without_password.splitlines()[-1].endswith(SAID)
    with_wrong_password, _ = (process := train(wrong="wrong-password")).communicate(
        timeout=PATIENCE
    )
    assert process.returncode == 2
    assert "rejects the name and password" in with_wrong_password.splitlines()[-1]
    assert not (tmp_path / "runs").exists()

    message, _ = (process := train("track.register=tiny")).communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, message
    assert "MLflow has not received" not in message

    broken = train("stop.iterations=100000")  # and its trial is killed during training
    end = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("runs/*/tune-0/*/checkpoint_000001/*")) or not (
        trials := trial_processes(broken.pid)
    ):
        assert broken.poll() is None, broken.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.1)
    for process in trials:
        process.send_signal(signal.SIGKILL)
    failed, _ = broken.communicate(timeout=PATIENCE)
    assert broken.returncode == 1, failed
    assert "error: the trial failed" in failed

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", guarded.password)
    client = MlflowClient(guarded.uri, guarded.uri)
    recorded = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    assert {each.info.status for each in recorded} == {"FINISHED", "FAILED"}
    assert any("It failed: the trial" in r.data.tags["mlflow.note.content"] for r in recorded)
    assert client.get_model_version("tiny", "1").name == "tiny"
    logs = short.rglob("session_*/logs")
    assert any(logs)
    for name, word in {**secret, "password": guarded.password, "wrong": "wrong-password"}.items():
        assert files_with(word, tmp_path, guarded.folder, short) == [], name
        for output in (without_password, with_wrong_password, message, failed):
            assert word not in output, name


@pytest.mark.slow
def test_a_user_who_may_only_read_an_experiment_is_refused_before_training(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.server.auth.client import AuthServiceClient  # starts a server

    def log_in(name: str, password: str) -> MlflowClient:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", name)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
        return MlflowClient(guarded.uri, guarded.uri)

    admin, word = log_in("admin", guarded.password), secrets.token_hex(16)
    theirs = admin.create_experiment("theirs")
    users = AuthServiceClient(guarded.uri)
    users.create_user("second", word)
    second = log_in("second", word)
    with pytest.raises(UserError, match="accepts no runs of 'second' in 'theirs'"):
        server_address.check(guarded.uri, experiment="theirs")
    # it does not exist yet, and the user may make it
    server_address.check(guarded.uri, experiment="mine")
    second.create_experiment("mine")
    server_address.check(f"{guarded.uri}/", experiment="mine")
    log_in("admin", guarded.password)
    users.grant_user_permission("second", "experiment", theirs, "EDIT")
    log_in("second", word)
    server_address.check(guarded.uri, experiment="theirs")
    second.create_run(theirs)
    assert len(second.search_runs([theirs])) == 1  # checking made none


def trial_processes(pid: int) -> list[psutil.Process]:
    """Return the processes of Ray under a command that run its trial."""
    below = psutil.Process(pid).children(recursive=True)
    return [process for process in below if "ray::Trial" in " ".join(_command_line(process))]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
