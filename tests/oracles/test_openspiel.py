"""Trees, values and solvers against OpenSpiel, on the same games."""

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
"""The same game under OpenSpiel's name, under ours, and our options."""


@dataclass
class Twins:
    """A game of OpenSpiel and ours, node by node the same."""

    theirs: pyspiel.Game
    tree: object
    their_tree: object
    words: tuple  # (N,) their string for each of our information sets

    def policy(self, sigma):
        """A strategy (N, A) as OpenSpiel takes it."""
        return tabular_policy(self.words, self.tree.legal, sigma)

    def sigma(self, policy):
        """A policy of OpenSpiel's as a strategy (N, A)."""
        sigma = np.zeros(self.tree.legal.shape)
        for row, word in enumerate(self.words):
            for action, p in policy.get_state_policy(word):
                sigma[row, action] = p
        return sigma


def gain_on_the_way(tree, node):
    """(S,) points gained from the root to a node."""
    total = np.zeros(tree.seats)
    while node >= 0:
        total += tree.gain[node]
        node = tree.parent[node]
    return total


@pytest.fixture(scope="module", params=TWINS)
def twins(request, whole):
    theirs, ours, options = TWINS[request.param]
    door, their_tree = whole(f"openspiel/{theirs}")
    _, tree = whole(ours, **options)
    words = matched_information_state_strings(their_tree, door.information_state_strings, tree)
    return Twins(pyspiel.load_game(theirs), tree, their_tree, words)


def test_the_trees_are_the_same_node_by_node(twins):
    """Their tree is OpenSpiel's by test_openspiel_trees.py. Actions have the same numbers in both
    games; cards come from the lowest rank up, hole card of seat 0 first."""
    ours, theirs = twins.tree, twins.their_tree
    for name in ("parent", "edge", "seat"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert np.abs(ours.chance - theirs.chance).max() < 1e-15
    for end in np.flatnonzero(ours.seat == END):
        assert np.abs(gain_on_the_way(ours, end) - theirs.gain[end]).max() < 1e-12
    assert len(set(twins.words)) == len(twins.words) == ours.infosets


@pytest.mark.parametrize(
    ("name", "options", "nodes", "infosets"),
    [
        ("kuhn", {}, 58, 12),
        ("leduc_textbook", {"fold": False}, 9_457, 936),
        ("leduc_textbook", {"fold": True}, 1_939, 288),
    ],
)
def test_trees_have_the_sizes_of_openspiels(whole, name, options, nodes, infosets):
    game, tree = whole(name, **options)
    assert tree.nodes == nodes
    assert tree.infosets == game.infosets == infosets


def test_strategies_are_worth_the_same(twins, rng, some_strategies):
    root = twins.theirs.new_initial_state()
    for sigma in some_strategies(twins.tree, rng, 19):
        theirs = pyspiel.expected_returns(root, twins.policy(sigma), -1, False)
        assert np.abs(best_response.expected(twins.tree, sigma) - theirs).max() < 1e-9


def test_best_responses_are_worth_the_same(twins, rng, some_strategies):
    root = twins.theirs.new_initial_state()
    for sigma in some_strategies(twins.tree, rng, 19):
        policy = twins.policy(sigma)
        for seat in range(2):
            best, reply = best_response.best_response(twins.tree, sigma, seat)
            theirs = pyspiel.TabularBestResponse(twins.theirs, seat, policy).value_from_state(root)
            assert abs(best - theirs) < 1e-9
            assert abs(best_response.expected(twins.tree, reply)[seat] - theirs) < 1e-9


def test_nash_conv_and_exploitability_are_the_same(twins, rng, some_strategies):
    for sigma in some_strategies(twins.tree, rng, 19):
        policy = twins.policy(sigma)
        gap = pyspiel.nash_conv(twins.theirs, policy)
        assert abs(best_response.nash_conv(twins.tree, sigma) - gap) < 1e-9
        exploitability = pyspiel.exploitability(twins.theirs, policy)
        assert abs(best_response.exploitability(twins.tree, sigma) - exploitability) < 1e-9


def run_theirs(twins, solver, iterations):
    """Their average strategy after some iterations, and its exploitability."""
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    average = solver.average_policy()
    return average, pyspiel.exploitability(twins.theirs, average)


@pytest.mark.parametrize("plan", ["cfr", "cfr+"])
def test_solvers_are_openspiels_for_the_first_100_iterations(twins, plan):
    solver = {"cfr": pyspiel.CFRSolver, "cfr+": pyspiel.CFRPlusSolver}[plan](twins.theirs)
    average, theirs = run_theirs(twins, solver, 100)
    ours = cfr.solve(twins.tree, 100, cfr.VARIANTS[plan])
    exploitability = best_response.exploitability(twins.tree, ours)
    assert abs(exploitability - theirs) < 1e-6 * theirs
    # where a seat itself never goes, an average means nothing
    come = sum(best_response.policy_gradient(twins.tree, ours, seat)[0] for seat in range(2)) > 1e-9
    assert np.abs(ours - twins.sigma(average))[come].max() < 1e-6


@pytest.mark.parametrize("twins", ["kuhn", "folded"], indirect=True)
def test_a_thousand_iterations_of_cfr_plus_come_as_close_as_openspiels(twins):
    _, theirs = run_theirs(twins, pyspiel.CFRPlusSolver(twins.theirs), 1000)
    ours = best_response.exploitability(twins.tree, cfr.solve(twins.tree, 1000, cfr.CFR_PLUS))
    assert ours <= theirs * (1 + 1e-6)


def test_biased_rock_paper_scissors_has_openspiels_payoffs(whole):
    theirs = pyspiel.load_matrix_game("matrix_brps")
    game, tree = whole("brps")
    rows = np.array([[theirs.row_utility(r, c) for c in range(3)] for r in range(3)])
    columns = np.array([[theirs.col_utility(r, c) for c in range(3)] for r in range(3)])
    assert np.array_equal(game.payoff, rows)
    assert np.array_equal(-game.payoff, columns)
    assert [theirs.row_action_name(a).lower() for a in range(3)] == list(game.action_names)
    for r in range(3):
        for c in range(3):
            pure = np.eye(3)[[r, c]]
            assert best_response.expected(tree, pure).tolist() == [rows[r, c], columns[r, c]]


def test_the_equilibrium_of_biased_rock_paper_scissors_cannot_be_exploited(whole):
    _, tree = whole("brps")
    sigma = np.tile(np.array([1, 10, 5]) / 16, (2, 1))
    assert abs(best_response.nash_conv(tree, sigma)) < 1e-12
    assert best_response.nash_conv(tree, tree.uniform()) > 10
