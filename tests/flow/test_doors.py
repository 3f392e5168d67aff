"""Our games behind other libraries' doors, by those libraries' own tests."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import overtrick
from overtrick.core import Refused
from overtrick.doors.parallel import Parallel, parallel_env
from overtrick.play import play
from overtrick.policies import UniformMoves


def test_sumo_passes_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_env("sumo"), num_cycles=150)
        parallel_seed_test(parallel_env, num_cycles=60)


def test_the_same_moves_come_to_the_same_points_as_in_play():
    game = overtrick.make("sumo")
    played = play(game, [UniformMoves(8)] * 2, 1, np.random.default_rng(3))
    env = Parallel(game)
    env._rng = np.random.default_rng(3).spawn(3)[0]  # the deal's generator in play
    seen, _ = env.reset()
    batch, total = played.batch, np.zeros(2)
    moves = [batch.action[batch.seat == seat] for seat in (0, 1)]
    watched = [batch.seen[batch.seat == seat] for seat in (0, 1)]
    for step in range(len(moves[0])):
        for seat in (0, 1):
            assert np.array_equal(seen[f"seat_{seat}"], watched[seat][step])
        seen, points, over, cut, _ = env.step({f"seat_{s}": moves[s][step] for s in (0, 1)})
        total += list(points.values())
        assert not any(cut.values())
    assert all(over.values())
    assert not env.agents
    assert total == pytest.approx(played.payoff[0])
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_what_the_door_cannot_take_is_refused():
    with pytest.raises(Refused, match="leduc has single actions"):
        parallel_env("leduc")
    env = parallel_env()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="moves are needed of"):
        env.step({"seat_0": np.zeros(8)})
