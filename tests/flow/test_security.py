"""Nothing that is read can run code, nobody is let in unasked, and no secret is written down."""

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
from head import free_ports
from mlflow import MlflowClient
from outside import COMMAND, PATIENCE, environment, kill, mlflow_server
from tiny import TINY

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.studies.exact import solve_game
from overtrick.tracking import server_address
from overtrick.training.registry import JOBS

ROOT = Path(__file__).parents[2]
SAID = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class Evil:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("tag", ["object/apply:os.mkdir", "object/new:os.mkdir", "name:os.mkdir"])
def test_a_job_file_cannot_run_code(tag: str, tmp_path: Path) -> None:
    mark, job = tmp_path / "mark", tmp_path / "job.yaml"
    told = "" if tag.startswith("name") else f" ['{mark}']"
    job.write_text(f"trainer: meta\ngame: !!python/{tag}{told}\n")
    with pytest.raises(UserError, match="is not YAML"):
        job_file.load(job, [], JOBS)
    job.write_text("trainer: meta\ngame: kuhn\n")
    with pytest.raises(UserError, match="override 'game="):
        job_file.load(job, [f"game=!!python/{tag}{told}"], JOBS)
    yaml.unsafe_load(f"!!python/object/apply:os.mkdir ['{mark}']")
    assert mark.exists()  # so it does, where it is let


@pytest.mark.parametrize("file", [model_files.WEIGHTS, model_files.CARD])
def test_a_model_file_cannot_run_code(file: str, tmp_path: Path) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "model"
    solve_game("kuhn", "cfr+", 10, save=folder)
    (folder / file).write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(UserError, match="damaged"):
        model_files.load(folder)
    assert not mark.exists()
    pickle.loads((folder / file).read_bytes())
    assert mark.exists()


CODE_RUNS = re.compile(
    r"(pickle|dill|joblib|marshal|shelve)\.loads?\b|torch\.load\b|yaml\.(unsafe|full)_load|"
    r"allow_pickle=True|(?<![\w.])(eval|exec)\("
)
"""What would run code of a file that it reads."""


def test_nothing_of_ours_reads_what_could_run_code() -> None:
    for path in sorted((ROOT / "platform").rglob("*.py")):
        assert CODE_RUNS.findall(path.read_text()) == [], path
    assert CODE_RUNS.search("weights = torch.load(path)")
    assert CODE_RUNS.search("x = eval(text)")


LISTENS = re.compile(r"\b(mlflow\s+(server|ui|models\s+serve)|ray\s+start\s+--head)\b[^\n`]*")
HERE = ("127.0.0.1", "localhost")
WITHIN = "0.0.0.0"  # of a container or a pod: what is published of it is another file's to say


def test_whatever_listens_does_so_on_this_machine_unless_a_network_of_its_own_holds_it() -> None:
    pages = [*sorted(ROOT.glob("docs/**/*.md")), *sorted((ROOT / "cluster").rglob("*.*")),
             ROOT / "README.md", ROOT / "Makefile"]  # fmt: skip
    found = 0
    for page in pages:
        for line in (m[0] for m in LISTENS.finditer(page.read_text())):
            host = re.search(r"host[= ]\s*([\w.]+)", line)
            # MLflow and Ray's dashboard listen on this machine if nobody says otherwise
            assert host is None or host[1] in HERE, f"{page}: {line}"
            found += 1
    assert found >= 4


def test_what_we_start_ourselves_names_this_machine() -> None:
    started = []
    for path in sorted((ROOT / "platform").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value == WITHIN:
                raise AssertionError(f"{path} names {WITHIN}")
            if isinstance(node, ast.List) and "'--port'" in ast.unparse(node):
                started.append((path.name, ast.unparse(node)))
    assert [name for name, _ in started] == ["dashboard.py"]
    assert "'--host', host" in started[0][1]
    # a local Ray listens on all interfaces, so it asks for a token
    asked = "import os; from overtrick import startup as e; e.prepare(); "
    asked += "print(os.environ['RAY_AUTH_MODE'], len(os.environ['RAY_AUTH_TOKEN']))"
    told = subprocess.run(
        [sys.executable, "-c", asked], env=environment(), capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == ["token", "64"]


def test_pods_are_reached_from_their_own_network_only() -> None:
    for path in sorted((ROOT / "cluster" / "kuberay").glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            if resource["kind"] == "Service":
                assert resource["spec"].get("type", "ClusterIP") == "ClusterIP"
            assert "hostPort" not in json.dumps(resource)
            assert "hostNetwork" not in json.dumps(resource)


def holders(secret: str, *folders: Path) -> list[str]:
    """The files of folders that hold a secret."""
    return [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


@pytest.mark.usefixtures("local_ray")
def test_no_secret_of_the_environment_is_kept_with_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = {"RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
    for name in ("MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        known[name] = secrets.token_hex(16)
        monkeypatch.setenv(name, known[name])
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    job = job_file.parse(
        {**TINY, "stop": {"iterations": 1}, "track": {"uri": f"sqlite:///{tmp_path}/mlflow.db"}},
        JOBS, "tiny",
    )  # fmt: skip
    folder = lifecycle.open_folder(job, "tiny")
    lifecycle.train(folder, lambda *_: None)
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    assert holders("overtrick.trainer", tmp_path) != []
    assert holders("PL_DISABLE_FORK", logs) != []  # where Tune's variables are told
    for name, secret in known.items():
        assert holders(secret, tmp_path, logs) == [], name
        assert secret not in caplog.text


class Guarded(NamedTuple):
    """An MLflow that asks for passwords, and where all that it keeps is."""

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
    """A folder for Ray's logs and sockets, which need a short path."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.mark.slow
def test_mlflow_with_passwords_takes_a_run_and_nobody_writes_them_down(
    guarded: Guarded, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**TINY, "checkpoints": {"retries": 0}}))
    secret = {"RAY_AUTH_TOKEN": secrets.token_hex(32), "AWS_SECRET_ACCESS_KEY": "x" + "0f" * 20}
    settings = environment() | secret | {"RAY_AUTH_MODE": "token", "RAY_TMPDIR": str(short)}
    settings |= {"MLFLOW_TRACKING_URI": guarded.uri, "HOME": str(tmp_path)}

    def train(*words: str, wrong: str | None = None) -> subprocess.Popen[str]:
        known = {"MLFLOW_TRACKING_USERNAME": "admin"}
        known["MLFLOW_TRACKING_PASSWORD"] = wrong or guarded.password
        return subprocess.Popen(
            [*COMMAND, "train", "tiny.yaml", *words],
            cwd=tmp_path, env=settings | ({} if wrong == "" else known),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    nobody, _ = (process := train(wrong="")).communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert nobody.splitlines()[-1].endswith(SAID)
    stranger, _ = (process := train(wrong="wrong-password")).communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "rejects the name and password" in stranger.splitlines()[-1]
    assert not (tmp_path / "runs").exists()

    told, _ = (process := train("track.register=tiny")).communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, told
    assert "MLflow has not received" not in told

    broken = train("stop.iterations=100000")  # and its trial is killed on the way
    end = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("runs/*/tune-0/*/checkpoint_000001/*")) or not (
        trials := of_trials(broken.pid)
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
    kept = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    assert {each.info.status for each in kept} == {"FINISHED", "FAILED"}
    assert any("It failed: the trial" in r.data.tags["mlflow.note.content"] for r in kept)
    assert client.get_model_version("tiny", "1").name == "tiny"
    logs = short.rglob("session_*/logs")
    assert any(logs)
    for name, word in {**secret, "password": guarded.password, "wrong": "wrong-password"}.items():
        assert holders(word, tmp_path, guarded.folder, short) == [], name
        for said in (nobody, stranger, told, failed):
            assert word not in said, name


@pytest.mark.slow
def test_who_may_only_read_an_experiment_is_refused_before_training(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.server.auth.client import AuthServiceClient  # brings a server along

    def am(name: str, password: str) -> MlflowClient:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", name)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
        return MlflowClient(guarded.uri, guarded.uri)

    admin, word = am("admin", guarded.password), secrets.token_hex(16)
    theirs = admin.create_experiment("theirs")
    users = AuthServiceClient(guarded.uri)
    users.create_user("second", word)
    second = am("second", word)
    with pytest.raises(UserError, match="accepts no runs of 'second' in 'theirs'"):
        server_address.check(guarded.uri, experiment="theirs")
    server_address.check(guarded.uri, experiment="mine")  # there is none yet, and they may make it
    second.create_experiment("mine")
    server_address.check(f"{guarded.uri}/", experiment="mine")
    am("admin", guarded.password)
    users.grant_user_permission("second", "experiment", theirs, "EDIT")
    am("second", word)
    server_address.check(guarded.uri, experiment="theirs")
    second.create_run(theirs)
    assert len(second.search_runs([theirs])) == 1  # to ask made none


def of_trials(pid: int) -> list[psutil.Process]:
    """The processes of Ray under a command that run its trial."""
    below = psutil.Process(pid).children(recursive=True)
    return [process for process in below if "ray::Trial" in " ".join(_words(process))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
