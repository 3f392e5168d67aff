"""Boards in PBN and LIN keep names, alerts, notes, rooms, results, tags and tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overtrick.core import UserError
from overtrick.games.bridge import auction_rules, contract_results
from overtrick.games.bridge.boards import ROOMS, Board, Comment, Section, validated
from overtrick.games.bridge.cards import CARDS, SEATS, hand_bits, random_deals
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats import pbn_lin
from overtrick.games.bridge.trick_rules import beats, playable_cards

PBN = r"""% PBN 2.1
% EXPORT
{Read before the first board.

It has two paragraphs.}
[Event "The \"Big\" Cup \\ Final"] {a fine event}
[Site "Łódź"]
[Date "2026.11.28"]
[Board "3"]
[West "Wanda"]
[North "Nils Ångström"]
[East "-"]
[South "?"]
[Dealer "S"]
[Vulnerable "EW"]
[Deal "N:KT8.A96.A95.7542 QJ96.K42.T73.T96 A752.T8.KQJ4.AQ3 43.QJ753.862.KJ8"]
[Scoring "IMP"]
[Declarer "N"]
[Contract "3NT"]
[Result "9"]
[Room "Closed"]
[HomeTeam "Norway"]
[VisitTeam "Poland"]
[BidSystemNS "natural"]
[Competition "Teams"] ; a comment to the end of the line, with a } in it
[Auction "S"]
1D =1= Pass 1NT! =2= Pass
% a line for programs
3NT $4 {North thinks
for a while} Pass Pass Pass
[Note "1:four cards, or \"better\""]
[Note "2:6-9"]
[Note "7:no call refers to this"]
[Play "E"]
S6 =1= S2 S3 S8
- - - DA
*
[Note "1:fourth highest"]
[OptimumResultTable "Declarer;Denomination\2R;Result\2R"]
N NT 9
[TotalScoreTable "Rank\3R;Names\12L;TotalScore\4R"]
  1 "A. Nobody"   56.5
  2 "B. {Other}"  43.5 {tie broken}
"""


def fields_of(board: Board) -> dict:
    """Return the fields of a board in a form that can be compared."""
    found = {each.name: getattr(board, each.name) for each in dataclasses.fields(board)}
    found["holder"] = board.holder.tolist()
    found["table"] = None if board.table is None else board.table.tolist()
    return found


def read(path: Path, text: str | bytes) -> list[Board]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = pbn_lin.load(path)
    assert found.problems == []
    return found.boards


def saved(path: Path, boards: list[Board]) -> list[Board]:
    pbn_lin.save(path, boards)
    found = pbn_lin.load(path)
    assert found.problems == []
    return found.boards


# --- PBN


@pytest.fixture
def board(tmp_path: Path) -> Board:
    (found,) = read(tmp_path / "one.pbn", PBN)
    return found


def test_a_pbn_board_is_read_with_all_that_it_holds(board: Board) -> None:
    assert board.players == ("Nils Ångström", "", "", "Wanda")
    assert board.teams == ("Norway", "Poland")
    assert (board.room, board.number, board.tricks) == ("Closed", 3, 9)
    assert board.systems == ("natural", "")
    assert board.explanations == {0: 'four cards, or "better"', 2: "6-9"}
    assert board.alerted == (0, 2)
    assert board.card_notes == {0: "fourth highest"}
    assert board.marks == {2: "!", 4: "$4"}
    assert board.tags == {
        "Event": 'The "Big" Cup \\ Final', "Site": "Łódź", "Date": "2026.11.28",
        "Scoring": "IMP", "Competition": "Teams",
    }  # fmt: skip
    assert board.comments == (
        Comment("Read before the first board.\n\nIt has two paragraphs.", ""),
        Comment("a fine event", "Event"),
        Comment("a comment to the end of the line, with a } in it", "Competition"),
        Comment("North thinks\nfor a while", 5),
        Comment("no call refers to this", 13),
    )
    assert [each.name for each in board.sections] == ["OptimumResultTable", "TotalScoreTable"]
    assert board.sections[1] == Section(
        "TotalScoreTable",
        r"Rank\3R;Names\12L;TotalScore\4R",
        ('  1 "A. Nobody"   56.5', '  2 "B. {Other}"  43.5 {tie broken}'),
    )
    assert len(board.play) == 5


def test_a_pbn_board_is_saved_as_it_was_read(board: Board, tmp_path: Path) -> None:
    (again,) = saved(tmp_path / "again.pbn", [board])
    assert fields_of(again) == fields_of(board)
    text = (tmp_path / "again.pbn").read_text()
    assert r'[Event "The \"Big\" Cup \\ Final"]' in text
    assert r'[TotalScoreTable "Rank\3R;Names\12L;TotalScore\4R"]' in text
    assert "1D =1= Pass 1NT ! =2= Pass\n3NT $4\n{North thinks\nfor a while}\nPass Pass" in text
    assert "[Note " in text.split("[Play ")[1]


@pytest.mark.parametrize(
    "content",
    [PBN.encode(), PBN.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + PBN.encode()],
)
def test_line_ends_and_the_mark_of_utf8_change_nothing(content, board, tmp_path: Path) -> None:
    (again,) = read(tmp_path / "other.pbn", content)
    assert fields_of(again) == fields_of(board)


def test_text_that_is_not_utf8_is_read_as_latin_1(tmp_path: Path) -> None:
    (board,) = read(tmp_path / "one.pbn", PBN.replace("Łódź", "Malmö").encode("latin-1"))
    assert board.tags["Site"] == "Malmö"
    assert board.players[0] == "Nils Ångström"


DEAL = "N:KT8.A96.A95.7542 QJ96.K42.T73.T96 A752.T8.KQJ4.AQ3 43.QJ753.862.KJ8"
PLAIN = f'[Board "1"]\n[Dealer "S"]\n[Vulnerable "None"]\n[Deal "{DEAL}"]\n'


def test_values_hold_for_later_boards(tmp_path: Path) -> None:
    second = PLAIN.replace('"1"', '"2"')
    text = (
        f'[Event "##Cup"]\n[Site "Oslo"]\n{PLAIN}\n[Site "#"]\n{second}\n[Event "Final"]\n{PLAIN}'
    )
    boards = read(tmp_path / "three.pbn", text)
    assert [each.tags for each in boards] == [
        {"Event": "Cup", "Site": "Oslo"}, {"Site": "Oslo", "Event": "Cup"}, {"Event": "Final"},
    ]  # fmt: skip


def test_a_complete_table_of_best_results_is_the_double_dummy_table(tmp_path: Path) -> None:
    rows = "\n".join(f"{seat} {strain} 7" for seat in "NESW" for strain in ("NT", *"SHDC"))
    table = f'[OptimumResultTable "Declarer;Denomination\\2R;Result\\2R"]\n{rows}\n'
    (board,) = read(tmp_path / "one.pbn", PLAIN + table)
    assert board.sections == ()
    assert (np.asarray(board.table) == 7).all()
    (again,) = saved(tmp_path / "again.pbn", [board])
    assert fields_of(again) == fields_of(board)


@pytest.mark.parametrize("said", ["9", "NS 9", "ew 4", "NS 9 EW 4", "EW 4  NS 9"])
def test_a_result_may_name_the_sides_that_won_the_tricks(said: str, tmp_path: Path) -> None:
    text = PBN.replace('[Result "9"]', f'[Result "{said}"]')
    (board,) = read(tmp_path / "one.pbn", text)
    assert board.tricks == 9


def test_a_declarer_is_not_read_where_there_is_no_contract(tmp_path: Path) -> None:
    for contract, declarer in (("Pass", "None"), ("?", "Pass")):
        tags = f'[Contract "{contract}"]\n[Declarer "{declarer}"]\n'
        (board,) = read(tmp_path / "one.pbn", PLAIN.rstrip() + "\n" + tags)
        assert (board.contract == "Pass") == (contract == "Pass")
        assert board.declarer is None


@pytest.mark.parametrize("missing", ["Contract", "Declarer"])
def test_contract_and_declarer_follow_from_a_finished_auction(missing, tmp_path: Path) -> None:
    text = re.sub(rf'\[{missing} "[^"]*"\]\n', "", PBN)
    (board,) = read(tmp_path / "one.pbn", text)
    assert (board.contract, board.declarer, board.tricks) == ("3N", "N", 9)


def test_the_time_for_unclosed_braces_is_proportional_to_the_text(tmp_path: Path) -> None:
    (tmp_path / "braces.pbn").write_text(
        "{" * 200_000
    )  # a quadratic reader would take half an hour
    with pytest.raises(UserError, match="there is text, but no tag"):
        pbn_lin.load(tmp_path / "braces.pbn")
    (tmp_path / "quotes.pbn").write_text('"' + '\\"' * 50_000)
    with pytest.raises(UserError, match="there is text, but no tag"):
        pbn_lin.load(tmp_path / "quotes.pbn")
    (tmp_path / "two.pbn").write_text(PLAIN + "\n{" * 20_000 + f"\n\n{PLAIN}")
    found = pbn_lin.load(tmp_path / "two.pbn")
    assert len(found.boards) == 2
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("1D =1=", "8D =1="), "'8D' is not a call"),
        (("1D =1=", "=1= 1D"), "'=1=' stands before the first call or card"),
        (("Pass Pass Pass\n[Note", "Pass Pass Pass * Pass\n[Note"), "the call 'Pass' comes after"),
        (("S6 =1=", "S1 =1="), "'S1' in its play is not a card"),
        (("- - - DA", "- DK - -"), "the card DK of its play comes after an unknown card"),
        (("*\n", "*\nDK\n"), "the card DK comes after the end of the play"),
        (('[Result "9"]', '[Result "nine"]'), "the result 'nine' is not a number of tricks"),
        (('[Result "9"]', '[Result "14"]'), "14 tricks are recorded, but there are 13"),
        (('[Result "9"]', '[Result "NS 9 EW 5"]'), "the tricks of both sides must sum to 13"),
        (('[Result "9"]', '[Result "EW 14"]'), "the tricks of both sides must sum to 13: 'EW 14'"),
        (('[Result "9"]', '[Result "NS 9 NS 4"]'), "the result 'NS 9 NS 4' is not a number"),
        (('[Dealer "S"]', '[Dealer "X"]'), "the dealer is N, E, S or W, not 'X'"),
        (('"EW"', '"red"'), "'red' is not a vulnerability"),
        (('"3NT"', '"9NT"'), "'9NT' is not a contract"),
        (('[Declarer "N"]', '[Declarer "NE"]'), "'NE' is not a declarer: write N, E, S or W"),
        (("{tie broken}", "{tie broken"), "a comment after [TotalScoreTable] has no closing brace"),
        (('"IMP"]', '"IMP"] rubber'), "'rubber' after [Scoring] is not a tag or a comment"),
        (("[Deal ", "[Deals "), "the deal is missing"),
    ],
)
def test_an_error_names_file_board_and_line(changed, message, tmp_path: Path) -> None:
    assert changed[0] in PBN
    path = tmp_path / "two.pbn"
    path.write_text(f"{PLAIN}\n{PBN.replace(*changed)}\n{PLAIN}")
    found = pbn_lin.load(path)
    assert len(found.boards) == 2
    (problem,) = found.problems
    assert problem.startswith(f"{path}: board 2, line 8: ")
    assert message in problem
    assert "\n" not in problem


def test_braces_and_line_breaks_that_pbn_cannot_hold_are_replaced(tmp_path: Path) -> None:
    (board,) = read(tmp_path / "one.pbn", PLAIN)
    comments = (Comment('a {b} c\n% d\n\n[Event "e"]', "Deal"), Comment("one } line", "Deal"))
    board = dataclasses.replace(board, comments=comments, tags={"Event": "two\nlines"})
    (again,) = saved(tmp_path / "again.pbn", [board])
    assert again.comments == (Comment('a {b) c\n% d\n\n[Event "e"]', "Deal"), comments[1])
    assert again.tags == {"Event": "two lines"}


def test_a_note_without_a_card_is_a_comment(tmp_path: Path) -> None:
    text = f'{PLAIN}[Play "E"]\n- =1= - - -\n[Note "1:x"]\n'
    (board,) = read(tmp_path / "one.pbn", text)
    assert (board.card_notes, board.comments) == ({}, (Comment("x", 0),))
    (again,) = saved(tmp_path / "again.pbn", [board])
    assert fields_of(again) == fields_of(board)


def test_a_note_is_used_once_and_only_in_its_section(tmp_path: Path) -> None:
    text = PBN.replace("1NT! =2=", "1NT! =2= =2= =1=").replace("S6 =1=", "S6 =2=")
    (board,) = read(
        tmp_path / "one.pbn", text.replace('"2:6-9"', '"2:four cards, or \\"better\\""')
    )
    assert board.explanations == dict.fromkeys((0, 2), 'four cards, or "better"')
    assert board.card_notes == {0: ""}  # note 2 is one of the auction
    assert [each.text for each in board.comments[-2:]] == [
        "no call refers to this", "fourth highest",
    ]  # fmt: skip


# --- LIN

HANDS = "1SA752HT8DKQJ4CAQ3,S43HQJ753D862CKJ8,SKT8HA96DA95C7542,"
OPEN_AUCTION = (
    "mb|1D!|an|four cards|mb|P|mb|1N|an|6-9|mb|P|mb|3N|mb|P|nt|Nobody doubles.|mb|P|mb|P|"
)
MATCH = f"""vg|City Cup,Segment 2,I,7,8,Norway,3,Poland,0|
rs|3NN=,2DxN-1,PASS,AVE|
pn|Sven,Wim,Nils,Eva,Sara,Wanda,Olga,Ewa|pg||
nt|Welcome.|
qx|o7|st||md|{HANDS}|rh||ah|Board 7|sv|e|
{OPEN_AUCTION}pg||
pc|S6|pc|S2|pc|S3|pc|S8|nt|A safe lead.|pg||
mc|9|zz|one|zz|two|pg||
qx|o8|pn|Sub,Wim,Nils,Eva,,,,|st||md|{HANDS}|sv|o|mb|p|mb|p|mb|p|mb|p|pg||
qx|c8|st||rh||
"""


@pytest.fixture
def match(tmp_path: Path) -> list[Board]:
    return read(tmp_path / "match.lin", MATCH)


def test_both_rooms_of_a_match_are_read(match: list[Board]) -> None:
    assert [(each.room, each.number) for each in match] == [
        ("Open", 7), ("Closed", 7), ("Open", 8), ("Closed", 8),
    ]  # fmt: skip
    assert [(each.contract, each.declarer, each.tricks) for each in match] == [
        ("3N", "N", 9), ("2DX", "N", 7), ("Pass", None, None), (None, None, None),
    ]  # fmt: skip
    first, closed, substitute, last = match
    assert first.players == ("Nils", "Eva", "Sven", "Wim")
    assert closed.players == last.players == ("Olga", "Ewa", "Sara", "Wanda")
    assert substitute.players == ("Nils", "Eva", "Sub", "Wim")
    assert all(each.teams == ("Norway", "Poland") for each in match)
    assert first.tags == {
        "Event": "City Cup", "Stage": "Segment 2", "HomeCarryOver": "3", "Scoring": "IMP",
        "zz": "one|two",
    }  # fmt: skip
    assert (first.alerted, first.explanations) == ((0,), {0: "four cards", 2: "6-9"})
    assert first.comments == (
        Comment("Welcome.", 0), Comment("Nobody doubles.", 6), Comment("A safe lead.", 12),
    )  # fmt: skip
    assert (closed.auction, closed.vulnerable) == ((), "EW")
    for each in (closed, last):  # which have the deal of the open room
        assert np.array_equal(each.holder, first.holder)
    assert last.tags["rs"] == "AVE"


def test_a_match_is_saved_as_both_rooms(match: list[Board], tmp_path: Path) -> None:
    again = saved(tmp_path / "again.lin", match)
    assert list(map(fields_of, again)) == list(map(fields_of, match))
    text = (tmp_path / "again.lin").read_text()
    assert text.startswith(
        "vg|City Cup,Segment 2,I,7,8,Norway,3,Poland,0|\nrs|3NN=,2DxN-1,PASS,AVE|\n"
    )
    assert "pn|Sven,Wim,Nils,Eva,Sara,Wanda,Olga,Ewa|" in text


def test_a_match_goes_from_lin_to_pbn_and_back(match: list[Board], tmp_path: Path) -> None:
    in_pbn = saved(tmp_path / "match.pbn", match)
    back = saved(tmp_path / "back.lin", in_pbn)
    # in PBN, an explained call is an alerted one
    wanted = [dataclasses.replace(each, alerted=tuple(each.explanations)) for each in match]
    assert list(map(fields_of, back)) == list(map(fields_of, wanted))
    assert '[Room "Open"]' in (tmp_path / "match.pbn").read_text()


def test_a_pbn_board_keeps_in_lin_what_lin_can_hold(board: Board, tmp_path: Path) -> None:
    (again,) = saved(tmp_path / "one.lin", [board])
    for name in ("players", "teams", "room", "number", "tricks", "alerted", "explanations", "play"):
        assert getattr(again, name) == getattr(board, name), name
    assert again.tags == {"Event": 'The "Big" Cup \\ Final', "Scoring": "IMP"}
    assert [each.text for each in again.comments] == [
        "Read before the first board. It has two paragraphs.", "a fine event",
        "a comment to the end of the line, with a } in it", "North thinks for a while",
        "no call refers to this",
    ]  # fmt: skip
    assert again.card_notes == again.marks == {}
    assert again.sections == ()


def test_bars_and_commas_that_lin_cannot_hold_are_replaced(board: Board, tmp_path: Path) -> None:
    board = dataclasses.replace(
        board, players=("Lee, A|B", "", "", ""), comments=(Comment("a|b,\nc", 0),)
    )
    (again,) = saved(tmp_path / "one.lin", [board])
    assert again.players[0] == "Lee; A¦B"
    assert again.comments == (Comment("a¦b, c", 0),)


def test_results_of_a_tournament_of_pairs_are_read(tmp_path: Path) -> None:
    auction = "mb|1N|mb|P|mb|P|mb|P|"
    text = (
        "vg|Pairs,Club,P,3,5,,,,|\nrs|1NS+1,,1NS=,|\nmp|61.5,,40,|\nbn|3,5|\npg||\n"
        f"qx|o3|pn|A,B,C,D|md|{HANDS}|sv|o|{auction}mc|8|\n"
        f"qx|o5|pn|E,F,G,H|md|{HANDS}|sv|o|{auction}pg||\n"
    )
    boards = read(tmp_path / "pairs.lin", text)
    assert [each.tricks for each in boards] == [8, 7]
    assert [each.tags["mp"] for each in boards] == ["61.5", "40"]
    assert [each.players[2] for each in boards] == ["A", "E"]
    again = saved(tmp_path / "again.lin", boards)
    assert list(map(fields_of, again)) == list(map(fields_of, boards))


def test_two_matches_in_one_file_and_a_line_for_all_boards(tmp_path: Path) -> None:
    other = MATCH.replace("City Cup", "Town Cup").replace("Sven", "Stig")
    together = read(tmp_path / "two.lin", MATCH + other)
    assert [each.tags["Event"] for each in together[3:5]] == ["City Cup", "Town Cup"]
    again = saved(tmp_path / "again.lin", together)
    assert list(map(fields_of, again)) == list(map(fields_of, together))
    (one,) = read(tmp_path / "line.lin", MATCH.partition("qx|o8")[0].replace("\n", ""))[:1]
    assert fields_of(one) == fields_of(together[0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("mc|9", "mc|10"), "10 tricks are claimed (mc), but the results (rs) have 9"),
        (("3NN=", "3NS="), "3N by S is recorded, but its auction has 3N by N"),
        (("mc|9", "mc|all"), "the claim (mc) 'all' is not a number of tricks"),
        (("sv|e", "sv|x"), "the vulnerability (sv) is o, n, e or b, not 'x'"),
        (("mb|1N|", "mb|1N P|"), "'1N P' is not one call"),
        (("md|1S", "md|5S"), "is not a dealer, 1 to 4, and four hands"),
        (("SA752", "SA75Z2"), "is not one such as SA752HT8DKQJ4CAQ3"),
        (("pc|S6", "pc|S66"), "'6' in its play is not a card"),
        (("st||md", "an|x|md"), "an explanation (an) comes before the first call"),
        (("zz|one", "zzz|one"), "'zzz' is not a command of two letters"),
    ],
)
def test_an_error_in_lin_names_file_board_and_line(changed, message, tmp_path: Path) -> None:
    assert changed[0] in MATCH
    path = tmp_path / "match.lin"
    path.write_text(MATCH.replace(*changed, 1))
    problems = pbn_lin.load(path).problems
    assert len(problems) == 1  # none for the closed room, which has the deal of the open room
    assert problems[0].startswith(f"{path}: board 1, line 5: ")
    assert message in problems[0]
    assert "\n" not in problems[0]


def test_an_unfinished_auction_has_no_contract_in_lin(tmp_path: Path) -> None:
    (in_pbn,) = read(tmp_path / "one.pbn", PLAIN + '[Auction "S"]\n1D Pass +\n')
    (again,) = saved(tmp_path / "one.lin", [in_pbn])
    assert (again.auction, again.contract, again.declarer) == (("1D", "P"), None, None)
    assert fields_of(again) == fields_of(in_pbn)
    path = tmp_path / "match.lin"
    path.write_text(MATCH.replace("nt|Nobody doubles.|mb|P|mb|P|", ""))
    (problem,) = pbn_lin.load(path).problems
    assert "the auction '1D P 1N P 3N P' does not end: 2 passes are missing" in problem


@pytest.mark.parametrize(
    ("results", "board", "rooms"),
    [
        ("3NN=,PASS", f"qx|o1|md|{HANDS}|sv|o|{OPEN_AUCTION}", ["Open", "Closed"]),
        ("pass,3NN=", f"qx|c1|md|{HANDS}|sv|o|{OPEN_AUCTION}", ["Closed", "Open"]),
        ("3NN=,3NN+1", f"qx|o1|md|{HANDS}|sv|o|{OPEN_AUCTION}\n" * 2, ["Open", "Closed", "Open"]),
        ("3NN=,", f"qx|o1|md|{HANDS}|sv|o|{OPEN_AUCTION}", ["Open"]),
        ("3NN=,AVE", f"qx|o1|md|{HANDS}|sv|o|{OPEN_AUCTION}", ["Open"]),
    ],
)
def test_a_room_with_only_a_result_is_one_board(results, board, rooms, tmp_path: Path) -> None:
    text = f"vg|Cup,,I,1,1,A,0,B,0|\nrs|{results}|\npn|a,b,c,d,e,f,g,h|pg||\n{board}"
    found = read(tmp_path / "match.lin", text)
    assert [each.room for each in found] == rooms
    for each in found:
        said = results.split(",")[ROOMS.index(each.room)]
        assert (each.contract, each.tricks) == {
            "3NN=": ("3N", 9), "3NN+1": ("3N", 10), "PASS": ("Pass", None), "pass": ("Pass", None),
        }[said]  # fmt: skip
    again = saved(tmp_path / "again.lin", found)
    assert list(map(fields_of, again)) == list(map(fields_of, found))


@pytest.mark.parametrize("start", ["", "vg|Cup,,I,1,1,A,0,B,0|\nrs|,|\nqx|o1|"])
def test_the_number_of_a_lin_board_stays_beside_another_heading(start, tmp_path: Path) -> None:
    for headings, other in (
        ("ah|Board 1|ah|Table 4|", "Table 4"),
        ("ah|Table 4|ah|Board 1|", "Table 4"),
        ("ah|Board 1|ah|Board 5|", "Board 5"),
    ):
        (board,) = read(tmp_path / "one.lin", f"{start}md|{HANDS}|{headings}sv|o|{OPEN_AUCTION}")
        (again,) = saved(tmp_path / "again.lin", [board])
        for each in (board, again):
            assert (each.number, each.tags["ah"]) == (1, other)


def test_players_after_the_deal_of_a_lin_board_are_its_own(tmp_path: Path) -> None:
    def of(*numbers: int) -> str:
        return "\n".join(f"md|{HANDS}|pn|S{n},W{n},N{n},E{n}|sv|o|{OPEN_AUCTION}" for n in numbers)

    def before(*numbers: int) -> str:
        return "\n".join(f"pn|S{n},W{n},N{n},E{n}|md|{HANDS}|sv|o|" for n in numbers)

    def in_rooms(*numbers: int) -> str:
        return "\n".join(f"qx|o{n}|md|{HANDS}|pn|S{n},W{n},N{n},E{n}|sv|o|" for n in numbers)

    lines = of(1, 2).replace("pn|", "\npn|")
    for text in (of(1, 2), lines, before(1, 2), before(1) + of(2), in_rooms(1, 2)):
        boards = read(tmp_path / "two.lin", text)
        assert [each.players for each in boards] == [
            ("N1", "E1", "S1", "W1"), ("N2", "E2", "S2", "W2"),
        ]  # fmt: skip


def test_calls_before_the_first_board_of_a_match_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "match.lin"
    path.write_text(MATCH.replace("nt|Welcome.|", "mb|1N|"))
    with pytest.raises(UserError, match="the command mb comes before the first board") as refusal:
        pbn_lin.load(path)
    assert "\n" not in str(refusal.value)


def test_boards_that_lin_cannot_hold_are_refused(match: list[Board], tmp_path: Path) -> None:
    path = tmp_path / "bad.lin"
    nameless = dataclasses.replace(match[0], number=None)
    with pytest.raises(UserError, match="board 2 has a room but no number"):
        pbn_lin.save(path, [match[0], nameless])
    roomless = dataclasses.replace(match[1], room="")
    with pytest.raises(UserError, match="board 1 has a contract but no auction"):
        pbn_lin.save(path, [roomless])


# --- generated boards

WORDS = st.text(
    st.characters(exclude_categories=("C", "Zl", "Zp"), exclude_characters="|,}"), max_size=12
).map(str.strip)
TEXTS = WORDS.filter(bool)
NAMES = WORDS.filter(lambda name: name not in ("?", "-", "#") and not name.startswith("##"))


def random_board(seed: int, cards: int, unfinished: bool) -> Board:
    """Return a board with a random legal auction, and at most so many random cards.

    unfinished: the auction stops before its end, and there are no cards.
    """
    rng = np.random.default_rng(seed)
    holder, dealer = random_deals(1, rng)[0], int(rng.integers(4))
    state, calls = np.empty(auction_rules.STATE_WIDTH, np.int64), list[int]()
    auction_rules.start_auction(state, dealer)
    legal = np.zeros(len(auction_rules.CALLS), bool)
    while not auction_rules.auction_over(state):
        auction_rules.write_legal_calls(state, legal)
        options = np.flatnonzero(legal)
        call = int(auction_rules.PASS if rng.random() < 0.6 else rng.choice(options))
        auction_rules.make_call(state, call)
        calls.append(call)
    contract, declarer = contract_results.describe_contract(calls, SEATS[dealer])
    made = tuple(auction_rules.CALLS[call] for call in calls)
    board = Board(holder, SEATS[dealer], VULNERABILITIES[seed % 4], made, contract, declarer)
    if unfinished:
        made = made[: rng.integers(1, len(made))]
        return validated(dataclasses.replace(board, auction=made, contract=None, declarer=None))
    if declarer is None:
        return board
    hands, seat, play = hand_bits(holder[None])[0].copy(), SEATS.index(declarer) + 1, list[int]()
    best = led = winner = -1
    for k in range(min(cards, CARDS)):
        if k % 4 == 0:
            seat, led = (best if k else seat) % 4, -1
        options = [c for c in range(CARDS) if int(playable_cards(hands[seat], led)) >> c & 1]
        card = int(rng.choice(options))
        if led < 0 or beats(card, winner, board.strain):
            winner, best = card, seat
        led = card if led < 0 else led
        hands[seat] &= ~(np.int64(1) << card)
        play.append(card)
        seat = (seat + 1) % 4
    return validated(dataclasses.replace(board, play=tuple(play)))


@st.composite
def boards(draw, lin: bool) -> Board:
    """Draw a board with names, alerts and notes that PBN, or LIN, can hold."""
    cards = draw(st.sampled_from((0, 1, 7, 50, 52)))
    board = random_board(draw(st.integers(0, 999)), cards, unfinished=draw(st.booleans()))
    calls, last = len(board.auction), len(board.auction) + len(board.play)
    explained = draw(st.dictionaries(st.integers(0, calls - 1), TEXTS, max_size=4))
    alerted = draw(st.sets(st.integers(0, calls - 1), max_size=3)) | (
        set() if lin else set(explained)
    )
    places = st.integers(0, last)
    texts = TEXTS if lin else st.lists(TEXTS, min_size=1, max_size=3).map("\n".join)
    comments = draw(st.lists(st.builds(Comment, texts, places), max_size=4))
    comments.sort(key=lambda each: int(each.place))
    room = draw(st.sampled_from(("", *ROOMS)))
    common = {
        "number": draw(st.integers(1, 99)),
        "players": tuple(draw(NAMES) for _ in range(4)),
        "room": room,
        "teams": (draw(NAMES), draw(NAMES)) if room or not lin else ("", ""),
        "explanations": dict(sorted(explained.items())),
        "alerted": tuple(sorted(alerted)),
        "comments": tuple(comments),
    }
    if lin:
        tags = draw(st.dictionaries(st.sampled_from(("zz", "qq", "ia")), NAMES, max_size=2))
        if room and (event := draw(NAMES)):
            tags["Event"] = event
        return dataclasses.replace(board, **common, tags=tags)
    lead = [
        Comment(draw(texts), name)
        for name in ("", "Event", "Deal", "Result")
        if draw(st.booleans())
    ]
    names = st.from_regex(r"[A-Z][a-z]{1,6}X", fullmatch=True)
    tags = draw(st.dictionaries(names, WORDS.filter(lambda v: not v.startswith("#")), max_size=3))
    marked = draw(st.dictionaries(st.integers(0, last - 1), st.sampled_from(("!", "??", "$3"))))
    rows = st.lists(st.from_regex(r'[a-z0-9]{1,3} "[a-z ]{0,5}"', fullmatch=True), min_size=1)
    lines = draw(st.none() | rows)
    notes = st.dictionaries(st.integers(0, max(len(board.play) - 1, 0)), TEXTS, max_size=3)
    return dataclasses.replace(
        board, **(common | {"comments": (*lead, *common["comments"])}), tags=tags, marks=marked,
        sections=() if lines is None else (Section("ScoreTable", r"A\\3R;B", tuple(lines)),),
        card_notes=draw(notes) if board.play else {},
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["pbn", "lin"])
def test_generated_boards_are_read_back_as_they_were_saved(ending, tmp_path: Path) -> None:
    path = tmp_path / f"boards.{ending}"

    @settings(max_examples=150)
    @given(st.lists(boards(ending == "lin"), min_size=1, max_size=3))
    def check(given_boards: list[Board]) -> None:
        again = saved(path, given_boards)
        assert list(map(fields_of, again)) == list(map(fields_of, given_boards))

    check()
