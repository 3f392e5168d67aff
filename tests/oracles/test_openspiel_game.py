"""Our games and policies inside OpenSpiel: its algorithms give the values of our solvers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyspiel
import pytest
from open_spiel.python import rl_environment

from overtrick.core import UserError
from overtrick.environments.openspiel_game import OpenSpielGame, openspiel_game
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response

EXACT = ("brps", "kuhn", "kuhn_three", "one_card", "leduc")


@pytest.fixture(scope="module", params=EXACT)
def theirs(request) -> OpenSpielGame:
    return openspiel_game(request.param)


def test_openspiels_own_tests_accept_the_game(theirs):
    pyspiel.random_sim_test(theirs, 20, False, False)


def test_openspiels_cfr_and_ours_reach_the_same_strategies(theirs):
    solver = pyspiel.CFRSolver(theirs)
    for _ in range(2):
        solver.evaluate_and_update_policy()
    average = solver.tabular_average_policy()
    ours = cfr.solve(theirs.data.tree, 2, cfr.CFR)
    assert theirs.sigma(average) == pytest.approx(ours, abs=1e-9)


def test_nash_conv_of_our_policy_is_equal_in_both(theirs, rng, random_strategy):
    tree = theirs.data.tree
    sigma = random_strategy(tree, rng)
    policy = theirs.tabular(TabularPolicy(sigma))
    assert np.array_equal(theirs.sigma(policy), sigma)
    openspiels_nash_conv = pyspiel.nash_conv(theirs, policy, True)
    assert openspiels_nash_conv == pytest.approx(best_response.nash_conv(tree, sigma), abs=1e-9)
    values = pyspiel.expected_returns(
        theirs.new_initial_state(), [policy] * theirs.num_players(), -1, True
    )
    assert values == pytest.approx(best_response.expected(tree, sigma), abs=1e-9)


def test_a_waiting_seat_keeps_the_information_state_of_its_last_decision():
    theirs = openspiel_game("kuhn")
    state = theirs.new_initial_state()
    assert state.information_state_string(0) == "seat 0, nothing yet"
    for _ in range(2):
        state.apply_action(0)  # the cards
    before = state.information_state_string()
    assert before.startswith("seat 0, set ")
    state.apply_action(state.legal_actions()[0])
    assert state.current_player() == 1
    assert state.information_state_string(0) == before
    assert state.information_state_tensor(0) == theirs.data.features[0].tolist()


def test_openspiels_environment_gives_our_features():
    theirs = openspiel_game("leduc")
    env = rl_environment.Environment(theirs)
    env.seed(1)
    step, points = env.reset(), np.zeros(2)
    while not step.last():
        seat = step.observations["current_player"]
        info_state = np.array(step.observations["info_state"][seat], np.float32)
        here = theirs.data.tree.infoset[env.get_state.node]
        assert np.array_equal(info_state, theirs.data.features[here])
        step = env.step([step.observations["legal_actions"][seat][-1]])
        points += step.rewards
    assert points.sum() == 0
    assert points.any()


def test_an_illegal_action_is_an_error():
    state = openspiel_game("leduc").new_initial_state()
    while state.is_chance_node():
        state.apply_action(0)
    before = str(state)
    (never,) = {*range(4)} - {*state.legal_actions()}
    with pytest.raises((ValueError, pyspiel.SpielError), match="legal"):
        state.apply_action(never)
    assert str(state) == before


def test_a_game_without_a_tree_is_refused():
    with pytest.raises(UserError, match="holdem is too large for a tree"):
        openspiel_game("holdem")


def test_games_are_loaded_by_name_in_a_process_that_ends_well():
    """In a process of its own: OpenSpiel never forgets a game, and died at its end with some."""
    code = """
import pyspiel
from overtrick.environments.openspiel_registration import GAMES, register_game

register_game("liars_dice", faces=2)
register_game("kuhn")  # again
for name in (*GAMES, "liars_dice"):
    print(name, pyspiel.load_game(f"overtrick_{name}").num_players())
solver = pyspiel.CFRSolver(pyspiel.load_game("overtrick_leduc"))
solver.evaluate_and_update_policy()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    seats = {"brps": 2, "kuhn": 2, "kuhn_three": 3, "one_card": 2, "leduc": 2}
    seats |= {"leduc_textbook": 2, "liars_dice": 2}
    assert done.stdout == "".join(f"{name} {count}\n" for name, count in seats.items())
