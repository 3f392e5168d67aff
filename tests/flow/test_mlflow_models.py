"""Models in MLflow: they answer observations as they play, from any folder, and are read as data
only."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import yaml
from mlflow import MlflowClient
from tests.rounding import assert_float32_close

import overtrick
from overtrick import cli
from overtrick.config import job_file
from overtrick.core import UserError, select_rows
from overtrick.core.checkpoints import prefixed
from overtrick.evaluation import bidders, reference_opponents
from overtrick.games.bridge.auction import network_bidder, network_inputs, stored_networks
from overtrick.games.bridge.system import loader
from overtrick.learners.initialisation import initial_policy_weights, initial_weights
from overtrick.learners.value_based import dqn
from overtrick.learners.value_based.tabular import QTable, TabularConfig
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.runs import lifecycle
from overtrick.serving import predictor
from overtrick.storage import locate, model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import event_delivery, mlflow_tracker, model_versions
from overtrick.training.registry import JOBS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
RULES = {"precision": loader.fingerprint(loader.load("precision"))}
NETWORK = {"activation": "leaky_relu", "bfloat16": False}


def weights_of(kind: str, rng: np.random.Generator, game_and_tree: Any) -> dict[str, np.ndarray]:
    """Return random weights in the format of a trained model."""
    name = kind.split(maxsplit=1)[0]
    if kind == "leduc solved":
        tree = game_and_tree("leduc")[1]
        mix = rng.exponential(size=tree.legal.shape) * tree.legal
        return {"sigma": mix / mix.sum(axis=1, keepdims=True)}
    if name == "auction":
        sizes = (network_inputs.WIDTHS["last_bid"], 8)
        return {
            key: value
            for each in kind.split()[1:]
            for key, value in prefixed(
                each, initial_weights((*sizes, network_bidder.OUTPUT_WIDTHS[each]), rng, 10)
            ).items()
        }
    game = overtrick.make(name)
    if kind == "minibridge table":
        table = QTable(game.state_keys("prospects"), TabularConfig("q", None, 0.0))
        table.learn(play(game, [UniformPolicy()] * 2, 50, rng, recorded=(0,)).batch)
        return prefixed("declarer", table.columns)
    if kind == "minibridge values":
        return prefixed(dqn.GREEDY, initial_weights((723, 8, 52), rng))
    return prefixed("policy", initial_policy_weights(game, (8,), rng))


KINDS = (
    "leduc solved", "leduc network", "brps network", "holdem network", "minibridge table",
    "minibridge values", "auction calls", "auction imps", "auction calls imps", "sumo network",
)  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory, game_and_tree):
    """Return a function from the kind of a model to its folder."""
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            place = tmp_path_factory.mktemp(kind.replace(" ", "_")) / "model"
            job = {
                "trainer": "tests", "game": {"name": kind.split(maxsplit=1)[0], "options": {}},
                "system": "precision", "system_version": RULES, "network": NETWORK,
                "tabular": {"state_abstraction": "prospects"},
            }  # fmt: skip
            weights = weights_of(kind, np.random.default_rng(4), game_and_tree)
            model_files.save(model_files.Model(weights, job["game"]["name"], job), place)
            made[kind] = place
        return made[kind]

    return of


def some_observations(game: Any) -> Any:
    """Return observations of some random games."""
    rng = np.random.default_rng(5)
    deals = game.deal(6, rng)
    if game.actions is None:
        return game.observe(game.start(deals))
    if game.name == "auction":
        deals[:, -20:] = rng.integers(14, size=(6, 20))  # as if they were solved double dummy
    return play(game, [UniformPolicy()] * game.seats, deals, rng).batch.observations()


def test_every_kind_of_model_answers_as_it_plays(stored):
    for kind in KINDS:
        if kind.startswith(("auction", "sumo")):
            continue  # tested below
        folder = stored(kind)
        served, observations = (
            predictor.Predictor(folder),
            some_observations(overtrick.make(kind.split()[0])),
        )
        assert (served.kind, served.outputs) == (
            "probabilities",
            served.game.action_names,
        )
        assert np.array_equal(
            served.predict(observations.observation),
            model_files.policy(folder, served.game).probs(observations),
        )


def test_real_actions_are_answered_by_means_and_standard_deviations(stored):
    served, observations = (
        predictor.Predictor(stored("sumo network")),
        some_observations(overtrick.make("sumo")),
    )
    assert served.kind == "moves"
    assert served.outputs[7:9] == (
        served.game.action_names[7],
        f"{served.game.action_names[0]}_std",
    )
    policy = model_files.policy(stored("sumo network"), served.game)
    drawn = np.stack([
        policy.start(len(observations), np.random.default_rng(k)).act(observations).action
        for k in range(2000)
    ])  # fmt: skip
    mean, deviation = np.split(served.predict(observations.observation), 2, axis=1)
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * deviation.max() / np.sqrt(2000)
    assert drawn.std(axis=0) == pytest.approx(deviation, rel=0.1)


def test_a_bidder_answers_its_call_and_a_network_its_output(stored):
    observations = some_observations(overtrick.make("auction"))
    alone = {n: stored(f"auction {n}") for n in network_bidder.OUTPUT_WIDTHS}
    both, against = (bidders.load_side(str(w)) for w in (stored("auction calls imps"), "natural"))
    calls = bidders.load_side(str(alone["calls"])).calls
    model = model_files.load(alone["imps"])
    imps = stored_networks.load_network(model.weights, "imps", model.job, str(alone["imps"]))
    made = predictor.Predictor(stored("auction calls imps")).predict(observations.observation)
    likely, worth = (
        predictor.Predictor(folder).predict(observations.observation) for folder in alone.values()
    )
    assert np.array_equal(np.isnan(worth), ~observations.legal)
    for row in range(4):  # two hands of each side
        one = select_rows(observations, np.array([row]))
        pair = (both.system, against.system)
        if observations.observation[row, 0] % 2:
            pair = pair[::-1]
        whole = network_bidder.NetworkBidder(*pair, both.calls, both.imps)
        assert np.array_equal(made[[row]], whole.probs(one))
        assert_float32_close(
            likely[[row]], network_bidder.NetworkBidder(*pair, calls).call_probabilities(one)
        )
        for each in network_bidder.NetworkBidder(*pair, calls, imps).candidates(one)[0]:
            assert_float32_close(worth[row, each.call], each.imps, size=24)


def test_a_bidder_is_refused_after_its_rules_have_changed(stored, monkeypatch):
    folder = stored("auction calls")
    monkeypatch.setattr(loader, "fingerprint", lambda rules: "another")
    with pytest.raises(UserError, match="the rules of precision have changed since the model in"):
        predictor.Predictor(folder)


def test_no_rows_give_no_rows(stored):
    served = predictor.Predictor(stored("auction calls"))
    with pytest.raises(UserError, match="send at least one row of observations"):
        served.predict(np.zeros((0, len(served.observation_fields)), np.int64))


@pytest.mark.parametrize(
    ("kind", "field", "value", "why"),
    [
        ("leduc solved", "hole", 9, "row 0: hole must be 0 to 2, not 9"),
        ("leduc solved", "betting", 10**6, "row 0: betting must be 0 to"),
        (
            "leduc solved",
            "own_chips",
            3,
            "row 0: the observation fields contradict each other: hole 2, board -1",
        ),
        ("leduc solved", "board", 1, "contradict each other"),  # before the board is turned
        ("minibridge values", "strain", 5, "strain must be 0 to 4, not 5"),
        ("minibridge values", "own", 3, "contradict each other"),
        ("auction calls", "own", 7, "the observation fields must contain 13 cards"),
        ("auction calls", "bid_1C", 0, "contradict each other"),
        ("auction calls", "redoubled_1C", 0, "of the auction, XX, comes before any bid"),
        ("sumo network", "own_x", np.inf, "the observation fields must be finite numbers"),
    ],
)
def test_impossible_observations_are_refused(stored, kind, field, value, why):
    served = predictor.Predictor(stored(kind))
    observed = served.example()
    observed = observed.astype(np.float64 if kind.startswith("sumo") else np.int64)
    observed[0, served.observation_fields.index(field)] = value
    with pytest.raises(UserError, match=re.escape(why)):
        served.predict(observed)


@pytest.mark.parametrize(
    ("weights", "game", "why"),
    [
        ({"made": np.array(1)}, "minibridge", "not a policy by itself: it must search, or observe"),
        ({"sigma": np.ones((1, 1))}, "openspiel/kuhn_poker", "which has no observations"),
    ],
)
def test_models_without_a_policy_are_refused(tmp_path, weights, game, why):
    model_files.save(model_files.Model(weights, game, {}), tmp_path / "model")
    with pytest.raises(UserError, match=why):
        predictor.mlflow_description(tmp_path / "model")


def log_model(store: str, folder: Path, source: Path, name: str | None = None) -> str:
    """Record a run that stores the model of a folder; return its name in MLflow."""
    folder.mkdir()
    tracker = mlflow_tracker.Tracker(store, "models", folder.name, folder, {})
    tracker.model(source, predictor.mlflow_description(source), 1)
    if name is not None:
        tracker.register(name)
    assert tracker.close("FINISHED") == 0
    assert tracker.rejected == 0
    assert tracker.run_id is not None
    return tracker.run_id


@pytest.fixture(scope="module")
def registry_folder(store, tmp_path_factory, stored):
    """Return a folder whose MLflow store has three registered models, one of them with the alias
    champion."""
    folder = tmp_path_factory.mktemp("here")
    kinds = {"leduc-meta": "leduc solved", "bidder": "auction calls imps", "ant": "sumo network"}
    runs = {
        name: log_model(store, folder / name, stored(kind), name) for name, kind in kinds.items()
    }
    model_versions.register(MlflowClient(store, store), runs["bidder"], "bidder", "champion")
    return folder


@pytest.fixture
def at(registry_folder, store, tmp_path, monkeypatch):
    """Use that MLflow store, with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path / "cache"))
    mlflow.set_tracking_uri(store)
    mlflow.set_registry_uri(store)
    yield registry_folder
    mlflow.set_tracking_uri(None)
    mlflow.set_registry_uri(None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("models:/leduc-meta/1", "leduc solved"),
        ("models:/bidder@champion", "auction calls imps"),
        ("models:/ant/1", "sumo network"),
    ],
)
def test_mlflow_loads_a_model_that_answers_the_same(at, stored, name, kind):
    loaded, served = mlflow.pyfunc.load_model(name), predictor.Predictor(stored(kind))
    assert [c.name for c in loaded.metadata.signature.inputs] == list(served.observation_fields)
    assert [c.name for c in loaded.metadata.signature.outputs] == list(served.outputs)
    observed = some_observations(served.game).observation
    answers = loaded.predict(dict(zip(served.observation_fields, observed.T.tolist(), strict=True)))
    rows = np.array([[row[name] for name in served.outputs] for row in answers])
    assert_float32_close(rows, served.predict(observed))
    example = loaded.predict(loaded.input_example)
    assert len(example) == len(served.example())


def test_the_request_of_the_page_is_valid_for_mlflow(at):
    """It is the curl command of the page; test_model_server.py sends it to a server."""
    predictor = re.search(r"-d '([^']+)'", PAGE.read_text())
    assert predictor is not None
    outputs = mlflow.pyfunc.load_model("models:/leduc-meta/1").predict(
        json.loads(predictor[1])["inputs"]
    )
    assert sum(outputs[0].values()) == pytest.approx(1)


def ask(monkeypatch: Any, capsys: Any, *words: str) -> tuple[Any, dict[str, Any]]:
    """Return a function that runs a command and returns its exit code and JSON answer."""
    monkeypatch.setattr(sys, "argv", ["overtrick", *words, "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_registered_model_is_accepted_wherever_a_folder_is(at, stored, monkeypatch, capsys):
    def answer_of(*words):
        return ask(monkeypatch, capsys, *words)[1]

    by_name, by_folder = (
        answer_of("match", "call", player, "--boards", "50")["mean"]
        for player in ("models:/leduc-meta/1", str(stored("leduc solved")))
    )
    assert by_name == by_folder
    both = answer_of("best-response", "leduc", "--against", "models:/leduc-meta/1")
    assert (
        both["mean"]
        == answer_of("best-response", "leduc", "--against", str(stored("leduc solved")))["mean"]
    )
    hand = "AQ42.K5.QT93.K76"
    thought = answer_of("bridge", "suggest", "models:/bidder@champion", hand, "1N P")
    assert thought["candidates"]
    assert (
        thought["candidates"]
        == answer_of("bridge", "suggest", str(stored("auction calls imps")), hand, "1N P")[
            "candidates"
        ]
    )


def test_a_job_stores_the_folder_of_a_registered_name(at, tmp_path):
    """The alias may change later, and the job must continue with the same model."""
    plan = {
        "trainer": "meta",
        "game": "leduc",
        "evaluate": {"opponents": ["call", "models:/leduc-meta/1"]},
    }
    job = job_file.parse(plan, JOBS, "a test")
    _, folder_in_job = job.evaluate.opponents
    assert Path(folder_in_job).parents[2] == tmp_path / "cache"
    assert Path(folder_in_job).name == "leduc-meta-1"  # its name in tables and metrics
    game = overtrick.make("leduc")
    assert reference_opponents.make_opponent(folder_in_job, game, None).probs is not None
    again = job_file.parse(job.model_dump(mode="json"), JOBS, "a test")
    assert again == job
    plan["evaluate"]["opponents"][1] = "models:/leduc-meta/2"
    with pytest.raises(
        UserError,
        match=r"'evaluate.opponents.1' in a test: model 'leduc-meta' at .* no version 2; it has 1",
    ):
        job_file.parse(plan, JOBS, "a test")


def test_a_run_records_the_registered_models_that_it_used(at, store, stored, tmp_path):
    plan = {
        "trainer": "meta",
        "game": "leduc",
        "evaluate": {"opponents": ["call", "models:/leduc-meta/1"]},
        "track": {"uri": store},
    }
    folder = RunFolder(tmp_path / "meets")
    folder.path.mkdir()
    job = job_file.parse(plan, JOBS, "a test")
    lifecycle.write_job(job, folder)
    lifecycle.open_tracker(lifecycle.read_job(folder), folder).close("FINISHED")
    outputs = MlflowClient(store, store).get_run(folder.run_id).data.tags
    assert json.loads(outputs["overtrick.model.1"]) == {
        "model": "models:/leduc-meta/1",
        "sha256": locate.digests(Path(job.evaluate.opponents[1])),
    }
    assert "overtrick.model.2" not in outputs


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("models:/leduc-mata/1", "'leduc-mata' is registered at .*: did you mean 'leduc-meta'?"),
        ("models:/leduc-meta/3", "model 'leduc-meta' at .* has no version 3; it has 1"),
        ("models:/bidder@champ", "model 'bidder' at .* has no alias 'champ'; it has champion"),
        ("models:/bidder", "'models:/bidder' names no registered model: write models:/NAME/V"),
        ("models:/../1", "names no registered model"),
    ],
)  # fmt: skip
def test_an_unknown_registered_name_is_refused_with_the_known_ones(at, name, why):
    with pytest.raises(UserError, match=why):
        locate.existing_model(name)


def test_a_missing_mlflow_store_gives_one_error_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=r"no MLflow store at sqlite:.*: set MLFLOW_TRACKING_URI"):
        locate.existing_model("models:/leduc-meta/1")
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"no MLflow server answers at http://127.0.0.1:9"):
        locate.existing_model("models:/leduc-meta/1")


def stored_in_mlflow(store: str, run_id: str) -> Path:
    """Return the folder in which MLflow stores the model of a run on this machine."""
    client = MlflowClient(store, store)
    (model,) = model_versions.model_ids(client, run_id).values()
    where = client.get_logged_model(model).artifact_location
    return Path(where.removeprefix("file://"))


def test_commands_never_run_the_code_beside_a_model_but_mlflow_does(
    at, store, stored, tmp_path, monkeypatch
):
    run_id = log_model(store, tmp_path / "theirs", stored("leduc solved"), "theirs")
    trap = tmp_path / "sprung"
    script = stored_in_mlflow(store, run_id) / event_delivery.LOADER.name
    assert (
        script.read_bytes() == event_delivery.LOADER.read_bytes()
    )  # it is our code unless someone has changed it
    script.write_text(f"open({str(trap)!r}, 'w')\n" + script.read_text())
    (stored_in_mlflow(store, run_id) / event_delivery.STORED / "weights.pkl").write_bytes(
        b"cos\nabort\n(tR."
    )
    folder = locate.existing_model("models:/theirs/1")
    assert model_files.policy(folder, overtrick.make("leduc")) is not None
    assert {p.name for p in folder.iterdir()} == {*locate.FILES, locate.ORIGIN}
    assert not trap.exists()
    mlflow.pyfunc.load_model("models:/theirs/1")
    assert trap.exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("weights", "models:/.*/1 is damaged at sqlite:"),
        ("format", "has format 9, of overtrick .*; this version reads 1"),
        ("foreign", "is not a model of overtrick"),
        ("gone", "cannot load .*/MLmodel: restore it, or train again"),
    ],
)
def test_foreign_and_damaged_models_are_refused_and_not_cached(
    at, store, stored, tmp_path, change, why
):
    run_id = log_model(store, tmp_path / change, stored("leduc solved"), change)
    about = stored_in_mlflow(store, run_id) / "MLmodel"
    if change == "weights":
        file = stored_in_mlflow(store, run_id) / event_delivery.STORED / model_files.WEIGHTS
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    elif change == "gone":
        about.unlink()
    else:
        content = yaml.safe_load(about.read_text())
        if change == "format":
            content["metadata"]["overtrick"]["format"] = 9
        else:
            del content["metadata"]["overtrick"]
        about.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=why):
        locate.existing_model(f"models:/{change}/1")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_two_runs_deliver_their_models_at_the_same_time(store, stored, tmp_path, monkeypatch):
    """While MLflow runs a model's code, an imitation of Databricks' dbutils is in sys.modules."""
    slow = tmp_path / event_delivery.LOADER.name
    slow.write_text(f"import time\n{event_delivery.LOADER.read_text()}\ntime.sleep(0.5)\n")
    monkeypatch.setattr(event_delivery, "LOADER", slow)
    folder = stored("leduc solved")
    with ThreadPoolExecutor(2) as threads:
        started = [
            threads.submit(log_model, store, tmp_path / name, folder, name)
            for name in ("one", "other")
        ]
    client = MlflowClient(store, store)
    for run in started:
        (model,) = model_versions.model_ids(client, run.result()).values()
        assert client.get_logged_model(model).status == "READY"
    assert "dbutils" not in sys.modules


def test_a_model_that_is_delivered_twice_is_one_model_and_one_version(
    store, stored, tmp_path, monkeypatch
):
    send, lost = event_delivery.send, []

    def forgetful(client: object, run_id: str, events: list[dict[str, Any]], folder: Path) -> None:
        send(client, run_id, events, folder)  # it arrives, but the answer is lost
        if any("register" in event for event in events) and not lost:
            lost.append(1)
            raise ConnectionError("the server is away")

    monkeypatch.setattr(event_delivery, "send", forgetful)
    monkeypatch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
    run_id = log_model(store, tmp_path / "twice", stored("leduc solved"), "twice")
    assert lost
    client = MlflowClient(store, store)
    experiment = client.get_run(run_id).info.experiment_id
    models = [m for m in client.search_logged_models([experiment]) if m.source_run_id == run_id]
    assert [m.status for m in models] == ["READY"]
    assert [v.version for v in client.search_model_versions("name='twice'")] == [1]


def test_an_alias_moves_and_a_version_is_not_made_twice(at, store, stored, tmp_path):
    client = MlflowClient(store, store)
    first, second = (
        log_model(store, tmp_path / name, stored("leduc solved"), "moving") for name in ("a", "b")
    )
    assert model_versions.register(client, first, "moving", "champion") == 1
    before = locate.existing_model("models:/moving@champion")
    assert model_versions.register(client, second, "moving", "champion") == 2
    after = locate.existing_model("models:/moving@champion")
    assert (before.name, after.name) == ("moving-1", "moving-2")


def test_impossible_registrations_are_refused(at, store, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    folder = RunFolder(tmp_path / "runs" / "searching")
    folder.path.mkdir(parents=True)
    job = job_file.parse(
        {"trainer": "meta", "game": "kuhn", "track": {"uri": store}}, JOBS, "a test"
    )
    lifecycle.write_job(job, folder)
    with pytest.raises(UserError, match="does not know searching: `overtrick resume searching`"):
        lifecycle.register("searching", "name", None)
    tracker = lifecycle.open_tracker(job, folder)
    tracker.register("name")  # but it has no model
    tracker.close("FINISHED")
    assert tracker.rejected == 1
    with pytest.raises(UserError, match="MLflow has no model of run"):
        lifecycle.register("searching", "name", None)
    for name, alias in (("a/b", None), ("a:b", None), ("fine", "7"), ("fine", "a@b")):
        with pytest.raises(UserError, match=r"cannot be .*: use letters, digits"):
            lifecycle.register("searching", name, alias)
    for alias in ("latest", "V12"):  # MLflow would make the version before it refuses the alias
        with pytest.raises(UserError, match="MLflow reserves latest"):
            lifecycle.register("searching", "fine", alias)
