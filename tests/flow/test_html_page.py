"""HTML pages: complete, escaped, self-contained, with every board, call and step."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser, screenshot
from small_meta_job import TINY

from overtrick import cli
from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.core.files import check_output
from overtrick.games.bridge.boards import Board, Comment
from overtrick.games.bridge.formats import pbn_lin
from overtrick.reports import tables
from overtrick.reports.html import elements, replays
from overtrick.reports.metric_names import metric_meaning
from overtrick.runs import child_runs, html_page, lifecycle, mlflow_note
from overtrick.storage import game_records, locate
from overtrick.storage.run_folder import RunFolder
from overtrick.studies import html_of_files
from overtrick.studies.exact_solutions import solve_game
from overtrick.studies.match import play_match
from overtrick.tracking import mlflow_tracker
from overtrick.training import registry

REPOSITORY = Path(__file__).parents[2]
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """A parsed page whose closed tags must match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.words, self.tags = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def check(self):
        """Check that the page fetches nothing and that every picture has a description."""
        for tag, name, value in self.attributes:
            if name in ("src", "href"):
                assert value.startswith(("data:", "#")), (tag, value[:40])
            assert not name.startswith("on")
        assert ("html", "lang", "en") in self.attributes
        alts = [value for tag, name, value in self.attributes if (tag, name) == ("img", "alt")]
        assert len(alts) == self.tags.count("img")
        assert all(alts)
        return self


def boards_file(path):
    """Write a LIN or PBN file of two boards: one bid and played to two tricks, one passed out."""
    holder = (np.arange(52) % 4).astype(np.int8)
    bid = ("1N", "P", "3N", "P", "P", "P")
    played = Board(
        holder, "N", "EW", bid, "3N", "N", play=(1, 2, 3, 0, 7, 4), number=1,
        systems=("natural", "natural"),
    )  # fmt: skip
    pbn_lin.save(path, [played, Board(holder, "E", "None", ("P",) * 4, "Pass", number=2)])
    return path


def test_every_board_call_and_card_is_on_the_page(tmp_path):
    page = Page(
        html_of_files.html_of_file(boards_file(tmp_path / "two.pbn"), 50, "natural")
    ).check()
    assert page.tags.count("article") == 2
    for words in ("Board 1", "Board 2", "3N by North", "Dealer East", "vulnerable EW"):
        assert words in page.text
    for letter in ("North", "East", "South", "West"):
        assert page.words.count(letter) >= 2
    assert "Strong notrump: 15-17 points, balanced" in page.text
    assert page.words.count("Pass") >= 2 * (4 + 4)  # in the columns and in the explanations
    assert "E ♣3" in page.text


def test_names_room_alerts_and_comments_are_on_the_page(tmp_path):
    board = Board(
        (np.arange(52) % 4).astype(np.int8), "N", "None", ("1N", "P", "P", "P"), "1N", "N",
        tricks=7, number=4, players=("Nils <b>", "Eva", "", "Wim"), teams=("Norway", "Poland"),
        room="Closed", explanations={0: "14-16"}, alerted=(0, 1), tags={"Event": "City Cup"},
        comments=(Comment("A quiet board.", 4),),
    )  # fmt: skip
    pbn_lin.save(tmp_path / "one.pbn", [board])
    page = Page(html_of_files.html_of_file(tmp_path / "one.pbn", 5)).check()
    for words in (
        "Board 4, closed room", "North: Nils <b>", "West: Wim", "City Cup, Norway - Poland",
        "14-16", "alerted", "A quiet board.",
    ):  # fmt: skip
        assert words in page.text
    assert "South:" not in page.text


def test_calls_are_not_explained_without_a_named_system(tmp_path):
    page = Page(html_of_files.html_of_file(boards_file(tmp_path / "two.lin"), 1)).check()
    assert page.tags.count("article") == 1
    assert "Strong notrump" not in page.text
    assert "Systems: North-South" in page.text


@pytest.mark.parametrize("name", ["kuhn", "minibridge"])
def test_every_step_of_stored_games_is_on_the_page(tmp_path, name):
    played = play_match("random", "random", name, {}, 2, 0, record=True)
    game_records.save(tmp_path / "games.parquet", played.games)
    page = Page(html_of_files.html_of_file(tmp_path / "games.parquet", 3)).check()
    shown = played.games.moves[:3]
    assert page.tags.count("article") == 3
    assert page.tags.count("li") == 1 + sum(1 + len(moves) for moves in shown)  # 1: the link
    assert page.text.count("The end") == 3
    assert np.abs(played.games.payoff.sum(axis=1)).max() == 0
    assert played.games.payoff[::2, 0].sum() + played.games.payoff[1::2, 1].sum() == pytest.approx(
        2 * played.meeting.points
    )


def test_the_page_of_a_video(tmp_path):
    (tmp_path / "match.mp4").write_bytes(b"film")
    page = Page(html_of_files.html_of_file(tmp_path / "match.mp4", 50)).check()
    assert ("video", "src", "data:video/mp4;base64,ZmlsbQ==") in page.attributes


def test_text_from_files_is_escaped():
    evil = '<script>alert("x")</script>'
    page = elements.page(
        evil, evil, [elements.PageSection(evil, [elements.table([evil], [[evil]])])]
    )
    assert Page(page).check().text.count(evil) == 7  # also in the title
    assert "<script>alert" not in page


def test_a_page_never_grows_beyond_its_limit(tmp_path):
    small, large = elements.text("here"), elements.text("x" * elements.MAX_BYTES)
    page = elements.page("t", "", [elements.PageSection("films", [large, small])])
    assert len(page.encode()) < elements.MAX_BYTES
    assert "here" in page
    assert "1 left out: the page would be too large" in page


def run_folder(folder):
    """Write the files of a finished run."""
    folder.mkdir()
    job = {"trainer": "meta", "game": {"name": "leduc", "options": {}}, "seed": 7}
    job |= {"track": {"uri": "sqlite:///mlflow.db"}}
    (folder / "job.json").write_text(json.dumps(job))
    history = [{"time": 1, "step": k, "metrics": {"a<b": k * 0.5, "flat": 1.0}} for k in (1, 2, 3)]
    (folder / mlflow_tracker.SPOOL).write_text(
        "".join(f"{json.dumps(each)}\n" for each in history) + '{"cut'
    )
    row = {"stranger": "random", "steps": [1.25, 1.5], "standard_error": [0, 0],
           "exploitability": None, "best_response": 2.0, "share": 0.75}  # fmt: skip
    (folder / "table.json").write_text(json.dumps([row]))
    return RunFolder(folder)


def test_the_page_of_a_run(tmp_path):
    folder = run_folder(tmp_path / "r")
    (folder.path / "figures").mkdir()
    (folder.path / "figures" / "bars.png").write_bytes(b"\x89PNG")
    (folder.path / "films").mkdir()
    (folder.path / "films" / "iteration_00001.mp4").write_bytes(b"film")
    page = Page(html_page.run_page(folder)).check()
    for words in (
        "meta on leduc, seed 7", "big blind a game", "1.250", "75%", "First 0.5, last 1.5",
    ):  # fmt: skip
        assert words in page.text
    assert page.tags.count("svg") == 1 + 2  # payoffs; a curve and its plot, not of a constant
    assert (page.tags.count("img"), page.tags.count("video")) == (1, 1)


class RecordingTracker:
    """Tracker that records artifacts."""

    def __init__(self):
        self.artifacts, self.notes, self.reported = [], [], 7

    def note(self, text):
        self.notes.append(text)

    def artifact(self, path, place=""):
        self.artifacts.append(path.name)


def test_a_table_names_a_unit_only_if_a_column_is_in_it() -> None:
    solved = tables.evaluation([{"plan": "cfr+", "exploitability": 0.1}], "chip")
    assert solved.title == "in chips a game"
    assert tables.evaluation([{"defenders": "rules", "made": 0.8}], "contract").title == ""
    swept = tables.evaluation([{"trial": 0, "score": 1.0, "schedule": []}], "chip")
    assert swept.title == "score: larger is better"
    assert tables.cells(swept)[0] == ["trial", "score"]


def test_a_run_stores_its_page_and_does_not_fail_without_one(tmp_path, caplog):
    tracker, folder = RecordingTracker(), run_folder(tmp_path / "r")
    html_page.update_description(folder, tracker)
    (note,) = tracker.notes
    assert note.startswith("**meta** on **leduc**, seed 7.\n\n| opponent | before | after 1 |")
    assert "| random | 1.250 | 1.500 | 2.000 | 75% |" in note
    html_page.save_page(folder, tracker)
    assert tracker.artifacts == ["view.html"]
    assert (folder.path / "view.html").exists()
    (folder.path / "table.json").write_text("{")
    html_page.save_page(folder, tracker)
    assert tracker.artifacts == ["view.html"]
    assert "no page of the run" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RunError("no room"), "FAILED", "It failed: no room"),
        (KeyError("payoff"), "FAILED", "It failed: KeyError: 'payoff'"),
        (
            KeyboardInterrupt(),
            "KILLED",
            "It was stopped after iteration 7; `overtrick resume r` continues it.",
        ),
        (
            SystemExit(1),
            "KILLED",
            "It was stopped after iteration 7; `overtrick resume r` continues it.",
        ),
    ],
)
def test_the_page_of_a_stopped_run_shows_the_reason(tmp_path, error, status, message):
    tracker, folder, closed = RecordingTracker(), run_folder(tmp_path / "r"), []
    with (
        pytest.raises(type(error)),
        html_page.reporting_failure(folder, tracker, closed.append),
    ):
        raise error
    assert closed == [status]
    assert tracker.notes == [f"**meta** on **leduc**, seed 7.\n\n{message}"]


def test_long_tables_are_cut_with_a_reference_to_the_rest(tmp_path):
    tracker, folder = RecordingTracker(), run_folder(tmp_path / "r")
    html_page.update_description(folder, tracker, "It failed: " + "x" * 9000)
    assert tracker.notes[0].partition("It failed: ")[2].count("x") > mlflow_note.MOST - 20
    assert tracker.notes[0].endswith("xxx ...")
    (folder.path / "table.md").write_text("| a line of a table |\n" * 1000)
    html_page.update_description(folder, tracker)
    assert tracker.notes[1].endswith("| a line of a table |\n\nThe rest is among the artifacts.")
    assert all(len(text) < 8000 for text in tracker.notes)


def test_the_pages_of_child_runs_show_how_each_ended(tmp_path, store):
    job = job_file.parse({**TINY, "track": {"uri": store}}, registry.JOBS, "tiny")
    folder = RunFolder(tmp_path / "sweep")
    folder.children.mkdir(parents=True)
    lifecycle.write_job(job, folder)
    with suppress(KeyboardInterrupt), child_runs.open_group(folder, job, [job] * 4) as whole:
        whole.children[0].tracker.metrics(1, {"payoff": 0.5})
        whole.errors[1] = RunError("the trial failed")
        whole.stopped_early = {2: 4}
        lifecycle.save_table(whole.children[3].folder, [], whole.children[3].tracker)
        raise KeyboardInterrupt
    notes = []
    for place in (folder, *(part.folder for part in whole.children)):
        events = map(json.loads, (place.path / mlflow_tracker.SPOOL).read_text().splitlines())
        notes.append([each["note"] for each in events if "note" in each][-1].partition("\n\n")[2])
    assert notes == [
        "It was stopped after iteration 0; `overtrick resume sweep` continues it.",
        "It was stopped after iteration 1; `overtrick resume sweep` continues it.",
        "It failed: the trial failed",
        "It was stopped at iteration 4: others did better.",
        "It is done.",
    ]


def test_the_page_of_a_model_shows_games_that_it_plays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    folder = run_folder(tmp_path / "r")
    folder.job.write_text(json.dumps(folder.read_job() | {"game": {"name": "kuhn", "options": {}}}))
    solve_game("kuhn", "cfr+", 10, save=folder.model)
    out = tmp_path / "page.html"
    words = ["view", "r", "--against", "random", "--boards", "2", "--out", str(out), "--json"]
    monkeypatch.setattr(sys, "argv", ["overtrick", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (stop.value.code, answer["bytes"]) == (0, out.stat().st_size)
    assert Page(out.read_text()).check().tags.count("article") == 4
    assert locate.run_names() == ["r"]


def test_options_without_effect_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    run_folder(tmp_path / "r")
    played = play_match("random", "random", "kuhn", {}, 2, 0, record=True)
    game_records.save(tmp_path / "games.parquet", played.games)
    (tmp_path / "match.mp4").write_bytes(b"film")
    (tmp_path / "long.mp4").write_bytes(bytes(3_735_000))
    table = run_folder(tmp_path / "t")
    table.children.mkdir()
    table.job.write_text(json.dumps({**json.loads(table.job.read_text()), "trainer": "table"}))
    for words, message in (
        ("match.mp4 --first 2", "--first is an option for games and boards, not for match.mp4"),
        ("long.mp4", "long.mp4 is too large for a page: open the video itself"),
        ("t", "t is a comparison of methods: name one of its child runs"),
        ("r --first 2", "--first is an option for a file, and r is a run"),
        ("r --system natural", "--system is an option for a file, and r is a run"),
        ("r --seed 2", "--seed is an option for games of a run's model: add --against"),
        ("games.parquet --seed 0", "--seed is an option for a run, and games.parquet is a file"),
        ("games.parquet --system natural", "--system is an option for boards, and games"),
        (
            "r --against call",
            "r is not done and has no model yet: `overtrick resume r` continues it",
        ),
        ("r --against randim", "unknown player 'randim': did you mean 'random'?"),
        ("models:/x/1", "models:/x/1 is a model without a run: name a run, or a file"),
    ):
        monkeypatch.setattr(sys, "argv", ["overtrick", "view", *words.split(), "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        assert message in json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert not (tmp_path / "view.html").exists()


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "x.parquet").write_text("nothing")
    with pytest.raises(UserError, match="nor are they boards"):
        html_of_files.html_of_file(tmp_path / "x.parquet", 1)
    (tmp_path / "x.txt2").write_text("nothing")
    with pytest.raises(UserError, match=r"x\.txt2"):
        html_of_files.html_of_file(tmp_path / "x.txt2", 1)
    with pytest.raises(UserError, match=r"name a \.html file"):
        check_output(tmp_path / "page.pdf", ".html")


def test_a_curve_has_axes_and_the_meaning_of_its_metric():
    points = [(k, (-1.0) ** k * k) for k in range(1, 2001)]
    page = Page(elements.curve("leduc_bot/after_1_big_blind", points))
    for words in ("iteration", "payoff against leduc_bot after adaptation step 1, in big blinds a",
                  "First -1, last 2,000; lowest -1,999, highest 2,000."):  # fmt: skip
        assert words in page.text
    (line,) = (value for _, name, value in page.attributes if name == "points")
    drawn = [tuple(map(float, pair.split(","))) for pair in line.split()]
    assert len(drawn) <= elements.MAX_POINTS
    assert {0, elements.CURVE_SCALE} == {edge(y for _, y in drawn) for edge in (min, max)}
    assert drawn == sorted(drawn, key=lambda point: point[0])
    labels = {"-1,999", "0.5", "2,000", "1", "1,000"}  # lowest, middle and highest; first and last
    assert labels <= set(page.words)


def test_every_metric_of_the_documentation_has_a_meaning():
    names = set()
    for path in (REPOSITORY / "docs" / "algorithms").glob("*.md"):
        tables = re.findall(r"\n\| metric \|.*\n\|[-|]+\n((?:\|.*\n)+)", path.read_text())
        names |= {
            name
            for row in "".join(tables).splitlines()
            for name in re.findall(r"`([^`]+)`", row.split("|")[1])
        }
    assert len(names) > 40
    assert [name for name in names if not metric_meaning(name)] == []
    assert metric_meaning("exploitability_big_blind/cfr_plus") == (
        "gain of a best response to cfr+, mean of the seats, in big blinds a game; 0 at an "
        "equilibrium"
    )
    assert metric_meaning("opponents/after_0_chip") == (
        "payoff against the opponents of training before adaptation, in chips a game"
    )


class WithMemory:
    """Policy that gives no action probabilities."""


@pytest.mark.parametrize("name", ["kuhn", "holdem"])
def test_the_page_shows_cards_and_the_probabilities_of_players_without_memory(tmp_path, name):
    played = play_match("cfr" if name == "kuhn" else "call", "random", name, {}, 2, 0, record=True)
    section = replays.games_section(played.games, (WithMemory(), played.policies[1]))
    page = Page("".join(section.pieces))
    of_random = sum(
        who[seat] == 1
        for who, moves in zip(played.games.who, played.games.moves, strict=True)
        for seat, _ in moves
    )
    assert page.text.count("Probabilities of random:") == of_random > 0
    assert "Probabilities of c" not in page.text
    cards = [value for tag, _, value in page.attributes if tag == "span" and "card" in value]
    if name == "kuhn":
        assert set(cards) == {"card"}
        assert {"J", "Q", "K"} >= {each for each in page.words if len(each.strip()) == 1}
        assert "pass 50%" in page.text
    else:
        assert set(cards) == {"card", "card red"}
        assert {each[1] for each in page.words if len(each.strip()) == 2} == set("♣♦♥♠")


@needs_browser
def test_a_browser_shows_one_step_at_a_time(tmp_path):
    played = play_match("random", "random", "kuhn", {}, 2, 0, record=True)
    game_records.save(tmp_path / "games.parquet", played.games)
    page = tmp_path / "page.html"
    page.write_text(html_of_files.html_of_file(tmp_path / "games.parquet", 2))
    dom = Page(screenshot(page.as_uri()))
    assert dom.tags.count("button") == 2 * 4
    for moves in played.games.moves[:2]:
        assert f"step 1 of {1 + len(moves)}" in dom.text
    hidden = [each for each in dom.attributes if each[:2] == ("li", "hidden")]
    assert len(hidden) == sum(len(moves) for moves in played.games.moves[:2])


@needs_browser
def test_a_browser_can_enlarge_and_zoom_a_curve(tmp_path):
    page = tmp_path / "page.html"
    curve = elements.curve("kl", [(1, 0.5), (2, 0.25), (3, 1.0)])
    page.write_text(elements.page("t", "", [elements.PageSection("curves", [curve])]))
    dom = Page(screenshot(page.as_uri()))
    names = [value for tag, name, value in dom.attributes if (tag, name) == ("button", "title")]
    assert names == ["enlarge or shrink the curve", "show the whole curve"]
    hidden = [each for each in dom.attributes if each[:2] == ("button", "hidden")]
    assert len(hidden) == 1  # the whole curve is shown
