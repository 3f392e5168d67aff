"""The league: matchmaking, past players that never change, exploiters, resumed runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.population import matchmaking
from overtrick.population.matchmaking import MatchmakingConfig, Players
from overtrick.training.registry import JOBS, TRAINERS

CONFIG = MatchmakingConfig(0.35, 0.15, 0.6, 2.0)
MAIN, EXPLOITER, LEAGUE = 0, 1, 2
"""Learners of PLAYERS."""
PLAYERS = Players(3, np.array([MAIN, EXPLOITER, LEAGUE, MAIN, MAIN, EXPLOITER, LEAGUE]), 1, 1)


def league(game: str, iterations: int, **section: Any) -> Any:
    content = {
        "trainer": "league", "game": game, "stop": {"iterations": iterations},
        "league": {"games": 200, "hidden": [8], **section}, "evaluate": {"every": 1000},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["league"].validate(job)
    return TRAINERS["league"].trainer(job, LocalPool())


def test_the_share_of_points_is_the_share_of_games_won_in_games_for_one_point():
    won, games = np.array([2.0, -4, 0, 0]), np.array([4.0, 4, 4, 0])
    assert matchmaking.points_share(won, games) == pytest.approx([0.75, 0, 0.5, 0.5])


def test_a_main_agent_plays_itself_past_players_and_those_that_beat_it():
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
    share, met = np.full(7, 0.7), np.ones(7, bool)
    for learner in (EXPLOITER, LEAGUE):
        assert matchmaking.beats_all(PLAYERS, learner, share, met, CONFIG)
    assert not matchmaking.beats_all(PLAYERS, LEAGUE, share, met & (np.arange(7) != 5), CONFIG)
    share[0] = 0.5
    assert not matchmaking.beats_all(PLAYERS, EXPLOITER, share, met, CONFIG)
    assert matchmaking.beats_all(PLAYERS, LEAGUE, share, met, CONFIG)


def test_past_players_are_copies_of_learners_and_never_change():
    one = league("kuhn", 12, snapshot_interval=2, timeout=5)
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
    assert {1, 2} <= set(one.of_learner[3:])  # exploiters join, at the latest after the timeout
    assert metrics["past_players"] == len(one.of_learner) - 3 == len(past["w0"])


def test_a_league_lowers_the_exploitability_of_kuhn():
    one = league("kuhn", 80, games=300, hidden=[16], learning_rate=0.02)
    for _ in range(80):
        metrics = one.step()
    # uniform play has 0.458
    assert metrics["exploitability_chip/main"] < 0.25
    assert metrics["exploitability_chip/league_mixture"] < 0.25


def test_a_loaded_league_continues_with_identical_results():
    whole, first, second = (league("kuhn", 6, snapshot_interval=2, timeout=3) for _ in range(3))
    expected = [whole.step() for _ in range(6)]
    found = [first.step() for _ in range(4)]
    second.load(first.state())
    assert found + [second.step() for _ in range(2)] == expected
    ours, theirs = second.state(), whole.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("game", "message"), [("kuhn_three", "two-seat game"), ("sumo", "continuous actions")]
)
def test_a_game_that_does_not_fit_is_refused(game, message):
    with pytest.raises(UserError, match=message):
        league(game, 1)
