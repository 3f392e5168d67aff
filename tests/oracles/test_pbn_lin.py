"""Bridge files and scores beside endplay's, and recorded boards in both file formats."""

from __future__ import annotations

import dataclasses
import itertools
import re
from contextlib import suppress

import numpy as np
import pyarrow.parquet as pq
import pytest
from endplay.parsers import lin, pbn
from endplay.types import Contract, Denom, Penalty, Player, Vul
from tests.data import BOARDS, needed

import overtrick
from overtrick.core import UserError
from overtrick.games.bridge import scoring
from overtrick.games.bridge.boards import Board, validated
from overtrick.games.bridge.cardplay import play_records
from overtrick.games.bridge.cards import CARD_NAMES, parse_deal, random_deals
from overtrick.games.bridge.formats import pbn_lin
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

DEAL = "N:KT8.A96.A95.7542 QJ96.K42.T73.T96 A752.T8.KQJ4.AQ3 43.QJ753.862.KJ8"
LIN = (
    "pn|Ann,Bob,Cy,Di|md|1SA752HT8DKQJ4CAQ3,S43HQJ753D862CKJ8,SKT8HA96DA95C7542,"
    "SQJ96HK42DT73CT96|sv|o|mb|1D|mb|P|mb|1N|mb|P|mb|3N|mb|P|mb|P|mb|P|pg||"
)


@pytest.mark.parametrize("vulnerable", [0, 1])
@pytest.mark.parametrize("doubled", [0, 1, 2])
def test_duplicate_scores_equal_endplays(doubled, vulnerable):
    penalty = (Penalty.passed, Penalty.doubled, Penalty.redoubled)[doubled]
    strains = (Denom.clubs, Denom.diamonds, Denom.hearts, Denom.spades, Denom.nt)
    vul = (Vul.none, Vul.both)[vulnerable]
    for level, strain, tricks in itertools.product(range(1, 8), range(5), range(14)):
        contract = Contract(
            level=level, denom=strains[strain], declarer=Player.north, penalty=penalty,
            result=tricks - level - 6,
        )  # fmt: skip
        given = (np.array([n]) for n in (level, strain, doubled, vulnerable, tricks))
        assert scoring.duplicate_points(*given) == contract.score(vul), (level, strain, tricks)


def test_the_scoring_of_the_report():
    # Hadjur 2018, Table 3.1: clubs, diamonds, hearts, spades, notrump by level
    table = [[20, 20, 30, 30, 40], [40, 40, 60, 60, 70], [60, 60, 90, 90, 100]]
    for level, row in enumerate(table, 1):
        for strain, worth in enumerate(row):
            given = np.full(3, level), np.full(3, strain), level + 6 + np.array([0, 3, -2])
            assert scoring.minibridge_points(*given).tolist() == [worth, worth, -100]


@pytest.mark.parametrize("scoring", ["report", "duplicate"])
def test_payoffs_can_be_scores(scoring, rng):
    game, made = (overtrick.make("minibridge", scoring=each) for each in (scoring, "made"))
    deals = game.deal(200, rng)
    points, won = (
        play(each, [UniformPolicy()] * 2, deals, np.random.default_rng(3)).payoff
        for each in (game, made)
    )
    assert game.unit == "point"
    assert (np.sign(points) == won).all()
    assert set(points[won[:, 0] < 0, 0] % 50) == {0}


def recorded_boards(count):
    """Return recorded boards whose play and tricks agree."""
    rows = pq.read_table(needed(BOARDS)).to_pylist()
    boards = []
    for row in (rows[k] for k in np.random.default_rng(0).permutation(len(rows))):
        cards = tuple(CARD_NAMES.index(card) for card in (row["play"] or "").split())
        board = Board(
            parse_deal(row["deal"]), row["dealer"], row["vulnerability"],
            tuple(row["auction"].split()), row["contract"], row["declarer"], cards,
            row["result_tricks"], len(boards) + 1,
        )  # fmt: skip
        with suppress(UserError):  # about 80 of all contradict themselves
            boards.append(validated(board))
        if len(boards) == count:
            return boards
    raise AssertionError("too few boards")


@pytest.mark.parametrize("ending", ["pbn", "lin"])
def test_a_thousand_recorded_boards_are_read_back_unchanged(ending, tmp_path):
    boards = recorded_boards(1000)
    path = tmp_path / f"boards.{ending}"
    pbn_lin.save(path, boards)
    back = pbn_lin.load(path)
    assert back.problems == []
    for board, again in zip(boards, back.boards, strict=True):
        for each in dataclasses.fields(Board):
            one, other = getattr(board, each.name), getattr(again, each.name)
            assert np.array_equal(one, other), (each.name, one, other)


@pytest.mark.parametrize("parser", [pbn, lin])
def test_endplay_reads_the_same_boards_in_our_files(parser, tmp_path):
    names = ("Nils", "Eva", "Sven", "Wim")
    boards = [dataclasses.replace(each, players=names) for each in recorded_boards(100)]
    boards = [
        dataclasses.replace(each, explanations={0: "strong"}, alerted=(0,))
        for each in boards
        if each.tricks is not None and len(each.play) in (0, 52)
    ]  # endplay fails on some unfinished plays
    path = tmp_path / ("boards.pbn" if parser is pbn else "boards.lin")
    pbn_lin.save(path, boards)
    with path.open() as file:
        theirs = parser.load(file)
    for board, their in zip(boards, theirs, strict=True):
        assert their.board_num == board.number
        assert np.array_equal(parse_deal(their.deal.to_pbn()), board.holder)
        assert tuple(their.info[each] for each in ("North", "East", "South", "West")) == names
        assert their.auction[0].announcement == "strong"
        assert len(their.auction) == len(board.auction)
        cards = [f"{'SHDC'[card.suit]}{card.rank.abbr}" for card in their.play]
        assert cards == [CARD_NAMES[card] for card in board.play]
        assert their.contract.declarer.abbr == board.declarer


@pytest.mark.parametrize("ending", ["pbn", "lin"])
def test_boards_without_auction_with_an_unfinished_one_or_passed_out_are_read_back(
    ending, tmp_path, rng
):
    deals = random_deals(4, rng)
    boards = [
        Board(deals[0], "N", "None", ("P",) * 4, "Pass", number=1),
        Board(deals[1], "E", "All"),
        Board(deals[2], "S", "EW", ("1C", "X", "XX", "P", "P", "P"), "1CXX", "S", (), 9, 7),
        Board(deals[3], "W", "NS", ("P", "7N", "P", "P", "P"), "7N", "N", number=8),
        Board(deals[0], "S", "All", ("1D", "P"), number=9),
        Board(deals[1], "W", "None", ("P", "P", "P"), number=10),
    ]
    path = tmp_path / f"boards.{ending}"
    pbn_lin.save(path, boards)
    back = pbn_lin.load(path)
    assert back.problems == []
    for board, again in zip(boards, back.boards, strict=True):
        for each in dataclasses.fields(Board):
            assert np.array_equal(getattr(board, each.name), getattr(again, each.name)), each.name


def test_tricks_of_a_complete_play_without_a_claim_are_counted(tmp_path, rng):
    game = overtrick.make("minibridge", seats=4)
    deals = game.deal(1, rng)
    cards = play_records.cards_in_play_order(play(game, [UniformPolicy()] * 4, deals, rng).batch)[
        0
    ].tolist()
    board = validated(Board(deals[0, :52], "N", "None", (), "3N", "N", tuple(cards)))
    path = tmp_path / "one.lin"
    pbn_lin.save(path, [dataclasses.replace(board, auction=("3N", "P", "P", "P"))])
    (again,) = pbn_lin.load(path).boards
    assert "mc|" not in path.read_text()
    assert again.tricks == board.tricks
    assert 0 <= board.tricks <= 13


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIN.replace("SA752", "SA75"), r"cannot be read|13 cards"),
        (LIN + "pc|HA|", "card 1 of its play, HA, is not held or does not follow"),
        (LIN + "pc|SQ|pc|S2|pc|D2|", "card 3 of its play, D2, is not held or does not follow"),
        (LIN + "pc|SQ|pc|S2|pc|S3|pc|SK|mc|0|", "0 tricks are recorded, but its play has 1"),
        (LIN.replace("mb|3N", "mb|8N"), "'8N' is not a call"),
        (LIN.replace("mb|3N", "mb|1D"), "call 5 of the auction, 1D, is not above 1N"),
        (LIN.replace("mb|3N", "mb|d"), "call 5 of the auction, X, doubles a bid of its own side"),
        (LIN.replace("mb|3N", "mb|r"), "call 5 of the auction, XX, redoubles a bid that"),
        (LIN.replace("|pg", "|mb|P|pg"), "call 9 of the auction, P, comes after its end"),
        (LIN.replace("mb|P|pg", "pg") + "pc|SQ|", "there are cards or tricks, but no contract"),
        (LIN + "mc|15|", "15 tricks are recorded, but there are 13"),
        (LIN.split("sv|", maxsplit=1)[0] + "pc|SQ|", "there are cards or tricks, but no contract"),
    ],
)
def test_an_invalid_board_is_named_and_the_others_are_read(tmp_path, text, message):
    path = tmp_path / "boards.lin"
    path.write_text(f"{LIN}\n{text}\n{LIN}pc|SQ|pc|S2|\n")
    found = pbn_lin.load(path)
    assert len(found.boards) == 2
    assert len(found.problems) == 1
    assert re.match(rf"{path}: board 2, line 2: .*({message})", found.problems[0]), found.problems
    assert found.boards[1].play == (CARD_NAMES.index("SQ"), CARD_NAMES.index("S2"))
    assert found.boards[1].tricks is None  # endplay fails on an unfinished trick
    path.write_text(text)
    with pytest.raises(UserError, match="the file has no valid board"):
        pbn_lin.load(path)


def test_a_deal_with_a_missing_or_repeated_card_is_named(tmp_path):
    path = tmp_path / "boards.pbn"
    for deal, message in (
        (DEAL.replace("KT8.A96", "KT.A96"), "N 12"),
        (DEAL.replace("QJ96.K42", "KJ96.K42"), "SK is dealt twice"),
    ):
        path.write_text(f'[Board "1"]\n[Dealer "N"]\n[Vulnerable "None"]\n[Deal "{deal}"]\n')
        with pytest.raises(UserError, match=f"{path}: board 1, line 1: .*{message}"):
            pbn_lin.load(path)


def test_a_board_of_several_lines_and_one_without_a_deal(tmp_path):
    path = tmp_path / "boards.lin"
    lines = LIN.replace("pg||", "pg||\n") + "pc|SQ|pc|S2|\npc|S3|pc|SK|pg||\n"
    path.write_text(f"{lines}{LIN}\npn|Ann,Bob,Cy,Di|sv|o|mb|P|\n")
    found = pbn_lin.load(path)
    assert [len(board.play) for board in found.boards] == [4, 0]
    assert found.problems == [f"{path}: board 3, line 5: the deal (md) is missing"]


def test_a_play_that_stops_in_the_last_trick_has_no_result(rng):
    game = overtrick.make("minibridge", seats=4)
    deals = game.deal(1, rng)
    cards = play_records.cards_in_play_order(play(game, [UniformPolicy()] * 4, deals, rng).batch)[
        0
    ].tolist()
    whole = Board(deals[0, :52], "N", "None", (), "3N", "N", tuple(cards))
    assert validated(whole).tricks is not None
    assert validated(dataclasses.replace(whole, play=tuple(cards[:51]))).tricks is None


def test_a_missing_declarer_and_boards_unsupported_by_lin_are_refused(tmp_path):
    path = tmp_path / "boards.pbn"
    one = f'[Board "1"]\n[Dealer "E"]\n[Vulnerable "All"]\n[Deal "{DEAL}"]\n[Contract "3NT"]\n'
    path.write_text(one)
    with pytest.raises(UserError, match="3N has no declarer"):
        pbn_lin.load(path)
    path.write_text(one + '[Declarer "S"]\n')
    (board,) = pbn_lin.load(path).boards
    assert (board.contract, board.declarer) == ("3N", "S")
    with pytest.raises(UserError, match="has a contract but no auction"):
        pbn_lin.save(tmp_path / "boards.lin", [board])


@pytest.mark.parametrize(
    ("calls", "contract", "auction"),
    [
        ("1NT Pass 2NT AP", "2NT", "1N P 2N P P P"),
        ("1D X Pass =1= Pass\nPass", "1DX", "1D X P P P"),
        ("AP", "Pass", "P P P P"),
    ],
)
def test_auctions_of_pbn_are_read_completely(tmp_path, calls, contract, auction):
    path = tmp_path / "boards.pbn"
    one = f'[Board "1"]\n[Dealer "S"]\n[Vulnerable "All"]\n[Deal "{DEAL}"]\n[Declarer "S"]\n'
    path.write_text(f'{one}[Contract "{contract}"]\n[Auction "S"]\n{calls}\n')
    (board,) = pbn_lin.load(path).boards
    assert board.auction == tuple(auction.split())
    path.write_text(f'{one}[Contract "3NT"]\n[Auction "S"]\n{calls}\n')
    with pytest.raises(
        UserError, match=r"3N by S is recorded, but its auction has (2N|1DX|Pass) by"
    ):
        pbn_lin.load(path)


def test_a_hash_in_pbn_repeats_the_value_of_the_board_before(tmp_path):
    path = tmp_path / "boards.pbn"
    one = f'[Board "1"]\n[Dealer "E"]\n[Vulnerable "All"]\n[Deal "{DEAL}"]\n'
    path.write_text(f'% PBN 2.1\n{one}\n[Board "2"]\n[Dealer "#"]\n[Vulnerable "#"]\n[Deal "#"]\n')
    first, second = pbn_lin.load(path).boards
    assert (second.dealer, second.vulnerable, second.number) == ("E", "All", 2)
    assert np.array_equal(first.holder, second.holder)


def test_files_of_another_kind_and_empty_ones_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"boards are read from \.pbn and \.lin files"):
        pbn_lin.load(tmp_path / "boards.txt")
    with pytest.raises(UserError, match=r"cannot read .*No such file"):
        pbn_lin.load(tmp_path / "none.pbn")
    (tmp_path / "empty.lin").write_text("\n")
    with pytest.raises(UserError, match="contains no boards"):
        pbn_lin.load(tmp_path / "empty.lin")
