"""The equilibrium by linear programming is exact, and iterative solvers converge to its value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from overtrick.core import UserError
from overtrick.games.matrix import Matrix
from overtrick.solvers import cfr, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build

GAMES = ("brps", "kuhn", "one_card", "leduc", "leduc_textbook")


@pytest.mark.parametrize("name", GAMES)
def test_the_equilibrium_of_the_linear_program_cannot_be_exploited(game_and_tree, name):
    _, tree = game_and_tree(name)
    worth, sigma = sequence_form.equilibrium(tree)
    assert best_response.nash_conv(tree, sigma) < 1e-9
    assert abs(best_response.expected(tree, sigma)[0] - worth) < 1e-9


@pytest.mark.parametrize(
    ("name", "published"),
    [("kuhn", -1 / 18), ("brps", 0), ("one_card", -0.064), ("leduc_textbook", -0.085606424078)],
)
def test_the_value_is_the_published_one(game_and_tree, name, published):
    """Kuhn 1950; Koller and Pfeffer 1997; Lanctot's thesis for Leduc (-0.0856)."""
    digits = 5e-4 if name == "one_card" else 1e-9
    assert abs(sequence_form.equilibrium(game_and_tree(name)[1])[0] - published) < digits


def test_biased_rock_paper_scissors_is_played_1_10_5(game_and_tree):
    _, sigma = sequence_form.equilibrium(game_and_tree("brps")[1])
    assert np.abs(sigma - np.array([1, 10, 5]) / 16).max() < 1e-9


def security_value(payoff):
    """Return the value that the row player of a matrix can secure, by the textbook's linear
    program."""
    rows, columns = payoff.shape
    found = linprog(
        np.append(np.zeros(rows), -1),
        A_ub=np.hstack([-payoff.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=[[1] * rows + [0]],
        b_eq=[1],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    return -found.fun


def test_random_matrix_games_have_the_value_of_the_textbooks_program(rng):
    for _ in range(20):
        actions = int(rng.integers(2, 7))
        payoff = rng.normal(size=(actions, actions))
        names = tuple(f"action {a}" for a in range(actions))
        tree = build(Matrix("random", tuple(map(tuple, payoff.tolist())), names))
        worth, sigma = sequence_form.equilibrium(tree)
        assert abs(worth - security_value(payoff)) < 1e-9
        assert best_response.nash_conv(tree, sigma) < 1e-9


@pytest.mark.parametrize("plan", sorted(cfr.VARIANTS))
@pytest.mark.parametrize("name", ["brps", "kuhn", "leduc_textbook"])
def test_every_variant_approaches_the_linear_programs_value(game_and_tree, name, plan):
    _, tree = game_and_tree(name)
    worth, _ = sequence_form.equilibrium(tree)
    sigma = cfr.solve(tree, 2_000, cfr.VARIANTS[plan])
    values, gap = best_response.expected(tree, sigma), best_response.nash_conv(tree, sigma)
    span = np.abs(tree.gain).max()
    assert gap / span < 0.02
    assert abs(values[0] - worth) <= gap + 1e-9


def test_a_game_that_is_not_zero_sum_is_refused(game_and_tree):
    _, tree = game_and_tree("kuhn")
    paid = tree.gain.copy()
    paid[-1] += 1
    with pytest.raises(UserError, match="zero-sum"):
        sequence_form.equilibrium(type(tree)(**{**fields(tree), "gain": paid}))


def fields(tree):
    return {name: getattr(tree, name) for name in tree.__dataclass_fields__}
