"""The auction beside pyspiel's, par beside endplay's, and recorded auctions in every file
format."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow.parquet as pq
import pyspiel
import pytest
from endplay import _dds, dds
from endplay.dds.ddtable import DDTable
from endplay.types import Player, Vul
from tests.data import BOARDS, SOLVED, needed

import overtrick
from overtrick.core import UserError
from overtrick.games.bridge import auction_rules, contract_results, double_dummy, scoring
from overtrick.games.bridge.auction_rules import BIDS, CALLS
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cards import SEATS, parse_deal
from overtrick.games.bridge.formats import zhang_tsv
from overtrick.games.bridge.par import SIDE_VULNERABLE, par

# Zhang et al. 2022, Table 3
CARDS = ("Q94.KJ97.52.9763", "J732.2.AKQ43.AQJ", "K6.T53.J876.K542", "AT85.AQ864.T9.T8")
BIDDING, DIGITS = "P 1D P 1H P 1S P 3S P 4S P P P", "42435424359b8a89b8a8"
THEIRS = "\t".join(["None", "N", *CARDS, BIDDING, DIGITS])


def pyspiel_call(call):
    """Return pyspiel's index of a call."""
    return 55 + call if call < BIDS else 52 + call - BIDS


AUCTIONS = 20  # random auctions of each deal


def test_random_auctions_go_and_score_as_in_pyspiel(rng):
    """Legal calls and scores of contracts are equal. North deals."""
    game = overtrick.make("auction", scoring="points", seats=2)
    lengths = []
    for ours, theirs in itertools.product((0, 1), repeat=2):
        deals = game.deal(2, rng)
        deals[:, 52], deals[:, 53] = 0, ours + 2 * theirs
        name = f"bridge(dealer_vul={bool(ours)},non_dealer_vul={bool(theirs)})"
        dealt = [pyspiel_deal(pyspiel.load_game(name), deal[:52]) for deal in deals]
        many = np.repeat(game.with_double_dummy(deals), AUCTIONS, axis=0)
        state = game.start(many)
        peers = [dealt[k // AUCTIONS].clone() for k in range(2 * AUCTIONS)]
        won = np.zeros(2 * AUCTIONS)
        while len(observations := game.observe(state)):
            calls = np.empty(len(observations), np.int64)
            for row, number in enumerate(observations.game):
                legal = np.flatnonzero(observations.legal[row])
                assert sorted(map(pyspiel_call, legal)) == peers[number].legal_actions()
                assert peers[number].current_player() == observations.observation[row, 0]
                # low bids and many doubles, for auctions of some length
                weight = np.where(legal < BIDS, 0.6 ** (legal - legal[0]), 0.5)
                calls[row] = rng.choice(legal, p=weight / weight.sum())
                peers[number].apply_action(pyspiel_call(calls[row]))
            won += game.step(state, observations, calls)[:, 0]
        assert all(peer.is_terminal() for peer in peers)
        assert won.tolist() == [peer.returns()[0] for peer in peers]
        lengths += state.now[:, auction_rules.CALL_COUNT].tolist()
    assert max(lengths) > 30


def pyspiel_deal(game, holder):
    """Return pyspiel's state at the start of the auction of a deal. Cards are dealt in turn to the
    seats, ordered by rank and then by suit."""
    state = game.new_initial_state()
    held = [list(np.flatnonzero(holder == seat)) for seat in range(4)]
    for k in range(52):
        card = held[k % 4].pop()
        state.apply_action(int(card % 13 * 4 + card // 13))
    return state


def solved_rows():
    return pq.read_table(needed(SOLVED))


def test_par_equals_endplays_for_every_dealer_and_vulnerability():
    digits = solved_rows()["dd_table"].to_pylist()[:1000]
    tables = np.stack([zhang_tsv.parse_trick_table(each) for each in digits])
    theirs = [endplay_table(table) for table in tables]
    games = np.arange(len(tables))
    for dealer, vulnerable in itertools.product(range(4), range(4)):
        vul = (Vul.none, Vul.ns, Vul.ew, Vul.both)[vulnerable]
        found = par(tables, np.full(1000, dealer), np.full(1000, vulnerable))
        wanted = [dds.par(table, vul, Player(dealer)).score for table in theirs]
        assert found.score.tolist() == wanted
        declarer, level, strain, doubled = found.contracts
        tricks = tables[games, declarer, strain]
        vulnerable_side = SIDE_VULNERABLE[vulnerable][declarer % 2]
        won = scoring.duplicate_points(level, strain, doubled, vulnerable_side, tricks)
        assert np.array_equal(np.where(declarer % 2 == 0, won, -won), found.score)
        assert np.array_equal(doubled, tricks < level + 6)


def endplay_table(table):
    """Return double-dummy tricks as endplay's table."""
    made = _dds.ddTableResults()
    for seat, strain in np.ndindex(table.shape):
        made.resTable[double_dummy.DDS_STRAINS[strain]][seat] = int(table[seat, strain])
    return DDTable(made)


def test_par_belongs_to_the_first_bidder_if_both_sides_make_the_contract():
    table = np.full((1, 4, 5), 6)
    table[0, :, 4] = 7  # all seats make one notrump
    scores = [int(par(table, np.array([dealer]), np.array([0])).score[0]) for dealer in range(4)]
    assert scores == [90, -90, 90, -90]
    nothing = par(np.full((1, 4, 5), 6), np.array([0]), np.array([3]))
    assert nothing.score == 0
    assert [int(column[0]) for column in nothing.contracts] == [-1, 0, -1, 0]


def test_par_of_a_table_on_which_both_sides_together_win_15_tricks_is_a_sacrifice():
    """East-West make two spades, 110, but two spades doubled by North-South cost 100."""
    table = np.zeros((1, 4, 5), np.int64)
    table[0, [0, 2], 3], table[0, [1, 3], 3] = 7, 8
    scores = [int(par(table, np.array([dealer]), np.array([0])).score[0]) for dealer in range(4)]
    assert scores == [-100, -110, -100, -110]


def test_north_or_east_declares_a_par_contract_if_both_partners_take_equally_many_tricks():
    tables = np.full((4, 4, 5), 6)
    tables[0, [0, 2], 3], tables[1, [1, 3], 3] = 10, 10  # one side makes four spades
    tables[2, 2, 3], tables[3, 3, 3] = 10, 10  # only South, only West
    found = par(tables, np.zeros(4, np.int64), np.zeros(4, np.int64)).contracts
    assert found.declarer.tolist() == [0, 1, 2, 3]
    assert (found.level.tolist(), found.strain.tolist()) == ([4] * 4, [3] * 4)


def test_all_131_746_recorded_auctions_are_legal_and_reach_their_contracts():
    table = pq.read_table(
        needed(BOARDS), columns=["auction", "dealer", "contract", "declarer"]
    ).to_pydict()
    called = [auction_rules.parse_calls(text) for text in table["auction"]]
    assert len(called) == 131_746
    for calls in called:
        auction_rules.check_auction(calls)
    padded = np.full((len(called), max(map(len, called)) + 1), -1, np.int8)
    for row, calls in zip(padded, called, strict=True):
        row[: len(calls)] = calls
    found = auction_rules.final_contracts(
        padded, np.array([SEATS.index(seat) for seat in table["dealer"]])
    )
    wanted = [(SEATS.index(seat) if seat else -1) for seat in table["declarer"]]
    assert found.declarer.tolist() == wanted
    message = [
        f"{level}{auction_rules.STRAIN_LETTERS[strain]}{'X' * doubled}" if level else "Pass"
        for _, level, strain, doubled in zip(*(each.tolist() for each in found), strict=True)
    ]
    assert message == table["contract"]


def test_the_papers_example_row_is_read_with_its_double_dummy_tricks(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("\t".join(zhang_tsv.WITH_TRICKS) + "\n" + THEIRS + "\n")
    found = zhang_tsv.load(path)
    (board,) = found.boards
    assert (board.dealer, board.vulnerable) == ("N", "None")
    assert (board.contract, board.declarer) == ("4S", "E")
    assert found.problems == []
    tables = double_dummy.trick_tables(board.holder[None])
    assert zhang_tsv.format_trick_table(tables[0]) == DIGITS
    assert np.array_equal(board.table, tables[0])
    game = overtrick.make("auction", seats=2)
    deal = np.array([[*board.holder, 0, 0, *board.table.ravel()]])
    state = game.start(deal)
    for call in auction_rules.parse_calls(BIDDING):
        won = game.step(state, game.observe(state), np.array([call]))
    assert won.tolist() == [[0, 0]]  # four spades with eleven tricks is par
    zhang_tsv.save(tmp_path / "again.txt", found.boards, tables)
    assert (tmp_path / "again.txt").read_text() == path.read_text()


@pytest.mark.parametrize("with_tricks", [False, True])
def test_boards_come_back_from_rows_unchanged(with_tricks, tmp_path):
    table = solved_rows().slice(0, 500).to_pylist()
    boards = []
    for row in table:
        calls = auction_rules.parse_calls(row["auction"])
        contract = contract_results.describe_contract(calls, row["dealer"])
        boards.append(
            Board(
                parse_deal(row["deal"]), row["dealer"], row["vulnerability"],
                tuple(CALLS[call] for call in calls), *contract,
            )
        )  # fmt: skip
    tables = np.stack([zhang_tsv.parse_trick_table(row["dd_table"]) for row in table])
    path = tmp_path / "rows.txt"
    zhang_tsv.save(path, boards, tables if with_tricks else None)
    found = zhang_tsv.load(path)
    assert path.read_text().count("\t") == (7 if with_tricks else 6) * 501
    assert found.problems == []
    for board, again in zip(boards, found.boards, strict=True):
        assert np.array_equal(board.holder, again.holder)
        assert vars(board) | {"holder": 0} == vars(again) | {"holder": 0, "table": None}
    found_tables = [board.table for board in found.boards]
    assert np.array_equal(found_tables, tables) if with_tricks else not any(found_tables)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("None", "none", "vulnerability is None, NS, EW, All, not 'none'"),
        ("\tN\t", "\tX\t", "the opener is N, E, S or W, not 'X'"),
        ("Q94.KJ97", "Q9.KJ97", "hands in 'N:.*' have N 12, E 13, S 13, W 13"),
        ("Q94.KJ97", "Q94KJ97", "North's cards 'Q94KJ97.52.9763' are not a hand"),
        ("K6.T53", "Q6.T53", "SQ is dealt twice"),
        ("3S P 4S", "3S P 2S", "call 10 of the auction, 2S, is not above 3S"),
        ("4S P P P", "4S P P", "does not end: a pass is missing"),
        ("1H", "1Z", "'1Z' is not a call"),
        ("59b8a", "59e8a", "'42435424359e8a89b8a8' is not a double-dummy analysis"),
        (DIGITS, DIGITS[1:], "is not a double-dummy analysis: 20 digits from 0 to d"),
        (f"\t{DIGITS}", "", "7 columns, not 8"),
    ],
)
def test_an_invalid_row_is_named_and_the_others_are_read(right, wrong, message, tmp_path):
    path = tmp_path / "rows.txt"
    assert right in THEIRS
    bad = THEIRS.replace(right, wrong, 1)
    path.write_text("\n".join(["\t".join(zhang_tsv.WITH_TRICKS), THEIRS, bad, "", THEIRS]))
    found = zhang_tsv.load(path)
    assert len(found.boards) == 2
    assert all(board.table is not None for board in found.boards)
    (problem,) = found.problems
    assert problem.startswith(f"{path}: line 3: ")
    path.write_text("\n".join(["\t".join(zhang_tsv.WITH_TRICKS), bad]))
    with pytest.raises(UserError, match=f"line 2: .*{message}.*; the file has no valid board"):
        zhang_tsv.load(path)


def test_files_of_another_format_are_refused(tmp_path):
    path = tmp_path / "rows.txt"
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        zhang_tsv.load(path)
    path.write_text(THEIRS)
    with pytest.raises(
        UserError, match="line 1 must name the columns, separated by tabs: Vulnerabilit"
    ):
        zhang_tsv.load(path)
    path.write_text("\t".join(zhang_tsv.COLUMNS) + "\n\n")
    with pytest.raises(UserError, match="contains no boards"):
        zhang_tsv.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="it is not text in UTF-8"):
        zhang_tsv.load(path)
    board = Board(parse_deal("N:" + " ".join(CARDS)), "N", "None", ("1C", "P"))
    with pytest.raises(UserError, match="board 1: the auction '1C P' does not end: 2 passes are"):
        zhang_tsv.save(path, [board])
    with pytest.raises(UserError, match="1 boards with 2 tables of tricks"):
        zhang_tsv.save(path, [board], np.zeros((2, 4, 5), np.int8))
