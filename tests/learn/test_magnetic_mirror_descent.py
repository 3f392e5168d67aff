"""Magnetic mirror descent: equality with OpenSpiel's implementation, quantal response equilibria,
and the last strategy of the annealed form."""

from __future__ import annotations

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms.mmd_dilated import MMDDilatedEnt

from overtrick import make
from overtrick.core import UserError
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.solvers.magnetic_mirror_descent import MirrorDescentSolver


def test_it_equals_openspiels_implementation() -> None:
    game = make("openspiel/kuhn_poker")
    tree = build(game)
    ours, theirs = (
        MirrorDescentSolver(tree, 0.1),
        MMDDilatedEnt(pyspiel.load_game("kuhn_poker"), 0.1),
    )
    for _ in range(30):
        ours.run(1)
        theirs.update_sequences()
        assert ours.qre_gap() == pytest.approx(theirs.get_gap(), abs=1e-12)
    policy, strategy = theirs.get_policies(), ours.average()
    for row, name in enumerate(game.information_state_strings):
        expected = policy.policy_for_key(name)
        assert strategy[row][tree.legal[row]] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "temperature"), [("kuhn", 0.1), ("leduc", 0.1), ("leduc", 1)])
def test_a_fixed_temperature_converges_to_its_equilibrium(
    game_and_tree, name: str, temperature: float
) -> None:
    _, tree = game_and_tree(name)
    solver = MirrorDescentSolver(tree, temperature)
    assert solver.qre_gap() > 0.01
    solver.run(2000)
    assert solver.qre_gap() < 1e-8


def test_one_decision_is_a_softmax_of_its_points() -> None:
    """Biased rock, paper, scissors: each strategy is the softmax of its action values."""
    tree = build(make("brps"))
    solver = MirrorDescentSolver(tree, 10)
    solver.run(5000)
    sigma = solver.average()
    assert np.abs(sigma - tree.uniform()).max() > 0.1
    for seat in range(2):
        points = best_response.conditional_action_values(tree, sigma, seat)[0]
        row = np.flatnonzero(tree.observations.seat == seat)
        answer = np.exp(points[row] / 10)
        assert sigma[row] == pytest.approx(answer / answer.sum(), abs=1e-9)


def test_a_high_temperature_plays_every_reduced_pure_strategy_alike(game_and_tree) -> None:
    """In Kuhn poker seat 0 has with each card: bet; check and fold; check and call."""
    _, tree = game_and_tree("kuhn")
    solver = MirrorDescentSolver(tree, 1000)
    solver.run(100)
    first = (tree.observations.seat == 0) & (tree.stage == 0)
    assert solver.average()[first] == pytest.approx(np.tile([2 / 3, 1 / 3], (3, 1)), abs=1e-3)
    assert solver.average()[~first] == pytest.approx(tree.uniform()[~first], abs=1e-3)


def test_a_low_temperature_is_close_to_a_nash_equilibrium(game_and_tree) -> None:
    _, tree = game_and_tree("kuhn")
    solver = MirrorDescentSolver(tree, 0.01)
    solver.run(20_000)
    assert solver.qre_gap() < 1e-8
    assert best_response.exploitability(tree, solver.average()) < 0.01


@pytest.mark.parametrize(
    ("name", "iterations", "gap"), [("kuhn", 1000, 1e-3), ("leduc", 3000, 0.02)]
)
def test_the_last_annealed_strategy_approaches_an_equilibrium(
    game_and_tree, name: str, iterations: int, gap: float
) -> None:
    _, tree = game_and_tree(name)
    solver = MirrorDescentSolver(tree)
    solver.run(iterations)
    assert best_response.exploitability(tree, solver.average()) < gap


def test_a_stopped_and_resumed_run_is_the_same(game_and_tree) -> None:
    _, tree = game_and_tree("kuhn")
    whole, stopped, resumed = (MirrorDescentSolver(tree) for _ in range(3))
    whole.run(50)
    stopped.run(20)
    resumed.load(stopped.state())
    resumed.run(30)
    assert np.array_equal(whole.average(), resumed.average())


def test_other_games_and_temperatures_are_refused(game_and_tree) -> None:
    _, tree = game_and_tree("kuhn")
    with pytest.raises(UserError, match="the temperature must be 1e-06 to 1e\\+06, not -1"):
        MirrorDescentSolver(tree, -1)
    three = build(make("openspiel/kuhn_poker(players=3)"))
    with pytest.raises(UserError, match="magnetic mirror descent needs 2 seats"):
        MirrorDescentSolver(three)
