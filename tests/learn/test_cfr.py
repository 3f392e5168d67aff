"""Variants of CFR: equality with OpenSpiel's at every iteration, and rates of convergence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import cfr as openspiel_cfr
from open_spiel.python.algorithms import discounted_cfr

from overtrick import make
from overtrick.games import openspiel_tree
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build

THEIRS = {
    "cfr": openspiel_cfr.CFRSolver,
    "cfr+": openspiel_cfr.CFRPlusSolver,
    "linear": discounted_cfr.LCFRSolver,
    "dcfr": discounted_cfr.DCFRSolver,
}
"""OpenSpiel's solvers in Python, which have more variants than the C++ ones."""


@pytest.fixture(scope="module")
def kuhn():
    game = make("openspiel/kuhn_poker")
    return game, build(game)


def average_of(solver, tree, words):
    """Return the average strategy of an OpenSpiel solver in our order, (N, A)."""
    policy = solver.average_policy()
    sigma = np.zeros(tree.legal.shape)
    for row, word in enumerate(words):
        sigma[row] = policy.policy_for_key(word)
    return sigma


@pytest.mark.parametrize("plan", sorted(THEIRS))
def test_a_variant_equals_openspiels_after_each_of_30_iterations(kuhn, plan):
    game, tree = kuhn
    ours, theirs = (
        cfr.CfrSolver(tree, cfr.VARIANTS[plan]),
        THEIRS[plan](pyspiel.load_game("kuhn_poker")),
    )
    for _ in range(30):
        ours.run(1)
        theirs.evaluate_and_update_policy()
        gap = np.abs(ours.average() - average_of(theirs, tree, game.information_state_strings))
        assert gap.max() < 1e-9


class SimultaneousDiscounts(discounted_cfr._DCFRSolver):
    """OpenSpiel's discounting solver with simultaneous updates, composed of its own methods."""

    def evaluate_and_update_policy(self):
        self._iteration += 1
        reach = np.ones(self._num_players + 1)
        self._compute_counterfactual_regret_for_player(self._root_node, None, reach, None)
        for node in self._info_state_nodes.values():
            for action, regret in node.cumulative_regret.items():
                power = float(self._iteration) ** (self.alpha if regret > 0 else self.beta)
                node.cumulative_regret[action] *= power / (power + 1)
        openspiel_cfr._update_current_policy(self._current_policy, self._info_state_nodes)


AT_ONCE = {
    "cfr": lambda game: openspiel_cfr._CFRSolver(game, False, False, False),
    "cfr+": lambda game: openspiel_cfr._CFRSolver(game, False, True, True),
    "linear": lambda game: SimultaneousDiscounts(
        game, False, True, False, alpha=1, beta=1, gamma=1
    ),
    "dcfr": lambda game: SimultaneousDiscounts(
        game, False, True, False, alpha=1.5, beta=0, gamma=2
    ),
}
"""Alternating updates, linear averaging and regret matching plus are their three flags."""


@pytest.mark.parametrize("plan", sorted(AT_ONCE))
def test_a_simultaneous_variant_equals_openspiels(kuhn, plan):
    game, tree = kuhn
    theirs = AT_ONCE[plan](pyspiel.load_game("kuhn_poker"))
    ours = cfr.CfrSolver(tree, cfr.VARIANTS[f"{plan}-simultaneous"])
    for _ in range(30):
        ours.run(1)
        theirs.evaluate_and_update_policy()
        assert (
            np.abs(ours.average() - average_of(theirs, tree, game.information_state_strings)).max()
            < 1e-9
        )


@pytest.mark.parametrize("plan", sorted(THEIRS))
def test_every_variant_is_alternating_or_simultaneous(plan):
    at_once = replace(cfr.VARIANTS[plan], alternate=False)
    assert cfr.VARIANTS[plan].alternate
    assert cfr.VARIANTS[f"{plan}-simultaneous"] == at_once
    assert set(cfr.VARIANTS) == {f"{name}{way}" for name in THEIRS for way in ("", "-simultaneous")}


def test_extreme_discount_exponents_keep_or_drop_everything(game_and_tree):
    """1^x / (1^x + 1) is a half whatever x, so only the first iteration differs."""
    _, tree = game_and_tree("leduc")
    for power in (30, 400, 4000):
        plain, plus = cfr.CfrVariant(power, power, 0), cfr.CfrVariant(power, -power, 1)
        assert abs(gap(tree, plain, 300) / gap(tree, cfr.CFR, 300) - 1) < 0.2
        assert gap(tree, plus, 300) < 2 * gap(tree, cfr.CFR_PLUS, 300)


def gap(tree, plan, iterations):
    return best_response.exploitability(tree, cfr.solve(tree, iterations, plan))


@pytest.mark.parametrize("name", sorted(cfr.VARIANTS))
def test_every_variant_keeps_the_published_bound(game_and_tree, name):
    """Exploitability falls at least as fast as 1 / sqrt(T) (Zinkevich et al. 2007, theorem 4)."""
    _, tree = game_and_tree("leduc_textbook")
    plan = cfr.VARIANTS[name]
    assert gap(tree, plan, 3_200) < gap(tree, plan, 50) / 64**0.5


def test_discounted_cfr_and_cfr_plus_are_much_faster_than_cfr(game_and_tree):
    """By orders of magnitude (Brown and Sandholm 2019, figures 1 and 2)."""
    _, tree = game_and_tree("leduc_textbook")
    plain = gap(tree, cfr.CFR, 2_000)
    assert gap(tree, cfr.CFR_PLUS, 2_000) < plain / 10
    assert gap(tree, cfr.DISCOUNTED, 2_000) < plain / 10


@pytest.mark.parametrize("name", sorted(cfr.VARIANTS))
def test_a_run_in_two_parts_equals_one_run(game_and_tree, name):
    _, tree = game_and_tree("kuhn")
    parts, one = (cfr.CfrSolver(tree, cfr.VARIANTS[name]) for _ in range(2))
    parts.run(7)
    loaded = cfr.CfrSolver(tree, cfr.VARIANTS[name])
    loaded.load(parts.state())
    loaded.run(13)
    one.run(20)
    assert (loaded.average() == one.average()).all()


def test_a_strategy_converts_to_openspiel_and_back(kuhn):
    game, tree = kuhn
    sigma = cfr.solve(tree, 100)
    policy = openspiel_tree.tabular_policy(game.information_state_strings, tree.legal, sigma)
    theirs = pyspiel.exploitability(pyspiel.load_game("kuhn_poker"), policy)
    assert abs(theirs - best_response.exploitability(tree, sigma)) < 1e-12
