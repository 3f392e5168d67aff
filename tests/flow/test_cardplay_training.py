"""Training of card play, from generated games to the results table."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from pydantic import BaseModel

import overtrick
from overtrick import cli
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.datasets import chunked_build, minibridge_games
from overtrick.datasets.minibridge_games import KIND, MinibridgeConfig
from overtrick.distributed.workers import LocalPool, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge import diagram, double_dummy
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cardplay import play_records
from overtrick.games.bridge.cardplay.playout import play_out
from overtrick.games.bridge.cardplay.state_abstractions import known_hands, similar_cards
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, parse_deal
from overtrick.games.bridge.formats import pbn_lin
from overtrick.learners.value_based.tabular import QTable
from overtrick.learners.value_based.tabular import TabularConfig as Rule
from overtrick.policies.rollout import play
from overtrick.storage import model_files, parquet
from overtrick.training import registry

FILES = "contract=*/seed=*/games.parquet"


@pytest.fixture
def run_command(monkeypatch, capsys):
    """Return a function that runs a command and returns its JSON answer and exit code."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["overtrick", *arguments, "--json"])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        return json.loads(capsys.readouterr().out.splitlines()[-1]), code

    return run


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


def generate_games(folder, **changes) -> cardplay.CardplayGames:
    plan = MinibridgeConfig(**{"games": 7000, **changes})
    chunked_build.generate(plan, folder, LocalPool(), silent)
    return minibridge_games.load(folder, plan)


def trained(tmp_path, **sections):
    """Train a trainer to its last iteration."""
    how = {
        "deals": 500,
        "final_deals": 500,
        "solutions": str(tmp_path / "solutions"),
        "double_dummy": False,
    }
    job = {"trainer": "tabular", "game": "minibridge", "stop": {"iterations": 2}}
    if sections.get("trainer") != "sampling":
        job["evaluate"] = how | sections.pop("evaluate", {})
    job |= sections
    job = job_file.parse(job, registry.JOBS, "this test")
    registry.TRAINERS[job.trainer].validate(job)
    trainer = registry.TRAINERS[job.trainer].trainer(job, LocalPool())
    history = [(k, trainer.step()) for k in range(1, job.stop.iterations + 1)]
    return trainer, history


def test_a_q_table_without_a_column_is_refused_when_its_model_is_evaluated():
    job = job_file.parse({"trainer": "tabular", "game": "minibridge"}, registry.JOBS, "tiny")
    trainer = registry.TRAINERS["tabular"].trainer(job, LocalPool())
    weights = dict(trainer.model())
    trainer.players(job, weights)
    del weights["declarer.choice"]
    with pytest.raises(UserError, match="the table of declarer of the model is damaged"):
        trainer.players(job, weights)
    values = trainer.model()["declarer.value"].astype(np.complex64)
    with pytest.raises(UserError, match="the table of declarer of the model is damaged"):
        trainer.players(job, {**trainer.model(), "declarer.value": values})


def test_stored_games_were_won_and_are_reproducible(tmp_path):
    kept = generate_games(tmp_path / "a")
    assert len(kept.deals) == 7000
    assert (kept.above >= 0).all()
    assert (kept.rewards(True) == kept.above + 1).all()
    again = generate_games(tmp_path / "b")
    for one, other in zip(kept, again, strict=True):
        assert np.array_equal(one, other)
    assert not list(tmp_path.glob(".*"))
    lost = generate_games(tmp_path / "c", lost=True)
    assert 0.25 < (lost.above >= 0).mean() < 0.35
    assert (lost.rewards(True)[lost.above < 0] == lost.above[lost.above < 0]).all()
    assert (lost.rewards(False) == -lost.rewards(True)).all()


def test_interrupted_generation_continues(tmp_path):
    def stop(stage, done, total):
        if done == 1:
            raise KeyboardInterrupt

    plan = MinibridgeConfig(games=7000)
    with pytest.raises(KeyboardInterrupt):
        chunked_build.generate(plan, tmp_path / "games", LocalPool(), stop)
    assert not (tmp_path / "games").exists()
    progress_calls = []
    chunked_build.generate(
        plan, tmp_path / "games", LocalPool(), lambda *progress: progress_calls.append(progress)
    )
    assert progress_calls[0] == ("games", 1, 2)
    whole = generate_games(tmp_path / "whole")
    assert np.array_equal(minibridge_games.load(tmp_path / "games").cards, whole.cards)


def test_games_are_stored_by_contract(tmp_path):
    generate_games(tmp_path / "g", strain="trump", seed=3)
    files = sorted((tmp_path / "g").glob(FILES))
    assert len(files) > 10
    for file in files:
        contract, seed = file.parts[-3:-1]
        assert seed == "seed=3"
        columns = parquet.load(file, KIND).columns
        level, strain = int(contract[9]), contract[10:]
        assert set(columns["deals"][:, CARDS + 1]) == {level + 6}
        assert set(columns["deals"][:, CARDS]) == {["C", "D", "H", "S", "NT"].index(strain)}


def test_unusable_stored_games_are_refused(tmp_path):
    generate_games(tmp_path / "g")
    files = sorted((tmp_path / "g").glob(FILES))
    with pytest.raises(UserError, match="was made with games 7000, not with games 8000"):
        minibridge_games.load(tmp_path / "g", MinibridgeConfig(games=8000))
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=f"{files[0]} is damaged"):
        minibridge_games.load(tmp_path / "g")
    files[0].unlink()
    with pytest.raises(UserError, match="of 7000 games: generate them again"):
        minibridge_games.load(tmp_path / "g")
    columns = parquet.load(files[1], KIND)
    parquet.save(files[1], parquet.Kind(KIND.name, 2, ""), columns.parameters, columns.columns)
    with pytest.raises(UserError, match="has version 2, not 1"):
        minibridge_games.load(tmp_path / "g")
    with pytest.raises(UserError, match="overtrick generate minibridge --out"):
        minibridge_games.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "rows", "value"),
    [
        ("deals", np.s_[:, :CARDS], 52),
        ("deals", np.s_[:, CARDS], 52),
        ("deals", np.s_[0, CARDS + 1], 14),
        ("cards", np.s_[:], 7),
        ("cards", np.s_[0, :2], [51, 50]),
        ("above", np.s_[0], -13),
        ("number", np.s_[:], 0),
    ],
)
def test_stored_games_that_cannot_have_happened_are_refused(tmp_path, name, rows, value):
    generate_games(tmp_path / "g", games=20)
    for file in (tmp_path / "g").glob(FILES):
        stored = parquet.load(file, KIND)
        column = stored.columns[name].copy()
        column[rows] = value
        parquet.save(file, KIND, stored.parameters, {**stored.columns, name: column})
    with pytest.raises(UserError, match=r"g is damaged \(game \d+ breaks the rules"):
        minibridge_games.load(tmp_path / "g")


def test_a_game_with_an_illegal_last_card_breaks_the_rules(tmp_path):
    games = generate_games(tmp_path / "g", games=100)
    assert games.follow_rules().all()
    games.cards[:, 51] = games.cards[:, 50]  # a lost last trick leaves the result as it was
    assert not games.follow_rules().any()


def test_a_table_learns_the_same_from_stored_as_from_fresh_games(tmp_path):
    generate_games(tmp_path / "g")
    data = str(tmp_path / "g")
    plan = {"data": data, "games": 3500, "state_abstraction": "known_hands", "update": "q"}
    trainer, _ = trained(tmp_path, tabular=plan)
    one_table = QTable(known_hands, Rule("q", 0.3, 0.9, 0.8), similar_cards())
    kept = minibridge_games.load(tmp_path / "g")
    one_table.learn(
        play_records.decision_trajectories(kept.deals, kept.cards, (0, 2), kept.rewards(True))
    )
    tables = [one_table.columns, trainer.tables["declarer"].columns]
    for key, name in (("choice", "value"), ("choice", "count"), ("state", "actions")):
        one, other = (table[name][table[key].argsort()] for table in tables)
        assert np.array_equal(one[one > 0], other[other > 0]), name
    with pytest.raises(UserError, match="made with strain notrump, not with trump"):
        trained(tmp_path, tabular=plan, game={"name": "minibridge", "strain": "trump"})
    with pytest.raises(UserError, match="made with defenders rules, not with random"):
        trained(tmp_path, tabular=plan | {"opponents": "random"})
    with pytest.raises(UserError, match="holds 7000 games, but stop"):
        trained(tmp_path, tabular=plan | {"games": 4000})


def test_a_search_reports_the_share_of_contracts_that_it_makes(tmp_path):
    sampling = {"worlds": 1, "double_dummy": False}
    _, history = trained(tmp_path, trainer="sampling", sampling=sampling, stop={"iterations": 1})
    made = history[0][1]
    assert 0.3 < made["made"] == made["made_so_far"] < 1  # random cards: 0.29


@pytest.mark.slow
def test_a_table_of_prospects_beats_a_random_declarer_by_far(tmp_path):
    plan = {
        "learn_lost_games": True,
        "learning_rate": None,
        "discount": 0.0,
        "games": 10_000,
        "neighbour_share": 0.0,
    }
    trainer, history = trained(tmp_path, tabular=plan, evaluate={"double_dummy": True})
    (row,) = trainer.report(history).rows
    assert row["made"] > 0.6  # 0.29 at random
    assert row["interval"][0] < row["made"] < row["interval"][1]
    assert row["recognised"] > 0.99
    deals = cardplay.evaluation_deals(trainer.job.game, trainer.job.seed, 0, 500)
    assert (
        row["double_dummy"] == (double_dummy.declarer_tricks(deals) >= deals[:, CARDS + 1]).mean()
    )
    assert list((tmp_path / "solutions").glob("minibridge-notrump-0-500.parquet"))
    # its stored model is a player
    folder = tmp_path / "model"
    model_files.save(model_files.Model(trainer.model(), "minibridge", plain(trainer.job)), folder)
    game = overtrick.make("minibridge")
    table, rules = make_opponent(str(folder), game, None), make_opponent("rules", game, None)
    payoff = play(game, (table, rules), 500, generator(1), recorded=()).payoff[:, 0]
    assert (payoff > 0).mean() > 0.6
    # a truncated file would be searched for ever: a hash table without a free place
    cut = {name: column[:-1] for name, column in trainer.model().items()}
    model_files.save(model_files.Model(cut, "minibridge", plain(trainer.job)), tmp_path / "cut")
    with pytest.raises(UserError, match=r"the table of declarer in .* is damaged"):
        make_opponent(str(tmp_path / "cut"), game, None)
    # and it is the rollout policy of a search
    sampling = {"worlds": 4, "rollout_policy": str(folder), "double_dummy": False}
    _, history = trained(tmp_path, trainer="sampling", sampling=sampling, stop={"iterations": 1})
    assert 1 >= history[0][1]["made"] == history[0][1]["made_so_far"] > 0.75


def test_a_value_network_learns_and_its_model_is_a_player(tmp_path):
    plan = {"games": 1000, "hidden": [64]}
    values = {
        "gradient_steps": 150,
        "batch_size": 256,
        "replay_capacity": 60_000,
        "epsilon": 0.3,
        "monte_carlo": True,
    }
    trainer, history = trained(
        tmp_path, trainer="dqn", game={"name": "minibridge", "scoring": "tricks"}, dqn=plan,
        values=values, stop={"iterations": 4},
    )  # fmt: skip
    assert history[-1][1]["made/rules"] > 0.36  # 0.29 at random
    folder = tmp_path / "model"
    model_files.save(model_files.Model(trainer.model(), "minibridge", plain(trainer.job)), folder)
    game = overtrick.make("minibridge")
    network, rules = make_opponent(str(folder), game, None), make_opponent("rules", game, None)
    payoff = play(game, (network, rules), 500, generator(1), recorded=()).payoff[:, 0]
    assert (payoff > 0).mean() > 0.33
    assert np.array_equal(trainer.report(history).rows[0]["made"], history[-1][1]["made/rules"])


def plain(job: BaseModel) -> dict:
    return json.loads(job.model_dump_json())


def test_merged_tables_are_as_good_as_one_and_have_as_many_entries(tmp_path):
    plan = {
        "learn_lost_games": True,
        "learning_rate": None,
        "discount": 0.0,
        "games": 8000,
        "neighbour_share": 0.0,
    }
    one, _ = trained(tmp_path, tabular=plan, stop={"iterations": 1})
    eight, _ = trained(tmp_path, tabular=plan | {"merged_tables": 8}, stop={"iterations": 1})
    single, merged = one.tables["declarer"], eight.tables["declarer"]
    assert single.choices == merged.choices
    deals = overtrick.make("minibridge").deal(300, generator(4))
    cards, _ = play_out(deals, "random", "rules", generator(5))
    observations = play_records.decision_trajectories(
        deals, cards, (0, 2), np.zeros(300)
    ).observations()
    one_says, eight_say = (table.policy(False).values(observations) for table in (single, merged))
    in_both = np.isfinite(one_says)
    assert np.array_equal(in_both, np.isfinite(eight_say))
    assert np.allclose(one_says[in_both], eight_say[in_both], atol=1e-3)
    with pytest.raises(UserError, match="8000 games are too few for 9 tables"):
        trained(tmp_path, tabular=plan | {"merged_tables": 9})


def test_the_metric_of_recognised_states_is_the_mean_over_the_defenders():
    rows = [cardplay.result_row("a", 3, 4, None, 0.5), cardplay.result_row("b", 1, 4, None, 1.0)]
    assert cardplay.flat_metrics(rows) == {"made/a": 0.75, "made/b": 0.25, "recognised": 0.75}
    assert set(cardplay.flat_metrics([cardplay.result_row("a", 3, 4, None, None)])) == {"made/a"}


def test_deals_are_solved_once_for_all_scorings(tmp_path, monkeypatch):
    choices = [
        job_file.GameChoice(name="minibridge", options=o) for o in ({}, {"scoring": "tricks"})
    ]
    mark = cardplay.double_dummy_share(choices[0], str(tmp_path), 60, 3, LocalPool())
    # the solver must not be called again
    monkeypatch.setattr(double_dummy, "declarer_tricks", None)
    assert cardplay.double_dummy_share(choices[1], str(tmp_path), 60, 3, LocalPool()) == mark
    (file,) = tmp_path.iterdir()
    stored = parquet.load(file, cardplay.DOUBLE_DUMMY)
    tricks = stored.columns["tricks"]
    for odd, why in (
        ({"won": tricks}, "its column 'tricks' is missing"),
        ({"tricks": tricks + np.int8(14)}, "its column 'tricks' holds"),
        ({"tricks": tricks[1:]}, "it has 59 of 60 deals"),
    ):
        parquet.save(file, cardplay.DOUBLE_DUMMY, stored.parameters, odd)
        with pytest.raises(UserError, match=why):
            cardplay.double_dummy_share(choices[0], str(tmp_path), 60, 3, LocalPool())


def test_each_defender_learns_to_beat_a_declarer(tmp_path):
    plan = {
        "learners": ["left", "right"], "learn_lost_games": True, "epsilon": 0.5,
        "learning_rate": None, "discount": 0.0,
        "neighbour_share": 0.0, "games": 4000, "opponents": "random",
    }  # fmt: skip
    defenders = {"defenders": ["random", "learned"]}
    trainer, history = trained(tmp_path, tabular=plan, evaluate=defenders)
    played = {row["defenders"]: row["made"] for row in trainer.report(history).rows}
    assert played["learned"] < played["random"] - 0.05


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"learners": ["declarer", "declarer"]}, "a position is named twice"),
        ({"learners": ["left"]}, "epsilon 1 needs the declarer as only learner"),
        ({"epsilon": 0.5}, "set tabular.learn_lost_games"),
        ({"data": "x", "learn_lost_games": True}, "leave epsilon and learn_lost_games out"),
        ({"state_abstraction": "prospect"}, "state_abstraction"),
        ({"learning_rate": 0}, "learning_rate"),
    ],
)
def test_an_inconsistent_section_is_refused(tmp_path, section, message):
    with pytest.raises(UserError, match=message):
        trained(tmp_path, tabular=section)


def test_other_games_and_jobs_without_learners_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"game\.scoring has no effect: this trainer learns from tricks"
    ):
        trained(tmp_path, game={"name": "minibridge", "scoring": "report"})
    with pytest.raises(UserError, match="plays minibridge with 2 seats"):
        trained(tmp_path, game="kuhn")
    with pytest.raises(UserError, match="no defender is among"):
        trained(tmp_path, evaluate={"defenders": ["learned"]})
    with pytest.raises(UserError, match="has no learned defenders"):
        trained(tmp_path, trainer="dqn", evaluate={"defenders": ["learned"]})


HAND = """\
                  S KT8
                  H A96
                  D A95
                  C 7542
S QJ96                              S 43
H K42                               H QJ753
D T73                               D 862
C T96                               C KJ8
                  S A752
                  H T8
                  D KQJ4
                  C AQ3
3NT by South"""


def test_a_deal_is_printed_in_the_usual_diagram():
    holder = parse_deal("S:A752.T8.KQJ4.AQ3 QJ96.K42.T73.T96 KT8.A96.A95.7542 43.QJ753.862.KJ8")
    deal = np.append((holder + 2) % 4, (4, 9))
    assert diagram.deal_diagram(deal, signs=False) == HAND
    cards = [CARD_NAMES.index(card) for card in ["SQ", "S8", "S3", "SA", "DK", "D3", "D5", "D2"]]
    assert diagram.format_play(deal, np.array(cards), signs=False).splitlines() == [
        " 1.  W SQ   N S8   E S3   S SA*", " 2.  S DK*  W D3   N D5   E D2 ", "2 tricks: 7 down",
    ]  # fmt: skip


def test_the_rules_player_follows_its_rules_and_another_player_less_often(run_command):
    style = {}
    for name in ("rules", "random"):
        answer, _ = run_command("bridge", "hands", name, "--boards", "1", "--deals", "40")
        assert len(answer["hands"]) == 1
        style[name] = {row["rule"]: row["followed"] for row in answer["style"]}
    assert style["rules"]["last hand takes the trick"] == 1
    assert all(style["random"][rule] < style["rules"][rule] for rule in style["rules"])


def test_a_search_makes_more_contracts_than_its_rollout_policy(run_command):
    contracts_made = []
    for worlds in ("0", "5"):
        answer, _ = run_command(
            "bridge", "hands", "random", "--worlds", worlds, "--boards", "30", "--deals", "1"
        )
        contracts_made.append(sum("made" in hand.splitlines()[-1] for hand in answer["hands"]))
    assert contracts_made[1] > contracts_made[0] + 5


def test_boards_are_read_and_converted_and_invalid_ones_are_named(run_command, tmp_path):
    deal = "N:KT8.A96.A95.7542 43.QJ753.862.KJ8 A752.T8.KQJ4.AQ3 QJ96.K42.T73.T96"
    good = Board(parse_deal(deal), "N", "None")
    pbn_lin.save(tmp_path / "a.pbn", [good, good])
    with (tmp_path / "a.pbn").open("a") as file:
        file.write('[Board "3"]\n[Dealer "N"]\n[Deal "N:AK.. ... ... ..."]\n')
    answer, _ = run_command(
        "bridge", "boards", str(tmp_path / "a.pbn"), "--to", str(tmp_path / "b.lin")
    )
    assert answer["rows"] == 2
    assert len(answer["problems"]) == 1
    assert "board 3, line" in answer["problems"][0]
    assert len(pbn_lin.load(tmp_path / "b.lin").boards) == 2
    answer, code = run_command("bridge", "boards", str(tmp_path / "c.pbn"))
    assert "No such file" in answer["error"]
    assert code == 2


def test_games_are_generated_from_the_command_line(run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer, _ = run_command("generate", "minibridge", "--games", "300", "strain=trump")
    assert answer["rows"] == 300
    assert len(minibridge_games.load(tmp_path / answer["path"]).deals) == 300
    for wrong, message in (
        (["--defenders", "good"], "'careful' or 'random'"),
        (["--buckets", "5"], "No such option: --buckets"),
        (["strains=trump"], "unknown key 'strains' of minibridge games: did you mean 'strain'?"),
    ):
        answer, code = run_command("generate", "minibridge", *wrong)
        assert message in answer["error"]
        assert code == 2


def test_each_shard_of_an_evaluation_has_its_own_deals():
    choice = job_file.GameChoice(name="minibridge")
    first, second, again = (cardplay.evaluation_deals(choice, 3, k, 5) for k in (0, 1, 0))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
