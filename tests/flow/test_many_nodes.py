"""Shards on up to 32 nodes give the results of one process."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from numpy.random import Generator
from ray import cloudpickle
from tests.bench import cost_model

import overtrick
from overtrick.core import Array
from overtrick.distributed.workers import LocalPool, generator
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SMALL_STORE = 80 * 2**20  # bytes of an object store
MEMORY = 0.5 * 2**30  # bytes of free memory that a node and its worker may take
LEDUC = overtrick.make("leduc")


def _play(rng: Generator, common: Any, games: int) -> tuple[str, Array]:
    """Return the node of the worker, and the points of random games."""
    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
    return node, play(LEDUC, (UniformPolicy(), UniformPolicy()), games, rng).payoff


@pytest.mark.parametrize("nodes", [2, 8, 16, 32])
def test_all_nodes_work_and_the_results_are_those_of_one_process(nodes: int) -> None:
    if psutil.virtual_memory().available < (nodes + 1) * MEMORY:
        pytest.skip(f"{nodes} nodes need {(nodes + 1) * MEMORY / 2**30:.0f} GiB of free memory")
    shards = [(50 + k,) for k in range(4 * nodes)]
    wanted = LocalPool().map(_play, None, shards, generator(7))
    with cost_model.nodes(nodes, head_store=SMALL_STORE, store=SMALL_STORE) as pool:
        found = pool.map(_play, None, shards, generator(7))
    assert len({node for node, _ in found}) == nodes
    for (_, points), (_, expected) in zip(found, wanted, strict=True):
        assert np.array_equal(points, expected)


def test_the_use_of_the_workers_time_adds_up() -> None:
    """A worker's time is that of the call; the work is at least the sleep."""
    with cost_model.nodes(2, head_store=SMALL_STORE, store=SMALL_STORE) as pool:
        per_shard, use = cost_model.timed_map(pool, 2, 20, 0.05, 1_000)
    assert use.work + use.waiting + use.driver + use.end == pytest.approx(2 * per_shard)
    assert use.work >= 0.05
    assert min(use.waiting, use.driver, use.end) >= 0
