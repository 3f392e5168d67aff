"""Double-dummy tables beside recorded ones, and single contracts beside tables."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.data import SOLVED, needed

from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.cards import parse_deal, random_deals
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table

DEALS = 25  # `make bench ONLY=double_dummy` compares 1,000


def test_tables_equal_the_recorded_ones(monkeypatch):
    monkeypatch.setattr(double_dummy, "TABLES_PER_CALL", 10)  # several calls of DDS
    rows = pq.read_table(needed(SOLVED), columns=["deal", "dd_table"]).slice(0, 1000).to_pylist()
    chosen = rows[:: len(rows) // DEALS][:DEALS]
    found = double_dummy.trick_tables(
        np.stack([parse_deal(row["deal"]) for row in chosen]), threads=0
    )
    expected = np.stack([parse_trick_table(row["dd_table"]) for row in chosen])
    assert found.shape == (DEALS, 4, 5)
    assert found.dtype == np.int8
    assert (found == expected).all(axis=(1, 2)).sum() == DEALS


@pytest.mark.slow
def test_dds_solves_the_tables_of_a_full_call(rng):
    holder = random_deals(double_dummy.TABLES_PER_CALL + 1, rng)
    tables = double_dummy.trick_tables(holder)
    assert np.array_equal(tables[:1], double_dummy.trick_tables(holder[:1]))
    assert np.array_equal(tables[-1:], double_dummy.trick_tables(holder[-1:]))


def test_a_single_contract_takes_the_tricks_of_its_table(rng):
    holder = random_deals(8, rng)
    table = double_dummy.trick_tables(holder)
    declarer, strain = rng.integers(4, size=8), rng.integers(5, size=8)
    single = double_dummy.contract_tricks(holder, declarer, strain)
    assert np.array_equal(single, table[np.arange(8), declarer, strain])


def test_a_rotated_deal_has_a_rotated_table(rng):
    holder = random_deals(2, rng)
    table = double_dummy.trick_tables(holder)
    turned = double_dummy.trick_tables((holder + 1) % 4)
    assert np.array_equal(turned, np.roll(table, 1, axis=1))


def test_zero_deals_give_zero_tables():
    assert double_dummy.trick_tables(np.empty((0, 52), np.int8)).shape == (0, 4, 5)
