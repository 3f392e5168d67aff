"""Runs, models and data sets in a bucket: the same results as on a disk, and an empty disk loses
nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_process import kill_once
from disturbed_command import FaultRow, JobFolder, compare, outcome
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.datasets import minibridge_games
from overtrick.datasets.bridge_deals import DealsConfig
from overtrick.datasets.chunked_build import generate
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.bidders import sample_deals
from overtrick.runs import lifecycle, run_list
from overtrick.storage import bucket_copy, job_inputs, locate, model_files
from overtrick.storage.object_store import ObjectFolder, ObjectVersion, StoredObject
from overtrick.storage.run_folder import RunFolder
from overtrick.storage.run_lease import LEASE, RunLease
from overtrick.studies.exact_solutions import solve_game
from overtrick.sweeps import pbt, sweep
from overtrick.training.registry import JOBS

PBT: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 6},
    "coevolve": {"generations": 2},
    "search": {
        "coevolve.step_size": {"loguniform": [0.001, 1.0]},
        "method": "pbt",
        "trials": 4,
        "perturbation_interval": 2,
        "metric": "exploitability_chip/direct",
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bucket_copy, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "10")
    return tmp_path


HIDDEN = (bucket_copy.VERSIONS, bucket_copy.PULLING)  # files of the local copy


def lose_disk(home: Path) -> None:
    """Delete all local copies."""
    shutil.rmtree(home / "cache")


def parse(plain: dict[str, Any], store: str) -> job_file.Job:
    return job_file.parse({**plain, "track": {"uri": store}}, JOBS, "tiny")


def no_progress(iteration: int, metrics: dict[str, float]) -> None:
    """Do nothing."""


def interrupt_at(last: int) -> Callable[..., None]:
    """Return a listener that interrupts its process at an iteration."""

    def listen(iteration: int, metrics: object = None) -> None:
        if iteration == last:
            raise KeyboardInterrupt

    return listen


@pytest.fixture
def expected(
    home: Path, local_ray: None, store: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return the outcome of the tiny job in a folder of this machine."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(home / "runs"))
    run = lifecycle.open_folder(parse(TINY, store), "tiny")
    lifecycle.train(run, no_progress)
    return outcome(run)


def test_a_run_in_a_bucket_equals_one_on_disk_and_needs_no_disk(
    expected: dict[str, Any], home: Path, bucket: str, store: str, monkeypatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    run = lifecycle.open_folder(parse(TINY, store), "tiny", run_name="first")
    assert str(run) == f"{bucket}/first"
    with pytest.raises(KeyboardInterrupt):
        lifecycle.train(run, interrupt_at(3))
    lose_disk(home)
    (stopped,) = run_list.list_runs()
    assert (stopped.name, stopped.status, stopped.score) == ("first", "stopped", None)
    assert not list((home / "cache").glob("**/job.json"))  # listing downloads nothing

    again = lifecycle.open_folder(parse(TINY, store), "tiny", run_name="first")
    lifecycle.train(again, no_progress)
    assert outcome(again) == expected
    stored = ObjectFolder(f"{bucket}/first").objects()
    states = [name for name in stored if name.endswith("state.safetensors")]
    assert len(states) <= 2 * TINY["checkpoints"]["keep"]  # of both processes
    assert not [name for name in stored if name.endswith((".pkl", "lock")) or name in HIDDEN]

    lose_disk(home)
    (done,) = run_list.list_runs()
    assert (done.status, done.game, done.trainer) == ("finished", "kuhn", "meta")
    for name in ("first", f"{bucket}/first", f"{bucket}/first/model"):
        weights = model_files.load(locate.model_folder(name)).weights
        assert weights.keys() == model_files.load(again.model).weights.keys()
    with pytest.raises(UserError, match=rf"^no run 'frist' in {bucket}: did you mean 'first'"):
        locate.existing_run("frist")
    with pytest.raises(UserError, match=r"exists with another job \(seed differs\)"):
        lifecycle.open_folder(parse({**TINY, "seed": 6}, store), "tiny", run_name="first")


@pytest.mark.slow
def test_a_sweep_in_a_bucket_is_resumed_with_an_empty_disk(
    home: Path, local_ray: None, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PBT copies the checkpoints of other trials, and deletes old ones."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(home / "runs"))
    job = parse(PBT, store)
    whole = sweep.run(lifecycle.open_folder(job, "pbt", children=True), lambda done: None)
    schedule = (whole.folder.path / pbt.SCHEDULE).read_text()

    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    folder = lifecycle.open_folder(job, "pbt", children=True, run_name="pbt")
    with pytest.raises(KeyboardInterrupt):
        sweep.run(folder, interrupt_at(14))
    lose_disk(home)
    (listed,) = run_list.list_runs()
    assert (listed.kind, listed.status) == ("sweep", "stopped")
    resumed = sweep.run(locate.existing_run("pbt"), lambda done: None)
    assert resumed.rows == whole.rows
    assert (resumed.folder.path / pbt.SCHEDULE).read_text() == schedule
    for trial in range(4):
        assert resumed.folder.child(trial).history() == whole.folder.child(trial).history()
    lose_disk(home)
    child = f"{bucket}/pbt/trials/pbt-002"
    found = locate.existing_run(child)
    assert (str(found), str(found.group)) == (child, f"{bucket}/pbt")
    assert found.history() == whole.folder.child(2).history()


@pytest.mark.slow
def test_a_sweep_killed_within_a_round_continues_on_another_machine(
    home: Path, local_ray: None, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is killed in the second round of PBT, whose trials have copied each other."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(home / "runs"))
    content = {**PBT, "stop": {"iterations": 60}, "checkpoints": {"every": 1}}
    content["search"] = {**PBT["search"], "perturbation_interval": 20}
    job = parse(content, store)
    whole = sweep.run(lifecycle.open_folder(job, "pbt", children=True), lambda done: None)
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    monkeypatch.setenv("OVERTRICK_CACHE", str(home / "cache"))
    killed = JobFolder(home / "killed", store)
    (killed.folder / "pbt.yaml").write_text(yaml.safe_dump(job.model_dump(mode="json")))
    stored = ObjectFolder(f"{bucket}/pbt")
    driver = killed.start("sweep", "pbt.yaml", "--name", "pbt")
    of_second_round = re.compile(r"tune-1/trial-\d/checkpoint_00000[2-9]/state.safetensors")
    kill_once(lambda: any(map(of_second_round.fullmatch, stored.objects())), driver)
    lose_disk(home)
    resumed = sweep.run(locate.existing_run("pbt"), lambda done: None)
    assert resumed.rows == whole.rows
    schedules = [(each.folder.path / pbt.SCHEDULE).read_text() for each in (resumed, whole)]
    assert schedules[0] == schedules[1]
    for trial in range(4):
        assert resumed.folder.child(trial).history() == whole.folder.child(trial).history()


@pytest.fixture
def small_run(home: Path, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return a new run in a bucket."""
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    return lifecycle.open_folder(parse(TINY, store), "tiny", run_name="small")


def test_a_run_has_one_writer(small_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "1")
    other = RunLease(ObjectFolder(str(small_run)))
    with pytest.raises(UserError, match="is still going on in another process"):
        lifecycle.train(small_run, no_progress)
    (listed,) = run_list.list_runs()
    assert listed.status == "running"
    other.release()
    with pytest.raises(RunError, match="does not hold the lease"):
        bucket_copy.push(small_run.path)


def test_a_writer_that_lost_its_lease_writes_nothing(small_run: RunFolder) -> None:
    stored = ObjectFolder(str(small_run))

    def lose() -> None:
        with lifecycle.locked(small_run):
            stored.write(LEASE, b'{"owner": "other", "token": "t", "expires": 1e12}')
            lease = bucket_copy._leases[small_run.path]
            lease._write(lease._version)  # as its renewal
            small_run.table.write_text("[]")

    with pytest.raises(RunError, match="has lost the lease"):
        lose()
    assert stored.stat("table.json") is None


def test_a_checkpoint_that_cannot_be_stored_ends_the_run(
    home: Path, local_ray: None, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has removed the lease while the run trains."""
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "600")
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    checkpoints = {"every": 4, "keep": 2, "retries": 0}
    job = parse({**TINY, "checkpoints": checkpoints}, store)
    run = lifecycle.open_folder(job, "tiny", run_name="robbed")

    def rob(iteration: int, metrics: dict[str, float]) -> None:
        if iteration == 3:
            ObjectFolder(str(run)).delete([LEASE])

    with pytest.raises(RunError, match="this process has lost the lease of"):
        lifecycle.train(run, rob)
    assert not [k for k in ObjectFolder(str(run)).objects() if k.endswith(".safetensors")]


def test_a_late_write_changes_nothing(small_run: RunFolder) -> None:
    """Another process has taken the run over and written, while a request was on its way."""
    stored = ObjectFolder(str(small_run))

    def be_late() -> None:
        with lifecycle.locked(small_run):
            stored.write("track.jsonl", b"of another process")
            (small_run.path / "track.jsonl").write_text("ours")

    with pytest.raises(RunError, match=r"another process has changed .*/track.jsonl"):
        be_late()
    assert stored.read("track.jsonl") == b"of another process"
    bucket_copy.run_copy(str(small_run)).pull()
    assert (small_run.path / "track.jsonl").read_text() == "of another process"


def test_a_name_can_be_used_again_after_its_run_was_deleted(
    small_run: RunFolder, home: Path, store: str
) -> None:
    stored = ObjectFolder(str(small_run))
    stored.delete(list(stored.objects()))
    bucket_copy.run_exists.cache_clear()
    again = lifecycle.open_folder(parse({**TINY, "seed": 9}, store), "tiny", run_name="small")
    with lifecycle.locked(again):
        pass
    assert again.read_job()["seed"] == 9
    assert locate.run_names() == ["small"]


def test_a_folder_of_runs_may_be_called_trials(
    home: Path, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", f"{bucket}/trials")
    run = lifecycle.open_folder(parse(TINY, store), "tiny", run_name="mine")
    assert str(run) == f"{bucket}/trials/mine"
    assert bucket_copy.run_copy(str(run)).folder == run.path
    assert locate.existing_run(f"{bucket}/trials/mine").path == run.path


def test_the_database_of_another_machine_is_replaced(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    there = f"sqlite:///{home}/there/mlflow.db"
    (home / "there").mkdir()
    run = lifecycle.open_folder(parse(TINY, there), "tiny", run_name="moved")
    assert lifecycle.read_job(run).track.uri == there
    (home / "there").rmdir()
    assert lifecycle.read_job(run).track.uri == f"sqlite:///{home}/mlflow.db"


def test_changes_travel_both_ways_and_deletions_too(small_run: RunFolder, home: Path) -> None:
    stored = ObjectFolder(str(small_run))
    (copy := bucket_copy.run_copy(str(small_run))).pull()
    with lifecycle.locked(small_run):
        (small_run.path / "here").write_text("1")
        (small_run.path / "folder").mkdir()
        (small_run.path / "folder" / "both").write_text("1")
    assert stored.read("folder/both") == b"1"
    stored.write("there", b"2")
    stored.write("folder/both", b"2")
    copy.pull()
    assert (small_run.path / "there").read_text() == "2"
    assert (small_run.path / "folder" / "both").read_text() == "2"
    (small_run.path / "here").write_text("a change that is not uploaded yet")
    stored.delete(["folder/both", "there"])
    copy.pull()
    assert not (small_run.path / "folder").exists()
    assert not (small_run.path / "there").exists()
    assert (small_run.path / "here").read_text() == "a change that is not uploaded yet"


def test_two_runs_of_one_name_are_not_mixed(
    small_run: RunFolder, home: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes the run after this one has found that there is none."""
    lose_disk(home)
    monkeypatch.setattr(locate, "find_by_name", lambda name: None)
    with pytest.raises(UserError, match="has just been made by another process: try again"):
        lifecycle.open_folder(parse(TINY, store), "tiny", run_name="small")


def test_listings_without_generations_download_nothing_twice(
    small_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's listings, and Amazon's of buckets with versions, lack what reading an object has."""
    read, reads = ObjectFolder.read_version, []

    def with_generation(self: ObjectFolder, name: str) -> tuple[bytes, StoredObject]:
        reads.append(name)
        content, found = read(self, name)
        return content, found._replace(version=ObjectVersion(found.version.e_tag, "17"))

    monkeypatch.setattr(ObjectFolder, "read_version", with_generation)
    copy = bucket_copy.run_copy(str(small_run))
    copy.pull()
    assert reads
    reads.clear()
    copy.pull()
    assert not reads


def test_what_completes_a_model_or_a_run_is_uploaded_last(
    small_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine that continues the run takes what is there for complete."""
    names: list[str] = []
    upload = bucket_copy.BucketCopy._upload

    def record(copy: bucket_copy.BucketCopy, name: str, *rest: Any) -> ObjectVersion:
        names.append(name)
        return upload(copy, name, *rest)

    monkeypatch.setattr(bucket_copy.BucketCopy, "_upload", record)
    with lifecycle.locked(small_run):
        for name in ("model/model.json", "model/weights.safetensors", "table.json", "view.html"):
            (small_run.path / name).parent.mkdir(exist_ok=True)
            (small_run.path / name).write_text("[]")
    last = ["model/model.json", "table.json"]
    assert names[-2:] == last
    assert {"model/weights.safetensors", "view.html"} <= set(names[:-2])


def test_a_failed_upload_does_not_forget_the_others(
    small_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = ObjectFolder.create

    def fail(self: ObjectFolder, name: str, content: bytes) -> ObjectVersion | None:
        if name == "b":
            raise RunError("the server is away")
        return create(self, name, content)

    with lifecycle.locked(small_run):
        (small_run.path / "a").write_text("1")
        (small_run.path / "b").write_text("1")
        with monkeypatch.context() as patch:
            patch.setattr(ObjectFolder, "create", fail)
            with pytest.raises(RunError, match="the server is away"):
                bucket_copy.push(small_run.path)
        (small_run.path / "a").write_text("22")
    stored = ObjectFolder(str(small_run))
    assert (stored.read("a"), stored.read("b")) == (b"22", b"1")


def test_a_model_that_will_be_stored_later_is_no_input_yet(home: Path, bucket: str) -> None:
    job = {"evaluate": {"opponents": ["call", f"{bucket}/table/trials/table-003/model"]}}
    assert job_inputs.model_inputs(job) == []
    assert job_inputs.dataset_inputs(job) == []


def test_a_name_that_no_url_can_have_is_refused(
    home: Path, bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    with pytest.raises(UserError, match=r"cannot be named 'a#b': leave out \? and #"):
        lifecycle.open_folder(parse(TINY, store), "tiny", run_name="a#b")


def test_a_data_set_in_a_bucket_is_that_of_a_file(home: Path, bucket: str) -> None:
    config = minibridge_games.MinibridgeConfig.parse(["games=30", "strain=trump"])
    made = generate(config, f"{bucket}/games", LocalPool())
    assert (made["path"], made["rows"]) == (f"{bucket}/games", 30)
    generate(config, home / "games", LocalPool())
    lose_disk(home)
    expected = minibridge_games.load(home / "games")
    for one, other in zip(minibridge_games.load_cached(f"{bucket}/games"), expected, strict=True):
        assert (one == other).all()
    (found,) = job_inputs.dataset_inputs({"tabular": {"data": f"{bucket}/games"}})
    (local,) = job_inputs.dataset_inputs({"tabular": {"data": str(home / "games")}})
    assert (found.rows, found.digest) == (local.rows, local.digest)
    again = generate(config, f"{bucket}/games", LocalPool())
    assert again["rows"] == 30
    assert minibridge_games.load(bucket_copy.local_copy(f"file://{home}/games", "the games"))


def test_an_interrupted_upload_is_refused_until_it_is_repeated(
    home: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, write = f"{bucket}/strategy", ObjectFolder.write

    def die(self: ObjectFolder, name: str, content: bytes | Path) -> object:
        if name == model_files.WEIGHTS:
            raise KeyboardInterrupt
        return write(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFolder, "write", die)
        with pytest.raises(KeyboardInterrupt):
            solve_game("kuhn", "cfr+", 50, save=place)
    for _ in range(2):
        with pytest.raises(UserError, match="its upload is unfinished: repeat the command"):
            locate.model_folder(place)
    solve_game("kuhn", "cfr+", 50, save=place)
    assert model_files.load(locate.model_folder(place)).game == "kuhn"
    stored = ObjectFolder(place)
    assert sorted(stored.objects()) == sorted((model_files.CARD, model_files.WEIGHTS))


def test_data_deleted_from_the_bucket_is_not_taken_from_a_local_copy(
    home: Path, bucket: str
) -> None:
    place, stored = f"{bucket}/games", ObjectFolder(f"{bucket}/games")
    generate(minibridge_games.MinibridgeConfig.parse(["games=20"]), place, LocalPool())
    stored.delete(list(stored.objects()))
    made = generate(minibridge_games.MinibridgeConfig.parse(["games=30"]), place, LocalPool())
    assert made["rows"] == 30


def test_a_file_of_deals_in_a_bucket_is_read_by_its_url(home: Path, bucket: str) -> None:
    config = DealsConfig.parse(["boards=3"])
    generate(config, f"{bucket}/deals.parquet", LocalPool())
    generate(config, home / "deals.parquet", LocalPool())
    lose_disk(home)
    found = sample_deals((f"{bucket}/deals.parquet",), 2, 0)
    assert (found == sample_deals((str(home / "deals.parquet"),), 2, 0)).all()
    with pytest.raises(UserError, match="nothing is stored there"):
        sample_deals((f"{bucket}/other.parquet",), 2, 0)


def test_a_strategy_is_saved_in_a_bucket(home: Path, bucket: str) -> None:
    solve_game("kuhn", "cfr+", 50, save=f"{bucket}/strategy")
    lose_disk(home)
    model = model_files.load(locate.model_folder(f"{bucket}/strategy"))
    assert model.game == "kuhn"
    solve_game("kuhn", "cfr+", 60, save=f"{bucket}/strategy")  # a model may be replaced
    ObjectFolder(bucket).write("job.json", b"{}")
    with pytest.raises(UserError, match="is in the run"):
        solve_game("kuhn", "cfr+", 50, save=f"{bucket}/strategy")


def bucket_reaches(run: ObjectFolder, stage: str) -> bool:
    """Return whether a run of the tiny job of 25 iterations has reached a stage."""
    names = run.objects()
    trained = [name for name in names if name.endswith("/state.safetensors")]
    return {
        "start": "job.json" in names,
        "training": any("checkpoint_000005/" in name for name in trained),
        "judging": any("checkpoint_000024/" in name for name in trained),
        "delivering": "table.json" in names,
    }[stage]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["start", "training", "judging", "delivering"])
def test_a_killed_run_continues_on_another_machine_with_equal_bits(
    home: Path, bucket: str, store: str, fault_rows: list[Any], monkeypatch, stage: str
) -> None:
    """Driver and workers are killed; the local files and MLflow's database are lost."""
    expected = JobFolder(home / "expected", store)
    assert expected.command("train", "tiny.yaml")[0] == 0
    whole = expected.run
    row = FaultRow(f"all killed, disk lost: {stage}")
    fault_rows.append(row)
    monkeypatch.setenv("OVERTRICK_CACHE", str(home / "cache"))
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    (home / "mlflow").mkdir()
    database = f"sqlite:///{home}/mlflow/mlflow.db"
    killed, run = JobFolder(home / "killed", database), ObjectFolder(f"{bucket}/run")
    kill_once(
        lambda: bucket_reaches(run, stage), killed.start("train", "tiny.yaml", "--name", "run")
    )
    for lost in ("cache", "killed", "mlflow"):
        shutil.rmtree(home / lost)
    (home / "mlflow").mkdir()
    elsewhere = JobFolder(home / "elsewhere", database)
    assert elsewhere.command("resume", "run")[0] == 0, elsewhere.errors
    compare(row, locate.existing_run("run"), whole, database)
