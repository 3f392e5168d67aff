"""Measure double-dummy tables per second by two Ray workers beside endplay with two threads."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import ray
from endplay import _dds, dds
from endplay.types import Deal
from numpy.random import Generator
from tests.bench.measure import Result, in_turns
from tests.data import SOLVED

from overtrick.core import Array
from overtrick.datasets.bridge_deals import SHARD
from overtrick.distributed import workers
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.cards import format_deal, parse_deal, random_deals
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table

DEALS, ROUNDS, CORES, RECORDED = 160, 5, 2, 1000


def run() -> Result:
    """Compare tables per second of the same deals: ours from the holders of the cards, in the
    shards of `overtrick generate deals`; endplay's from deals converted in advance."""
    holder = random_deals(DEALS, np.random.default_rng(0))
    theirs = [Deal(format_deal(each)) for each in holder]
    workers.start_ray([{"CPU": 1.0}] * CORES)
    pool = workers.start_pool(CORES)
    found: list[Array] = []
    expected: list[list[list[int]]] = []

    def ours() -> None:
        shards = [(holder[first : first + SHARD],) for first in range(0, DEALS, SHARD)]
        found[:] = pool.map(_solved, None, shards, np.random.default_rng(0))

    def peer() -> None:
        expected.clear()
        for first in range(0, DEALS, double_dummy.TABLES_PER_CALL):
            part = theirs[first : first + double_dummy.TABLES_PER_CALL]
            expected.extend(table.to_list(True) for table in dds.calc_all_tables(part))

    _dds.SetMaxThreads(CORES)
    try:
        our_seconds, peer_seconds = in_turns(ours, peer, ROUNDS)
    finally:
        pool.close()
        ray.shutdown()  # so that it does not run beside the next bench
    order = list(double_dummy.DDS_STRAINS)
    assert np.array_equal(np.concatenate(found), np.array(expected)[:, :, order])
    return Result(
        name="double_dummy",
        work=f"double-dummy tables of {DEALS} random deals, all 20 entries each; {CORES} Ray "
        f"workers in shards of {SHARD} deals{_recorded()}",
        ours=DEALS / our_seconds,
        peer=DEALS / peer_seconds,
        peer_name=f"endplay.dds.calc_all_tables, {CORES} threads, the same deals",
        unit="tables/s",
        ratio=peer_seconds / our_seconds,
        goal=0.95,
    )


def _solved(rng: Generator, common: None, holder: Array) -> Array:
    return double_dummy.trick_tables(holder)


def _recorded() -> str:
    """Return how many recorded tables are equal to ours, if the data exist."""
    if not SOLVED.exists():
        return ""
    rows = pq.read_table(SOLVED, columns=["deal", "dd_table"]).slice(0, RECORDED).to_pylist()
    ours = double_dummy.trick_tables(
        np.stack([parse_deal(row["deal"]) for row in rows]), threads=CORES
    )
    theirs = np.stack([parse_trick_table(row["dd_table"]) for row in rows])
    return f"; {(ours == theirs).all(axis=(1, 2)).sum():,} of {RECORDED:,} recorded tables the same"
