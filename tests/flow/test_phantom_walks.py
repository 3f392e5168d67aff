"""Walks over phantom games on workers: equal bits, kept parts, and interrupted walks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.evaluation import phantom_walks
from overtrick.evaluation.phantom_games import evaluate_players
from overtrick.evaluation.phantom_walks import sharded_gradients
from overtrick.games.phantom import PhantomBoard, hex_wins
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.phantom.exact_evaluation import realisation_plans
from overtrick.solvers.phantom.information_sets import number_views, sequence_gradients
from overtrick.studies.exact_solutions import best_response_to

Plans = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng) -> tuple[PhantomBoard, Plans, Plans]:
    """Return a small game, realisation plans, and the gradients by threads; caches are empty."""
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path))
    phantom_walks._numberings.clear()
    game = PhantomBoard("small", hex_wins(2), True)
    numbering = number_views(game)
    strategies = []
    for views in numbering.seats:
        drawn = rng.random(views.start[-1])
        sums = np.add.reduceat(drawn, views.start[:-1])
        strategies.append(drawn / np.repeat(sums, np.diff(views.start)))
    plans = realisation_plans(numbering, (strategies[0], strategies[1]))
    return game, plans, sequence_gradients(game, numbering, plans)


def assert_equal(found: Plans, expected: Plans) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_shards_have_the_bits_of_threads_and_leave_no_files(walk, tmp_path):
    game, plans, expected = walk
    done: list[int] = []
    assert_equal(sharded_gradients(game, plans, LocalPool(), done.append), expected)
    assert done == [25, 50, 75, 100]
    assert not list((tmp_path / "walks").iterdir())


def test_ray_workers_have_the_bits_of_threads(walk, two_workers: WorkerPool):
    game, plans, expected = walk
    assert_equal(sharded_gradients(game, plans, two_workers), expected)


class Interrupted(LocalPool):
    """Pool that is interrupted after some shards."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self.left = shards

    def map(self, work: Any, common: Any, shards: Any, rng: Any, on_result: Any) -> list[Any]:
        def counted(shard: int, result: Any) -> None:
            on_result(shard, result)
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

        return super().map(work, common, shards, rng, counted)


@pytest.mark.parametrize(
    ("damage", "left"),
    [(None, [75, 100]), (lambda file: file.write_bytes(b"x"), [50, 75, 100])],
)
def test_an_interrupted_walk_goes_on_with_its_undamaged_parts(walk, tmp_path: Path, damage, left):
    game, plans, expected = walk
    with pytest.raises(KeyboardInterrupt):
        sharded_gradients(game, plans, Interrupted(2))
    (folder,) = (tmp_path / "walks").iterdir()
    kept = sorted(folder.iterdir())
    assert len(kept) == 2
    if damage is not None:
        damage(kept[1])
    done: list[int] = []
    assert_equal(sharded_gradients(game, plans, LocalPool(), done.append), expected)
    assert done == left
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_costs_only_resuming(walk, tmp_path: Path, caplog):
    game, plans, expected = walk
    (tmp_path / "walks").write_text("a file, where a folder is wanted")
    assert_equal(sharded_gradients(game, plans, LocalPool()), expected)
    assert "cannot store the result of a first move" in caplog.text


def test_other_plans_do_not_use_the_parts(walk, rng):
    game, plans, expected = walk
    other = plans[0] * np.linspace(0.5, 1, len(plans[0])), plans[1]
    with pytest.raises(KeyboardInterrupt):
        sharded_gradients(game, other, Interrupted(2))
    assert_equal(sharded_gradients(game, plans, LocalPool()), expected)


def test_players_are_evaluated_by_workers_as_by_threads(walk):
    game, _, _ = walk
    players = [UniformPolicy()] * 2
    shown: list[int] = []
    found = evaluate_players(game, players, shown.append, LocalPool())
    expected = evaluate_players(game, players)
    assert found.nash_conv == expected.nash_conv
    assert shown == sorted(shown)
    assert shown[-1] == 100


def test_workers_are_refused_in_games_that_need_none():
    with pytest.raises(UserError, match="--workers is for phantom games: leave it out for kuhn"):
        best_response_to("kuhn", "random", workers=2)
