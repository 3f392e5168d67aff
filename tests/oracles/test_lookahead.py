"""Look-ahead search against a fixed strategy, measured by the exact best response."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from overtrick.core import CHANCE, END, Observations, TreeNodes
from overtrick.games import registry
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import tree_from_nodes
from overtrick.solvers.lookahead import expectimax_mcts

GAMES = ("brps", "kuhn", "one_card", "leduc", "leduc_textbook")
DECISIONS = 4  # the most decisions of a seat in a row in these games


def pure(tree, sigma):
    """Return (N,) bool: the information sets at which the strategy is pure."""
    return sigma.max(axis=1) == 1


def shortfall(tree, sigma, seat, found):
    """Return the best-response value minus the exact value of the found strategy, in points."""
    best, _ = best_response.best_response(tree, sigma, seat)
    return best - best_response.expected(tree, found.sigma)[seat]


def mean_shortfall(tree, sigma, seat, find, seeds=5):
    gaps = [shortfall(tree, sigma, seat, find(np.random.default_rng(s))) for s in range(seeds)]
    assert min(gaps) > -1e-12  # nothing beats the best response
    return np.mean(gaps)


def three_seats(rng, depth=6):
    """Return an artificial game of three seats with points on every edge.

    Chance chooses one of three states that only seat 2 observes; then a public tree of two or three
    actions per decision, whose seats, chance nodes and early ends are random.
    """
    parent, edge, mover, chance, level, public = [-1], [0], [CHANCE], [1.0], [0], [()]
    state, plans, rows = [-1], {}, {}
    infoset = []
    node = -1
    while (node := node + 1) < len(parent):
        if node == 0:
            plan = CHANCE, 3
        else:
            plan = plans.get(public[node])
            if plan is None:
                ends = level[node] > depth or (level[node] > 2 and rng.random() < 0.2)
                drawn = int(rng.choice([CHANCE, 0, 1, 2])), int(rng.integers(2, 4))
                plan = plans.setdefault(public[node], (END, 0) if ends else drawn)
        mover[node], choices = plan
        sees = (mover[node], public[node], state[node] if mover[node] == 2 else -1, choices)
        infoset.append(rows.setdefault(sees, len(rows)) if mover[node] >= 0 else -1)
        odds = rng.dirichlet(np.ones(choices)) if mover[node] == CHANCE else np.ones(choices)
        for k in range(choices):
            parent.append(node)
            edge.append(k)
            mover.append(END)
            chance.append(odds[k])
            level.append(level[node] + 1)
            public.append((*public[node], k) if node else ())
            state.append(state[node] if node else k)
    legal = np.array([np.arange(3) < sees[3] for sees in rows])
    seat = np.array([sees[0] for sees in rows])
    observations = Observations(
        np.arange(len(rows)), seat, seat[:, None], legal, np.arange(len(rows))
    )
    gain = rng.normal(size=(len(parent), 3))
    columns = [np.array(c, np.int32) for c in (parent, edge, mover, infoset)]
    return tree_from_nodes(
        TreeNodes(3, *columns, np.array(chance), gain, observations), "three seats"
    )


@pytest.mark.parametrize("name", GAMES)
def test_search_to_the_end_finds_a_best_response(game_and_tree, name, rng, random_strategy):
    _, tree = game_and_tree(name)
    for _ in range(5):
        sigma = random_strategy(tree, rng)
        for seat in range(2):
            best, _ = best_response.best_response(tree, sigma, seat)
            found = expectimax_mcts.expectimax(tree, sigma, seat, DECISIONS)
            assert abs(found.value - best) < 1e-9
            assert abs(shortfall(tree, sigma, seat, found)) < 1e-9
            own = tree.observations.seat == seat
            assert pure(tree, found.sigma)[own].all()
            assert (found.sigma[~own] == sigma[~own]).all()


def test_search_works_for_three_seats_and_points_on_every_edge(rng, random_strategy):
    for _ in range(5):
        tree = three_seats(rng)
        sigma = random_strategy(tree, rng)
        for seat in range(3):
            best, _ = best_response.best_response(tree, sigma, seat)
            found = expectimax_mcts.expectimax(tree, sigma, seat, depth=9)
            assert abs(found.value - best) < 1e-9
            assert abs(shortfall(tree, sigma, seat, found)) < 1e-9
            for found in (
                expectimax_mcts.mcts(tree, sigma, seat, 20_000, rng),
                expectimax_mcts.expectimax(tree, sigma, seat, 1, 20_000, rng),
            ):
                assert -1e-12 < shortfall(tree, sigma, seat, found) < 0.1
                assert abs(found.value - best) < 0.3  # payoffs differ by about 13 points


def test_unreachable_decisions_are_not_searched(game_and_tree):
    """A caller never raises, so no seat ever answers its raise."""
    game, tree = game_and_tree("leduc")
    sigma = best_response.sigma_of(
        tree, [UniformPolicy(), registry.scripted_players(game)["call"](game)]
    )
    found = expectimax_mcts.expectimax(tree, sigma, 0, DECISIONS)
    others = best_response.reach(tree, sigma, without=0)
    acts = tree.seat == 0
    comes = np.bincount(tree.infoset[acts], others[acts], minlength=tree.infosets) > 0
    own = tree.observations.seat == 0
    assert 0 < comes.sum() < own.sum()
    assert pure(tree, found.sigma)[comes].all()
    assert (found.sigma[own & ~comes] == sigma[own & ~comes]).all()
    assert abs(shortfall(tree, sigma, 0, found)) < 1e-9


@pytest.mark.parametrize("name", GAMES)
def test_beliefs_follow_bayes_rule(game_and_tree, name, rng, random_strategy):
    """The belief in a node is its share of the reach by chance and the others."""
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    probability = best_response.edge_probability(tree, sigma)
    for seat in range(2):
        others = best_response.reach(tree, sigma, without=seat)
        acts = np.flatnonzero(tree.seat == seat)
        arrive = np.bincount(tree.infoset[acts], others[acts], minlength=tree.infosets)
        visited = []

        def visit(node, belief, comes, seat=seat, others=others, arrive=arrive, visited=visited):
            _, sets = expectimax_mcts.next_infosets(tree, probability, seat, node, belief)
            for here in sets:
                visited.append(here.row)
                assert abs(here.belief.sum() - 1) < 1e-12
                assert set(here.node) == set(np.flatnonzero(tree.infoset == here.row))
                assert np.abs(here.belief - others[here.node] / arrive[here.row]).max() < 1e-12
                assert abs(comes * here.probability - arrive[here.row]) < 1e-12
                for k in range(tree.legal[here.row].sum()):
                    visit(tree.first[here.node] + k, here.belief, comes * here.probability)

        visit(np.array([0]), np.ones(1), 1.0)
        assert (
            sorted(visited) == np.flatnonzero(tree.observations.seat == seat).tolist()
        )  # each set once


def test_in_kuhn_a_bet_raises_the_belief_in_the_better_card(game_and_tree):
    """If a king always bets first and a jack one time in three, after a bet the odds of K and J are
    3 to 1."""
    game, tree = game_and_tree("kuhn")
    words = [game.describe(observed) for observed in tree.observations.observation]
    sigma = tree.uniform()
    for card, bet in (("J", 1 / 3), ("Q", 0), ("K", 1)):
        sigma[words.index(f"{card} after nothing")] = 1 - bet, bet
    probability = best_response.edge_probability(tree, sigma)
    points, sets = expectimax_mcts.next_infosets(tree, probability, 1, np.array([0]), np.ones(1))
    assert points == 0
    here = next(s for s in sets if words[s.row] == "Q after bet")
    assert sorted(here.belief) == pytest.approx([1 / 4, 3 / 4])
    assert here.probability == pytest.approx((1 / 3 + 1) / 6)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_search_expands_only_to_its_depth(game_and_tree, depth, rng, random_strategy):
    """One simulation adds one information set below the exact part, and nothing deeper."""
    _, tree = game_and_tree("leduc")
    sigma = random_strategy(tree, rng)
    for seat in range(2):
        found = expectimax_mcts.expectimax(tree, sigma, seat, depth, simulations=1, rng=rng)
        own = tree.observations.seat == seat
        assert (pure(tree, found.sigma) == (own & (tree.stage <= depth))).all()


@pytest.mark.parametrize("seat", [0, 1])
def test_a_deeper_search_with_more_simulations_is_better(game_and_tree, seat):
    """Mean of five seeds on Leduc against uniform play, whose best responses win 1.6 and 1.4."""
    _, tree = game_and_tree("leduc")
    sigma = tree.uniform()
    gaps = [
        [
            mean_shortfall(
                tree, sigma, seat,
                lambda rng, d=depth, n=n: expectimax_mcts.expectimax(tree, sigma, seat, d, n, rng),
            )
            for n in (10, 100, 1_000)
        ]
        for depth in range(DECISIONS)
    ]  # fmt: skip
    assert (np.diff(gaps, axis=0) < 0.01).all()
    assert (np.diff(gaps, axis=1) < 0.01).all()
    assert gaps[0][-1] < 0.3  # tree search alone
    assert max(gaps[-1]) < 0.03  # only the last decision is sampled


def test_depth_0_is_tree_search_alone(game_and_tree, rng, random_strategy):
    """The first seat of a matrix game decides at the root."""
    _, tree = game_and_tree("brps")
    sigma = random_strategy(tree, rng)
    for n in (1, 10, 1_000):
        ours, theirs = np.random.default_rng(n), np.random.default_rng(n)
        tree_search = expectimax_mcts.mcts(tree, sigma, 0, n, ours)
        below = expectimax_mcts.expectimax(tree, sigma, 0, 0, n, theirs)
        assert tree_search.value == below.value
        assert (tree_search.sigma == below.sigma).all()


@pytest.mark.parametrize("seat", [0, 1])
def test_tree_search_finds_the_best_response_on_kuhn(game_and_tree, seat, rng, random_strategy):
    _, tree = game_and_tree("kuhn")
    for sigma in (tree.uniform(), random_strategy(tree, rng)):
        best, _ = best_response.best_response(tree, sigma, seat)
        found = expectimax_mcts.mcts(tree, sigma, seat, 10_000, rng)
        assert shortfall(tree, sigma, seat, found) < 0.01
        assert abs(found.value - best) < 0.05


@pytest.mark.parametrize("seat", [0, 1])
def test_tree_search_approaches_the_best_response_on_leduc(game_and_tree, seat):
    """100,000 simulations come within 0.05 big blinds of it, also where little can be won."""
    _, tree = game_and_tree("leduc")
    for sigma in (tree.uniform(), cfr.solve(tree, 300)):
        gaps = [
            mean_shortfall(
                tree,
                sigma,
                seat,
                lambda rng, n=n, sigma=sigma: expectimax_mcts.mcts(tree, sigma, seat, n, rng),
            )
            for n in (100, 1_000, 10_000, 100_000)
        ]
        assert (np.diff(gaps) < 0).all()
        assert gaps[-1] < 0.05


@pytest.mark.parametrize("seat", [0, 1])
def test_the_value_of_a_tree_search_approaches_the_best_response(game_and_tree, seat):
    _, tree = game_and_tree("leduc")
    sigma = tree.uniform()
    best, _ = best_response.best_response(tree, sigma, seat)
    off = [
        abs(best - expectimax_mcts.mcts(tree, sigma, seat, n, np.random.default_rng(1)).value)
        for n in (10_000, 100_000, 1_000_000)
    ]
    assert (np.diff(off) < 0).all()
    assert off[-1] < 0.03


def test_the_scale_of_the_payoffs_changes_nothing(game_and_tree, rng, random_strategy):
    """The confidence bounds and the returns are in units of the range of payoffs."""
    _, tree = game_and_tree("leduc")
    # multiplying by a power of 2 does not round
    scaled = dataclasses.replace(tree, gain=1024 * tree.gain)
    sigma = random_strategy(tree, rng)
    small = expectimax_mcts.mcts(tree, sigma, 0, 2_000, np.random.default_rng(7))
    large = expectimax_mcts.mcts(scaled, sigma, 0, 2_000, np.random.default_rng(7))
    assert (small.sigma == large.sigma).all()
    assert large.value == 1024 * small.value


def test_the_searchers_own_rows_of_the_strategy_have_no_effect(game_and_tree, rng, random_strategy):
    _, tree = game_and_tree("leduc")
    sigma, other = random_strategy(tree, rng), random_strategy(tree, rng)
    other = np.where((tree.observations.seat == 0)[:, None], other, sigma)
    for depth in range(DECISIONS):
        one, two = (
            expectimax_mcts.expectimax(tree, s, 0, depth, 500, np.random.default_rng(3))
            for s in (sigma, other)
        )
        assert one.value == two.value
        searched = pure(tree, one.sigma)
        assert (one.sigma[searched] == two.sigma[searched]).all()


def test_the_same_generator_gives_the_same_result(game_and_tree, rng, random_strategy):
    _, tree = game_and_tree("leduc")
    sigma = random_strategy(tree, rng)
    before = sigma.copy()
    for find in (
        lambda rng: expectimax_mcts.mcts(tree, sigma, 0, 3_000, rng),
        lambda rng: expectimax_mcts.expectimax(tree, sigma, 1, 2, 100, rng),
    ):
        one, two, other = (find(np.random.default_rng(seed)) for seed in (5, 5, 6))
        assert one.value == two.value != other.value
        assert (one.sigma == two.sigma).all()
    assert (sigma == before).all()


def test_a_search_without_decisions_returns_the_expected_value(rng):
    nobody = np.zeros(0, np.int64)
    observations = Observations(
        nobody, nobody, np.zeros((0, 1), np.int64), np.zeros((0, 2), bool), nobody
    )
    tree = tree_from_nodes(
        TreeNodes(
            2, np.array([-1, 0, 0], np.int32), np.array([0, 0, 1], np.int32),
            np.array([CHANCE, END, END], np.int32), np.full(3, -1, np.int32),
            np.array([1, 0.25, 0.75]), np.array([[0.0, 0.0], [1.0, -1.0], [3.0, -3.0]]),
            observations,
        ),
        "a coin",
    )  # fmt: skip
    sigma = tree.uniform()
    assert expectimax_mcts.expectimax(tree, sigma, 0, 0).value == 2.5
    assert abs(expectimax_mcts.mcts(tree, sigma, 0, 10_000, rng).value - 2.5) < 0.05


def test_unsupported_searches_are_refused(game_and_tree, rng):
    _, tree = game_and_tree("kuhn")
    sigma = tree.uniform()
    with pytest.raises(ValueError, match="2 decisions of seat 0: give simulations"):
        expectimax_mcts.expectimax(tree, sigma, 0, 1)
    with pytest.raises(ValueError, match="give simulations and a generator"):
        expectimax_mcts.expectimax(tree, sigma, 0, 1, simulations=100)
    with pytest.raises(ValueError, match="0 simulations"):
        expectimax_mcts.mcts(tree, sigma, 0, 0, rng)
