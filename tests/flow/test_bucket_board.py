"""The board of limit hold'em: its opponents, its players, sampled games, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from overtrick.comparison import board, board_job, board_networks, board_opponents
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.evaluation.board import (
    bucket_board,
    bucket_match,
    bucket_opponents,
    opponent_files,
)
from overtrick.evaluation.board.bucket_match import play_match
from overtrick.evaluation.board.bucket_players import BucketPosteriorPlayer, FixedPolicyPlayer
from overtrick.evaluation.board.end_observations import Told
from overtrick.policies.rollout import play_duplicate
from overtrick.policies.uniform import UniformPolicy
from overtrick.runs import lifecycle

HOLDEM = GameChoice(name="holdem", options={"view": "strength"})
FOLDER = opponent_files.FOLDER / "holdem"
POSTERIOR = {"player": "population_posterior", "population_size": 5}
BOARD: dict[str, Any] = {
    "trainer": "board",
    "game": {"name": "holdem", "view": "strength"},
    "seeds": [0],
    "budgets": [3, 6],
    "told": ["showdown"],
    "methods": {"oracle": {"player": "oracle"}, "posterior": POSTERIOR},
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "board.yaml"
    path.write_text(yaml.safe_dump({**BOARD, **changes}, sort_keys=False))
    return path


def test_the_development_opponents_are_those_of_the_package() -> None:
    families = bucket_board.families(HOLDEM)
    stored = bucket_board.read_opponents(HOLDEM, "development")
    drawn = bucket_opponents.draw_development(families)
    networks = list(board_networks.NETWORK_JOBS["holdem"])
    assert [o.name for o in stored] == [*(o.name for o in drawn), *networks]
    assert [o.digest for o in stored[: len(drawn)]] == [o.digest for o in drawn]
    assert len({o.digest for o in stored}) == len(stored) == 6
    assert not {o.family for o in stored} & set(families.test_only())


@pytest.mark.slow
@pytest.mark.parametrize("family", board_networks.NETWORK_JOBS["holdem"])
def test_the_networks_are_trained_again(family: str) -> None:
    """Rounding differs between processors, and a training amplifies it: the play is similar."""
    here, rng = bucket_board.setting(HOLDEM, "own_cards"), np.random.default_rng(0)
    stored = {o.name: o for o in bucket_board.read_opponents(HOLDEM, "development")}
    trained = board_networks.train_network("holdem", family)
    first, second = (here.abstraction.tabulate(p, rng) for p in (trained, stored[family].policy))
    assert np.abs(first - second).mean() < 0.1


def test_a_changed_opponent_and_other_options_are_refused(tmp_path: Path) -> None:
    families, stored = bucket_board.families(HOLDEM), bucket_board.read_opponents
    opponents = stored(HOLDEM, "development")
    bucket_opponents.save(opponents, HOLDEM.options, tmp_path)
    assert [o.digest for o in stored(HOLDEM, str(tmp_path))] == [o.digest for o in opponents]
    cards = (tmp_path / "opponents.json").read_text()
    (tmp_path / "opponents.json").write_text(cards.replace(opponents[1].digest, "0" * 64))
    with pytest.raises(UserError, match="the SHA-256 of tight is not that of its strategy"):
        bucket_opponents.load(families, tmp_path, HOLDEM.options)
    with pytest.raises(UserError, match=r"for holdem with options \{'view': 'strength'\}"):
        stored(GameChoice(name="holdem"), "development")
    with pytest.raises(UserError, match="has no test opponents"):
        stored(HOLDEM, str(tmp_path / "no"))


def test_four_of_six_test_opponents_are_of_families_for_tests_alone(tmp_path: Path) -> None:
    families = bucket_board.families(HOLDEM)
    drawn = bucket_opponents.draw_test(families, np.random.default_rng(1))
    assert [o.family for o in drawn[2:]] == list(families.test_only())
    assert {o.family for o in drawn[:2]} <= set(families.training())
    bucket_opponents.save(drawn, HOLDEM.options, tmp_path)
    again = bucket_opponents.load(families, tmp_path, HOLDEM.options)
    assert [(o.name, o.digest) for o in again] == [(o.name, o.digest) for o in drawn]


def test_families_are_strategies_of_their_kind() -> None:
    families, rng = bucket_board.families(HOLDEM), np.random.default_rng(2)
    shape = families.indexed.legal.shape
    for name, draw in {**families.training(), **families.test_only()}.items():
        policy, arrays = draw(rng)
        strategy = families.abstraction.tabulate(policy, rng)
        if "strategy" in arrays:
            assert np.abs(strategy - arrays["strategy"]).max() < 1e-6, name
        assert np.abs(strategy.sum(axis=1) - 1).max() < 1e-5, name
        assert not strategy[~families.indexed.legal].any(), name
    blind = families.card_blind(rng).reshape(-1, families.indexed.buckets, shape[1])
    assert (blind == blind[:, :1]).all()
    avoided, legal = families.avoids_action(rng), families.indexed.legal
    others = legal.sum(axis=1)[:, None] > legal  # another action is legal
    taken = [avoided[legal[:, a] & others[:, a], a].max() for a in range(shape[1])]
    assert sorted(map(bool, taken)) == [False, True, True, True]


@pytest.mark.parametrize("told", ["own_cards", "showdown", "all_cards"])
def test_a_match_tells_the_player_what_its_setting_shows(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payoffs are those of the recorded actions and cards, replayed by the game."""
    monkeypatch.setattr(bucket_match, "DEALS", 10)
    here = bucket_board.setting(HOLDEM, told)
    seen: list[Any] = []

    class Watches(FixedPolicyPlayer):
        def policy(self, games: Any) -> Any:
            seen[:] = games
            return super().policy(games)

    def new_player(setting: Any, rng: Any) -> Watches:
        return Watches(UniformPolicy())

    opponent = bucket_board.read_opponents(HOLDEM, "development")[0]
    found = play_match(here, new_player, opponent, (40,), np.random.default_rng(3))
    assert found.checkpoints[0].online == pytest.approx(np.mean([g.payoff for g in seen]))
    assert found.checkpoints[0].exploitability is None
    assert [g.seat for g in seen] == [0, 1] * 20
    hidden = [min(g.cards[2 * (1 - g.seat) : 2 * (2 - g.seat)]) < 0 for g in seen]
    ends = [here.game.ends_with_showdown(g.actions) for g in seen]
    assert 0 < sum(ends) < 40
    wanted = {"own_cards": [True] * 40, "showdown": [not e for e in ends]}
    assert hidden == wanted.get(told, [False] * 40)
    for game in seen if told == "all_cards" else ():
        rest = iter(sorted(set(range(52)) - set(game.cards)))
        deal = np.array([[c if c >= 0 else next(rest) for c in game.cards]], np.int16)
        state, payoff = here.game.start(deal), np.zeros(2)
        for action in game.actions:
            payoff += here.game.step(state, here.game.observe(state), np.array([action]))[0]
        assert payoff[game.seat] == game.payoff


def test_a_sampled_payoff_is_the_mean_of_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_match, "DEALS", 4_000)
    here = bucket_board.setting(HOLDEM, "own_cards")
    opponent = bucket_board.read_opponents(HOLDEM, "development")[2]
    found = bucket_match.sampled_payoff(here.game, UniformPolicy(), opponent)
    assert found == bucket_match.sampled_payoff(here.game, UniformPolicy(), opponent)
    rng = np.random.default_rng(4)
    _, other = play_duplicate(here.game, UniformPolicy(), opponent.policy, 4_000, rng)
    error = float(other.std()) * (2 / 4_000) ** 0.5
    assert found == pytest.approx(other.mean(), abs=4 * error)


def test_the_posterior_learns_to_beat_an_opponent_outside_its_population(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bucket_match, "DEALS", 4_000)
    here = bucket_board.setting(HOLDEM, "own_cards")
    prior = bucket_board.population_prior(HOLDEM, 5, 1)
    opponent = bucket_board.read_opponents(HOLDEM, "development")[2]

    def new_player(setting: Any, rng: Any) -> BucketPosteriorPlayer:
        return BucketPosteriorPlayer(setting, prior, rng)

    found = play_match(here, new_player, opponent, (100,), np.random.default_rng(0)).checkpoints[0]
    unaware = new_player(here, np.random.default_rng(0)).policy([])
    # shares of eight seeds: -0.31 without games, 0.23 to 0.79 after 100
    assert bucket_match.sampled_payoff(here.game, unaware, opponent) < 0
    assert found.payoff is not None
    assert found.payoff > 0


def test_a_board_of_holdem_is_played_and_continued(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setattr(bucket_match, "DEALS", 200)
    monkeypatch.setattr(bucket_board, "_ORACLES", {})
    job = board_job.load(write(tmp_path), ())
    assert board.check(job) == 12
    folder = lifecycle.open_folder(job, "board", True)
    rows = board.run(folder, lambda done: None).json_results()["rows"]
    oracle = {row["budget"]: row for row in rows if row["method"] == "oracle"}
    assert [row["share"] for row in oracle.values()] == [1, 1]
    assert {row["exploitability"] for row in rows} == {None}
    assert {row["opponents"] for row in rows} == {6}
    assert len(rows) == 4
    (folder.path / board.RESULTS / "0007.json").unlink()
    assert board.run(folder, lambda done: None).json_results()["rows"] == rows


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"player": "equilibrium"}, "methods.a.player: in holdem, which is too large for a tree"),
        ({**POSTERIOR, "exploitability_bound": 0.1}, "holdem is too large to bound it"),
        ({"player": "model", "model": "champion:leduc", "told": ["own_cards"]}, "plays leduc"),
    ],
)
def test_methods_that_cannot_play_are_refused(
    tmp_path: Path, method: dict[str, Any], message: str
) -> None:
    job = board_job.load(write(tmp_path, methods={"a": method}), ())
    with pytest.raises(UserError, match=message):
        board.check(job)


def test_test_opponents_are_drawn_by_the_command(tmp_path: Path) -> None:
    job = board_job.load(write(tmp_path), ())
    found = board_opponents.make_test_opponents(job, tmp_path / "drawn")
    assert len(found["opponents"]) == 6
    again = board_opponents.make_test_opponents(job, tmp_path / "again", found["players_sha256"])
    assert again["opponents"] == found["opponents"]
    read = job.model_copy(update={"opponents": str(tmp_path / "drawn")})
    assert [o.name for o in board_opponents.read_opponents(read)] == found["opponents"]
