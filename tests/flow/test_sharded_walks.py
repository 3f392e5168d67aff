"""Walks over games on workers: equal bits, kept parts, and interrupted walks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.walks import random_strategy

from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.evaluation import sharded_walks
from overtrick.evaluation.exact_by_walks import evaluate_players
from overtrick.evaluation.sharded_walks import sharded_gradients
from overtrick.games.goofspiel import Goofspiel
from overtrick.games.phantom import PhantomBoard, hex_wins
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.walks.exact_evaluation import realisation_plans
from overtrick.solvers.walks.game_walk import GameWalk
from overtrick.solvers.walks.make_walk import make_walk
from overtrick.studies.exact_solutions import best_response_to

Plans = tuple[np.ndarray, np.ndarray]


@pytest.fixture(params=[PhantomBoard("small", hex_wins(2), True), Goofspiel(3)])
def walk(request, tmp_path: Path, monkeypatch, rng) -> tuple[GameWalk, Plans, Plans]:
    """Return a small walk, realisation plans, and the gradients by threads; caches are empty."""
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path))
    sharded_walks._walks.clear()
    walk = make_walk(request.param)
    first, second = (random_strategy(views, rng) for views in walk.views)
    plans = realisation_plans(walk, (first, second))
    return walk, plans, walk.gradients(plans)


def assert_equal(found: Plans, expected: Plans) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_shards_have_the_bits_of_threads_and_leave_no_files(walk, tmp_path):
    whole, plans, expected = walk
    done: list[int] = []
    assert_equal(sharded_gradients(whole, plans, LocalPool(), done.append), expected)
    assert done == [100 * k // whole.parts for k in range(1, whole.parts + 1)]
    assert not list((tmp_path / "walks").iterdir())


def test_ray_workers_have_the_bits_of_threads(walk, two_workers: WorkerPool):
    whole, plans, expected = walk
    assert_equal(sharded_gradients(whole, plans, two_workers), expected)


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


@pytest.mark.parametrize("damage", [False, True])
def test_an_interrupted_walk_goes_on_with_its_undamaged_parts(walk, tmp_path: Path, damage: bool):
    whole, plans, expected = walk
    with pytest.raises(KeyboardInterrupt):
        sharded_gradients(whole, plans, Interrupted(2))
    (folder,) = (tmp_path / "walks").iterdir()
    kept = sorted(folder.iterdir())
    assert len(kept) == 2
    if damage:
        kept[1].write_bytes(b"x")
    done: list[int] = []
    assert_equal(sharded_gradients(whole, plans, LocalPool(), done.append), expected)
    assert done == [100 * k // whole.parts for k in range(2 if damage else 3, whole.parts + 1)]
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_costs_only_resuming(walk, tmp_path: Path, caplog):
    whole, plans, expected = walk
    (tmp_path / "walks").write_text("a file, where a folder is wanted")
    assert_equal(sharded_gradients(whole, plans, LocalPool()), expected)
    assert "cannot store a part of a walk" in caplog.text


def test_other_plans_do_not_use_the_parts(walk, rng):
    whole, plans, expected = walk
    other = plans[0] * np.linspace(0.5, 1, len(plans[0])), plans[1]
    with pytest.raises(KeyboardInterrupt):
        sharded_gradients(whole, other, Interrupted(2))
    assert_equal(sharded_gradients(whole, plans, LocalPool()), expected)


def test_players_are_evaluated_by_workers_as_by_threads(walk):
    game = walk[0].game
    players = [UniformPolicy()] * 2
    shown: list[int] = []
    found = evaluate_players(game, players, shown.append, LocalPool())
    expected = evaluate_players(game, players)
    assert found.nash_conv == expected.nash_conv
    assert shown == sorted(shown)
    assert shown[-1] == 100


def test_workers_are_refused_in_games_that_need_none():
    with pytest.raises(
        UserError, match="--workers is for games evaluated by walks, such as goofspiel: leave"
    ):
        best_response_to("kuhn", "random", workers=2)
