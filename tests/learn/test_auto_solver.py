"""The solver that chooses: exact on small games, one algorithm after a trial, the same result after
a stop, and the choice in commands and models."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick import make
from overtrick.core import UserError
from overtrick.solvers.auto_solver import AutoSolver
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.solvers.scheduled_cfr import VARIANTS, ScheduledCfrSolver
from overtrick.studies import exact_solutions


def exploitability(tree, solver, iterations: int) -> float:
    solver.run(iterations)
    return best_response.exploitability(tree, solver.average())


def test_a_small_zero_sum_game_is_solved_exactly(game_and_tree) -> None:
    _, tree = game_and_tree("kuhn")
    solver = AutoSolver(tree, 100)
    assert exploitability(tree, solver, 1) < 1e-12
    assert solver.reason == "lp: the game has only 12 information sets"


def test_a_game_of_three_seats_is_not_for_the_linear_program() -> None:
    tree = build(make("openspiel/kuhn_poker(players=3)"))
    solver = AutoSolver(tree, 1000)
    assert exploitability(tree, solver, 1000) < 1e-12
    assert solver.chosen == "hs-pdcfr+"


@pytest.mark.parametrize(
    ("iterations", "chosen"), [(100, "pcfr+"), (1000, "sapcfr+"), (10_000, "hs-pdcfr+")]
)
def test_on_leduc_the_choice_depends_on_the_length_of_the_run(
    game_and_tree, iterations: int, chosen: str
) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, iterations)
    reached = exploitability(tree, auto, iterations)
    assert auto.chosen == chosen
    alone = ScheduledCfrSolver(tree, VARIANTS[chosen], iterations)
    assert reached < 1.5 * exploitability(tree, alone, iterations)


@pytest.mark.parametrize("stops", [(1, 99), (4, 6, 30, 60), (99, 1)])
@pytest.mark.parametrize("name", ["leduc_textbook", "kuhn_three"])
def test_a_stopped_and_resumed_run_is_the_same(
    game_and_tree, name: str, stops: tuple[int, ...]
) -> None:
    three = "openspiel/kuhn_poker(players=3)"
    tree = build(make(three)) if name == "kuhn_three" else game_and_tree(name)[1]
    whole, resumed = AutoSolver(tree, 100), AutoSolver(tree, 100)
    whole.run(100)
    for stop in stops:
        before, resumed = resumed, AutoSolver(tree, 100)
        resumed.load(before.state())
        resumed.run(stop)
    assert np.array_equal(whole.average(), resumed.average())
    assert resumed.reason == whole.reason


@pytest.mark.parametrize("horizon", [1, 2, 9, 30])
def test_short_runs_stay_with_the_trial(game_and_tree, horizon: int) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto, alone = AutoSolver(tree, horizon), ScheduledCfrSolver(tree, VARIANTS["pcfr+"], horizon)
    auto.run(horizon), alone.run(horizon)
    assert np.array_equal(auto.average(), alone.average())
    with pytest.raises(UserError, match=f"run of {horizon} iterations: to do {horizon + 1}, solve"):
        auto.run(1)


def test_the_strategy_never_becomes_worse_than_that_of_the_trial(game_and_tree) -> None:
    """hs-pdcfr+ starts after 1,000 of 10,000 iterations."""
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, 10_000)
    at_the_end = exploitability(tree, auto, 1000)
    assert auto.chosen == "hs-pdcfr+"
    assert exploitability(tree, auto, 1) == at_the_end
    resumed = AutoSolver(tree, 10_000)
    resumed.load(auto.state())
    assert exploitability(tree, resumed, 0) == at_the_end
    assert exploitability(tree, resumed, 4000) < at_the_end


def test_a_solution_says_what_was_chosen() -> None:
    found = exact_solutions.solve_game("kuhn", "auto", 10)
    assert found["choice"] == "lp: the game has only 12 information sets"
    assert "choice" not in exact_solutions.solve_game("kuhn", "cfr+", 10)
