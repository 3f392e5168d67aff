"""Bad input gives one clear line with the place and the remedy, exit code 2, and changes no
file."""

from __future__ import annotations

import errno
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import yaml

from overtrick import cli
from overtrick.config import job_file
from overtrick.config.strict_yaml import parse_yaml
from overtrick.core import UserError
from overtrick.core.files import cache_folder
from overtrick.distributed import workers
from overtrick.storage import locate, model_files
from overtrick.studies import cardplay_style, match
from overtrick.studies.exact_solutions import best_response_to
from overtrick.tracking import server_address
from overtrick.training.registry import JOBS, TRAINERS

JOB = "trainer: meta\ngame: leduc\nworkers: 0\n"


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command that must be refused in an empty folder, and return its error line."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["overtrick", *arguments, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        line = json.loads(out.splitlines()[-1])["error"]
        assert err.splitlines()[-1] == f"error: {line}"
        assert "\n" not in line
        assert sorted(tmp_path.rglob("*")) == before  # no file written or deleted
        return line

    return run


def write_job_file(folder: Path, text: str = JOB) -> str:
    (folder / "job.yaml").write_text(text, errors="surrogateescape")
    return "job.yaml"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("poplation.size=3", "unknown key 'poplation' in job.yaml: did you mean 'population'?"),
        ("meta.iner_steps=1", "unknown key 'meta.iner_steps' in job.yaml: did you mean "
         "'meta.inner_steps'?"),
        ("stop.iterations=many", "'stop.iterations' in job.yaml: input should be a valid integer"),
        ("population.elite_share=1.5", "'population.elite_share' in job.yaml: input should be "
         "less than or equal to 1, not 1.5"),
        ("game=leduk", "unknown game 'leduk': did you mean 'leduc'?"),
        ("game.options.fould=true", "game 'leduc' has no option 'fould': did you mean 'fold'?"),
        ("game={name: leduc, options: {ranks: ace}}", "game 'leduc' does not take these options"),
        ("game={name: brps, fold: true}", "game 'brps' has no option 'fold': it has no options"),
        ("meta.hidden=64", "'meta.hidden' in job.yaml: input should be a list, such as [64], not"),
        ("evaluate.opponents=[random, cal]", "unknown opponent 'cal' in leduc: did you mean "
         "'call'?"),
        ("trainer=mata", "unknown trainer 'mata' in job.yaml: did you mean 'meta'?"),
        ("meta.inner_lr", "override 'meta.inner_lr' must be key=value"),
        ("game.name.x=1", "'name' holds a value, not keys"),
        ("population.immigrants=31", "population.immigrants 31 is more than meta.tasks 30"),
        ("population={kind: random, immigrants: 2, fitness_games: 9}", "job.yaml: "
         "population.fitness_games, population.immigrants have no effect with population.kind "
         "random: leave them out, or set population.kind to evolving"),
        ("population={kind: selfplay, head_init_scale: 1.5}", "population.head_init_scale "
         "has no effect with population.kind selfplay and without population.immigrants: leave it "
         "out, or set population.kind to evolving or random, or set population.immigrants"),
        ("resources.data_readers=1", "this trainer uses no data_readers: leave data_readers at 0"),
        ("resources.learners=2", "this trainer uses no learners: leave learners at 1"),
        ("track.uri=http://localhost:abc", "no MLflow server answers at http://localhost:abc"),
        ("track.uri='http://[::1'", "no MLflow server answers at http://[::1"),
        ("track.experiment=../../x", "'track.experiment' in job.yaml: string should match pattern"),
        ("evaluate.opponents=[call, call]", "two opponents have the name call"),
        ("evaluate.opponents=[]", "'evaluate.opponents' in job.yaml: tuple should have at least 1"),
        ("evaluate.opponents=[./absent]", "no model in "),
        ("game={name: leduc, fould: true}", "game 'leduc' has no option 'fould'"),
        ("game=holdem", "unknown opponent 'bluff' in holdem"),
        ("adaptation={gradient_estimator: privileged_critic}", "adaptation.gradient_estimator "
         "privileged_critic needs a critic that"),
        (
            "meta={objective: exact, outer_games: 5}",
            "meta.outer_games has no effect with meta.objective exact: leave it out, or set "
            "meta.objective to sampled",
        ),
        ("meta={solver: ppo, minibatches: 4}", "meta.minibatches 4 does not divide meta.tasks 30"),
        ("meta={solver: ppo, fisher_subsample: 2}", "meta.fisher_subsample has no effect "
         "with meta.solver ppo: leave it out, or set meta.solver to trpo"),
        ("meta={solver: ppo, outer_kl: 0.1}", "meta.outer_kl has no effect with meta.solver ppo"),
        ("meta.outer_lr=0.1", "meta.outer_lr has no effect with meta.solver trpo"),
        ("meta.gae=0.9", "key 'meta.gae' in job.yaml is now called 'meta.gae_lambda'"),
        ("meta={solver: ppo, outer_step: 0.1}", "is now called 'meta.outer_lr'"),
        ("meta.test_credit=model", "is now called 'adaptation.gradient_estimator'"),
        ("meta.minibatches=2", "meta.minibatches has no effect with meta.solver trpo"),
        ("population={kind: selfplay, action_std_scale: 0.5}", "population.action_std_scale "
         "has no effect with population.kind selfplay"),
        ("adaptation={gradient_estimator: critic, gradient_steps: 2}",
         "gradient_steps 2 needs adaptation.gradient_estimator opponent_model, not critic"),
        ("evaluate.games=0", "'evaluate.games' in job.yaml: input should be greater than"),
        ("game.options.fold=maybe", "fold must be true or false, not 'maybe'"),
        ("resources.cpus=.inf", "'resources.cpus' in job.yaml: input should be a finite number"),
        ("trainer=[meta]", "unknown trainer '['meta']' in job.yaml"),
        ("track.uri=ftp://here", "must be sqlite:///FILE or the http address of a server"),
        ("track.uri=sqlite:////no/such/folder/m.db", "/no/such/folder cannot be written"),
    ],
)  # fmt: skip
def test_a_wrong_job_names_the_key_and_the_remedy(refused, tmp_path, override, message) -> None:
    assert message in refused("train", write_job_file(tmp_path), override)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"trainer": "nfsp", "evaluate": {"steps": 2, "repeats": 4}}, "job.yaml: "
         "evaluate.steps, evaluate.repeats have no effect because this trainer's model never "
         "adapts: leave them out"),
        ({"trainer": "rllib", "evaluate": {"games": 50}}, "evaluate.games has no effect because"),
        ({"trainer": "eom", "model": {"ppo_games": 50, "ppo_learning_rate": 0.1}}, "job.yaml: "
         "model.ppo_games, model.ppo_learning_rate have no effect with model.response exact: leave "
         "them out, or set model.response to ppo"),
        ({"trainer": "meta", "meta": {"gradient_estimator": "aivat", "discount": 0.9},
          "adaptation": {"gradient_estimator": None}},
         "meta.discount has no effect with meta.gradient_estimator aivat and without "
         "adaptation.gradient_estimator: leave it out, or set meta.gradient_estimator to critic or "
         "privileged_critic, or set adaptation.gradient_estimator to critic or privileged_critic"),
        ({"trainer": "meta", "meta": {"gradient_estimator": "opponent_model",
                                      "objective": "sampled", "gae_lambda": 0.9}},
         "meta.gae_lambda has no effect with meta.gradient_estimator opponent_model: leave it out, "
         "or set meta.gradient_estimator to critic or privileged_critic"),
        ({"trainer": "meta", "meta": {"objective": "exact", "gae_lambda": 0.9}}, "meta.gae_lambda "
         "has no effect with meta.objective exact: leave it out, or set meta.objective to "
         "sampled"),
        ({"trainer": "evolve", "evolve": {"gradient_estimator": "opponent_model",
                                          "discount": 0.9}}, "evolve.discount has no effect "
         "with evolve.gradient_estimator opponent_model: leave it out"),
    ],
)  # fmt: skip
def test_a_key_without_effect_is_refused(refused, tmp_path, job, message) -> None:
    assert message in refused(
        "train", write_job_file(tmp_path, json.dumps({"game": "leduc", **job}))
    )


@pytest.mark.parametrize(
    "job",
    [
        {"trainer": "nfsp", "evaluate": {"eval_deals": 50, "exploitability_bound": 0.1}},
        {"trainer": "eom", "model": {"response": "ppo", "ppo_games": 50, "ppo_learning_rate": 0.1}},
        {
            "trainer": "meta",
            "meta": {"gradient_estimator": "aivat", "discount": 0.9},
            "adaptation": {"gradient_estimator": "critic"},
        },
        {
            "trainer": "meta",
            "meta": {
                "discount": 0.9,
                "gae_lambda": 0.9,
                "gradient_estimator": "critic",
                "objective": "sampled",
            },
        },
        {"trainer": "meta", "meta": {"gradient_estimator": "critic", "discount": 0.9}},
        {"trainer": "evolve", "evolve": {"gradient_estimator": "critic", "discount": 0.9}},
    ],
)
def test_the_same_key_is_accepted_where_it_has_an_effect(job) -> None:
    TRAINERS[job["trainer"]].validate(job_file.parse({"game": "leduc", **job}, JOBS, "job.yaml"))


def test_an_error_of_the_whole_job_names_no_key(refused, tmp_path) -> None:
    job = write_job_file(tmp_path, "trainer: rllib\ngame: leduc\nppo: {epochs: 2}\n")
    assert refused("train", job, "algorithm=rllib/DQN") == (
        "job.yaml: ppo has no effect with algorithm rllib/DQN: leave it out, or set ppo={}, or set "
        "algorithm to rllib/PPO or rllib/APPO"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("workers=2", "'workers' in job.yaml: all solvers run in one process: set 0"),
        (
            "solve.memory_gib=.inf",
            "'solve.memory_gib' in job.yaml: input should be a finite number",
        ),
        (
            "solve.memory_gib=1e308",
            "'solve.memory_gib' in job.yaml: memory must be 0.001 to 1,048,576 GiB",
        ),
        ("solve.memory_gib=1e-4", "'solve.memory_gib' in job.yaml: memory must be 0.001 to"),
        ("game=kuhn_three", "plan lp: the linear program needs 2 seats: this game has 3"),
        ("game={name: one_card, ranks: 1}", "ranks must be 2 or more, not 1: 2 cards are dealt"),
    ],
)
def test_a_wrong_solve_job_is_refused(refused, tmp_path, override, message) -> None:
    job = write_job_file(tmp_path, "trainer: solve\ngame: kuhn\nsolve: {variants: [cfr, lp]}\n")
    assert message in refused("train", job, override)


def test_an_unreachable_tracking_server_is_reported_but_does_not_stop_a_run(caplog) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}"
        server_address.check(uri)
        (message,) = caplog.messages
        assert message.startswith(f"no MLflow server answers at {uri}")
        assert "events for it wait on disk" in message
        with pytest.raises(UserError, match="start it, or set MLFLOW_TRACKING_URI"):
            server_address.check(uri, must_exist=True)


def test_an_unreachable_cluster_is_reported_at_once(monkeypatch) -> None:
    monkeypatch.setattr(workers.ray, "is_initialized", lambda: False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        for where, why in ((nobody, "Connection refused"), ("nonsense", "Invalid address")):
            monkeypatch.setenv("RAY_ADDRESS", where)
            with pytest.raises(
                UserError, match=f"RAY_ADDRESS={where}: .*{why}.*: set it to HEAD:63"
            ):
                workers.start_ray([{"CPU": 1.0}])


@contextmanager
def answering(status: int, pages: Mapping[str, tuple[int, str]] | None = None) -> Iterator[str]:
    """Start a server that gives one answer to every request, except to paths that begin with a key
    of `pages`, and yield its address."""

    class Always(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            matching = (
                page for start, page in (pages or {}).items() if self.path.startswith(start)
            )
            code, text = next(matching, (status, ""))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Always) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_behind_a_gateway_with_an_error_is_waited_for(caplog) -> None:
    for status in (502, 503, 504):
        with answering(status) as uri:
            server_address.check(uri)
            assert caplog.messages.pop().startswith(f"no MLflow server answers at {uri}")
    for status in (404, 500):
        with (
            answering(status) as uri,
            pytest.raises(UserError, match=r"start it, or set track\.uri"),
        ):
            server_address.check(uri)


def test_an_experiment_in_which_the_user_may_make_no_runs_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "second")
    api, matching = "/api/2.0/mlflow", '{"experiment": {"experiment_id": "7"}}'
    by_name = f"{api}/experiments/get-by-name?experiment_name="
    pages = {
        "/health": (200, "OK"),
        f"{api}/experiments/search": (200, "{}"),
        f"{by_name}theirs": (200, matching),
        f"{by_name}hidden": (403, "Permission denied"),
        f"{api}/runs/create": (403, "Permission\ndenied"),
    }
    with answering(404, pages) as uri:
        for name in ("theirs", "hidden"):
            message = rf"no runs of 'second' in '{name}' \(Permission denied\): ask for"
            with pytest.raises(UserError, match=message):
                server_address.check(uri, experiment=name)
        server_address.check(uri, experiment="new")
        server_address.check(uri, must_exist=True)
        pages[f"{api}/runs/create"] = (400, "start_time must be a number")
        server_address.check(uri, experiment="theirs")
        pages[f"{api}/experiments/search"] = (403, "who are you?")
        with pytest.raises(
            UserError, match=r"gives 'second' no access \(who are you\?\): set MLFLOW"
        ):
            server_address.check(f"{uri}/", must_exist=True)


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False),
        (ssl.SSLError(1, "wrong version number"), False),
    ],
)
def test_an_unreachable_network_is_waited_for_and_a_wrong_host_name_is_not(
    monkeypatch, error: OSError, away: bool
) -> None:
    uri = f"http://mlflow{error.errno}:5000"  # results are cached by address

    def out_of_reach(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", out_of_reach)
    if away:
        server_address.check(uri)
    else:
        with pytest.raises(UserError, match=r"start it, or set track\.uri"):
            server_address.check(uri)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-5", 1e-5), ("1_000", 1000), ("-3", -3), (".5", 0.5), ("2.", 2.0), ("1E3", 1000.0),
     ("010", "010"), ("00.5", "00.5"), ("0x10", "0x10"), ("0b1", "0b1"), ("1:30", "1:30"),
     ("1__", 1), ("2020-01-01", "2020-01-01"), ("+", "+"), (".", ".")],
)  # fmt: skip
def test_numbers_of_yaml_are_decimal_and_other_forms_are_text(text: str, value: Any) -> None:
    assert (parse_yaml(text), type(parse_yaml(text))) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainer: [meta", "job.yaml is not YAML"),
        ("just words", "job.yaml is not a job: it must map keys to values"),
        ("game: leduc", "unknown trainer 'None' in job.yaml"),
        ("algorithm: rllib/PPO", "unknown trainer 'None' in job.yaml: did you mean 'rllib'?"),
        ("trainer: meta", "'game' in job.yaml: field required"),
        (JOB + "seed: 1\nseed: 2\n", "key 'seed' stands twice"),
        ("\udcff\udcfe", "job.yaml is not YAML"),
        (JOB + "meta: !!map [1]\n", "not a mapping"),
        (JOB + 'meta: {"\\uD800": 1}\n', "must be text in UTF-8"),
        (JOB + "seed: !!int 1:30\n", "'1:30' cannot be read as int"),
        (JOB + "seed: 1:0:0\n", "'seed' in job.yaml: input should be a valid integer"),
        (JOB + "seed: 0x10\n", "'seed' in job.yaml: input should be a valid integer"),
    ],
)
def test_a_file_without_a_job_is_refused(refused, tmp_path, text, message) -> None:
    assert message in refused("train", write_job_file(tmp_path, text))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "absent.yaml"), "cannot read job file absent.yaml: No such file"),
        (("train",), "train needs a job file, or --resume RUN"),
        (("train", "stop.iterations=9", "--resume", "a"), "train --resume a: leave out stop.iter"),
        (("evaluate", "b", "--resume", "a"), "evaluate --resume a: leave out b: a resumed run"),
        (("train", "--resume", "absent"), "no run 'absent' in "),
        (("evaluate", "--resume", "a", "--workers", "2"), "--workers has no effect with --resume"),
        (("evaluate", "absent"), "no run 'absent' in "),
        (("solve", "kunh"), "unknown game 'kunh': did you mean 'kuhn'?"),
        (("solve", "holdem"), "holdem is too large for a tree, which this needs"),
        (("solve", "kuhn", "--plan", "cfrr"), "unknown plan 'cfrr': did you mean 'cfr'?"),
        (("solve", "kuhn", "--iterations", "0"), "greater than or equal to 1"),
        (("best-response", "leduc", "--against", "calll"), "did you mean 'call'?"),
        (("best-response", "leduc", "--against", "./absent"), "no model in absent"),
        (("solve", "kuhn", "--memory", "inf"), "memory must be 0.001 to 1,048,576 GiB, not inf"),
        (("solve", "kuhn", "--memory", "nan"), "memory must be 0.001 to 1,048,576 GiB, not nan"),
        (("solve", "kuhn", "--memory", "1e308"), "GiB, not 1e+308"),
        (("solve", "kuhn", "--memory", "0"), "GiB, not 0"),
        (("solve", "kuhn_three", "--plan", "lp"), "plan lp: the linear program needs 2 seats"),
        (("best-response", "leduc", "--against", "call", "--games", "8"), "leave out --games"),
        (("best-response", "holdem", "--against", "cfr"), "unknown opponent 'cfr' in holdem"),
        (("best-response", "holdem", "--against", "la", "--games", "7"), "an even number"),
        (("bridge", "boards", "boards.pbn", "--to", "."), "cannot write .: name a .pbn"),
        (("match", "random", "call", "--boards", "9" * 20), "less than or equal to 1000000000"),
        (("trian",), "No such command 'trian'"),
        (("solve", "kuhn", "--save", "\udcff"), r"'\udcff' is not text in UTF-8: rename the file"),
        (("evaluate", "x" * 5000), f"{'x' * 40}... is too long for the name of a file"),
    ],
)
def test_a_wrong_command_is_refused(refused, arguments, message) -> None:
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "job.yaml"), ("train", "--resume", "kuhn-7"), ("resume", "kuhn-7"),
        ("evaluate", "kuhn-7"), ("view", "kuhn-7"), ("list",),
        ("match", "kuhn-7", "random"), ("match", "kuhn-7", "natural"),
        ("bridge", "hands", "kuhn-7"), ("register", "kuhn-7", "best"), ("safety", "kuhn-7"),
        ("best-response", "kuhn", "--against", "kuhn-7"), ("play", "kuhn", "--against", "kuhn-7"),
    ],
)  # fmt: skip
def test_an_unknown_url_is_no_folder_of_runs(refused, tmp_path, monkeypatch, arguments) -> None:
    write_job_file(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("OVERTRICK_RUNS", "ftp://host/runs")
    problem = (
        "OVERTRICK_RUNS is the URL ftp://host/runs: name s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, "
        "file:///PATH, or a local or mounted folder"
    )
    assert problem in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("solve", "kuhn", "--save", "http://host/model"), "--save"),
        (("generate", "abstraction", "--out", "hdfs:///tmp/a.parquet"), "--out"),
        (("view", "games.parquet", "--out", "s3://bucket/view.html"), "the output"),
        (("match", "random", "call", "--game", "kuhn", "--keep", "s3://b/g.parquet"), "the output"),
        (("bridge", "match", "natural", "natural", "--out", "s3://b/m.md"), "the output"),
        (("bridge", "boards", "boards.pbn", "--to", "s3://b/boards.lin"), "the output"),
        (("safety", "kuhn-7", "--out", "s3://bucket/safety"), "--out"),
        (("train", "job.yaml", "evaluate.solutions=s3://b/x"), "'evaluate.solutions' in job.yaml"),
    ],
)  # fmt: skip
def test_a_url_is_no_output(refused, tmp_path, arguments, name) -> None:
    write_job_file(tmp_path, "trainer: tabular\ngame: minibridge\n")
    message = refused(*arguments)
    assert message.startswith(name)
    assert " is the URL " in message


def test_a_url_is_no_cache_folder(monkeypatch) -> None:
    for name in ("OVERTRICK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv("OVERTRICK_CACHE")
        monkeypatch.setenv(name, "s3://bucket/cache")
        with pytest.raises(UserError, match=f"^{name} is the URL s3://bucket/cache: name a local"):
            cache_folder()


def test_a_file_url_is_a_folder_of_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", f"file://{tmp_path}/my%20runs")
    assert locate.runs_folder() == tmp_path / "my runs"


def test_an_empty_variable_means_the_default_folder_of_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERTRICK_RUNS", "")
    assert locate.runs_folder() == tmp_path / "runs"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    weights = {"policy.w0": np.zeros((12, 2), np.float32), "policy.b0": np.zeros(2, np.float32)}
    folder = tmp_path / "model"
    job = {"trainer": "meta", "game": {"name": "kuhn"}}
    model_files.save(model_files.Model(weights, "kuhn", job), folder)
    return folder


def test_a_model_in_the_working_folder_is_suggested_by_its_path(refused, stored: Path) -> None:
    job = write_job_file(stored.parent, JOB + "evaluate: {opponents: [model]}\n")
    message = refused("train", job)
    assert message == f"unknown opponent 'model' in leduc: did you mean '{stored}'?"


@pytest.fixture
def a_run(stored: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store a run with a model in the folder of runs, and change to another folder."""
    folder = stored.parent / "kept" / "kuhn-7"
    folder.mkdir(parents=True)
    stored.rename(folder / "model")
    (folder / "job.json").write_text('{"trainer": "meta"}')
    monkeypatch.setenv("OVERTRICK_RUNS", str(folder.parent))
    monkeypatch.chdir(stored.parent)
    return folder


def test_a_run_is_an_opponent_by_its_name_and_by_its_folder(a_run: Path) -> None:
    uniform = best_response_to("kuhn", "random")["values"]  # weights of 0 play uniformly
    for place in (a_run.name, str(a_run), f"kept/{a_run.name}/", str(a_run / "model")):
        assert best_response_to("kuhn", place)["values"] == pytest.approx(uniform, abs=1e-6)
        assert match.play_match(place, "random", None, {}, 2, 0).game == "kuhn"


@pytest.mark.parametrize(
    "place", ["kuhn-7", "kuhn-7/", "kept/kuhn-7", "./kept/kuhn-7/", "{here}/kept/kuhn-7"]
)
def test_a_run_is_found_by_its_name_and_by_its_path(a_run: Path, monkeypatch, place: str) -> None:
    """All commands find a run by `locate.existing_run`, and a model by `locate.existing_model`."""
    asked = []

    def study(choice: object, *players: object) -> NoReturn:
        asked.extend(players[:2])
        raise UserError("that is enough")

    monkeypatch.setattr(cardplay_style, "study_style", study)
    place = place.format(here=a_run.parents[1])
    assert locate.existing_run(place).path == a_run
    assert locate.existing_model(place) == a_run / "model"
    with pytest.raises(UserError, match="that is enough"):
        cli.app(["bridge", "hands", place, "--against", place], standalone_mode=False)
    assert asked == [str(a_run / "model")] * 2


@pytest.mark.parametrize(
    ("job", "check"),
    [
        ({"trainer": "meta", "evaluate": {"opponents": ["kuhn-7"]}}, True),
        ({"trainer": "exploit", "exploit": {"opponent": "kuhn-7"}}, True),
        ({"trainer": "tournament", "tournament": {"players": ["random", "kuhn-7"]}}, True),
        ({"trainer": "rllib", "population": {"opponents": ["kuhn-7"]}}, True),
        ({"trainer": "meta", "videos": {"every": 1, "opponent": "kuhn-7"}}, False),
        ({"trainer": "bidder", "game": "auction", "call_model": "kuhn-7", "value_model": "x",
          "deals": "d"},
         False),
    ],
)  # fmt: skip
def test_a_job_stores_the_folder_of_a_run_that_it_names(a_run: Path, job, check) -> None:
    read = job_file.parse({"game": "kuhn", **job}, JOBS, "job.yaml")
    assert f'"{a_run}"' in read.model_dump_json()
    if check:
        TRAINERS[read.trainer].validate(read)


def test_a_run_without_a_model_is_refused_wherever_it_is_named(refused, a_run: Path) -> None:
    (a_run / "model").rename(a_run / "gone")
    line = "kuhn-7 is not done and has no model yet: `overtrick resume kuhn-7` continues it"
    named = JOB.replace("leduc", "kuhn") + "evaluate: {opponents: [kuhn-7]}\n"
    job = write_job_file(a_run.parents[1], named)
    for words in (
        ("match", "kuhn-7", "call"), ("match", "kuhn-7", "natural"), ("evaluate", "kuhn-7"),
        ("best-response", "kuhn", "--against", "kuhn-7"), ("train", job),
        ("bridge", "suggest", "kuhn-7", "AQ42.K5.QT93.K76"),
        ("play", "kuhn", "--against", "kuhn-7"),
    ):  # fmt: skip
        assert refused(*words) == line
    a_run.rename(a_run.parents[1] / "kuhn-7")  # resume would not find it here by its name
    assert f"`overtrick resume {a_run.parents[1] / 'kuhn-7'}` continues it" in refused(
        "evaluate", "./kuhn-7"
    )


def test_a_child_run_is_resumed_by_its_group(refused, a_run: Path) -> None:
    part = a_run / "trials" / "kuhn-7-001"
    part.mkdir(parents=True)
    (part / "job.json").write_text("{}")
    (a_run / "model").rename(a_run / "gone")
    assert refused("evaluate", "kuhn-7").startswith("kuhn-7 has child runs: name one of those in")
    message = refused("match", "kuhn-7/trials/kuhn-7-001", "call")
    assert (
        message
        == "kuhn-7-001 is not done and has no model yet: `overtrick resume kuhn-7` continues it"
    )


def test_a_misspelt_name_of_a_run_is_refused_with_the_nearest_name(refused, a_run: Path) -> None:
    job = write_job_file(a_run.parents[1], JOB + "evaluate: {opponents: [khun-7]}\n")
    message = "unknown opponent 'khun-7' in leduc: did you mean 'kuhn-7'?"
    assert refused("train", job) == message
    assert refused("best-response", "leduc", "--against", "khun-7") == message


def test_a_truncated_model_is_refused(refused, stored: Path) -> None:
    weights = stored / model_files.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-7])
    for command in (("evaluate", str(stored)), ("best-response", "kuhn", "--against", str(stored))):
        message = refused(*command)
        assert f"{weights} is truncated or damaged" in message
        assert "train again or restore it" in message


def test_a_model_of_another_game_is_refused(refused, stored: Path) -> None:
    message = refused("best-response", "leduc", "--against", str(stored))
    assert message == f"the model in {stored} plays kuhn, not leduc"


def test_a_model_with_other_inputs_is_refused(refused, stored: Path) -> None:
    weights = {"policy.w0": np.zeros((7, 2), np.float32), "policy.b0": np.zeros(2, np.float32)}
    model_files.save(
        model_files.Model(weights, "kuhn", {"trainer": "meta", "game": "kuhn"}), stored
    )
    for command in (("evaluate", str(stored)), ("best-response", "kuhn", "--against", str(stored))):
        message = f"the model in {stored} has other inputs or actions than kuhn, or layers that do"
        assert refused(*command).startswith(message)


def test_a_file_that_is_no_database_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("these are not the bytes of a database at all" * 9)
    assert "mlflow.db is not a SQLite database" in refused("train", write_job_file(tmp_path))


def test_a_damaged_model_card_is_refused(refused, stored: Path) -> None:
    (stored / model_files.CARD).write_text("{")
    assert "is damaged (Invalid JSON: " in refused("evaluate", str(stored))
    (stored / model_files.CARD).write_text('{"format": 99}')
    assert "has format 99; this version reads 1" in refused("evaluate", str(stored))
    for card, problem in (
        ('{"format": 1}', "game: Field required"),
        ('{"format": 1, "game": "kuhn", "job": "meta"}', "job: Input should be an object, not "),
    ):
        (stored / model_files.CARD).write_text(card)
        for command in ("evaluate",), ("best-response", "kuhn", "--against"):
            message = refused(*command, str(stored))
            assert message.startswith(f"{stored / model_files.CARD} is damaged ({problem}")
            assert message.endswith("): restore it")


def test_standard_output_contains_only_the_answer() -> None:
    program = """
import atexit, os
from overtrick.cli import main
atexit.register(print, "as Ray does", flush=True)
atexit.register(os.write, 1, b"as a library does\\n")
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "trian", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout) == {"error": "No such command 'trian'. Did you mean 'train'?"}
    assert done.stderr.splitlines()[-2:] == ["as a library does", "as Ray does"]


def test_an_error_is_printed_though_nobody_reads_standard_output(monkeypatch, capsys) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "argv", ["overtrick", "solve", "khun", "--json"])
    monkeypatch.setattr(sys.stdout, "write", gone)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: unknown game 'khun'")


def test_a_result_is_dropped_if_standard_output_is_closed(monkeypatch) -> None:
    def closed(*_: object) -> int:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(os, "dup", closed)
    with cli._original_stdout.__wrapped__() as stream:
        stream.write("{}\n")


@pytest.mark.parametrize("words", [[], ["bridge"], ["generate"]], ids=" ".join)
def test_a_command_line_without_a_command_prints_the_help(monkeypatch, capsys, words) -> None:
    monkeypatch.setattr(sys, "argv", ["overtrick", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    out, err = capsys.readouterr()
    assert "Usage: " in out
    assert err == ""


def test_a_model_survives_an_interrupted_save(stored: Path, monkeypatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("overtrick.core.files.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        model_files.save(model_files.Model({}, "kuhn", {}), stored)
    assert model_files.load(stored, "kuhn").weights["policy.w0"].shape == (12, 2)
    assert [p.name for p in stored.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left", "job.json"), "No space left: 'job.json'"),
        (MemoryError("Unable to allocate 9 TiB"), "not enough memory: Unable to allocate 9 TiB"),
    ],
)
def test_a_full_disk_or_memory_is_one_line_and_exit_code_1(
    error: Exception, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def full(*_: object) -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("overtrick.runs.lifecycle.write_text", full)
    monkeypatch.setattr(sys, "argv", ["overtrick", "train", write_job_file(tmp_path), "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert line in json.loads(out.splitlines()[-1])["error"]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "meta.objective=exact",
            "meta.objective: exact needs a tree, and holdem is too large for one",
        ),
        (
            "meta.gradient_estimator=aivat",
            "meta.gradient_estimator: aivat needs a tree, and holdem is too large for one",
        ),
        (
            "meta.gradient_estimator=opponent_model",
            "meta.gradient_estimator: opponent_model needs a tree, and holdem is too large for one",
        ),
        (
            "adaptation.gradient_estimator=aivat",
            "adaptation.gradient_estimator: aivat needs a tree, and holdem is too large",
        ),
        (
            "evaluate.exploitability_bound=0.1",
            "evaluate.exploitability_bound: a bound needs a tree, and holdem is too large",
        ),
        ("evaluate.opponents=[cfr]", "unknown opponent 'cfr' in holdem"),
        (
            "population.action_std_scale=0.1",
            "population.action_std_scale: holdem has discrete actions, without a",
        ),
        ("game.view=suits", "view must be cards or strength, not 'suits'"),
        (
            "meta.normalise=true",
            "meta.normalise needs meta.gradient_estimator critic, meta.objective sampled and "
            "adaptation.gradient_estimator critic or null",
        ),
    ],
)
def test_values_that_need_a_tree_are_refused_for_games_without_one(
    refused, tmp_path, override, message
):
    job = write_job_file(tmp_path), "game.name=holdem", "evaluate.opponents=[random]"
    assert message in refused("train", *job, override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "adaptation.gradient_estimator=opponent_model",
            "adaptation.gradient_estimator: opponent_model counts discrete actions, and sumo has",
        ),
        (
            "meta.gradient_estimator=privileged_critic",
            "meta.gradient_estimator: sumo has no privileged features: set critic",
        ),
        (
            "evaluate.opponents=[zoo:mlp1]",
            "zoo:mlp1 needs AgentZoo's parameter files: set game.zoo",
        ),
        (
            "evaluate.bound_method=nearest",
            "evaluate.bound_method has no effect without evaluate.exploitability_bound",
        ),
        (
            "trainer=nfsp",
            "sumo has continuous actions, but this trainer needs discrete actions",
        ),
    ],
)
def test_trainers_of_discrete_actions_are_refused_in_sumo(
    refused, tmp_path, override, message, monkeypatch
):
    monkeypatch.delenv("OVERTRICK_ZOO", raising=False)
    job = {"trainer": "meta", "game": "sumo", "evaluate": {"opponents": ["random"]}}
    (tmp_path / "sumo.yaml").write_text(yaml.safe_dump(job))
    assert message in refused("train", str(tmp_path / "sumo.yaml"), override)


@pytest.mark.parametrize(
    ("trainer", "override", "message"),
    [
        (
            "evolve",
            "evolve.gradient_estimator=privileged_critic",
            "evolve.gradient_estimator: privileged_critic needs a critic",
        ),
        *[
            (
                trainer,
                "evaluate.learning_rate=0.1",
                "unknown key 'evaluate.learning_rate' in job.yaml: known: evaluate.steps",
            )
            for trainer in ("nfsp", "dron", "eom")
        ],
    ],
)
def test_a_key_that_a_trainer_cannot_use_is_refused(refused, tmp_path, trainer, override, message):
    job = write_job_file(
        tmp_path, f"trainer: {trainer}\ngame: kuhn\nevaluate: {{opponents: [random]}}\n"
    )
    assert message in refused("train", job, override)
