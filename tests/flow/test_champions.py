"""Champions: the files that come with the package, their cards, and champion:NAME as a player."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tests import champions
from tests.champions import Figure, is_better

import overtrick as ot
from overtrick import cli, storage
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.core.files import read_weights, write_weights
from overtrick.evaluation.bidders import load_side
from overtrick.games import phantom, registry
from overtrick.games.bridge.auction.game import Auction
from overtrick.interactive.human_game import make_human_game
from overtrick.storage import locate, model_files
from overtrick.storage.champions import (
    CARD_FILE,
    FOLDER,
    champion_names,
    champion_of,
    default_champion,
    read_champion,
)
from overtrick.studies import match
from overtrick.studies.champion_page import champion_page
from overtrick.training.registry import JOBS, TRAINERS

LARGEST = 40_000_000  # bytes of all champions
FILES = {CARD_FILE, model_files.CARD, model_files.WEIGHTS}
CHAMPIONS = champion_names()


WITHOUT_CHAMPION = {"goofspiel", "bridge"} | {
    spec.name for spec in phantom.SPECS
}  # none is trained yet


def test_every_game_has_a_champion_and_at_most_one_default():
    games = {*registry.names(), *registry.solve_only_names()} - WITHOUT_CHAMPION
    listed = ot.champions()
    assert {each.card["game"] for each in listed} == games
    defaults = [each.card["game"] for each in listed if each.card["default"]]
    assert len(set(defaults)) == len(defaults)
    for each in listed:
        if each.card["default"]:
            assert default_champion(each.card["game"], each.card["options"]) == each.player


def test_a_champion_suggests_a_call_without_importing_torch():
    words = ["overtrick", "bridge", "suggest", "AQ42.K5.QT93.K76", "1N P", "--json"]
    script = (  # None: an import of this module fails
        f"import sys; sys.modules['torch'] = None; sys.argv = {words}; "
        "from overtrick.cli import main; main()"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert '"call": "2C"' in shown


def test_a_champion_is_found_by_its_game_and_options():
    assert champion_of("holdem", {"view": "strength"}) == "champion:holdem"
    assert champion_of("holdem", {}) is None
    assert default_champion("holdem", {"view": "strength"}) is None  # strong only after adaptation
    training = {"integrator": "euler", "reward": {"near": 1.5}}
    assert champion_of("sumo", {"view": "ahead_left", **training}) == "champion:sumo"
    made = ot.make("sumo", view="ahead_left", threads=2, zoo="/zoo", **training)
    assert champion_of("sumo", made.portable_options()) == "champion:sumo"
    assert champion_of("sumo", {"view": "ahead"}) is None
    assert champion_of("minibridge", {}) == "champion:minibridge"
    assert champion_of("minibridge", {}, "champion:minibridge") == "champion:minibridge_declarer"


@pytest.mark.parametrize("name", CHAMPIONS)
def test_a_champion_has_a_model_of_its_game_that_plays(name):
    champion = ot.champion(name)
    assert {path.name for path in (FOLDER / name).iterdir()} == FILES
    assert champion.job.game.name == read_champion(name).card["game"]
    if champion.game.name == Auction.name:
        assert load_side(f"champion:{name}").calls is not None
    elif champion.game.name in registry.names():
        champion.policy()  # raises UserError for weights that do not fit the game


@pytest.mark.parametrize("name", CHAMPIONS)
def test_a_card_names_its_champion_in_the_command_that_measures_it(name):
    champion = read_champion(name)
    assert champion.player in champion.card["check"]["command"].split()
    assert champion.card["commands"]
    check = champion.card["check"]
    exact = check["standard_error"] is None and check["interval"] is None
    assert exact == (champion.card["interval"] is None)


def test_the_list_for_scripts_has_the_command_that_trains_each_champion(capsys):
    cli.app(["champions", "--json"], standalone_mode=False)
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])["champions"]
    assert [each["name"] for each in listed] == [each.name for each in ot.champions()]
    (kuhn,) = (each for each in listed if each["name"] == "kuhn")
    assert kuhn["command"] == "overtrick solve kuhn --plan lp --save model"
    assert (kuhn["game"], kuhn["figure"], kuhn["unit"]) == ("kuhn", 0, "chip")


def test_the_champions_together_are_small_and_name_no_path_of_a_machine():
    files = [path for name in CHAMPIONS for path in (FOLDER / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < LARGEST
    assert not [path for path in files if path.suffix == ".json" and '"/' in path.read_text()]


def test_the_figure_of_a_card_is_measured_again(capfd):
    assert champions.check(read_champion("leduc"))
    assert "leduc: exploitability 1.06316e-06 big blind" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "opponent"),
    [
        (["champion:leduc_textbook", "--boards", "2"], "no other champion"),
        (["pusher", "view=ahead_left", "--boards", "2"], "champion:sumo"),
        (["call", "--game", "leduc", "--boards", "2"], "champion:leduc"),
        (["champion:minibridge", "--boards", "2"], "champion:minibridge_declarer"),
        (["champion:liars_dice", "faces=2", "--boards", "2"], "no other champion"),
        (["natural", "--boards", "2"], "champion:natural_bidder"),
        (["naturl"], "did you mean 'natural'"),
    ],
)
def test_the_second_player_of_a_match_is_the_champion(monkeypatch, capsys, words, opponent):
    monkeypatch.setattr(sys, "argv", ["overtrick", "match", *words, "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert opponent in answer.get("b", answer.get("error", ""))


@pytest.mark.parametrize("name", ["kuhn_three", "abstract_holdem", "brps"])
def test_the_page_of_a_champion_has_its_card_and_games_of_two_seats(name):
    page = champion_page(f"champion:{name}", None, None, None)
    assert f"overtrick {'evaluate' if name[0] == 'a' else 'best-response'}" in page
    assert ("Games, step by step" in page) == (name == "brps")


def test_options_of_games_are_refused_for_a_champion_without_games():
    with pytest.raises(
        UserError, match="--boards needs recorded games, and games of kuhn_three cannot be"
    ):
        champion_page("champion:kuhn_three", None, 2, None)
    with pytest.raises(
        UserError, match="--against needs recorded games, and games of abstract_holdem"
    ):
        champion_page("champion:abstract_holdem", "random", None, None)


def test_another_figure_than_on_the_card_is_reported(monkeypatch, capfd):
    champion = read_champion("kuhn")
    monkeypatch.setattr(champions, "measure", lambda *_: Figure(0.1, None))
    assert not champions.check(champion)
    assert "0.1 chip, 0 on its card" in capfd.readouterr().out


def test_a_champion_is_replaced_only_by_one_beyond_two_standard_errors():
    old = Figure(1.0, 1.96)  # a standard error of 1
    assert not is_better(Figure(3.8, 1.96), old, True)  # of the difference: the root of two
    assert is_better(Figure(3.9, 1.96), old, True)
    assert not is_better(Figure(3.9, 1.96), old, False)
    assert is_better(Figure(1e-7, None), Figure(1e-6, None), False)
    assert not is_better(Figure(1e-6, None), Figure(1e-7, None), False)
    assert not is_better(Figure(0.0, None), Figure(1e-17, None), False)  # rounding


def test_a_retrained_champion_takes_the_place_of_a_weaker_one(tmp_path, monkeypatch):
    folder = tmp_path / "champions" / "kuhn"
    shutil.copytree(FOLDER / "kuhn", folder)
    for module in (champions, storage.champions):
        monkeypatch.setattr(module, "FOLDER", folder.parent)
    monkeypatch.setattr(champions, "BUILD", tmp_path / "build")
    weak = {**read_champion("kuhn").card, "figure": 0.3}
    (folder / CARD_FILE).write_text(json.dumps(weak))
    champions.train(read_champion("kuhn"), replace=False)
    assert read_champion("kuhn").card["figure"] == 0.3
    champions.train(read_champion("kuhn"), replace=True)
    assert read_champion("kuhn").card["figure"] == pytest.approx(0, abs=1e-9)
    assert "track" not in json.loads((folder / model_files.CARD).read_text())["job"]


def test_a_small_model_has_float16_matrices_and_relative_paths(tmp_path):
    job = {"trainer": "tabular", "game": "minibridge", "track": {"uri": "sqlite:////x.db"},
           "evaluate": {"solutions": str(tmp_path / "solved")}}  # fmt: skip
    weights = {"w0": np.ones((2, 2), np.float32), "value": np.ones(2, np.float32)}
    model_files.save(model_files.Model(weights, "minibridge", job), tmp_path / "model")
    champions.save_small(tmp_path / "model", tmp_path / "small", tmp_path)
    stored = read_weights(tmp_path / "small" / model_files.WEIGHTS)
    assert (stored["w0"].dtype, stored["value"].dtype) == (np.float16, np.float32)
    assert model_files.load(tmp_path / "small").job["evaluate"] == {"solutions": "solved"}


def test_a_figure_is_found_by_its_dotted_key():
    assert champions.find(json.loads('{"rows": [{"made": [1, 0.5]}]}'), "rows.0.made.1") == 0.5


def test_a_champion_takes_part_wherever_a_player_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    against = ot.best_response("kuhn", "champion:kuhn")
    assert against.mean == pytest.approx(0, abs=1e-12)
    assert ot.match("leduc", "champion:leduc", "random", 100).mean > 0.4
    played = match.play_match("champion:leduc", "call", None, {}, 50, 0)
    assert played.game == "leduc"
    content = {"trainer": "meta", "game": "leduc", "evaluate": {"opponents": ["champion:leduc"]}}
    job = job_file.parse(content, JOBS, "this test")
    assert job.evaluate.opponents == ("champion:leduc",)
    table = make_human_game("kuhn", None, {}, False)
    TRAINERS["meta"].validate(job)
    assert table.against == "champion:kuhn"
    assert table.seat_values[1].opponent == pytest.approx(1 / 18)  # Kuhn 1950


def test_with_options_the_strongest_reference_opponent_is_the_default():
    assert make_human_game("liars_dice", None, {"faces": 2}, False).against == "cfr"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("champion:ledoc", "no champion 'ledoc': did you mean 'champion:leduc'?"),
        ("champion:", "no champion '': known: champion:"),
        ("champion:../runs", "no champion '../runs'"),
    ],
)
def test_an_unknown_champion_is_refused(name, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        locate.model_folder(name)


def test_a_damaged_card_is_refused_by_the_name_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("overtrick.storage.champions.FOLDER", tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / CARD_FILE).write_text('{"game": 3}')
    with pytest.raises(UserError, match=r"broken/card.json is damaged \(game: .*install"):
        read_champion("broken")


def test_weights_in_float16_are_read_as_float32(tmp_path):
    model = model_files.Model({"policy.w0": np.ones((2, 2), np.float32)}, "kuhn", {"game": "kuhn"})
    model_files.save(model, tmp_path / "m")
    write_weights(tmp_path / "m" / model_files.WEIGHTS, {"policy.w0": np.ones((2, 2), np.float16)})
    assert model_files.load(tmp_path / "m").weights["policy.w0"].dtype == np.float32
