"""Interactive play: display, advice, undo and score."""

from __future__ import annotations

import asyncio
import io
import json
import sys

import numpy as np
import pytest
from textual.widgets import Button

import overtrick
from overtrick import cli
from overtrick.cli.interactive import parse_action
from overtrick.core import UserError
from overtrick.games import registry
from overtrick.games.bridge.auction_rules import CALLS, PASS
from overtrick.games.bridge.cards import CARD_NAMES
from overtrick.interactive import session
from overtrick.interactive.auction_game import make_auction_game
from overtrick.interactive.game_app import GameApp
from overtrick.interactive.human_game import make_human_game
from overtrick.storage import game_records

MOST = 20  # games of a session


def session_of(table, ask, seat=0, games=MOST, seed=3):
    """Play games in which a person decides by ask(observations, moves), and return the session."""
    sheet = session.ScoreSheet(table)
    for number in range(games):
        sheet.games.append(session.play_game(table, seat, seed, number, ask))
    return sheet


def play_command(monkeypatch, capsys, *words, typed=()):
    """Run `overtrick play`; return the exit code, the JSON answer and the text for people."""
    monkeypatch.setattr(sys, "argv", ["overtrick", "play", *words, "--json"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, notes = capsys.readouterr()
    *read, answer = out.splitlines()
    return stop.value.code, json.loads(answer), "\n".join([*read, notes])


def choose_by_value(table, choose):
    """Return a player that asks the table for the best or the worst action."""
    return lambda observations, moves: (
        choose(table.advise(observations), key=lambda each: each.value).action
    )


def first(observations, moves):
    return int(observations.legal[0].argmax())


def test_the_best_first_actions_are_worth_the_best_response(game_and_tree):
    game, tree = game_and_tree("leduc")
    table = make_human_game("leduc", "random", {}, False)
    deals, chances = game.every_deal()
    observations = game.observe(game.start(deals))
    worth = np.where(
        observations.legal, table.seat_values[0].action_values[observations.infoset], -np.inf
    ).max(axis=1)
    assert chances @ worth == pytest.approx(table.seat_values[0].best_response)
    assert tree.infosets == len(table.seat_values[1].action_values)


@pytest.mark.parametrize("name", ["kuhn", "kuhn_three", "brps"])
def test_best_responses_lose_no_value_and_other_actions_do(name):
    table = make_human_game(name, "random", {}, False)
    last = table.game.seats - 1
    sheet = session_of(table, choose_by_value(table, max), last)
    assert all(done.given_up == pytest.approx(0) for done in sheet.games)
    assert sheet.summary()["best"] == pytest.approx(table.seat_values[last].best_response)
    worst = session_of(table, choose_by_value(table, min), last)
    assert worst.summary()["given_up"] > 0


def test_an_undone_action_has_no_effect():
    table = make_human_game("leduc", "random", {}, False)
    straight = session_of(table, first, games=6).games
    back, observed = [], []

    def undoes_once(observations, moves):
        observed.append(observations.observation[0].tolist())
        if any(move.seat == 0 for move in moves) and not back:
            back.append(len(observed))
            raise session.UndoRequested
        return first(observations, moves)

    for number, plain in enumerate(straight):
        back.clear()
        observed.clear()
        again = session.play_game(table, 0, 3, number, undoes_once)
        assert (again.deal == plain.deal).all()
        assert (again.moves, again.points) == (plain.moves, plain.points)
        if back:  # the previous decision is asked again with the same observation
            assert observed[back[0]] == observed[back[0] - 2]


def test_a_session_by_keyboard(monkeypatch, capsys):
    typed = ["?", "be", "undo", "2", "pass", "pass", "pass", "pass", "bet"]
    code, sheet, read = play_command(
        monkeypatch, capsys, "kuhn", "--against", "random", "--seat", "1", "--games", "2",
        typed=typed,
    )  # fmt: skip
    assert code == 0
    assert sheet["games"] == 2
    assert sheet["best"] == pytest.approx(
        make_human_game("kuhn", "random", {}, False).seat_values[0].best_response
    )
    assert sheet["points"] == sum(row["points"] for row in sheet["rows"])
    for words in ("you hold", "50.0%", "best replies", "seat 1 held"):
        assert words in read
    assert "\x1b" not in read  # no colours in a pipe


def text_of(app):
    return str(app.query_one("#text").render())


def labels_of(app):
    return [str(each.label) for each in app.query("#actions Button")]


async def settle(pilot, ready):
    """Wait up to 20 seconds until `ready` returns True."""
    for _ in range(400):
        if ready():
            return
        await pilot.pause(0.05)
    raise AssertionError("the screen did not change")


def test_a_session_on_the_full_screen():
    table, played = make_human_game("kuhn", "random", {}, False), []
    app = GameApp(table, [0, 1], 3, played.append)

    async def person():
        async with app.run_test() as pilot:
            await settle(pilot, lambda: "you hold" in text_of(app))
            assert app.sub_title == "you are seat 1 of 2, game 1 of 2, against random"
            assert labels_of(app) == ["1 pass", "2 bet"]
            await pilot.press("u")  # refused: there is no decision to take back
            await pilot.press("question_mark")
            advice = app.query_one("#advice")
            await settle(pilot, lambda: advice.display)
            headings = [str(column.label) for column in advice.columns.values()]
            assert headings == ["action", "probability", "value"]
            await pilot.press("3", "2", "2")  # there is no action 3, and only one decision
            await settle(pilot, lambda: "you win" in text_of(app))
            assert "seat 1 held" in text_of(app)
            assert labels_of(app) == ["next game"]
            await pilot.press("enter")
            await settle(pilot, lambda: "you hold" in text_of(app))
            assert app.sub_title == "you are seat 2 of 2, game 2 of 2, against random"
            await pilot.click("#actions Button")
            await settle(pilot, lambda: "you win" in text_of(app))
            assert labels_of(app) == ["end"]
            await pilot.press("enter")
            await settle(pilot, lambda: not app.is_running)

    asyncio.run(person())
    assert app.error is None
    straight = session_of(table, lambda observations, moves: 1, games=1).games
    assert (played[0].moves, played[0].points) == (straight[0].moves, straight[0].points)
    assert len(played) == 2


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
def test_every_call_of_an_auction_has_a_button_in_view_and_any_end_closes_the_session(key):
    app = GameApp(make_auction_game("natural", "natural", {}, True), [0], 3, lambda done: None)

    async def person():
        async with app.run_test(size=(80, 40)) as pilot:
            await settle(pilot, lambda: len(app.query("#actions Button")) > 20)
            assert {"7N", "P"} <= set(labels_of(app))
            assert max(button.region.right for button in app.query("#actions Button")) <= 80
            await pilot.press("1")  # no call, since names of calls begin with digits
            await pilot.press(key)
            await settle(pilot, lambda: not app.is_running)

    asyncio.run(person())
    assert app.error is None


def test_a_button_of_an_earlier_decision_is_ignored():
    table = make_human_game("leduc", "random", {}, False)
    app = GameApp(table, [0], 3, lambda done: None)

    async def person():
        async with app.run_test() as pilot:
            await settle(pilot, lambda: app._buttons)
            old = app._buttons
            app._answer(app._legal[-1])
            await settle(pilot, lambda: app._buttons is not old and app._awaits_answer)
            app.on_button_pressed(Button.Pressed(old[0]))
            assert app._awaits_answer
            app.on_button_pressed(Button.Pressed(app._buttons[0]))
            assert not app._awaits_answer
            await pilot.press("q")
            await settle(pilot, lambda: not app.is_running)

    asyncio.run(person())
    assert app.error is None


def test_an_error_of_the_game_closes_the_screen_and_is_kept():
    table = make_human_game("kuhn", "random", {}, False)

    def full(done):
        raise OSError("disk full")

    app = GameApp(table, [0], 3, full)

    async def person():
        async with app.run_test() as pilot:
            await settle(pilot, lambda: "you hold" in text_of(app))
            await pilot.press("2")
            await settle(pilot, lambda: not app.is_running)

    asyncio.run(person())
    assert str(app.error) == "disk full"


def test_the_screen_needs_a_terminal(monkeypatch, capsys):
    code, answer, _ = play_command(monkeypatch, capsys, "kuhn", "--screen")
    assert code == 2
    assert answer["error"] == "--screen needs a terminal: leave it out to play line by line"


def test_the_end_of_the_input_ends_the_session_with_its_score(monkeypatch, capsys):
    code, sheet, read = play_command(
        monkeypatch, capsys, "leduc", "--against", "call", typed=["undo"]
    )
    assert (code, sheet["games"], sheet["rows"], sheet["mean"]) == (0, 0, [], None)
    assert "none to take back" in read
    assert "does not count" in read


def test_finished_games_are_stored_when_the_connection_breaks(monkeypatch, capsys, tmp_path):
    typed = iter(["bet", "bet"])

    def broken(prompt):
        for word in typed:
            return word
        raise OSError("the terminal is gone")

    monkeypatch.setattr(cli.console, "input", broken)
    path = tmp_path / "games.parquet"
    code, answer, _ = play_command(
        monkeypatch, capsys, "kuhn", "--against", "random", "--seat", "1", "--keep", str(path)
    )
    assert (code, answer["error"]) == (1, "the terminal is gone")
    assert len(game_records.load(path).moves) == 2


def test_the_seats_of_minibridge_are_named_by_their_sides_or_numbered():
    names = {
        seats: registry.presentation(registry.make("minibridge", seats=seats)).seat_names()
        for seats in (2, 4)
    }
    assert names == {2: ("declarer", "defence"), 4: ("1", "2", "3", "4")}


def test_a_person_is_told_of_simultaneous_actions():
    table = make_human_game("brps", None, {}, False)
    observations = table.game.observe(
        table.game.start(table.game.deal(1, np.random.default_rng(0)))
    )
    assert {table.describe_observation(observed, []) for observed in observations.observation} == {
        "all choose at once"
    }


def test_the_default_opponent_is_the_default_champion_or_the_strongest():
    default_opponents = {
        name: make_human_game(name, None, {}, False).against
        for name in ("leduc", "minibridge", "holdem")
    }
    assert default_opponents == {
        "leduc": "champion:leduc", "minibridge": "champion:minibridge", "holdem": "ta"
    }  # fmt: skip


def test_ctrl_c_ends_the_session_with_its_score(monkeypatch, capsys):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.console, "input", interrupted)
    code, sheet, _ = play_command(monkeypatch, capsys, "kuhn", "--against", "random")
    assert (code, sheet["games"]) == (0, 0)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["kuhn", "--seat", "3"], "--seat is 1, 2, not '3'"),
        (["kuhn", "--system", "natural"], "--system is an option of the auction"),
        (["kuhn", "--against", "rando"], "did you mean 'random'"),
        (["kuhnn"], "did you mean 'kuhn'"),
        (["abstract_holdem"], "can be solved, but not played"),
        (["auction", "--system", "naturel"], "naturel"),
        (["kuhn", "--against", "random", "--keep", "games.txt"], "name a .parquet file"),
    ],
)
def test_bad_input_is_refused(monkeypatch, capsys, words, wrong):
    code, answer, _ = play_command(monkeypatch, capsys, *words)
    assert code == 2
    assert wrong in answer["error"]


def test_actions_have_names_in_words():
    bids = ("1C", "1S", "P", "X", "XX")
    every = range(5)
    assert [parse_action(w, bids, every, w, False) for w in ("1c", "p", "x", "xx")] == [0, 2, 3, 4]
    assert "may be 1C, 1S" in parse_action("1", bids, every, "1", False)
    moves = ("fold", "call", "raise")
    assert [parse_action(w, moves, range(3), w, True) for w in ("f", "3", "CALL")] == [0, 2, 1]
    for number in ("0", "4", "²", "9" * 5000):
        assert "type one of 1, 2, 3" in parse_action(number, moves, range(3), number, True)
    assert "is not possible now" in parse_action("bet", moves, range(3), "bet", True)


def test_an_action_keeps_its_number_from_decision_to_decision():
    moves = ("fold", "call", "raise", "check")
    assert parse_action("3", moves, [2, 3], "3", True) == 2
    assert parse_action("", moves, [3], "", True) == 3
    assert "type one of 3, 4" in parse_action("1", moves, [2, 3], "1", True)
    shown = registry.presentation(overtrick.make("leduc")).format_actions([1, 3])
    assert shown == "2 raise  4 check"


def test_bids_of_liars_dice_have_no_numbers_because_their_names_begin_with_digits():
    bids = registry.presentation(overtrick.make("liars_dice"))
    assert bids.format_actions([0, 1]) == "1x1  1x2"
    assert not bids.numbered_actions


@pytest.mark.parametrize(("seats", "default"), [(2, None), (4, 2)])
@pytest.mark.parametrize("name", ["auction", "bridge"])
def test_a_person_is_south_if_bridge_has_four_seats(name, seats, default):
    game = overtrick.make(name, seats=seats)
    assert registry.presentation(game).default_human_seat() == default


def test_a_declarer_sees_two_hands_and_the_played_cards():
    table = make_human_game("minibridge", "rules", {}, False)
    looks = []

    def looks_and_plays(observations, moves):
        looks.append(
            (
                table.describe_observation(observations.observation[0], moves),
                [CARD_NAMES[m.action] for m in moves],
            )
        )
        return first(observations, moves)

    done = session.play_game(table, 0, 3, 0, looks_and_plays)
    hidden = {CARD_NAMES[card] for card in np.flatnonzero(done.deal[:52] % 2 == 1)}
    for text, played in looks:
        lines = text.splitlines()
        assert all(card in text for card in played)
        assert not any(card in text for card in hidden - set(played))
        west_and_east = lines[4:8]
        assert not any(west_and_east)
    assert "tricks: " in table.presentation.describe_deal(done.deal, done.moves)


def test_a_hand_is_bid_with_a_partner_and_scored_by_par():
    table = make_auction_game("natural", "natural", {}, False)
    calls = []

    def by_system(observations, moves):
        thoughts = table.advise(observations)
        calls.append((thoughts[0], table.describe_observation(observations.observation[0], moves)))
        return thoughts[0].action

    done = session.play_game(table, 2, 3, 0, by_system)
    assert [m.seat for m in done.moves[:4]] == [(done.deal[52] + k) % 4 for k in range(4)]
    thought, observed = calls[0]
    assert (CALLS[thought.action], thought.probability) == ("2S", 1.0)
    assert thought.meaning.startswith("Weak two: 4-10 points, 6-7 spades")
    assert "S KQ9843" in observed
    assert "J976" not in observed  # partner's clubs
    assert "par " in table.presentation.describe_deal(done.deal, done.moves)
    assert done.payoff.tolist() == [done.points, -done.points] * 2
    passes = session.play_game(table, 2, 3, 0, lambda observations, moves: PASS)
    assert (passes.deal == done.deal).all()


def test_stored_games_can_be_replayed(tmp_path):
    table = make_human_game("kuhn", "random", {}, False)
    sheet = session_of(table, first, seat=1, games=5)
    game_records.save(tmp_path / "games.parquet", sheet.record())
    stored = game_records.load(tmp_path / "games.parquet")
    assert stored.players == ("you", "random")
    assert stored.who.tolist() == [[1, 0]] * 5
    for number, done in enumerate(sheet.games):
        steps = list(game_records.steps(stored, number))
        assert [step.move for step in steps] == list(done.moves)
        assert stored.payoff[number].tolist() == done.payoff.tolist()
    wrong = game_records.Games(
        stored.game,
        {},
        stored.players,
        stored.deals,
        [[(0, 1), (0, 1)]] * 5,
        stored.who,
        stored.payoff,
    )
    with pytest.raises(UserError, match="breaks the rules of kuhn"):
        list(game_records.steps(wrong, 0))


@pytest.mark.parametrize(
    ("stdin", "shown"),
    [
        (None, ""),
        (io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n"), encoding="utf-8"), "is not possible now"),
    ],
    ids=["closed", "not text"],
)
def test_an_input_that_is_closed_or_not_text_ends_the_session(monkeypatch, capsys, stdin, shown):
    monkeypatch.setattr(sys, "argv", ["overtrick", "play", "kuhn", "--against", "random"])
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    out, notes = capsys.readouterr()
    read = out + notes
    assert shown in read
    assert "An unfinished game does not count." in read
