"""AIVAT's estimates: unbiased for every opponent model, and far less noisy than returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from overtrick.solvers import aivat
from overtrick.solvers.extensive import best_response


def slope(tree, sigma, seat):
    """Return (N, A) the exact mean of the estimates."""
    come, advantage = best_response.policy_gradient(tree, sigma, seat)
    return come[:, None] * sigma * advantage


def centred(credit, sigma):
    """Subtract the baseline, which a policy gradient does not use."""
    return credit - sigma * credit.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
@pytest.mark.parametrize("seat", [0, 1])
def test_estimates_are_unbiased_for_every_opponent_model(
    game_and_tree, rng, some_strategies, name, seat
):
    _, tree = game_and_tree(name)
    _, sigma, other = some_strategies(tree, rng, 2)
    own = (tree.observations.seat == seat)[:, None]
    for guess in (sigma, np.where(own, sigma, other), np.where(own, sigma, tree.uniform())):
        rollouts = [aivat.sample_rollouts(tree, sigma, guess, seat, 400, r) for r in rng.spawn(400)]
        each = np.stack([centred(m.credit / 400, sigma) for m in rollouts])
        error = each.std(axis=0) / np.sqrt(len(each))
        off = np.abs(each.mean(axis=0) - slope(tree, sigma, seat))
        assert (off < 5 * error + 1e-3).all()
        payoff = np.array([m.payoff / 400 for m in rollouts])
        limit = 5 * payoff.std() / np.sqrt(len(payoff))
        assert abs(payoff.mean() - best_response.expected(tree, sigma)[seat]) < limit


def test_visits_and_returns_agree_with_exact_values(game_and_tree, rng, some_strategies):
    _, tree = game_and_tree("kuhn")
    _, sigma = some_strategies(tree, rng, 1)
    rollouts = aivat.sample_rollouts(tree, sigma, sigma, 0, 100_000, rng)
    reach = best_response.reach(tree, sigma)
    acts = np.flatnonzero(tree.seat == 0)
    come = np.bincount(tree.infoset[acts], reach[acts], minlength=tree.infosets)
    others = tree.observations.seat == 1
    assert np.abs(rollouts.taken.sum(axis=1)[~others] / 100_000 - come[~others]).max() < 0.01
    played = rollouts.taken / rollouts.taken.sum(axis=1, keepdims=True).clip(1)
    often = rollouts.taken.sum(axis=1) > 3_000
    assert np.abs(played - sigma)[often].max() < 0.05
    first = (tree.stage == 0) & (tree.observations.seat == 0)
    assert rollouts.returns[first].sum() == pytest.approx(rollouts.payoff)
    assert not rollouts.credit[others].any()


def test_points_paid_on_the_way_change_no_advantage(game_and_tree, rng, some_strategies):
    """Potential-based rewards (Ng, Harada and Russell 1999): points move, no payoff changes."""
    _, tree = game_and_tree("leduc")
    _, sigma, other = some_strategies(tree, rng, 2)
    potential = rng.normal(size=tree.nodes)
    first_decisions = (tree.seat == 0) & (tree.stage[tree.infoset] == 0)
    potential[(tree.children == 0) | first_decisions] = 0
    potential[0] = 0
    moved = tree.gain.copy()
    moved[1:, 0] += potential[1:] - potential[tree.parent[1:]]
    shaped = replace(tree, gain=moved)
    own = (tree.observations.seat == 0)[:, None]
    guess = np.where(own, sigma, other)
    plain, early = (
        aivat.sample_rollouts(each, sigma, guess, 0, 2_000, np.random.default_rng(3))
        for each in (tree, shaped)
    )
    assert early.credit == pytest.approx(plain.credit, abs=1e-9)
    first = (tree.stage == 0) & (tree.observations.seat == 0)
    assert early.returns[first] == pytest.approx(plain.returns[first], abs=1e-9)
    assert np.abs(early.returns - plain.returns)[own[:, 0]].max() > 1


def test_the_squared_error_of_estimates_is_below_0_6_of_that_of_returns(game_and_tree, rng):
    """200 games of Leduc against a caller, whose model is uniform play."""
    game, tree = game_and_tree("leduc")
    call = game.action_names.index("call")
    caller = np.where(tree.legal[:, [call]], np.arange(tree.legal.shape[1]) == call, 0.0)
    caller = np.where(caller.any(axis=1, keepdims=True), caller, tree.uniform())
    own = (tree.observations.seat == 0)[:, None]
    sigma, guess = np.where(own, tree.uniform(), caller), tree.uniform()
    right = slope(tree, sigma, 0)
    return_errors, estimate_errors = [], []
    for rng_of_batch in rng.spawn(60):
        rollouts = aivat.sample_rollouts(tree, sigma, guess, 0, 200, rng_of_batch)
        estimate_errors.append(((centred(rollouts.credit / 200, sigma) - right) ** 2).sum())
        plain = _returns_estimate(tree, sigma, 200, rng_of_batch)
        return_errors.append(((centred(plain, sigma) - right) ** 2).sum())
    assert np.mean(estimate_errors) < 0.6 * np.mean(return_errors)


def _returns_estimate(tree, sigma, games, rng):
    """Return (N, A) points won after each decision of seat 0, per game: the plain policy
    gradient."""
    probability = best_response.edge_probability(tree, sigma)
    credit = np.zeros(sigma.shape)
    for _ in range(games):
        node, path = 0, []
        while tree.children[node]:
            below = np.arange(tree.first[node], tree.first[node] + tree.children[node])
            child = rng.choice(below, p=probability[below] / probability[below].sum())
            path.append((node, child))
            node = child
        won = 0.0
        for above, child in reversed(path):
            won += tree.gain[child, 0]
            if tree.seat[above] == 0:
                credit[tree.infoset[above], tree.edge[child]] += won / games
    return credit
