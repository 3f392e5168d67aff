"""The solver that chooses: exact on small games, one algorithm after a trial, the same result after
a stop, and the choice in commands and models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from overtrick import make
from overtrick.core import UserError
from overtrick.solvers.auto_solver import AutoSolver
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.solvers.scheduled_cfr import (
    AVERAGES,
    VARIANTS,
    BestAverageSolver,
    ScheduledCfrSolver,
)
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
    assert solver.chosen == "pdcfr+"


@pytest.mark.parametrize(
    ("iterations", "chosen"), [(100, "pdcfr+"), (1000, "sapdcfr+"), (10_000, "sapdcfr+")]
)
def test_on_leduc_it_is_as_good_as_the_variant_that_it_chooses(
    game_and_tree, iterations: int, chosen: str
) -> None:
    """It has several averages, and 19 of 20 iterations of a long run."""
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, iterations)
    reached = exploitability(tree, auto, iterations)
    assert auto.chosen == chosen
    alone = ScheduledCfrSolver(tree, VARIANTS[chosen], iterations)
    assert reached < 1.25 * exploitability(tree, alone, iterations)


@pytest.mark.parametrize("stops", [(1, 999), (40, 20, 41, 300, 599), (999, 1)])
@pytest.mark.parametrize("name", ["leduc_textbook", "kuhn_three"])
def test_a_stopped_and_resumed_run_is_the_same(
    game_and_tree, name: str, stops: tuple[int, ...]
) -> None:
    three = "openspiel/kuhn_poker(players=3)"
    tree = build(make(three)) if name == "kuhn_three" else game_and_tree(name)[1]
    whole, resumed = AutoSolver(tree, 1000), AutoSolver(tree, 1000)
    whole.run(1000)
    for stop in stops:
        before, resumed = resumed, AutoSolver(tree, 1000)
        resumed.load(before.state())
        resumed.run(stop)
    assert np.array_equal(whole.average(), resumed.average())
    assert resumed.reason == whole.reason


@pytest.mark.parametrize("horizon", [1, 2, 9, 30])
def test_short_runs_have_no_trial(game_and_tree, horizon: int) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto, alone = AutoSolver(tree, horizon), BestAverageSolver(tree, VARIANTS["pdcfr+"], horizon)
    auto.run(horizon), alone.run(horizon)
    assert np.array_equal(auto.average(), alone.average())
    with pytest.raises(UserError, match=f"run of {horizon} iterations: to do {horizon + 1}, solve"):
        auto.run(1)


def test_during_the_trial_the_strategy_is_that_of_the_first_variant(game_and_tree) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, 2000)
    after_its_trial = exploitability(tree, auto, 100)
    assert exploitability(tree, auto, 50) == after_its_trial
    assert "has not ended" in auto.reason


class Reached(BestAverageSolver):
    """Solver that has reached a given exploitability."""

    gap = 0.0

    def best_average(self):
        return "2", self.tree.uniform(), self.gap


@pytest.mark.parametrize(
    ("cautious", "predictive", "chosen"),
    [
        (0.1, 0.06, "sapdcfr+"),
        (0.1, 0.05, "pdcfr+"),  # clearly better
        (0.001, 0.01, "pdcfr+"),  # a long run: uniform play has 2.37, and 2 / 1000 of it is 0.0047
        (0.005, 0.01, "sapdcfr+"),
    ],
)
def test_the_choice_after_the_trial(game_and_tree, cautious, predictive, chosen) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, 1000)
    for name, gap in (("sapdcfr+", cautious), ("pdcfr+", predictive)):
        auto.solvers[name] = Reached(tree, VARIANTS[name], 1000)
        auto.solvers[name].gap = gap
    auto.run(99)
    assert auto.chosen is None
    auto.run(1)
    assert auto.chosen == chosen
    assert auto.reason.startswith(chosen)


def test_the_least_exploitable_average_is_returned(game_and_tree) -> None:
    """Every average is that of a run with its exponent alone, whose regrets are the same."""
    _, tree = game_and_tree("leduc_textbook")
    several = BestAverageSolver(tree, VARIANTS["sapdcfr+"], 200)
    several.run(200)
    gaps = {}
    for name, gamma in AVERAGES.items():
        one = ScheduledCfrSolver(tree, replace(VARIANTS["sapdcfr+"], gamma=gamma), 200)
        gaps[name] = exploitability(tree, one, 200)
        assert np.array_equal(one.regret, several.regret)
    best, strategy, gap = several.best_average()
    assert best == min(gaps, key=gaps.__getitem__)
    assert gap == gaps[best] == best_response.exploitability(tree, strategy)
    assert len(set(gaps.values())) == len(AVERAGES)


def test_no_iterations_reach_the_solver_so_that_its_kernels_are_compiled(game_and_tree) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto, asked = AutoSolver(tree, 1000), []
    auto.solvers["sapdcfr+"].run = asked.append
    auto.run(0)
    assert asked == [0]


def test_the_strategy_does_not_become_worse_at_the_choice(game_and_tree) -> None:
    _, tree = game_and_tree("leduc_textbook")
    auto = AutoSolver(tree, 1000)
    auto.solvers["sapdcfr+"] = Reached(tree, VARIANTS["sapdcfr+"], 950)
    auto.solvers["sapdcfr+"].gap = 0.001  # pdcfr+ has more after its trial
    auto.run(100)
    assert auto.chosen == "pdcfr+"
    assert np.array_equal(auto.average(), tree.uniform())
    auto.solvers["sapdcfr+"].gap = 1.0
    assert not np.array_equal(auto.average(), tree.uniform())


def test_a_solution_says_what_was_chosen() -> None:
    found = exact_solutions.solve_game("kuhn", "auto", 10)
    assert found["choice"] == "lp: the game has only 12 information sets"
    assert "choice" not in exact_solutions.solve_game("kuhn", "cfr+", 10)
