"""Plans of regret minimisation: what each is, step by step, and how fast each comes near."""

from __future__ import annotations

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import cfr as openspiel_cfr
from open_spiel.python.algorithms import discounted_cfr

from overtrick import make
from overtrick.games import openspiel
from overtrick.solvers import cfr, value
from overtrick.solvers.tree import build

THEIRS = {
    "cfr": openspiel_cfr.CFRSolver,
    "cfr+": openspiel_cfr.CFRPlusSolver,
    "linear": discounted_cfr.LCFRSolver,
    "dcfr": discounted_cfr.DCFRSolver,
}
"""OpenSpiel's solvers in Python, which know more variants than those in C++."""


@pytest.fixture(scope="module")
def kuhn():
    game = make("openspiel/kuhn_poker")
    return game, build(game)


def averaged(solver, tree, words):
    """Their average strategy as ours (N, A)."""
    policy = solver.average_policy()
    sigma = np.zeros(tree.legal.shape)
    for row, word in enumerate(words):
        sigma[row] = policy.policy_for_key(word)
    return sigma


@pytest.mark.parametrize("plan", sorted(THEIRS))
def test_a_plan_is_openspiels_after_each_of_30_iterations(kuhn, plan):
    game, tree = kuhn
    ours, theirs = cfr.Solver(tree, cfr.PLANS[plan]), THEIRS[plan](pyspiel.load_game("kuhn_poker"))
    for _ in range(30):
        ours.run(1)
        theirs.evaluate_and_update_policy()
        gap = np.abs(ours.average() - averaged(theirs, tree, game.words))
        assert gap.max() < 1e-9


def test_a_simultaneous_plan_is_openspiels(kuhn):
    game, tree = kuhn
    theirs = openspiel_cfr._CFRSolver(
        pyspiel.load_game("kuhn_poker"),
        alternating_updates=False,
        linear_averaging=False,
        regret_matching_plus=False,
    )
    ours = cfr.Solver(tree, cfr.PLANS["cfr-simultaneous"])
    for _ in range(30):
        ours.run(1)
        theirs.evaluate_and_update_policy()
        assert np.abs(ours.average() - averaged(theirs, tree, game.words)).max() < 1e-9


def test_discounts_far_from_zero_are_none_at_all_or_all(whole):
    """1^x / (1^x + 1) is a half whatever x, so only the first iteration differs."""
    _, tree = whole("leduc")
    for power in (30, 400, 4000):
        plain, plus = cfr.Plan(power, power, 0), cfr.Plan(power, -power, 1)
        assert abs(gap(tree, plain, 300) / gap(tree, cfr.CFR, 300) - 1) < 0.2
        assert gap(tree, plus, 300) < 2 * gap(tree, cfr.CFR_PLUS, 300)


def gap(tree, plan, iterations):
    return value.exploitability(tree, cfr.solve(tree, iterations, plan))


@pytest.mark.parametrize("name", sorted(cfr.PLANS))
def test_every_plan_keeps_the_published_bound(whole, name):
    """Exploitability falls at least as fast as 1 / sqrt(T) (Zinkevich et al. 2007, theorem 4)."""
    _, tree = whole("leduc_textbook")
    plan = cfr.PLANS[name]
    assert gap(tree, plan, 3_200) < gap(tree, plan, 50) / 64**0.5


def test_discounted_cfr_and_cfr_plus_leave_plain_cfr_behind(whole):
    """Brown and Sandholm 2019, figures 1 and 2: by orders of magnitude."""
    _, tree = whole("leduc_textbook")
    plain = gap(tree, cfr.CFR, 2_000)
    assert gap(tree, cfr.CFR_PLUS, 2_000) < plain / 10
    assert gap(tree, cfr.DISCOUNTED, 2_000) < plain / 10


@pytest.mark.parametrize("name", sorted(cfr.PLANS))
def test_a_run_in_two_parts_is_the_run_in_one(whole, name):
    _, tree = whole("kuhn")
    parts, one = (cfr.Solver(tree, cfr.PLANS[name]) for _ in range(2))
    parts.run(7)
    loaded = cfr.Solver(tree, cfr.PLANS[name])
    loaded.load(parts.state())
    loaded.run(13)
    one.run(20)
    assert (loaded.average() == one.average()).all()


def test_a_strategy_travels_to_openspiel_and_back(kuhn):
    game, tree = kuhn
    sigma = cfr.solve(tree, 100)
    policy = openspiel.tabular_policy(game.words, tree.legal, sigma)
    theirs = pyspiel.exploitability(pyspiel.load_game("kuhn_poker"), policy)
    assert abs(theirs - value.exploitability(tree, sigma)) < 1e-12
