"""Files of runs, models and recorded games that were damaged after they were written: damaged lines
of a record are set aside and counted, any other damage is named in one line."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import logged_metrics
import numpy as np
import pytest
from mlflow import MlflowClient
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file
from tests.bench.small_jobs import SMALL_JOBS

import overtrick
from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.core.checkpoints import load_state
from overtrick.core.files import DamagedWeightsError, read_weights, write_weights
from overtrick.distributed.workers import LocalPool
from overtrick.games.bridge.auction_rules import PASS
from overtrick.runs import lifecycle, mlflow_note
from overtrick.storage import game_records, job_inputs, locate, model_files, parquet, stored_results
from overtrick.storage.run_folder import STATE, RunFolder
from overtrick.studies.html_of_files import html_of_file
from overtrick.studies.match import play_match
from overtrick.sweeps import pbt, sweep
from overtrick.sweeps.asha import Asha
from overtrick.tracking import mlflow_tracker, server_address
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.tracking.run_events import EVENT
from overtrick.training.registry import JOBS, TRAINERS

BEFORE = Path(__file__).parents[1] / "fixtures" / "runs_before_house"
DAMAGE = (b"", b"{", b"\xff\xfe", b"[" * 5000, b'{"time": 1}', b'{"time": true, "note": "n"}',
          b'{"time": 1, "step": 2, "metrics": {"payoff": "much"}}',
          b'{"time": 1, "status": "BOGUS"}',
          b'{"time": 1, "step": 2, "model": "m",'
          b' "answers": {"facts": {}, "said": {}, "example": {}, "about": {}}}')  # fmt: skip
JOB = {"trainer": "meta", "game": {"name": "leduc", "options": {}}, "track": {"uri": "sqlite:///m"}}
ROW = {"stranger": "random", "steps": [1.0, 2.0], "standard_error": [0.0, 0.0],
       "best_response": 2.0, "share": 1.0}  # fmt: skip


LAST = 100  # iterations of a trial


def metrics_line(step: int) -> bytes:
    return json.dumps({"time": step, "step": step, "metrics": {"payoff": step / 2}}).encode()


@pytest.mark.parametrize("sent", [b"3", b"", b"\xff", b"-1", b"99", b"9" * 5000])
def test_damaged_lines_are_set_aside_and_all_other_events_delivered_once(
    store: str, tmp_path: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [metrics_line(1), *DAMAGE, metrics_line(2), metrics_line(3)]
    (folder / mlflow_tracker.SPOOL).write_bytes(b"\n".join(lines) + b'\n{"cut')
    (folder / "track.sent").write_bytes(sent)
    client = MlflowClient(store)
    experiment = client.create_experiment(f"damage {sent[:9]!r}")
    created = client.create_run(experiment).info.run_id
    (folder / mlflow_tracker.IDENTITY).write_text(created)
    assert RunFolder(folder).history() == [(1, {"payoff": 0.5}), (2, {"payoff": 1.0}),
                                           (3, {"payoff": 1.5})]  # fmt: skip
    assert f"damaged lines left out: {len(DAMAGE)}" in caplog.text
    tracker = Tracker(store, f"damage {sent[:9]!r}", "run", folder, {})
    assert tracker.reported == 3
    tracker.metrics(4, {"payoff": 2.0})
    assert tracker.close("FINISHED") == 0
    assert (folder / mlflow_tracker.DAMAGED_EVENTS).read_bytes() == b"\n".join(DAMAGE) + b"\n"
    assert f"had {len(DAMAGE)} damaged lines, now in" in caplog.text
    assert tracker.run_id == created
    delivered = logged_metrics.in_mlflow(client, created)
    first = 2 if sent == b"3" else 1  # the first three lines, two of them damaged, count as sent
    assert delivered == {"payoff": [(k, k / 2) for k in range(first, 5)]}


def test_a_run_whose_id_is_damaged_is_found_again_in_mlflow(store: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    first = Tracker(store, "damage", "identity", folder, {})
    first.metrics(1, {"payoff": 1.0})
    assert first.close("FAILED") == 0
    known = first.run_id
    (folder / mlflow_tracker.IDENTITY).write_bytes(b"\xff\n\n?")
    again = Tracker(store, "damage", "identity", folder, {})
    again.metrics(2, {"payoff": 2.0})
    assert again.close("FINISHED") == 0
    assert again.run_id == known
    delivered = logged_metrics.in_mlflow(MlflowClient(store), known)
    assert delivered == {"payoff": [(1, 1.0), (2, 2.0)]}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "Input should be an object, not []"),
        (json.dumps({**JOB, "game": "leduc"}), "game: Input should be an object, not 'leduc'"),
        (json.dumps({**JOB, "stop": {}}), "stop.iterations: Field required"),
    ],
)
def test_a_damaged_job_is_named_with_its_key(tmp_path: Path, content: str, why: str) -> None:
    run = RunFolder(tmp_path)
    run.job.write_text(content)
    with pytest.raises(UserError) as error:
        mlflow_note.describe(run)
    assert str(error.value) == f"{run.job} is damaged ({why}): restore it"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{}], "row 0 must have the columns of the first row"),
        ([{"mean": 1.0}, {"gap": 1.0}], "row 1 must have the columns of the first row"),
        ([ROW, {**ROW, "steps": [1.0]}], "row 1 must have as many steps as the first row"),
        ([{**ROW, "steps": []}], "List should have at least 1 item"),
        ([{**ROW, "share": "all"}], "share: Input should be a valid number"),
        ([7], "0: Input should be an object, not 7"),
    ],
)
def test_a_damaged_results_table_is_named_with_its_row(
    tmp_path: Path, rows: list[Any], why: str
) -> None:
    run = RunFolder(tmp_path)
    run.job.write_text(json.dumps(JOB))
    run.table.write_text(json.dumps([ROW]))
    assert "| random | 1.000 | 2.000 | 2.000 | 100% |" in mlflow_note.describe(run)
    run.table.write_text(json.dumps(rows))
    with pytest.raises(UserError) as error:
        mlflow_note.describe(run)
    assert why in str(error.value)
    assert f"delete it, and `overtrick resume {tmp_path.name}` writes it again" in str(error.value)


def test_a_changed_value_of_a_checkpoint_is_told_and_the_one_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [tmp_path / f"tune-0/trial-0/checkpoint_{k}/{STATE}" for k in (1, 2)]
    for iteration, file in enumerate(files, 1):
        file.parent.mkdir(parents=True)
        write_weights(file, {"iteration": np.array(iteration), "w": np.arange(9.0)})
    checkpoints = RunFolder(tmp_path).checkpoints()
    assert checkpoints.newest() == checkpoints.newest(2) == files[1].parent
    assert checkpoints.newest(1) == files[0].parent
    assert checkpoints.newest(0) is None
    assert checkpoints.iteration() == 2
    content = bytearray(files[1].read_bytes())
    content[-1] ^= 1
    files[1].write_bytes(content)
    with pytest.raises(DamagedWeightsError, match="its digest differs"):
        read_weights(files[1])
    assert checkpoints.newest() == files[0].parent
    assert checkpoints.iteration() == 1
    assert [each.getMessage() for each in caplog.records] == [
        f"{files[1]} is damaged: the checkpoint before it is used"
    ]
    save_file({"w": np.arange(9.0)}, files[0])  # without the number of iterations
    assert checkpoints.newest() is None


def test_weights_of_before_digests_are_read(tmp_path: Path) -> None:
    file = tmp_path / "old.safetensors"
    save_file({"w": np.arange(9.0)}, file)
    assert np.array_equal(read_weights(file)["w"], load_file(file)["w"])


def test_damaged_decisions_of_asha_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "decisions.jsonl"
    lines = [{"trial": t, "iteration": 2, "score": -float(t)} for t in range(4)]
    odd = [b"{", b'{"trial": -1, "iteration": 2, "score": 0.0}', b'{"trial": 0, "iteration": 0}',
           b'{"trial": 0, "iteration": 1, "score": 9.0}']  # fmt: skip
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    expected = Asha(file, 2, 2, LAST, lambda _: None).stopped_at()
    assert expected
    file.write_bytes(b"\n".join(odd) + b"\n" + file.read_bytes())
    assert Asha(file, 2, 2, LAST, lambda _: None).stopped_at() == expected
    assert "damaged lines left out: 3" in caplog.text
    assert "scores that belong to no rung left out: 1" in caplog.text


FIRST = [{"copied": None, "values": {"seed": 1}}, {"copied": None, "values": {"seed": 2}}]


@pytest.mark.parametrize(
    "rounds",
    [{}, [], [[]], [FIRST] * 4, [FIRST[:1]], [[FIRST[0], {**FIRST[1], "copied": 2}]],
     [[FIRST[0], {"copied": None, "values": []}]],
     [[FIRST[0], {"copied": None, "values": {"seed": "2"}}]],
     [[FIRST[0], {"copied": None, "values": {}}]],
     [FIRST, [FIRST[0], {"copied": 0, "values": {"seed": 1, "workers": 2}}]]],
)  # fmt: skip
def test_a_damaged_schedule_of_pbt_is_refused(tmp_path: Path, rounds: Any) -> None:
    file = tmp_path / pbt.SCHEDULE
    file.write_text(json.dumps([FIRST] * 3))
    first = [entry["values"] for entry in FIRST]
    assert pbt.read_rounds(file, first, 3) == [FIRST] * 3
    file.write_text(json.dumps(rounds))
    with pytest.raises(UserError, match=r"schedule\.json is damaged"):
        pbt.read_rounds(file, first, 3)


@pytest.fixture(scope="module")
def recorded() -> dict[str, game_records.Games]:
    """Return recorded games of Leduc, and of the auction with two passed-out deals."""
    leduc = play_match("random", "random", "leduc", {}, 3, 0, record=True).games
    assert leduc is not None
    auction = overtrick.make("auction", scoring="points")
    deals = auction.deal(2, np.random.default_rng(0))
    passes = [[game_records.Move((int(d[52]) + k) % 4, PASS) for k in range(4)] for d in deals]
    who, payoff = np.tile([0, 1, 0, 1], (2, 1)), np.zeros((2, 4))
    bid = game_records.Games(
        "auction", {"scoring": "points"}, ("a", "b"), deals, passes, who, payoff
    )
    return {"leduc": leduc, "auction": bid}


def edit(path: Path, name: str, change: Any) -> None:
    """Change one column or parameter of a file of recorded games, and write it with its digest."""
    stored = parquet.load(path, game_records.KIND)
    columns, parameters = stored.columns, stored.parameters
    if name in columns:
        columns[name] = change(columns[name].copy())
    else:
        parameters[name] = change(parameters[name])
    parquet.save(path, game_records.KIND, parameters, columns)


def put(row: int, column: int, value: int) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array[row, column] = value
        return array

    return change


@pytest.mark.parametrize(
    ("game", "name", "change", "why"),
    [
        ("leduc", "game", lambda _: "sumo", "games of sumo cannot be replayed"),
        ("leduc", "game", lambda _: ["leduc"], "game: Input should be a valid string"),
        ("leduc", "players", lambda _: [], "players: List should have at least 1 item"),
        ("leduc", "systems", lambda _: ["natural"], "one system for each player"),
        ("leduc", "deal", lambda a: a * 1.0, "'deal' must have rows of whole numbers"),
        ("leduc", "deal", lambda a: a[:, :2], "'deal' must have 3 columns, not 2"),
        ("leduc", "deal", put(1, 0, 99), "the deal of game 2 cannot occur"),
        ("leduc", "deal", put(2, 0, -1), "the deal of game 3 cannot occur"),
        ("leduc", "who", put(0, 0, 2), "'who' must be from 0 to 1, not 2"),
        ("leduc", "who", lambda a: a[:, :1], "a column for each of 2 seats"),
        ("leduc", "payoff", lambda a: a * np.nan, "'payoff' must be finite numbers"),
        ("leduc", "payoff", lambda a: a + 1000, "game 1 has another payoff than its moves"),
        ("leduc", "seat", put(0, 0, 5), "'seat' must be from 0 to 1, not 5"),
        ("leduc", "action", put(0, 0, 9), "'action' must be from 0 to 3, not 9"),
        ("leduc", "seat", put(0, 0, -1), "must have the same length in each game"),
        ("leduc", "seat", lambda a: 1 - a * (a >= 0) - 2 * (a < 0), "game 1 breaks the rules"),
        ("leduc", "action", lambda a: np.where(a >= 0, 3, a), "illegal action 3"),
        ("auction", "deal", put(0, 0, 7), "the deal of game 1 cannot occur"),
        ("auction", "deal", put(1, 52, 4), "the deal of game 2 cannot occur"),
        ("auction", "deal", put(1, 53, -1), "the deal of game 2 cannot occur"),
        ("auction", "deal", put(1, 60, 3), "the deal of game 2 cannot occur"),
        ("auction", "action", put(1, 3, 37), "game 2: call 4 of the auction, XX, "),
    ],
)
def test_recorded_games_that_cannot_have_happened_are_refused(
    recorded: dict[str, game_records.Games], tmp_path: Path, game: str, name: str, change: Any,
    why: str,
) -> None:  # fmt: skip
    path = tmp_path / "games.parquet"
    game_records.save(path, recorded[game])
    assert "Games, step by step" in html_of_file(path, 50)
    edit(path, name, change)
    with pytest.raises(UserError) as error:
        html_of_file(path, 50)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_moves_after_the_end_of_a_recorded_game_are_refused(
    recorded: dict[str, game_records.Games], tmp_path: Path
) -> None:
    games = recorded["leduc"]
    longer = [*games.moves[:1], [*games.moves[1], games.moves[1][-1]], *games.moves[2:]]
    game_records.save(tmp_path / "games.parquet", dataclasses.replace(games, moves=longer))
    with pytest.raises(UserError, match="game 2 has 1 moves after its end"):
        html_of_file(tmp_path / "games.parquet", 50)


def test_recorded_games_of_any_integer_type_can_be_viewed(tmp_path: Path) -> None:
    path, options = tmp_path / "games.parquet", {"dice": 1, "faces": 3}
    games = play_match("random", "random", "liars_dice", options, 1, 0, record=True).games
    assert games is not None
    game_records.save(path, games)
    page = html_of_file(path, 50)
    for name in ("deal", "who"):
        edit(path, name, lambda column: column.astype(np.uint64))
    assert html_of_file(path, 50) == page


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 20_000, "cannot be read: maximum recursion depth exceeded"),
        ("metadata: {overtrick: {format: x, version: 1}}", "(format: Input should be a valid int"),
        ("metadata: {overtrick: {format: 1}}", "(version: Field required)"),
        ("metadata: {overtrick: {format: 1, version: 1, sha256: []}}", "(sha256: Input should be"),
        ("metadata: 2001-99-99", "is not a model of overtrick"),
        ('"\\UFFFFFFFF"', "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_damaged_metadata_of_a_registered_model_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | bytes, why: str
) -> None:
    file = tmp_path / "MLmodel"
    monkeypatch.setattr(mlflow_tracker, "fetch", lambda *_: file)
    file.write_text("metadata: {overtrick: {format: 1, version: 0x_, sha256: {a: !!int ''}}}")
    expected = {"format": 1, "version": "0x_", "sha256": {"a": ""}}
    assert locate._metadata("sqlite:///m", "l", "models:/x/1", tmp_path) == expected
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as error:
        locate._metadata("sqlite:///m", "l", "models:/x/1", tmp_path)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"the password\n", b"[mlflow]\nthe password\n", b"\xff"])
def test_damaged_credentials_are_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".mlflow" / "credentials"
    file.parent.mkdir()
    file.write_bytes(b"[mlflow]\nMLFLOW_TRACKING_USERNAME = a\n")
    assert server_address._credentials() == ("a", None)
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        server_address._credentials()
    assert str(error.value).startswith(f"{file} is damaged: write a section")
    assert "the password" not in str(error.value)


@pytest.mark.parametrize(
    ("trainer", "change"),
    [
        ("meta", {"meta": {"hidden": [9]}}),
        ("meta", {"game": "leduc"}),
        ("meta", {"population": {"size": 4}}),
        ("evolve", {"evolve": {"size": 4, "hidden": [8]}}),
        ("tournament", {"tournament": {"players": ["random", "call"]}}),
    ],
)
def test_a_checkpoint_of_another_job_is_refused(trainer: str, change: dict[str, Any]) -> None:
    jobs = [job_file.parse(SMALL_JOBS[trainer] | each, JOBS, "job") for each in ({}, change)]
    ours, other = (TRAINERS[trainer].trainer(job, LocalPool()) for job in jobs)
    state = ours.state()
    load_state(ours, state)
    with pytest.raises(UserError, match="the checkpoint does not fit the job"):
        load_state(ours, other.state())
    with pytest.raises(UserError, match="the checkpoint does not fit the job"):
        load_state(ours, {name: value for name, value in state.items() if name != "iteration"})


@pytest.mark.parametrize("error", [OverflowError, AssertionError, AttributeError])
def test_no_error_of_a_damaged_state_is_a_traceback(error: type[Exception]) -> None:
    class Damaged:
        def load(self, state: dict[str, np.ndarray]) -> None:
            raise error("inf")

    with pytest.raises(UserError, match=f"does not fit the job .{error.__name__}: inf"):
        load_state(Damaged(), {})


def test_a_table_without_a_score_is_refused_by_a_sweep(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.table.write_text(f'[{{"exploitability": 1{"0" * 400}}}]')
    with pytest.raises(UserError, match="is not a results table of solve: delete it, and"):
        sweep._final_score("solve", run)


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("coevolve", "genome", None),
        ("coevolve", "genome", lambda genome: genome[:-1]),
        ("coevolve", "genome", lambda genome: genome * np.nan),
        ("sampling", "made", None),
        ("sampling", "made", lambda made: np.array(10_000)),
        ("sampling", "deals", lambda deals: deals[None]),
        ("sampling", "deals", lambda deals: np.array(0)),
        ("bidding_imps", "imps.w0", lambda weights: weights.astype(np.int16)),
        ("dqn", "greedy.b0", lambda bias: bias[:1].reshape(())),
        ("dron", "dron.gate.w0", lambda weights: weights.astype(np.int16)),
        ("eom", "prior.b0", None),
        ("eom", "prior.w1", lambda weights: weights[:, :1].copy()),
        ("eom", "critic.w0", lambda weights: weights[1:]),
    ],
)
def test_a_model_whose_weights_do_not_fit_its_job_is_not_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, array: str, change: Any
) -> None:
    monkeypatch.chdir(BEFORE)  # a job names other files by paths relative to it
    stored = BEFORE / name / "model"
    weights = load_file(stored / model_files.WEIGHTS)
    changed = weights.pop(array)
    if change is not None:
        weights[array] = change(changed)
    save_file(weights, tmp_path / model_files.WEIGHTS)
    shutil.copy(stored / model_files.CARD, tmp_path)
    with pytest.raises(UserError):
        lifecycle.evaluate_stored(str(tmp_path), 0)


def test_the_origin_of_a_downloaded_model_is_checked(tmp_path: Path) -> None:
    file = tmp_path / locate.ORIGIN
    job = {"opponents": [str(tmp_path), "/" + "x" * 5000, "/\0"]}
    assert job_inputs.model_inputs(job) == job_inputs.dataset_inputs(job) == []
    origin = {"model": "models:/x/1", "sha256": {"model.json": "0"}}
    file.write_text(json.dumps(origin))
    assert [each._asdict() for each in job_inputs.model_inputs(job)] == [origin]
    file.write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"origin\.json is damaged"):
        job_inputs.model_inputs(job)


def test_a_dead_process_is_not_reported_as_a_damaged_checkpoint() -> None:
    class Dead:
        def load(self, state: dict[str, np.ndarray]) -> None:
            raise RunError("load: the host died 5 times")

    with pytest.raises(RunError, match="the host died"):
        load_state(Dead(), {})


def test_a_table_has_the_types_of_its_schema_and_its_own_order_of_columns(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.table.write_text(json.dumps([{"share": 1, **ROW, "steps": [1, 2]}]))
    (row,) = run.read_table()
    assert next(iter(row)) == "share"
    assert [type(value) for value in (*row["steps"], row["best_response"])] == [float] * 3


def test_records_keep_or_refuse_other_keys_and_never_convert_values() -> None:
    assert stored_results.ROW.validate_python({**ROW, "more": 1})["more"] == 1
    for odd in ({**ROW, "share": "1"}, {**ROW, "steps": (1, 2)}):
        with pytest.raises(ValidationError):
            stored_results.ROW.validate_python(odd)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        EVENT.validate_python({"time": 1, "note": "n", "more": 1})
