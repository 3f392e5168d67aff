"""Bidding systems beside auctions of an independent engine with the same systems, and of tournament
players."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.bench.bidding_systems import NATURAL_PAIR, of_people
from tests.data import DATA, needed

from overtrick.core import UserError
from overtrick.datasets import board_files
from overtrick.evaluation import system_agreement
from overtrick.games.bridge.formats import zhang_tsv
from overtrick.games.bridge.system import loader

MANY = 10_000  # number of auctions, the first of a data set
TUNED = 25_000  # number of auctions of SAYC by which the rules of sayc were tuned


def first(table, folder, skipped=0):
    """Write the first boards of a table to a file, after `skipped` others."""
    pq.write_table(table.slice(skipped, MANY), folder / "first.parquet")
    return board_files.load(folder / "first.parquet").boards


def shares(name, file, folder, skipped=0):
    path = needed(DATA / "bridge" / f"{file}.parquet")
    of = system_agreement.select_auctions(first(pq.read_table(path), folder, skipped))
    return system_agreement.agreement_shares(
        of, system_agreement.follow_system(loader.load(name), of)
    )


@pytest.mark.parametrize("name", ["natural", "precision"])
def test_a_system_agrees_with_recorded_auctions(name, tmp_path):
    found = shares(name, name, tmp_path)
    assert found["opening"] >= 0.95
    assert found["response"] >= 0.80
    assert found["all"] >= 0.75


def test_sayc_agrees_better_than_natural_with_auctions_of_sayc(tmp_path):
    """All six shares, on 10,000 auctions after those by which the rules were tuned."""
    own, natural = (shares(name, "sayc", tmp_path, TUNED) for name in ("sayc", "natural"))
    assert all(own[key] > natural[key] for key in own)
    assert own["response"] >= natural["response"] + 0.04


def test_acol_agrees_better_than_natural_with_pairs_that_open_a_weak_notrump(tmp_path):
    """All six shares, of the few tournament pairs with this label."""
    path = needed(DATA / "bridge" / "boards.parquet")
    human, label = ("kind", "=", "human"), "natural_weakNT"
    labelled = [[human, (f"sys_inferred_{side}", "=", label)] for side in ("ns", "ew")]
    boards = first(pq.read_table(path, filters=labelled), tmp_path)
    of, natural = system_agreement.select_auctions(boards, label), loader.load("natural")
    own, other = (
        system_agreement.agreement_shares(of, system_agreement.follow_system(rules, of, natural))
        for rules in (loader.load("acol"), natural)
    )
    assert all(own[key] > other[key] for key in own)


def test_hands_of_tournament_players_fulfil_the_meanings_of_their_calls(tmp_path):
    human = [("kind", "=", "human"), ("sys_inferred_ns", "=", NATURAL_PAIR)]
    path = needed(DATA / "bridge" / "boards.parquet")
    found = of_people(loader.load("natural"), first(pq.read_table(path, filters=human), tmp_path))
    assert found["true"] >= 0.85
    assert found["width"] <= 10


def test_a_wrong_row_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "boards.tsv"
    path.write_text("\t".join(zhang_tsv.COLUMNS) + "\n\nnothing\n")
    with pytest.raises(UserError, match="line 3"):
        zhang_tsv.load(path)
