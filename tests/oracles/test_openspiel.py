"""Trees, values and solvers beside OpenSpiel's, on the same games."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyspiel
import pytest

from overtrick.core import END
from overtrick.games.openspiel_tree import matched_information_state_strings, tabular_policy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response

TWINS = {
    "kuhn": ("kuhn_poker", "kuhn", {}),
    "three": ("kuhn_poker(players=3)", "kuhn_three", {}),
    "folded": ("leduc_poker(suit_isomorphism=true)", "leduc_textbook", {}),
    "unfolded": ("leduc_poker", "leduc_textbook", {"fold": False}),
}
"""The same game by OpenSpiel's name, by ours, and with our options."""


@dataclass
class Twins:
    """A game of OpenSpiel and ours with equal trees."""

    theirs: pyspiel.Game
    tree: object
    their_tree: object
    words: tuple  # (N,) OpenSpiel's string for each of our information sets

    def policy(self, sigma):
        """Return a strategy (N, A) as a policy of OpenSpiel."""
        return tabular_policy(self.words, self.tree.legal, sigma)

    def sigma(self, policy):
        """Return a policy of OpenSpiel as a strategy (N, A)."""
        sigma = np.zeros(self.tree.legal.shape)
        for row, word in enumerate(self.words):
            for action, p in policy.get_state_policy(word):
                sigma[row, action] = p
        return sigma


def gain_from_root(tree, node):
    """Return (S,) the points gained from the root to a node."""
    total = np.zeros(tree.seats)
    while node >= 0:
        total += tree.gain[node]
        node = tree.parent[node]
    return total


@pytest.fixture(scope="module", params=TWINS)
def twins(request, game_and_tree):
    theirs, ours, options = TWINS[request.param]
    door, their_tree = game_and_tree(f"openspiel/{theirs}")
    _, tree = game_and_tree(ours, **options)
    words = matched_information_state_strings(their_tree, door.information_state_strings, tree)
    return Twins(pyspiel.load_game(theirs), tree, their_tree, words)


def test_the_trees_are_equal_node_by_node(twins):
    """test_openspiel_trees.py compares the converted tree with OpenSpiel's game. Actions have the
    same indices in both games; cards are ordered from the lowest rank up, hole card of seat 0
    first."""
    ours, theirs = twins.tree, twins.their_tree
    for name in ("parent", "edge", "seat"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert np.abs(ours.chance - theirs.chance).max() < 1e-15
    for end in np.flatnonzero(ours.seat == END):
        assert np.abs(gain_from_root(ours, end) - theirs.gain[end]).max() < 1e-12
    assert len(set(twins.words)) == len(twins.words) == ours.infosets


@pytest.mark.parametrize(
    ("name", "options", "nodes", "infosets"),
    [
        ("kuhn", {}, 58, 12),
        ("leduc_textbook", {"fold": False}, 9_457, 936),
        ("leduc_textbook", {"fold": True}, 1_939, 288),
    ],
)
def test_trees_have_the_sizes_of_openspiels(game_and_tree, name, options, nodes, infosets):
    game, tree = game_and_tree(name, **options)
    assert tree.nodes == nodes
    assert tree.infosets == game.infosets == infosets


def test_strategies_have_the_same_values(twins, rng, some_strategies):
    root = twins.theirs.new_initial_state()
    for sigma in some_strategies(twins.tree, rng, 19):
        theirs = pyspiel.expected_returns(root, twins.policy(sigma), -1, False)
        assert np.abs(best_response.expected(twins.tree, sigma) - theirs).max() < 1e-9


def test_best_responses_have_the_same_values(twins, rng, some_strategies):
    root = twins.theirs.new_initial_state()
    for sigma in some_strategies(twins.tree, rng, 19):
        policy = twins.policy(sigma)
        for seat in range(2):
            best, reply = best_response.best_response(twins.tree, sigma, seat)
            theirs = pyspiel.TabularBestResponse(twins.theirs, seat, policy).value_from_state(root)
            assert abs(best - theirs) < 1e-9
            assert abs(best_response.expected(twins.tree, reply)[seat] - theirs) < 1e-9


def test_nash_conv_and_exploitability_are_equal(twins, rng, some_strategies):
    for sigma in some_strategies(twins.tree, rng, 19):
        policy = twins.policy(sigma)
        gap = pyspiel.nash_conv(twins.theirs, policy)
        assert abs(best_response.nash_conv(twins.tree, sigma) - gap) < 1e-9
        exploitability = pyspiel.exploitability(twins.theirs, policy)
        assert abs(best_response.exploitability(twins.tree, sigma) - exploitability) < 1e-9


def run_openspiels(twins, solver, iterations):
    """Return the average strategy of OpenSpiel's solver after some iterations, and its
    exploitability."""
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    average = solver.average_policy()
    return average, pyspiel.exploitability(twins.theirs, average)


@pytest.mark.parametrize("plan", ["cfr", "cfr+"])
def test_solvers_equal_openspiels_for_the_first_100_iterations(twins, plan):
    solver = {"cfr": pyspiel.CFRSolver, "cfr+": pyspiel.CFRPlusSolver}[plan](twins.theirs)
    average, theirs = run_openspiels(twins, solver, 100)
    ours = cfr.solve(twins.tree, 100, cfr.VARIANTS[plan])
    exploitability = best_response.exploitability(twins.tree, ours)
    assert abs(exploitability - theirs) < 1e-6 * theirs
    # an average at an information set without own reach is undefined
    come = sum(best_response.policy_gradient(twins.tree, ours, seat)[0] for seat in range(2)) > 1e-9
    assert np.abs(ours - twins.sigma(average))[come].max() < 1e-6


@pytest.mark.parametrize("twins", ["kuhn", "folded"], indirect=True)
def test_cfr_plus_is_as_close_as_openspiels_after_1_000_iterations(twins):
    _, theirs = run_openspiels(twins, pyspiel.CFRPlusSolver(twins.theirs), 1000)
    ours = best_response.exploitability(twins.tree, cfr.solve(twins.tree, 1000, cfr.CFR_PLUS))
    assert ours <= theirs * (1 + 1e-6)


def test_biased_rock_paper_scissors_has_openspiels_payoffs(game_and_tree):
    theirs = pyspiel.load_matrix_game("matrix_brps")
    game, tree = game_and_tree("brps")
    rows = np.array([[theirs.row_utility(r, c) for c in range(3)] for r in range(3)])
    columns = np.array([[theirs.col_utility(r, c) for c in range(3)] for r in range(3)])
    assert np.array_equal(game.payoff, rows)
    assert np.array_equal(-game.payoff, columns)
    assert [theirs.row_action_name(a).lower() for a in range(3)] == list(game.action_names)
    for r in range(3):
        for c in range(3):
            pure = np.eye(3)[[r, c]]
            assert best_response.expected(tree, pure).tolist() == [rows[r, c], columns[r, c]]


def test_the_equilibrium_of_biased_rock_paper_scissors_cannot_be_exploited(game_and_tree):
    _, tree = game_and_tree("brps")
    sigma = np.tile(np.array([1, 10, 5]) / 16, (2, 1))
    assert abs(best_response.nash_conv(tree, sigma)) < 1e-12
    assert best_response.nash_conv(tree, tree.uniform()) > 10
