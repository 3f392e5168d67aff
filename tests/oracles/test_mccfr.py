"""Sampling solvers beside exact sums over the tree, and beside OpenSpiel's after as many
iterations."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pyspiel
import pytest
from numpy.random import MT19937, Generator, default_rng

from overtrick.core import CHANCE, END, Observations, TreeNodes, UserError
from overtrick.solvers import mccfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal_order import realisation_plan
from overtrick.solvers.extensive.tree import tree_from_nodes

SAMPLINGS = tuple(mccfr.VARIANTS)
GAMES = ("kuhn", "brps", "three seats")

HEAVY = 1e9
"""Regrets so large that one walk does not change the strategy of regret matching."""


def three_seats():
    """Return an artificial game: three seats, non-uniform chance, two or three actions, gains on
    every edge.

    A seat observes everything but the latest action, so information sets have several nodes.
    """
    movers, sizes = (CHANCE, 0, 1, CHANCE, 2, 0, END), (3, 2, 3, 2, 2, 2)
    odds = {0: (0.5, 0.3, 0.2), 3: (0.3, 0.7)}
    paths = [path for depth in range(7) for path in itertools.product(*map(range, sizes[:depth]))]
    number = {path: node for node, path in enumerate(paths)}
    seat = np.array([movers[len(path)] for path in paths], np.int32)
    histories = [(len(path), *path[:-1]) for path in paths]
    rows = sorted({history for history in histories if movers[history[0]] >= 0})
    depth = np.array([row[0] for row in rows])
    observations = Observations(
        game=np.arange(len(rows)),
        seat=np.array(movers)[depth],
        observation=depth[:, None],
        legal=np.arange(3) < np.array(sizes)[depth, None],
        infoset=np.arange(len(rows)),
    )
    nodes = TreeNodes(
        seats=3,
        parent=np.array([-1] + [number[path[:-1]] for path in paths[1:]], np.int32),
        edge=np.array([0] + [path[-1] for path in paths[1:]], np.int32),
        seat=seat,
        infoset=np.array([rows.index(k) if k in rows else -1 for k in histories], np.int32),
        chance=np.array([odds.get(len(p) - 1, (1, 1, 1))[p[-1]] if p else 1.0 for p in paths]),
        gain=default_rng(7).normal(size=(len(paths), 3)),
        observations=observations,
    )
    return tree_from_nodes(nodes, "three seats")


@pytest.fixture(scope="module")
def tree_of(game_and_tree):
    made_up = three_seats()
    return lambda name: made_up if name == "three seats" else game_and_tree(name)[1]


def sampled(tree, sampling, sigma, rng, batches=2_000, walks=20):
    """Return means over batches of the increments of regrets and averages of one iteration, while
    all play sigma.

    Two arrays (batches, L).
    """
    solver = mccfr.MccfrSolver(tree, mccfr.VARIANTS[sampling], rng)
    fixed = HEAVY * tree.flat(sigma)
    learned, averaged = np.empty((2, batches, len(fixed)))
    for batch in range(batches):
        solver.regret[:], solver.total[:] = fixed, 0
        solver.run(walks)
        learned[batch], averaged[batch] = (
            (solver.regret - fixed) / walks,
            solver.total / walks,
        )
    return learned, averaged


def agrees(samples, exact):
    """Return whether the mean is within 5 standard errors everywhere; updates change it by less
    than 1e-6."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return (np.abs(samples.mean(axis=0) - exact) < 5 * error + 1e-6).all()


def exact_regrets(tree, sigma):
    """Return (L,) the increments of one iteration of CFR while all play sigma."""
    regret = np.zeros(tree.legal.shape)
    for seat in range(tree.seats):
        others = best_response.reach(tree, sigma, without=seat)
        values = best_response.counterfactual_values(tree, sigma, others, seat)
        own = (tree.observations.seat == seat)[:, None]
        regret += own * (values - (sigma * values).sum(axis=1, keepdims=True))
    return tree.flat(regret)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_sampled_regrets_are_unbiased(tree_of, sampling, name, rng, random_strategy):
    tree = tree_of(name)
    for sigma in (tree.uniform(), random_strategy(tree, rng, least=0.5)):
        learned, _ = sampled(tree, sampling, sigma, rng)
        assert agrees(learned, exact_regrets(tree, sigma))


def test_the_regrets_of_the_artificial_game_are_large_enough_to_test(tree_of, rng):
    tree = tree_of("three seats")
    exact = exact_regrets(tree, tree.uniform())
    for sampling in SAMPLINGS:
        learned, _ = sampled(tree, sampling, tree.uniform(), rng)
        assert not agrees(learned, 0)
        assert not agrees(learned, 1.25 * exact)


@pytest.mark.parametrize("name", GAMES)
def test_external_sampling_averages_a_seat_with_the_reach_of_the_others(
    tree_of, name, rng, random_strategy
):
    """The updating seat tries every action, so a visit has the probability of the others'
    actions."""
    tree = tree_of(name)
    sigma = random_strategy(tree, rng, least=0.5)
    visits = np.zeros(tree.infosets)
    for seat in range(tree.seats):
        mine = tree.seat == seat
        reach = best_response.reach(tree, sigma, without=(seat - 1) % tree.seats)
        visits += np.bincount(tree.infoset[mine], reach[mine], minlength=tree.infosets)
    _, averaged = sampled(tree, "external", sigma, rng)
    assert agrees(averaged, tree.flat(visits[:, None] * sigma))


@pytest.mark.parametrize("name", GAMES)
def test_outcome_sampling_averages_in_proportion_to_the_seats_own_reach(
    tree_of, name, rng, random_strategy
):
    """Every node of an information set adds its strategy once on average, weighted by the seat's
    own reach."""
    tree = tree_of(name)
    sigma = random_strategy(tree, rng, least=0.5)
    nodes = np.bincount(tree.infoset[tree.infoset >= 0])
    own = realisation_plan(tree, tree.flat(sigma))[tree.parent_sequence]
    _, averaged = sampled(tree, "outcome", sigma, rng)
    assert agrees(averaged, tree.flat((nodes * own)[:, None] * sigma))


@pytest.mark.parametrize(("sampling", "iterations"), [("external", 50_000), ("outcome", 200_000)])
def test_kuhn_is_nearly_solved(game_and_tree, sampling, iterations, rng):
    _, tree = game_and_tree("kuhn")
    sigma = mccfr.solve(tree, iterations, mccfr.VARIANTS[sampling], rng)
    assert best_response.exploitability(tree, sigma) < 0.02
    assert abs(best_response.expected(tree, sigma)[0] + 1 / 18) < 0.02  # Kuhn 1950


def test_exploitability_of_leduc_falls_like_one_over_the_root_of_the_iterations(game_and_tree, rng):
    """64 times the iterations would give an eighth; it falls faster at first and slower later."""
    _, tree = game_and_tree("leduc_textbook")
    solver = mccfr.MccfrSolver(tree, mccfr.EXTERNAL, rng)
    gaps = []
    for until in (1_000, 8_000, 64_000, 512_000):
        solver.run(until - solver.iteration)
        gaps.append(best_response.exploitability(tree, solver.average()))
    assert gaps[0] / gaps[2] > 6
    assert gaps[1] / gaps[3] > 5
    assert gaps[3] < 0.03


@pytest.mark.parametrize(
    ("sampling", "peer", "iterations"),
    [
        ("external", pyspiel.ExternalSamplingMCCFRSolver, 3_000),
        ("outcome", pyspiel.OutcomeSamplingMCCFRSolver, 20_000),
    ],
)
def test_exploitability_of_leduc_is_about_openspiels(
    game_and_tree, sampling, peer, iterations, rng
):
    _, tree = game_and_tree("leduc_textbook", fold=False)
    game = pyspiel.load_game("leduc_poker")
    ours, theirs = [], []
    for seed, child in enumerate(rng.spawn(2), start=1):
        sigma = mccfr.solve(tree, iterations, mccfr.VARIANTS[sampling], child)
        ours.append(best_response.exploitability(tree, sigma))
        solver = peer(game, seed=seed)
        for _ in range(iterations):
            solver.run_iteration()
        theirs.append(pyspiel.exploitability(game, solver.average_policy()))
    assert 1 / 1.5 < np.mean(ours) / np.mean(theirs) < 1.5


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_seed_fixes_the_run_however_it_is_split(game_and_tree, sampling):
    _, tree = game_and_tree("leduc_textbook")
    whole_run, cut, other = (
        mccfr.MccfrSolver(tree, mccfr.VARIANTS[sampling], default_rng(seed)) for seed in (1, 1, 2)
    )
    whole_run.run(300)
    for part in (1, 99, 0, 200):
        cut.run(part)
    other.run(300)
    assert whole_run.iteration == cut.iteration == 300
    for name, array in whole_run.state().items():
        assert np.array_equal(array, cut.state()[name])
    assert not np.array_equal(whole_run.regret, other.regret)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_loaded_run_continues_with_identical_results(game_and_tree, sampling):
    _, tree = game_and_tree("leduc_textbook")
    rng = default_rng(1)
    rng.integers(10, dtype=np.uint32)  # leaves half of a draw, which is also stored
    first = mccfr.MccfrSolver(tree, mccfr.VARIANTS[sampling], rng)
    first.run(200)
    before = {name: array.copy() for name, array in first.state().items()}
    first.run(100)
    second = mccfr.MccfrSolver(tree, mccfr.VARIANTS[sampling], default_rng(99))
    second.run(3)
    second.load(before)
    assert all(np.array_equal(array, second.state()[name]) for name, array in before.items())
    second.run(100)
    for name, array in first.state().items():
        assert np.array_equal(array, second.state()[name])
    assert not np.array_equal(before["regret"], second.regret)  # the loaded state is not changed
    assert rng.integers(2**31, dtype=np.uint32) == second.rng.integers(2**31, dtype=np.uint32)


def test_the_average_is_uniform_at_unvisited_information_sets(game_and_tree, rng):
    _, tree = game_and_tree("leduc_textbook")
    assert np.array_equal(mccfr.solve(tree, 0, mccfr.EXTERNAL, rng), tree.uniform())
    sigma = mccfr.solve(tree, 3, mccfr.OUTCOME, rng)
    assert np.abs(sigma.sum(axis=1) - 1).max() < 1e-12
    assert not sigma[~tree.legal].any()


@pytest.mark.parametrize("exploration", [0, -0.1, 1.1, float("nan")])
def test_a_seat_that_never_explores_is_refused(exploration):
    with pytest.raises(UserError, match="exploration must be above 0 and at most 1"):
        mccfr.MccfrVariant(outcome=True, exploration=exploration)


def test_a_generator_without_a_state_is_refused(game_and_tree):
    _, tree = game_and_tree("kuhn")
    with pytest.raises(ValueError, match="must be a PCG64"):
        mccfr.MccfrSolver(tree, mccfr.EXTERNAL, Generator(MT19937(1)))


def test_external_sampling_refuses_a_game_of_one_seat(tree_of, rng):
    one_seat = dataclasses.replace(tree_of("three seats"), seats=1)
    with pytest.raises(ValueError, match="needs two seats"):
        mccfr.MccfrSolver(one_seat, mccfr.EXTERNAL, rng)
