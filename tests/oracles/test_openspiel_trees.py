"""OpenSpiel's games as trees: structure and values beside OpenSpiel's."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pyspiel
import pytest

import overtrick
from overtrick.core import CHANCE, END, ExplicitTreeGame, UserError
from overtrick.games import openspiel_random_play, openspiel_tree
from overtrick.games.openspiel_tree import (
    OpenSpiel,
    matched_information_state_strings,
    tabular_policy,
)
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response, tree
from overtrick.studies import exact_solutions

SIZES = {
    "kuhn_poker": (58, 12),
    "kuhn_poker(players=3)": (617, 48),
    "leduc_poker(suit_isomorphism=true)": (1_939, 288),
    "liars_dice(numdice=1,dice_sides=3)": (1_147, 192),
    "goofspiel(imp_info=true,num_cards=3)": (418, 90),  # seats bid simultaneously
    "tiny_hanabi": (55, 8),  # seats win together
    "matrix_brps": (13, 2),
}
"""Nodes and information sets. Three seats; chance before, between and after actions; no chance."""


def load(name):
    """Load the game in the form that OpenSpiel's solvers require."""
    game = pyspiel.load_game(name)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    return game


@pytest.fixture(scope="module", params=SIZES)
def name(request):
    return request.param


@pytest.fixture
def game_tree_and_openspiels(game_and_tree, name):
    """Return the converted game, its tree, and OpenSpiel's game."""
    return *game_and_tree(f"openspiel/{name}"), load(name)


def at_most(most):
    """Return a function for `OpenSpiel.nodes` that accepts at most so many nodes."""
    return lambda nodes, infosets: nodes <= most


def test_the_tree_equals_openspiels_node_by_node(game_tree_and_openspiels):
    game, ours, theirs = game_tree_and_openspiels
    todo, nodes, words = [(theirs.new_initial_state(), 0)], 0, {}
    while todo:
        state, node = todo.pop()
        nodes += 1
        children = np.arange(ours.first[node], ours.first[node] + ours.children[node])
        assert (ours.parent[children] == node).all()
        if state.is_terminal():
            assert ours.seat[node] == END
            assert ours.gain[node].tolist() == state.returns()
            continue
        assert (ours.gain[node] == 0).all()
        if state.is_chance_node():
            assert ours.seat[node] == CHANCE
            moves, chances = zip(*state.chance_outcomes(), strict=True)
            assert ours.chance[children].tolist() == list(chances)
            assert ours.edge[children].tolist() == list(range(len(moves)))
        else:
            moves = state.legal_actions()
            assert ours.seat[node] == state.current_player()
            assert ours.edge[children].tolist() == moves
            assert (ours.chance[children] == 1).all()
            word = state.information_state_string()
            assert game.information_state_strings[ours.infoset[node]] == word
            words.setdefault(word, set()).add((int(ours.infoset[node]), int(ours.seat[node])))
        todo += [(state.child(m), int(c)) for m, c in zip(moves, children, strict=True)]
    assert nodes == ours.nodes
    assert [len(sets) for sets in words.values()] == [1] * ours.infosets


@pytest.mark.parametrize(
    ("name", "nodes", "infosets"),
    [
        *((name, *size) for name, size in SIZES.items()),
        ("leduc_poker", 9_457, 936),
        ("liars_dice", 294_883, 24_576),
    ],
)
def test_trees_have_the_known_sizes(game_and_tree, name, nodes, infosets):
    _, ours = game_and_tree(f"openspiel/{name}")
    assert (ours.nodes, ours.infosets) == (nodes, infosets)


def test_a_converted_game_has_the_attributes_of_a_game(game_tree_and_openspiels):
    game, ours, theirs = game_tree_and_openspiels
    assert isinstance(game, ExplicitTreeGame)
    assert game.seats == ours.seats == theirs.num_players()
    assert game.actions == len(game.action_names) == ours.legal.shape[1]
    assert ours.observations.observation.tolist() == [[row] for row in range(ours.infosets)]
    first = [int(np.flatnonzero(ours.infoset == row)[0]) for row in range(ours.infosets)]
    assert ours.observations.seat.tolist() == ours.seat[first].tolist()


def test_actions_have_openspiels_names(game_and_tree):
    assert game_and_tree("openspiel/leduc_poker")[0].action_names == ("Fold", "Call", "Raise")
    assert game_and_tree("openspiel/matrix_brps")[0].action_names == (
        "action 0",
        "action 1",
        "action 2",
    )


def test_strategies_have_the_same_values(game_tree_and_openspiels, rng, some_strategies):
    game, ours, theirs = game_tree_and_openspiels
    root = theirs.new_initial_state()
    for sigma in some_strategies(ours, rng):
        policy = tabular_policy(game.information_state_strings, ours.legal, sigma)
        expected = pyspiel.expected_returns(root, policy, -1, False)
        assert np.abs(best_response.expected(ours, sigma) - expected).max() < 1e-9


def test_best_responses_have_the_same_values(game_tree_and_openspiels, rng, some_strategies):
    game, ours, theirs = game_tree_and_openspiels
    root = theirs.new_initial_state()
    for sigma in some_strategies(ours, rng):
        policy = tabular_policy(game.information_state_strings, ours.legal, sigma)
        for seat in range(ours.seats):
            best = pyspiel.TabularBestResponse(theirs, seat, policy).value_from_state(root)
            assert abs(best_response.best_response(ours, sigma, seat)[0] - best) < 1e-9


def test_nash_conv_is_equal(game_tree_and_openspiels, rng, some_strategies):
    game, ours, theirs = game_tree_and_openspiels
    for sigma in some_strategies(ours, rng):
        policy = tabular_policy(game.information_state_strings, ours.legal, sigma)
        assert abs(best_response.nash_conv(ours, sigma) - pyspiel.nash_conv(theirs, policy)) < 1e-9


@pytest.mark.parametrize(
    ("name", "gap"), [("kuhn_poker", 11 / 12), ("leduc_poker", 4.747222222222222)]
)
def test_uniform_play_has_the_published_nash_conv(game_and_tree, name, gap):
    _, ours = game_and_tree(f"openspiel/{name}")
    assert abs(best_response.nash_conv(ours, ours.uniform()) - gap) < 1e-12


@pytest.mark.parametrize("plan", ["cfr", "cfr+"])
@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker(players=3)",
        "liars_dice(numdice=1,dice_sides=3)",
        "goofspiel(imp_info=true,num_cards=3)",
    ],
)
def test_solvers_equal_openspiels_for_the_first_100_iterations(game_and_tree, name, plan):
    game, ours = game_and_tree(f"openspiel/{name}")
    solver = {"cfr": pyspiel.CFRSolver, "cfr+": pyspiel.CFRPlusSolver}[plan](load(name))
    for _ in range(100):
        solver.evaluate_and_update_policy()
    average = solver.average_policy()
    sigma = cfr.solve(ours, 100, cfr.VARIANTS[plan])
    # an average at an information set without own reach is undefined
    come = (
        sum(best_response.policy_gradient(ours, sigma, seat)[0] for seat in range(ours.seats))
        > 1e-9
    )
    assert come.mean() > 0.4
    for row in np.flatnonzero(come):
        for action, p in average.get_state_policy(game.information_state_strings[row]):
            assert abs(sigma[row, action] - p) < 1e-6


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("kuhn_poker", None),
        ("kuhn_poker", "kuhn"),
        ("leduc_poker(suit_isomorphism=true)", "leduc_textbook"),
        ("liars_dice(numdice=1,dice_sides=3)", None),
    ],
)
def test_a_solved_strategy_is_as_exploitable_in_openspiel(game_and_tree, theirs, ours):
    game, their_tree = game_and_tree(f"openspiel/{theirs}")
    words, solved = game.information_state_strings, their_tree
    if ours:
        _, solved = game_and_tree(ours)
        words = matched_information_state_strings(
            their_tree, game.information_state_strings, solved
        )
    sigma = cfr.solve(solved, 200)
    policy = tabular_policy(words, solved.legal, sigma)
    gap = pyspiel.exploitability(load(theirs), policy)
    assert abs(best_response.exploitability(solved, sigma) - gap) < 1e-12
    assert gap < 0.02


def test_chance_outcomes_of_probability_0_have_no_node(tmp_path):
    """Two seats may have equal strings; a strategy of them can be solved, but not exported."""
    (tmp_path / "coin.efg").write_text(
        'EFG 2 R "coin" { "a" "b" } ""\n'
        'c "" 1 "" { "heads" 1/4 "edge" 0 "tails" 3/4 } 0\n'
        'p "" 1 1 "same" { "stop" "ask" } 0\nt "" 1 "" { 1 -1 }\nt "" 2 "" { 2 -2 }\n'
        't "" 3 "" { 100 -100 }\n'
        'p "" 2 1 "same" { "stop" "ask" } 0\nt "" 4 "" { 3 -3 }\nt "" 5 "" { 4 -4 }\n'
    )
    game = OpenSpiel(f"efg_game(filename={tmp_path}/coin.efg)")
    ours = tree.build(game)
    assert ours.chance[ours.parent == 0].tolist() == [0.25, 0.75]
    assert ours.edge[ours.parent == 0].tolist() == [0, 1]
    assert best_response.expected(ours, ours.uniform()).tolist() == [3, -3]
    assert abs(best_response.nash_conv(ours, ours.uniform()) - (0.25 * 0.5 + 0.75 * 0.5)) < 1e-12


def test_strategies_cannot_be_exported_if_two_seats_have_equal_strings():
    with pytest.raises(ValueError, match="two information sets have the same"):
        tabular_policy(["x", "x"], np.ones((2, 1), bool), np.ones((2, 1)))


def test_equal_games_may_pay_on_different_edges(game_and_tree, rng):
    game, theirs = game_and_tree("openspiel/kuhn_poker")
    _, ours = game_and_tree("kuhn")
    words = matched_information_state_strings(theirs, game.information_state_strings, ours)
    advance = np.where(ours.seat[:, None] == END, 0, rng.normal(size=ours.gain.shape))
    gain = ours.gain + advance
    gain[1:] -= advance[ours.parent[1:]]
    assert (
        matched_information_state_strings(
            theirs, game.information_state_strings, dataclasses.replace(ours, gain=gain)
        )
        == words
    )


def test_simultaneous_games_equal_their_turn_based_versions(game_and_tree):
    game, theirs = game_and_tree("openspiel/matrix_brps")
    words = matched_information_state_strings(
        theirs, game.information_state_strings, game_and_tree("brps")[1]
    )
    assert [word.splitlines()[0] for word in words] == ["Current player: 0", "Current player: 1"]


def test_different_games_are_not_equal(game_and_tree):
    game, theirs = game_and_tree("openspiel/kuhn_poker")
    _, ours = game_and_tree("kuhn")
    chance, gain, infoset = ours.chance.copy(), ours.gain.copy(), ours.infoset.copy()
    chance[1] += 1e-6
    gain[-1] += 1e-6
    infoset[infoset == 1] = 0
    coarse = dataclasses.replace(ours, infoset=infoset)
    for wrong, message in (
        (game_and_tree("leduc_textbook")[1], "parent"),
        (dataclasses.replace(ours, edge=ours.edge + 1), "edge"),
        (dataclasses.replace(ours, seat=-ours.seat), "seat"),
        (dataclasses.replace(ours, chance=chance), "chance"),
        (dataclasses.replace(ours, gain=gain), "gains"),
        (coarse, "information sets"),
    ):
        with pytest.raises(ValueError, match=f"the trees differ in .*{message}"):
            matched_information_state_strings(theirs, game.information_state_strings, wrong)
    with pytest.raises(ValueError, match="information sets"):
        matched_information_state_strings(coarse, game.information_state_strings, ours)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("leduc_pokr(players=3)", "unknown game .* did you mean 'openspiel/leduc_poker'"),
        ("", "unknown game 'openspiel/'"),
        ("leduc_poker(playrs=3)", "Unknown parameter 'playrs'. Available .* players"),
        ("leduc_poker(players=77)", "num_players_ = 77"),
        ("leduc_poker(players=2", "Missing closing bracket"),
        ("kuhn_poker(players=many)", "Wrong type for parameter players"),
        ("tiny_hanabi(num_players=5)", "expected_payoff_size = 7776"),
        ("misere", "Missing parameter game"),
        ("skat", "has no information-state strings"),
        ("mfg_garnet", "mean-field"),
        ("tarok", "chance events are sampled"),
    ],
)
def test_games_without_a_tree_are_refused_with_one_line(name, message):
    with pytest.raises(UserError, match=message) as refused:
        overtrick.make(f"openspiel/{name}")
    assert f"openspiel/{name}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_options_are_part_of_the_name():
    with pytest.raises(
        UserError, match=r"takes no options: write 'openspiel/NAME\(option=value\)'"
    ):
        overtrick.make("openspiel/kuhn_poker", players=3)
    with pytest.raises(UserError, match="OpenSpiel's games are openspiel/NAME"):
        overtrick.make("kuhn_poker")


def test_without_openspiel_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(UserError, match=r"pip install 'overtrick\[environments\]'"):
        overtrick.make("openspiel/kuhn_poker")


def test_a_game_with_parameters_is_first_played_by_another_process():
    command = [sys.executable, "-P", str(openspiel_tree.RANDOM_PLAY)]
    subprocess.run(command, input=b"kuhn_poker(players=3)", check=True)
    assert openspiel_random_play.play("kuhn_poker(players=3)") == openspiel_random_play.GAMES


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os; os.abort()", r"OpenSpiel crashes \(Aborted\)"),
        ("import time; time.sleep(60)", "OpenSpiel needs more than 0.1 s for it"),
    ],
)
def test_parameters_that_kill_or_stop_the_other_process_are_refused(
    tmp_path, monkeypatch, program, message
):
    (tmp_path / "play.py").write_text(program)
    monkeypatch.setattr(openspiel_tree, "RANDOM_PLAY", tmp_path / "play.py")
    monkeypatch.setattr(openspiel_tree, "PATIENCE", 5 if "abort" in program else 0.1)
    with pytest.raises(UserError, match=message):
        OpenSpiel(f"kuhn_poker(players=2,{program})")


def test_parameters_that_fail_during_play_are_refused():
    game = OpenSpiel("liars_dice(numdice=0)")
    with pytest.raises(UserError, match="num_dice"):
        game.nodes(at_most(1_000))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *((name, 100_000_000) for name in ("chess", "go", "battleship", "euchre", "bargaining")),
        ("leduc_poker(players=3)", 700_000),  # of 1,831,601: by the mean
        ("nim", 300_000),  # by the mean logarithm
    ],
)
def test_huge_trees_are_refused_before_the_walk(name, most):
    with pytest.raises(UserError, match=r"some \de\+\d+ nodes or more: they do not fit in memory"):
        OpenSpiel(name).nodes(at_most(most))


def test_the_size_of_a_regular_tree_is_estimated_from_its_first_descents():
    with pytest.raises(UserError, match=r"some 3e\+06 nodes or more"):
        OpenSpiel("goofspiel(num_cards=5)").nodes(at_most(3_000_000))  # it has 3,348,301


def test_wide_tables_are_refused_before_the_nodes_are_counted():
    game = OpenSpiel("colored_trails")
    with pytest.raises(UserError, match="information sets of 93,123 actions, or more: they do not"):
        game.nodes(lambda nodes, infosets: nodes + infosets * game.actions < 2_000_000)


def test_a_tree_that_just_fits_is_built_and_one_node_less_is_not(game_and_tree, name):
    game, ours = game_and_tree(f"openspiel/{name}")
    assert len(game.nodes(at_most(ours.nodes)).parent) == ours.nodes
    with pytest.raises(UserError, match="fit in memory"):
        game.nodes(at_most(ours.nodes - 1))


def test_imperfect_recall_is_refused():
    with pytest.raises(ValueError, match="imperfect recall"):
        tree.build(OpenSpiel("liars_dice_ir(dice_sides=3)"))


def test_a_game_is_pickled_by_its_name(game_and_tree, name):
    game, ours = game_and_tree(f"openspiel/{name}")
    packed = pickle.dumps(game)
    assert len(packed) < 150
    unpickled = pickle.loads(packed)
    assert unpickled.name == game.name == f"openspiel/{name}"
    nodes = unpickled.nodes(at_most(ours.nodes))
    assert unpickled.information_state_strings == game.information_state_strings
    for field in dataclasses.fields(nodes):
        if field.name not in ("seats", "observations"):
            assert np.array_equal(getattr(nodes, field.name), getattr(ours, field.name))


def test_a_game_of_perfect_information_needs_no_information_state_strings():
    whole = tree.build(overtrick.make("openspiel/catch(rows=4,columns=3)"))
    assert whole.infosets == (whole.seat >= 0).sum()  # every decision is its own information set
    # the ball can always be caught
    assert best_response.best_response(whole, whole.uniform(), 0)[0] == 1


def test_the_equilibrium_is_an_opponent_in_openspiels_games_too():
    answer = exact_solutions.best_response_to("openspiel/kuhn_poker", "cfr")
    assert np.allclose(answer["values"], [-1 / 18, 1 / 18], atol=1e-4)
