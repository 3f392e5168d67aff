"""Duplicate matches of bidding systems: every deal is played at two tables with exchanged seats."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from overtrick import cli
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.games.bridge import auction_rules, contract_results, double_dummy, scoring
from overtrick.games.bridge.cards import SEATS
from overtrick.games.bridge.formats import pbn_lin
from overtrick.games.bridge.players.card_players import Budget
from overtrick.games.bridge.system import loader
from overtrick.storage.game_records import load, save
from overtrick.studies import duplicate_match

WEAK = """\
system weak
title  Natural with a weak notrump
based on natural

at opening
  1N | 12-14 hcp, balanced | Weak notrump

at 1m (P) 1x (P) if x above m
  1N | 15-17 hcp, balanced | Strong notrump rebid | notrump
  1N | 11-17 hcp, x 0-3, 4-5 longest | Minimum | notrump, minimum

at 1N (P) 2C (P) 2D (P) 2M (P)
  P  | anything | No game
"""


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Write a system with a weak notrump that is otherwise natural."""
    path = tmp_path / f"weak{loader.SUFFIX}"
    path.write_text(WEAK)
    return str(path)


def result_of(a: str, b: str, boards: int = 60, seed: int = 1) -> duplicate_match.DuplicateMatch:
    return duplicate_match.play_match(a, b, boards, seed, LocalPool(), lambda done: None)


def test_a_system_against_itself_scores_zero() -> None:
    match = result_of("natural", "natural")
    assert not match.boards.imps.any()
    assert (match.mean, match.standard_error) == (0, 0)
    assert np.array_equal(match.boards.open.calls, match.boards.closed.calls)


def test_matchpoints_count_the_tables_that_are_beaten() -> None:
    """Three tables on one board, and two tables: won, drawn and lost."""
    three = scoring.matchpoints(np.array([[420], [450], [420]]))
    assert three.ravel().tolist() == [0.25, 1, 0.25]
    two = scoring.matchpoints(np.array([[100, -50, 0], [90, -50, 50]]))
    assert two.tolist() == [[1, 0.5, 0], [0, 0.5, 1]]


def test_exchanging_the_systems_exchanges_the_imps(other: str) -> None:
    one, two = result_of("natural", other, 30), result_of(other, "natural", 30)
    assert one.boards.imps.any()
    assert np.array_equal(one.boards.imps, -two.boards.imps)
    assert one.mean == -two.mean
    assert one.standard_error == two.standard_error > 0
    assert np.array_equal(one.boards.open.score, two.boards.closed.score)


def test_scores_are_those_of_double_dummy_tables(other: str) -> None:
    match = result_of("natural", other, 12)
    margin = match.boards.open.score - match.boards.closed.score
    assert np.array_equal(match.boards.imps, scoring.imps(margin))  # for North-South of the first
    spread = sum((imps - match.mean) ** 2 for imps in match.boards.imps.tolist())
    assert match.standard_error == pytest.approx((spread / 11 / 12) ** 0.5)
    solved = double_dummy.trick_tables(match.boards.holder)
    for table in (match.boards.open, match.boards.closed):
        contracts = table.contracts
        for board in range(12):
            who = int(contracts.declarer[board])
            if who < 0:
                assert (table.tricks[board], table.score[board]) == (-1, 0)
                continue
            tricks = solved[board, who, contracts.strain[board]]
            assert table.tricks[board] == tricks
            made = tricks >= contracts.level[board] + 6
            assert (table.score[board] > 0) == (made == (who % 2 == 0))


def test_workers_play_the_same_match(
    other: str, two_workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicate_match, "SHARD", 8)
    in_process = result_of("natural", other, 20, 2)  # compiles for all workers
    on_workers = duplicate_match.play_match("natural", other, 20, 2, two_workers, lambda done: None)
    assert np.array_equal(on_workers.boards.imps, in_process.boards.imps)
    assert np.array_equal(on_workers.boards.open.calls, in_process.boards.open.calls)


def test_a_report_has_every_board(other: str, tmp_path: Path) -> None:
    match = result_of("natural", other, 20)
    duplicate_match.write_report(match, tmp_path / "m.csv")
    with (tmp_path / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["imps"]) for row in rows] == match.boards.imps.tolist()
    for row in rows:
        for name in ("open", "closed"):
            calls = auction_rules.parse_calls(row[f"{name}_auction"])
            auction_rules.check_auction(calls)
            contract, declarer = contract_results.describe_contract(calls, row["dealer"])
            explained = contract if declarer is None else f"{contract} by {declarer}"
            assert row[f"{name}_contract"] == explained
    duplicate_match.write_report(match, tmp_path / "m.md", show=2)
    text = (tmp_path / "m.md").read_text()
    assert sum(line.startswith("| ") for line in text.splitlines()) == 22  # a head, a rule, boards
    assert text.count("West   North  East   South") == 4
    first = SEATS[match.boards.dealer[0]]
    assert f"Board 1, dealer {first}, vulnerable None" in text
    assert "North-South weak, East-West natural" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.csv", "m.md", "weak.bidding"]
    with pytest.raises(UserError, match=r"m\.txt: name a \.md or \.csv or \.pbn or \.lin file"):
        duplicate_match.write_report(match, tmp_path / "m.txt")


def test_calls_are_explained_by_the_system_of_their_side(other: str) -> None:
    """A notrump opening is strong or weak, as the pair in those seats plays."""
    match = result_of("natural", other)
    found = []
    for board in range(60):
        for table in duplicate_match.describe_board(match, board, signs=False).split(
            "\nNorth-South "
        )[1:]:
            strong = "NS" if table.startswith("natural") else "EW"
            for line in table.splitlines():
                if " 1N " in line and ("Strong notrump: " in line or "Weak notrump: " in line):
                    seat, call, *explained = line.split()
                    points = "15-17" if seat in strong else "12-14"
                    name = "Strong" if seat in strong else "Weak"
                    assert (call, *explained[:4]) == ("1N", name, "notrump:", points, "points,")
                    found.append(points)
    assert set(found) == {"15-17", "12-14"}


def test_a_match_from_the_command_line(other: str, tmp_path: Path, monkeypatch, capsys) -> None:
    def ask(*words: str):
        monkeypatch.setattr(sys, "argv", ["overtrick", "match", *words, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])

    monkeypatch.chdir(tmp_path)
    code, answer = ask("natural", other, "--boards", "20", "--seed", "1", "--out", "m.md")
    assert code == 0
    assert list(answer) == ["a", "b", "boards", "mean", "standard_error", "unit"]
    assert (answer["a"], answer["boards"], answer["unit"]) == ("natural", 20, "imp")
    assert answer["mean"] == result_of("natural", other, 20).mean
    assert (tmp_path / "m.md").exists()
    for words, explained in (
        (("natural", "natura"), "unknown bidding system 'natura': did you mean 'natural'?"),
        (("naturel", "precison"), "unknown player 'naturel': did you mean 'natural'?"),
        (("random", "precison"), "unknown player 'precison': did you mean 'precision'?"),
        (("random", "natural"), "unknown bidding system 'random'"),
        (("natural", "none.bidding"), "cannot read none.bidding"),
        (("natural", "natural", "--game", "leduc"), "takes no --game"),
        (("natural", "natural", "--out", "m.pdf"), "name a .md or .csv or .pbn"),
        (("natural", "natural", "--out", "no/m.md"), "cannot write no/m.md: name a .md or"),
        (("random", "call", "--game", "leduc", "--show", "1"), "--show is an option for bidding"),
    ):
        code, answer = ask(*words)
        assert code == 2
        assert explained in answer["error"]


def test_the_cards_of_a_match_are_played_recorded_and_written(tmp_path: Path) -> None:
    match = result_of("natural+careful", "precision+rules", 12)
    boards = match.boards
    assert match.played
    for table in (boards.open, boards.closed):
        contracts = table.contracts
        points = contract_results.north_south_points(contracts, boards.vulnerable, table.tricks)
        assert np.array_equal(points, table.score)
        assert ((table.cards >= 0).all(axis=1) == (contracts.level > 0)).all()
    save(tmp_path / "games.parquet", duplicate_match.recorded_games(match))
    found = load(tmp_path / "games.parquet")  # replays all games
    assert found.game == "bridge"
    duplicate_match.write_report(match, tmp_path / "m.pbn")
    written = pbn_lin.load(tmp_path / "m.pbn").boards
    tricks = np.stack([boards.open.tricks, boards.closed.tricks], axis=1).ravel()
    assert [-1 if each.tricks is None else each.tricks for each in written] == tricks.tolist()
    assert [each.room for each in written] == ["Open", "Closed"] * 12
    names = [each.name for each in (match.a, match.b)]
    assert [each.players[:2] for each in written] == [tuple(names), tuple(names[::-1])] * 12
    assert all(set(each.alerted) == set(each.explanations) for each in written)
    assert any(each.alerted for each in written)
    duplicate_match.write_report(match, tmp_path / "m.lin")
    in_lin = pbn_lin.load(tmp_path / "m.lin").boards
    for name in ("room", "number", "players", "teams", "explanations", "play", "tricks"):
        assert [getattr(each, name) for each in in_lin] == [getattr(b, name) for b in written]
    assert [len(each.play) for each in written] == np.where(tricks >= 0, 52, 0).tolist()
    text = duplicate_match.describe_board(match, int(np.argmax(boards.open.tricks)), signs=False)
    assert "\n13.  " in text


def test_a_card_player_against_itself_scores_zero() -> None:
    """Both tables have the same deals, and the same deals sampled for each decision."""
    match = duplicate_match.play_match(
        "natural+search", "natural+search", 2, 1, LocalPool(), lambda done: None, Budget(3)
    )
    assert not match.boards.imps.any()
    assert np.array_equal(match.boards.open.cards, match.boards.closed.cards)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("natural+careful", "natural", "only one side has a card player"),
        ("natural+carefull", "natural", "the card player must be rules, careful, search"),
    ],
)
def test_a_wrong_card_player_is_refused(a: str, b: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        duplicate_match.load_sides(a, b)
