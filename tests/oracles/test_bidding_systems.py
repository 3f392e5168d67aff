"""The systems beside auctions that an independent engine bid by the same books, and those of
tournament players."""

from __future__ import annotations

import pytest
from tests.bench.bidding_systems import SAYC, recorded_boards, shown_by_people
from tests.data import DATA, needed

from overtrick.games.bridge import system
from overtrick.trainers import agreement

MANY = 10_000  # auctions, the first of a set


def shares(name, recorded):
    needed(DATA / "bridge" / f"{recorded}.parquet")
    of, _ = recorded_boards(recorded, most=MANY)
    return agreement.shares(of, agreement.followed(system.load(name), of))


@pytest.mark.parametrize("name", ["natural", "precision"])
def test_a_system_agrees_with_recorded_auctions(name):
    found = shares(name, name)
    assert found["opening"] >= 0.95
    assert found["response"] >= 0.80
    assert found["all"] >= 0.75


def test_a_system_that_is_only_a_file_opens_as_others_who_play_it():
    assert shares(SAYC, "sayc")["opening"] >= 0.92


def test_tournament_players_have_what_their_calls_show():
    needed(DATA / "bridge" / "boards.parquet")
    true, width = shown_by_people(system.load("natural"))
    assert true.mean() >= 0.85
    assert width.mean() <= 10
