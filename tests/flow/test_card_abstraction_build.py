"""The file of the card abstraction is the same for any number of workers and interruptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overtrick.core import UserError
from overtrick.datasets import card_abstraction_build as page
from overtrick.datasets import chunked_build
from overtrick.datasets.card_abstraction_build import AbstractionConfig, load_abstraction
from overtrick.datasets.chunked_build import Progress, ignore_progress, parts_folder
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.storage import parquet

SMALL = ["ranks=5", "preflop=300", "flop=20", "turn=10", "river=5", "deals=20000", "seed=4"]
STAGES = ["preflop", "flop", "turn", "river", "deals"]


def generate(
    out: Path,
    overrides: list[str],
    scale: float = 1.0,
    progress: Progress = ignore_progress,
    pool: WorkerPool | None = None,
) -> dict[str, Any]:
    config = AbstractionConfig.parse(overrides, scale)
    return chunked_build.generate(config, out, pool or LocalPool(), progress)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every stage several parts."""
    monkeypatch.setattr(page, "ROLLOUTS", 3000)
    monkeypatch.setattr(page, "DEALS", 2000)
    monkeypatch.setattr(page, "SHARDS_PER_PART", 3)


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """Build the file without interruption."""
    generate(tmp_path / "whole.parquet", SMALL)
    return (tmp_path / "whole.parquet").read_bytes()


def test_the_answer_names_the_file_and_progress_is_shown(tmp_path: Path) -> None:
    shown: list[tuple[str, int, int]] = []
    out = tmp_path / "deep" / "a.parquet"
    answer = generate(out, SMALL, progress=lambda *arguments: shown.append(arguments))
    assert answer["path"] == str(out)
    assert answer["rows"] == 6
    assert answer["seconds"] > 0
    assert list(dict.fromkeys(stage for stage, _, _ in shown)) == STAGES
    done = [done for _, done, _ in shown]
    assert done == sorted(done)
    assert shown[-1][1] == shown[-1][2] > 10
    assert [path.name for path in out.parent.iterdir()] == ["a.parquet"]


def test_the_stored_abstraction_is_the_computed_one(tmp_path: Path) -> None:
    generate(tmp_path / "a.parquet", [*SMALL, "buckets=4"])
    built = load_abstraction(tmp_path / "a.parquet", AbstractionConfig.parse([*SMALL, "buckets=4"]))
    assert (built.parameters.buckets, built.parameters.river) == (4, 5)
    assert built.start.shape == built.win.shape == (4, 4)
    assert {joint.shape for joint in built.joint} == {(4, 4, 4, 4)}
    assert built.buckets.mean.shape == (4, 4)
    assert (np.diff(built.buckets.mean, axis=1) > 0).all()  # by round, weakest bucket first
    for move in built.moves:
        np.testing.assert_allclose(move.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("stage", "columns"),
    [
        (0, {"score": [0, 8_000_000], "weight": [1, 1]}),
        (3, {"score": [0, 20], "weight": [1, 255]}),
        (4, {"start": np.ones((2, 2)), "won": np.ones((2, 2)),
             **dict.fromkeys(("flop", "turn", "river"), np.ones((2, 2, 2, 2)))}),
    ],
)  # fmt: skip
def test_a_part_of_other_columns_is_computed_again(
    tmp_path: Path, stage: int, columns: dict[str, Any]
) -> None:
    file, kind = tmp_path / "part.parquet", page._part(page.PAPER, stage)
    intact = {name: np.array(column, np.int64) for name, column in columns.items()}
    parquet.save(file, kind, {}, intact)
    assert chunked_build.is_valid_part(file, kind, {})
    for name, column in intact.items():
        most = [column + 1] if name == "score" else []
        for odd in (column - 10**7, column[..., None], column.astype(float), *most):
            parquet.save(file, kind, {}, {**intact, name: odd})
            assert not chunked_build.is_valid_part(file, kind, {}), odd
    parquet.save(file, kind, {}, {"other": intact.popitem()[1]})
    assert not chunked_build.is_valid_part(file, kind, {})


def test_a_part_without_some_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = page.card_abstraction.cluster

    def shorter(*arguments: Any) -> Any:
        bucket, statistics = original(*arguments)
        return bucket[1:], statistics

    monkeypatch.setattr(page.card_abstraction, "cluster", shorter)
    with pytest.raises(UserError, match=r"\.a\.parquet\.parts is damaged: delete it"):
        generate(tmp_path / "a.parquet", SMALL)


def test_another_seed_gives_other_numbers(tmp_path: Path, whole: bytes) -> None:
    generate(tmp_path / "b.parquet", [*SMALL[:-1], "seed=5"])
    one, other = (load_abstraction(tmp_path / name) for name in ("whole.parquet", "b.parquet"))
    assert not np.array_equal(one.start, other.start)


def test_workers_build_the_same_file(tmp_path: Path, whole: bytes, two_workers: WorkerPool) -> None:
    generate(tmp_path / "b.parquet", SMALL, pool=two_workers)
    assert (tmp_path / "b.parquet").read_bytes() == whole


class _StopError(Exception):
    pass


@pytest.mark.parametrize("stop", [4, 20, -1])
def test_an_interrupted_build_continues(tmp_path: Path, whole: bytes, stop: int) -> None:
    out = tmp_path / "b.parquet"

    def stop_after(stage: str, done: int, total: int) -> None:
        if done == stop % (total + 1):
            raise _StopError

    with pytest.raises(_StopError):
        generate(out, SMALL, progress=stop_after)
    assert not out.exists()
    left = {path: path.stat().st_mtime_ns for path in parts_folder(out).iterdir()}
    assert left
    modified: list[dict[Path, int]] = []

    def watch(stage: str, done: int, total: int) -> None:
        modified.append({path: path.stat().st_mtime_ns for path in left})

    generate(out, SMALL, progress=watch)
    assert all(times == left for times in modified)  # no part was computed twice
    assert out.read_bytes() == whole
    assert not parts_folder(out).exists()


def test_damaged_parts_and_parts_of_another_build_are_computed_again(
    tmp_path: Path, whole: bytes
) -> None:
    out = tmp_path / "b.parquet"

    def until_the_deals(stage: str, done: int, total: int) -> None:
        if stage == "deals":
            raise _StopError

    with pytest.raises(_StopError):
        generate(out, [*SMALL, "river=6", "seed=9"], progress=until_the_deals)
    with pytest.raises(_StopError):
        generate(out, SMALL, progress=until_the_deals)
    (parts_folder(out) / "turn-0.parquet").write_bytes(b"PAR1")
    generate(out, SMALL)
    assert out.read_bytes() == whole


def test_an_existing_file_is_never_overwritten(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "whole.parquet"
    before = out.stat().st_mtime_ns
    assert generate(out, SMALL)["rows"] == 6
    assert out.stat().st_mtime_ns == before
    remedy = "remove it, or name another file with --out"
    with pytest.raises(UserError, match=f"not with deals 10000: {remedy}"):
        generate(out, [*SMALL, "deals=10000"])
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(UserError, match=remedy):
        generate(tmp_path / "mine.csv", SMALL)
    assert out.stat().st_mtime_ns == before
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_a_file_of_another_configuration_is_refused(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "whole.parquet"
    with pytest.raises(UserError, match=r"made with turn 10, not with turn 100: build it with"):
        load_abstraction(out, AbstractionConfig.parse(["ranks=5", "preflop=300", "flop=20"]))
    with pytest.raises(UserError, match="no abstraction at"):
        load_abstraction(tmp_path / "none.parquet")


def test_scaling_keeps_given_counts_and_the_minimum_for_the_buckets() -> None:
    plan = AbstractionConfig.parse(["flop=7", "buckets=5"], scale=0.01)
    assert (plan.preflop, plan.flop, plan.turn, plan.river) == (40_000, 7, 2, 2)
    assert plan.deals == 1_000_000
    assert AbstractionConfig.parse() == page.AbstractionConfig()


@pytest.mark.parametrize(
    ("overrides", "scale", "words"),
    [
        (["buckets=1"], 1, "'buckets': input should be greater than or equal to 2, not '1'"),
        (["buckets=170"], 1, "'buckets': input should be less than or equal to 32, not '170'"),
        (["buckets=26", "ranks=5", "river=13"], 1, "5 ranks make only 25 hands before the flop"),
        (["ranks=14"], 1, "'ranks': input should be less than or equal to 13, not '14'"),
        (["river=0"], 1, "'river': input should be greater than or equal to 1, not '0'"),
        (["river=2"], 1, "river needs at least 3 rollouts of each hand for 6 buckets, not 2"),
        (["deals=many"], 1, "'deals': input should be a valid integer"),
        (["rivers=5"], 1, "unknown key 'rivers' of the abstraction: did you mean 'river'?"),
        (["river"], 1, "override 'river' must be key=value"),
        ([], 0, "--samples-scale must be above 0 and at most 100, not 0"),
        ([], float("inf"), "at most 100, not inf"),
        ([], -1.0, "--samples-scale must be above 0"),
    ],
)
def test_impossible_counts_are_refused(
    tmp_path: Path, overrides: list[str], scale: float, words: str
) -> None:
    with pytest.raises(UserError) as refusal:
        generate(tmp_path / "a.parquet", overrides, scale)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        generate(tmp_path, SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        generate(tmp_path / "file" / "a.parquet", SMALL)
