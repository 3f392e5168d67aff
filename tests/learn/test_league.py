"""The league: matchmaking, past players that never change, exploiters, resumed runs."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overtrick import make
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import LocalPool
from overtrick.learners.initialisation import INITIAL_ACTION_STD
from overtrick.population import matchmaking
from overtrick.population.matchmaking import MatchmakingConfig, Players, Results
from overtrick.serving.predictor import Predictor
from overtrick.storage import model_files
from overtrick.training.adaptation.opponent_population import stored_population
from overtrick.training.registry import JOBS, TRAINERS

CONFIG = MatchmakingConfig(0.35, 0.15, 0.6, 2.0)
MAIN, EXPLOITER, LEAGUE = 0, 1, 2
"""Learners of PLAYERS."""
PLAYERS = Players(3, np.array([MAIN, EXPLOITER, LEAGUE, MAIN, MAIN, EXPLOITER, LEAGUE]), 1, 1)


def league(game: str | dict[str, str], iterations: int, **section: Any) -> Any:
    content = {
        "trainer": "league", "game": game, "stop": {"iterations": iterations},
        "league": {"games": 200, "hidden": [8], **section},
        "evaluate": {"every": 1000, "eval_deals": 4},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["league"].validate(job)
    return TRAINERS["league"].trainer(job, LocalPool())


def saved(one: Any, folder: Path) -> str:
    """Store the model of a league; return its folder."""
    job = one.job.model_dump(mode="json")
    model_files.save(model_files.Model(one.model(), one.game.name, job), folder)
    return str(folder)


def results(*rows: Any) -> Results:
    """Return the results of one learner: points won, points moved, games decided, games played."""
    return Results(*(np.array([row], float) for row in rows))


def test_the_share_of_points_is_the_share_of_games_won_in_games_for_one_point():
    """Draws and the ten games of the prior count as half won."""
    found = results([6, -40, 0, 1, 0], [10, 40, 4, 1, 0], [10, 40, 4, 1, 0], [10, 40, 4, 10, 0])
    expected = [(8 + 5) / 20, 5 / 50, (2 + 5) / 14, (1 + 4.5 + 5) / 20, 0.5]
    assert found.points_share()[0] == pytest.approx(expected)


def test_the_share_of_points_does_not_depend_on_the_stakes():
    one, ten = (results([s], [2 * s], [4], [5]).points_share() for s in (1.0, 10.0))
    assert one == pytest.approx(ten)


def test_a_player_that_lost_all_games_is_still_met():
    share = results(*[[500.0] * 4] * 4).points_share()[0]
    assert (matchmaking.prioritised(share, np.ones(4, bool), 2) == 0.25).all()
    share[0] = 0.5
    assert (matchmaking.prioritised(share, np.ones(4, bool), 2) > 0).all()


def test_shares_of_one_leave_no_games_for_other_past_players():
    config = MatchmakingConfig(0.9, 0.1, 0.6, 2.0)
    met = matchmaking.opponents(PLAYERS, MAIN, np.full(7, 0.5), config)
    assert met == pytest.approx([0.9, 0, 0, 0, 0, 0.1, 0])


def test_probabilities_are_never_negative_whatever_the_shares(rng):
    for self_play, forgotten in itertools.product(np.linspace(0, 1, 21), repeat=2):
        if self_play + forgotten <= 1:
            config = MatchmakingConfig(self_play, forgotten, 0.6, 2.0)
            for learner in (MAIN, EXPLOITER, LEAGUE):
                met = matchmaking.opponents(PLAYERS, learner, rng.random(7), config)
                assert (met >= 0).all()
                assert met.sum() == pytest.approx(1)


def test_a_main_agent_plays_itself_past_players_and_players_that_beat_it():
    share = np.array([0.5, 0.5, 0.5, 0.8, 0.4, 0.7, 0.9])
    met = matchmaking.opponents(PLAYERS, MAIN, share, CONFIG)
    hard = (1 - share[3:]) ** 2
    forgotten = np.array([0, 0.6**2, 0.3**2, 0])  # a past self that wins, and an exploiter
    expected = 0.5 * hard / hard.sum() + 0.15 * forgotten / forgotten.sum()
    assert met == pytest.approx([0.35, 0, 0, *expected])


def test_a_main_agent_plays_itself_until_there_are_past_players():
    players = Players(3, np.array([MAIN, EXPLOITER, LEAGUE]), 1, 1)
    met = matchmaking.opponents(players, MAIN, np.full(3, 0.5), CONFIG)
    assert met == pytest.approx([1, 0, 0])
    for learner in (EXPLOITER, LEAGUE):
        met = matchmaking.opponents(players, learner, np.full(3, 0.5), CONFIG)
        assert met == pytest.approx([1, 0, 0])


def test_a_main_exploiter_plays_the_main_agent_or_easier_past_ones():
    share = np.array([0.4, 0.5, 0.5, 0.3, 0.1, 0.5, 0.5])
    met = matchmaking.opponents(PLAYERS, EXPLOITER, share, CONFIG)
    assert met == pytest.approx([1, 0, 0, 0, 0, 0, 0])
    share[0] = 0.1
    met = matchmaking.opponents(PLAYERS, EXPLOITER, share, CONFIG)
    assert met == pytest.approx([0, 0, 0, 0.7, 0.3, 0, 0])


def test_a_league_exploiter_plays_all_past_players():
    share = np.array([0.5, 0.5, 0.5, 0.5, 0, 0, 0.5])
    met = matchmaking.opponents(PLAYERS, LEAGUE, share, CONFIG)
    assert met == pytest.approx([0, 0, 0, 0.1, 0.4, 0.4, 0.1])


def test_an_exploiter_beats_all_only_if_it_has_met_all():
    share, played = np.full(7, 0.7), np.ones(7)
    for learner in (EXPLOITER, LEAGUE):
        assert matchmaking.beats_all(PLAYERS, learner, share, played, CONFIG)
    assert not matchmaking.beats_all(PLAYERS, LEAGUE, share, played * (np.arange(7) != 5), CONFIG)
    share[0] = 0.5
    assert not matchmaking.beats_all(PLAYERS, EXPLOITER, share, played, CONFIG)
    assert matchmaking.beats_all(PLAYERS, LEAGUE, share, played, CONFIG)


@pytest.mark.parametrize("shards", [1, 7, 200])
def test_both_learners_count_their_games_in_all_shards(shards):
    one = league("kuhn", 3, game_shards=shards)
    one.step()
    won, moved, decided, played = one.results
    assert won + won.T == pytest.approx(np.zeros((3, 3)))
    for counted in (moved, decided, played):
        assert (counted == counted.T).all()
    assert played.sum() == pytest.approx(2 * 3 * 200 * matchmaking.RESULT_DECAY**0)


def test_past_players_are_copies_of_learners_and_never_change():
    one = league("kuhn", 12, snapshot_interval=2, exploiter_iterations=5)
    first: dict[str, np.ndarray] = {}
    for k in range(1, 13):
        metrics = one.step()
        past = one.past.state()
        if k == 2:
            first = {name: value[0] for name, value in past.items()}
            assert all((first[name] == one._network(0)[name]).all() for name in first)
    assert all((past[name][0] == first[name]).all() for name in first)
    main = (one.of_learner[3:] == 0).sum()
    assert main == 6
    assert {1, 2} <= set(one.of_learner[3:])  # copies of exploiters, too
    assert metrics["past_players"] == len(one.of_learner) - 3 == len(past["w0"])


def test_random_networks_are_past_players_of_all_learners_from_the_start():
    one = league("kuhn", 2, random_players=4, self_play_share=0, forgotten_share=0)
    metrics = one.step()
    assert metrics["past_players"] == len(one.past.state()["w0"]) == 4
    played = one.results.played
    assert (played[MAIN, 3:] > 0).all()  # the main agent and the league exploiter meet them ...
    assert (played[LEAGUE, 3:] > 0).all()
    assert (played[EXPLOITER, 3:] == 0).all()  # ... the main exploiter meets the main agent
    assert played[EXPLOITER, MAIN] == 200
    first = one.past.state()
    one.step()
    assert same({n: v[:4] for n, v in one.past.state().items()}, first)


def test_random_ants_vary_their_torques_as_little_as_their_scale_says():
    one = league("sumo", 1, random_players=3, action_std_scale=0.1)
    log_std = one.past.state()["log_std"]
    assert np.exp(log_std) == pytest.approx(np.full((3, 8), 0.1 * INITIAL_ACTION_STD))
    assert np.exp(one._network(MAIN)["log_std"]) == pytest.approx(np.full(8, INITIAL_ACTION_STD))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("both", [False, True])
def test_a_main_agent_can_learn_from_both_seats_of_games_against_itself(both, shards):
    """The moments of its normalised inputs count the decisions from which it has learnt."""
    one = league(
        "leduc", 1, main_exploiters=0, league_exploiters=0, normalise=True, train_both_seats=both,
        game_shards=shards,
    )  # fmt: skip
    decisions = one.step()["decisions"]
    learnt = one.learners[0]["inputs.count"]
    assert learnt == decisions if both else 0.4 < learnt / decisions < 0.6
    assert one.results.played == [[400]]  # 200 games, counted for both players


@pytest.fixture
def stored(tmp_path):
    """Return the folder of the model of a league of one iteration, and its policy network."""
    one = league("kuhn", 1)
    one.step()
    return saved(one, tmp_path / "model"), one._network(0)


def same(one, two):
    return all(np.array_equal(one[name], two[name]) for name in two)


def test_learners_start_with_a_stored_policy_and_first_train_their_critics(stored):
    folder, policy = stored
    one = league("kuhn", 4, initial_model=folder, value_warmup_iterations=2)
    for _ in range(3):
        assert all(same(one._network(learner), policy) for learner in range(3))
        critic = unprefixed("critic", one.learners[0])
        one.step()
        assert not same(unprefixed("critic", one.learners[0]), critic)
    assert not any(same(one._network(learner), policy) for learner in range(3))


@pytest.mark.parametrize("start", ["initial", "main_agent"])
def test_an_exploiter_starts_anew_with_the_network_that_its_job_names(stored, start):
    folder, policy = stored
    one = league(
        "kuhn", 3, initial_model=folder, exploiter_start=start, exploiter_iterations=3,
        value_warmup_iterations=1, league_exploiters=0,
    )  # fmt: skip
    for _ in range(3):
        one.step()
    expected = policy if start == "initial" else one._network(0)
    assert same(one._network(EXPLOITER), expected)
    assert not same(one._network(MAIN), policy)
    assert one.trained.tolist() == [3, 0 if start == "initial" else 3]


def test_a_resumed_league_keeps_its_initial_policy_and_warm_up(stored):
    folder, policy = stored
    options = {"initial_model": folder, "value_warmup_iterations": 3, "exploiter_iterations": 4}
    whole, first, second = (league("kuhn", 6, **options) for _ in range(3))
    expected = [whole.step() for _ in range(6)]
    found = [first.step() for _ in range(2)]
    second.initial_policy = {name: 0 * value for name, value in policy.items()}  # changed since
    second.load(first.state())
    assert found + [second.step() for _ in range(4)] == expected
    assert second.trained.tolist() == whole.trained.tolist()


def test_a_stored_policy_that_does_not_fit_is_refused(stored, tmp_path):
    folder, _ = stored
    with pytest.raises(UserError, match=r"value_warmup_iterations must be below stop.iterations"):
        league("kuhn", 3, initial_model=folder, value_warmup_iterations=3)
    warm_up = {"value_warmup_iterations": 5, "exploiter_iterations": 5}
    with pytest.raises(UserError, match=r"must be below league.exploiter_iterations"):
        league("kuhn", 9, initial_model=folder, **warm_up)
    with pytest.raises(UserError, match=r"layers \[8\], the job has the hidden layers \[9\]: set"):
        league("kuhn", 1, initial_model=folder, hidden=[9])
    with pytest.raises(UserError, match="plays kuhn, not leduc"):
        league("leduc", 1, initial_model=folder)
    folder = saved(league({"name": "sumo", "view": "ahead"}, 1), tmp_path / "ant")
    with pytest.raises(UserError, match=r"other network inputs: set game\.view to ahead"):
        league("sumo", 1, initial_model=folder)
    folder = saved(league({"name": "leduc", "view": "history"}, 1), tmp_path / "history")
    with pytest.raises(UserError, match=r"other network inputs: set game\.view to history"):
        league("leduc", 1, initial_model=folder)


def test_past_players_fit_jobs_with_other_options_of_the_machine_but_not_other_views(tmp_path):
    folder = saved(league("sumo", 1, random_players=2), tmp_path / "league")
    here = {"zoo": "/zoo", "threads": 2, "reward": "result"}
    find = partial(stored_population, kind="league", model=folder, key="model", remedy="")
    found = find(GameChoice(name="sumo", options=here))
    assert len(found["w0"]) == 2
    with pytest.raises(UserError, match=r"plays sumo with options {}, not {'view': 'ahead'}"):
        find(GameChoice(name="sumo", options={**here, "view": "ahead"}))


def test_a_stored_network_sees_a_game_with_another_view_as_in_its_training(tmp_path):
    one = league({"name": "leduc", "view": "history"}, 1)
    folder = Path(saved(one, tmp_path / "history"))
    rows = one.game.observe(one.game.start(one.game.deal(9, np.random.default_rng(0))))
    found = [model_files.policy(folder, game).probs(rows) for game in (one.game, make("leduc"))]
    assert np.array_equal(*found)
    with pytest.raises(UserError, match="has other inputs or actions than leduc"):
        model_files.policy(folder, make("leduc", ranks=5))


def test_a_memory_changes_nothing_at_first_is_trained_and_survives_a_resume(tmp_path):
    section = {"league_exploiters": 0, "games": 4, "random_players": 2}
    old = league("sumo", 1, **section)
    folder = saved(old, tmp_path / "ant")
    new, again = (league("sumo", 2, initial_model=folder, memory=6, **section) for _ in range(2))
    for learner in range(new.count):
        network = new._network(learner)
        assert same(network, old._network(MAIN))
        assert (network["memory_output_w"] == np.zeros((6, 8))).all()
    assert new.past.state().keys() == new._network(MAIN).keys()
    drawn = new._network(MAIN)["memory_value_w"]  # apart from the random past players
    for member in new.past.state()["w0"]:
        assert abs(np.corrcoef(drawn.ravel(), member.ravel()[: drawn.size])[0, 1]) < 0.5
    new.step()
    assert all((new._network(k)["memory_output_w"] != 0).any() for k in range(new.count))
    again.load(new.state())
    assert again.step() == new.step()


def test_a_memory_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"league.memory: kuhn has discrete actions"):
        league("kuhn", 1, memory=6)
    with pytest.raises(UserError, match=r"league.memory needs a hidden layer"):
        league("sumo", 1, memory=6, hidden=[])
    one = league("sumo", 1, memory=6, games=4)
    folder = saved(one, tmp_path / "ant")
    with pytest.raises(UserError, match=r"a memory of 6 units, the job has .* of 7 units: set"):
        league("sumo", 1, initial_model=folder, memory=7)
    with pytest.raises(UserError, match="has a recurrent layer: it can play whole games"):
        Predictor(tmp_path / "ant")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_league_lowers_the_exploitability_of_kuhn(shards):
    one = league("kuhn", 80, games=300, hidden=[16], learning_rate=0.02, game_shards=shards)
    for _ in range(80):
        metrics = one.step()
    # uniform play has 0.458, the mixture of eight seeds 0.05 to 0.18, and a main agent up to 0.42
    assert metrics["exploitability_chip/league_mixture"] < 0.3


@pytest.mark.parametrize("section", [{}, {"game_shards": 2}])
def test_a_loaded_league_continues_with_identical_results(section):
    whole, first, second = (
        league("kuhn", 6, snapshot_interval=2, exploiter_iterations=3, random_players=2, **section)
        for _ in range(3)
    )
    expected = [whole.step() for _ in range(6)]
    found = [first.step() for _ in range(4)]
    second.load(first.state())
    assert found + [second.step() for _ in range(2)] == expected
    ours, theirs = second.state(), whole.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_league_of_a_shaped_game_counts_wins():
    """An ant's payoff is some thousand points in each match; its result is 1, 0 or -1."""
    one = league(
        {"name": "sumo", "integrator": "euler"}, 1, games=3, main_exploiters=0, league_exploiters=0
    )
    metrics = one.step()
    assert abs(metrics["main_agent_0/mean_wins_minus_losses"]) <= 1
    assert metrics["diverged_games"] == 0
    assert one.results.played == [[6]]  # three matches, counted for both players
    assert one.results.moved <= one.results.played


def test_a_league_learns_from_clipped_actions_if_told_to():
    """An untrained network is the same either way; its first update is not."""
    updated = []
    for clipped in (False, True):
        one = league(
            {"name": "sumo", "integrator": "euler"}, 1, games=2, main_exploiters=0,
            league_exploiters=0, clipped_action_gradient=clipped,
        )  # fmt: skip
        one.step()
        updated.append(one.model()["policy.w0"])
    assert not np.array_equal(*updated)


def with_schedule(iterations: int) -> Any:
    """Return a league of ants whose actions have standard deviations from 0.4 to 0.2."""
    return league(
        {"name": "sumo", "integrator": "euler"}, iterations, games=2, main_exploiters=0,
        league_exploiters=0, action_std=0.4, action_std_end=0.2,
    )  # fmt: skip


def test_standard_deviations_of_actions_follow_their_schedule():
    one = with_schedule(2)
    found = [one._network(MAIN)]
    for _ in range(2):
        one.step()
        found.append(one._network(MAIN))
        assert not np.array_equal(found[-1]["w0"], found[-2]["w0"])
    expected = np.repeat([[0.4], [0.3], [0.2]], 8, axis=1)
    assert np.exp([network["log_std"] for network in found]) == pytest.approx(expected)


@pytest.mark.parametrize(("iterations", "std"), [(4, 0.3), (2, 0.2), (1, 0.2)])
def test_a_run_resumed_with_other_iterations_follows_its_new_schedule(iterations, std):
    one, resumed = with_schedule(2), with_schedule(iterations)
    for _ in range(2):
        one.step()
    resumed.load(one.state())
    assert np.exp(resumed._network(MAIN)["log_std"]) == pytest.approx(np.full(8, std))


def test_shaping_falls_over_a_share_of_training():
    section = league({"name": "sumo"}, 1, shaping_end=0.5).job.league
    shaped = make("sumo")
    for progress, share in ((0, 1), (0.2, 0.6), (0.5, 0), (0.9, 0)):
        reward = section.shaped(shaped, progress).reward
        assert reward.push == pytest.approx(share * shaped.reward.push)
        assert reward.win == shaped.reward.win


@pytest.mark.parametrize(
    ("game", "section", "message"),
    [
        ("kuhn_three", {}, "two-seat game"),
        ("kuhn", {"shaping_end": 0.5}, "league.shaping_end: kuhn has no shaping rewards"),
        (
            {"name": "sumo", "reward": "result"},
            {"shaping_end": 0.5},
            "league.shaping_end: sumo has no shaping rewards",
        ),
        (
            "sumo",
            {"action_std": 0.3, "entropy_coef": 0.1},
            "league.entropy_coef has no effect with league.action_std",
        ),
        ("kuhn", {"clipped_action_gradient": True}, "kuhn does not clip continuous actions"),
        ("kuhn", {"game_shards": 201}, "game_shards must be at most games"),
        ("kuhn", {"action_std": 0.3}, "league.action_std: kuhn has discrete actions"),
        ("kuhn", {"action_std_end": 0.3}, "league.action_std_end has no effect"),
        ("kuhn", {"self_play_share": 0.9, "forgotten_share": 0.5}, "more than 1 together"),
        ("kuhn", {"value_warmup_iterations": 3}, "value_warmup_iterations has no effect"),
        ("kuhn", {"head_init_scale": 0.3}, "head_init_scale has no effect"),
        ("kuhn", {"random_players": 2, "action_std_scale": 0.1}, "kuhn has discrete actions"),
        (
            "kuhn",
            {"main_exploiters": 0, "league_exploiters": 0, "exploiter_iterations": 9},
            "league.exploiter_iterations has no effect",
        ),
    ],
)
def test_a_game_or_key_that_does_not_fit_is_refused(game, section, message):
    with pytest.raises(UserError, match=message):
        league(game, 1, **section)
