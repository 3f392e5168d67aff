"""Arrays that are no strategy of a tree are refused with one line in every function that takes
one."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.evaluation import reference_opponents
from overtrick.games.openspiel_tree import OpenSpiel
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers import cfr, mccfr, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.solvers.lookahead import expectimax_mcts, local_best_response
from overtrick.storage import model_files
from overtrick.studies import exact_solutions
from overtrick.training.registry import JOBS, TRAINERS

RNG = np.random.default_rng(0)

WORK = {
    "expected": best_response.expected,
    "expecteds": lambda tree, sigma: best_response.expected_batch(tree, sigma[None]),
    "reach": best_response.reach,
    "gradient": lambda tree, sigma: best_response.policy_gradient(tree, sigma, 0),
    "edge_probability": best_response.edge_probability,
    "nash_convs": lambda tree, sigma: best_response.nash_conv_batch(tree, sigma[None]),
}
"""These functions check the shape alone, so that a strategy can be varied."""

CHECKED = {
    "best_response": lambda tree, sigma: best_response.best_response(tree, sigma, 0),
    "nash_conv": best_response.nash_conv,
    "expectimax": lambda tree, sigma: expectimax_mcts.expectimax(tree, sigma, 0, 9),
    "mcts": lambda tree, sigma: expectimax_mcts.mcts(tree, sigma, 0, 10, RNG),
    "local_reply": lambda tree, sigma: local_best_response.exact_local_best_response(
        tree, sigma, [tree.uniform()], 0
    ),
    "fallback": lambda tree, sigma: local_best_response.exact_local_best_response(
        tree, tree.uniform(), [sigma], 0
    ),
    "sigma_of": lambda tree, sigma: best_response.sigma_of(tree, [TabularPolicy(sigma)] * 2),
}


@pytest.mark.parametrize("work", [*WORK.values(), *CHECKED.values()], ids=[*WORK, *CHECKED])
@pytest.mark.parametrize("other", ["leduc_textbook", "brps", "one_card"])
def test_a_strategy_for_another_game_is_refused(game_and_tree, work, other):
    _, tree = game_and_tree("kuhn")
    with pytest.raises(UserError, match="for another game"):
        work(tree, game_and_tree(other)[1].uniform())


@pytest.mark.parametrize("work", CHECKED.values(), ids=CHECKED)
@pytest.mark.parametrize("row", [[np.nan, 1], [-0.5, 1.5], [0.5, 0.4]], ids=str)
def test_rows_that_are_no_probabilities_are_refused(game_and_tree, work, row):
    _, tree = game_and_tree("kuhn")
    sigma = tree.uniform()
    sigma[1] = row
    with pytest.raises(UserError, match="row 1 of a strategy must be probabilities"):
        work(tree, sigma)


@pytest.mark.parametrize("error", [9e-6, -9e-6, 1.1e-5, -1.1e-5])
def test_a_row_may_sum_to_1_within_the_rounding_of_float32(game_and_tree, error):
    _, tree = game_and_tree("kuhn")
    sigma = tree.uniform()
    sigma[0, 0] += error
    if abs(error) < 1e-5:
        best_response.check_strategy(tree, sigma)
    else:
        with pytest.raises(UserError, match="row 0"):
            best_response.check_strategy(tree, sigma)


@pytest.mark.parametrize("illegal", [0.5, -0.5, np.nan])
def test_illegal_actions_must_have_probability_0(game_and_tree, illegal):
    _, tree = game_and_tree("leduc_textbook")
    sigma = tree.uniform()
    row = int(np.flatnonzero(~tree.legal.all(axis=1))[0])
    sigma[row, np.flatnonzero(~tree.legal[row])[0]] = illegal
    with pytest.raises(UserError, match=f"row {row}"):
        best_response.check_strategy(tree, sigma)


def test_several_strategies_at_once_are_refused(game_and_tree):
    _, tree = game_and_tree("kuhn")
    with pytest.raises(UserError, match="a strategy has 2 axes, not 3"):
        best_response.nash_conv(tree, tree.uniform()[None])


def test_a_seat_without_a_policy_is_refused(game_and_tree):
    with pytest.raises(UserError, match="row"):
        best_response.sigma_of(game_and_tree("kuhn")[1], [UniformPolicy()])


def test_a_table_cannot_play_a_larger_game(game_and_tree):
    game, _ = game_and_tree("leduc")
    table = TabularPolicy(game_and_tree("kuhn")[1].uniform())
    with pytest.raises(UserError, match="for another game"):
        local_best_response.local_best_response(
            game, table, [UniformPolicy()], 4, np.random.default_rng(0), 2
        )


def save_strategy(folder, game, sigma):
    model_files.save(model_files.Model({"sigma": sigma}, game, {}), folder)
    return str(folder)


TWO = 'p "" {} 1 "{}" {{ "stop" "go" }} 0\nt "" 1 "" {{ 1 -1 }}\n{}'
END = 't "" 2 "" { 2 -2 }\n'


def efg(file, rest):
    file.write_text('EFG 2 R "two" { "a" "b" } ""\n' + rest)
    return f"efg_game(filename={file})"


def test_a_table_for_another_game_of_openspiel_is_refused_by_name(tmp_path):
    """Both games have the same number of information sets and actions."""
    one, two = (
        efg(tmp_path / name, TWO.format(first, 1, TWO.format(second, 2, END)))
        for name, first, second in (("one.efg", 1, 2), ("two.efg", 2, 1))
    )
    exact_solutions.solve_game(f"openspiel/{one}", "cfr", 1, save=tmp_path / "model")
    game = OpenSpiel(two)
    tree = build(game)
    with pytest.raises(UserError, match=r"model plays openspiel/.*one\.efg\), not .*two\.efg"):
        reference_opponents.make_opponent(str(tmp_path / "model"), game, tree)


def test_a_table_is_refused_when_its_game_of_openspiel_has_changed(tmp_path):
    name = efg(tmp_path / "game.efg", TWO.format(1, 1, TWO.format(2, 2, END)))
    exact_solutions.solve_game(f"openspiel/{name}", "cfr", 1, save=tmp_path / "model")
    efg(tmp_path / "game.efg", TWO.format(1, 1, END))
    game = OpenSpiel(name)
    tree = build(game)
    with pytest.raises(UserError, match=r"model is \(2, 2\), but .* has 1 information sets"):
        reference_opponents.make_opponent(str(tmp_path / "model"), game, tree)


def test_an_opponents_probabilities_are_checked_before_any_work(tmp_path, game_and_tree):
    game, tree = game_and_tree("leduc")
    folder = save_strategy(tmp_path / "bad", "leduc", np.full(tree.legal.shape, 0.25))
    content = {"trainer": "exploit", "game": "leduc", "exploit": {"opponent": folder}}
    message = "the model in .*bad: row 0 of a strategy must be probabilities of legal actions"
    with pytest.raises(UserError, match=message):
        TRAINERS["exploit"].validate(job_file.parse(content, JOBS, "this test"))
    content = {"trainer": "meta", "game": "leduc", "evaluate": {"opponents": [folder]}}
    with pytest.raises(UserError, match=message):
        TRAINERS["meta"].validate(job_file.parse(content, JOBS, "this test"))
    with pytest.raises(UserError, match=message):
        reference_opponents.make_opponent(folder, game, tree)


@pytest.mark.parametrize(
    ("rest", "worth"),
    [
        ('c "" 1 "" { "heads" 1/4 "tails" 3/4 } 0\nt "" 1 "" { 1 -1 }\nt "" 2 "" { 2 -2 }\n', 1.75),
        ('t "" 1 "" { 1 -1 }\n', 1.0),
    ],
    ids=["chance alone", "an end alone"],
)
def test_the_value_of_a_game_without_decisions_is_its_mean_over_chance(tmp_path, rest, worth):
    tree = build(OpenSpiel(efg(tmp_path / "game.efg", rest)))
    sigma = cfr.solve(tree, 10)
    assert sigma.shape == (0, 0)
    assert mccfr.solve(tree, 10, mccfr.OUTCOME, np.random.default_rng(0)).shape == (0, 0)
    assert best_response.expected(tree, sigma).tolist() == [worth, -worth]
    assert best_response.nash_conv(tree, sigma) == 0
    assert best_response.policy_gradient(tree, sigma, 0)[0].shape == (0,)
    assert sequence_form.equilibrium(tree)[0] == pytest.approx(worth)
    for seat, won in enumerate((worth, -worth)):
        assert best_response.best_response(tree, sigma, seat)[0] == won
        assert expectimax_mcts.expectimax(tree, sigma, seat, 0).value == won
        assert local_best_response.exact_local_best_response(tree, sigma, [sigma], seat)[0] == won
        found = expectimax_mcts.mcts(tree, sigma, seat, 10_000, np.random.default_rng(0))
        assert abs(found.value - won) < 0.03  # 5 standard errors
