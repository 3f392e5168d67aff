"""Numbers from the literature, and formulas written a second time in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from overtrick.core import Trajectories
from overtrick.games import registry
from overtrick.learners.policy_gradient.advantages import (
    discounted_returns,
    generalised_advantages,
    subtract_leave_one_out_mean,
)
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response

PASS, BET = range(2)
GAMES = ("brps", "kuhn", "one_card", "leduc", "leduc_textbook")


def strategy_from(game, tree, table):
    """Return a strategy (N, A) from a dict of a seat's description to its probability to bet."""
    words = [game.describe(observed) for observed in tree.observations.observation]
    assert set(words) == set(table)
    return np.array([[1 - table[word], table[word]] for word in words])


def bracket(tree, sigma):
    """Return bounds of a two-seat zero-sum game's value to seat 0 from the best responses to
    sigma."""
    first, second = (best_response.best_response(tree, sigma, seat)[0] for seat in range(2))
    return -second, first


@pytest.mark.parametrize(
    ("name", "published", "iterations", "width"),
    [
        ("kuhn", -1 / 18, 5_000, 1e-4),  # Kuhn 1950
        ("leduc_textbook", -0.085606424078, 5_000, 1e-4),  # OpenSpiel, sequence-form program
        ("brps", 0.0, 20_000, 1e-2),  # a symmetric game is fair
    ],
)
def test_cfr_plus_converges_to_the_published_value(
    game_and_tree, name, published, iterations, width
):
    _, tree = game_and_tree(name)
    low, high = bracket(tree, cfr.solve(tree, iterations))
    assert low <= published + 1e-12
    assert published - 1e-12 <= high
    assert high - low < width


def test_one_card_poker_with_13_cards_loses_6_4_percent_of_a_chip(game_and_tree):
    """Gordon 2005, "One-card poker": -0.064 for the first player, with an ante each."""
    _, tree = game_and_tree("one_card")
    low, high = bracket(tree, cfr.solve(tree, 5_000))
    assert high - low < 1e-5
    assert round((low + high) / 2, 3) == -0.064
    assert round((low + high) / 2, 4) == -0.0641


def kuhn_equilibrium(alpha):
    """Return Kuhn's family of equilibria: the first player bluffs J with alpha and bets K three
    times as often."""
    return {
        "J after nothing": alpha,
        "Q after nothing": 0,
        "K after nothing": 3 * alpha,
        "J after pass, bet": 0,
        "Q after pass, bet": alpha + 1 / 3,
        "K after pass, bet": 1,
        "J after pass": 1 / 3,
        "Q after pass": 0,
        "K after pass": 1,
        "J after bet": 0,
        "Q after bet": 1 / 3,
        "K after bet": 1,
    }


@pytest.mark.parametrize("alpha", [0, 1 / 6, 1 / 3])
def test_kuhns_family_of_equilibria_cannot_be_exploited(game_and_tree, alpha):
    game, tree = game_and_tree("kuhn")
    sigma = strategy_from(game, tree, kuhn_equilibrium(alpha))
    assert abs(best_response.nash_conv(tree, sigma)) < 1e-12
    assert np.abs(best_response.expected(tree, sigma) - [-1 / 18, 1 / 18]).max() < 1e-12


@pytest.mark.parametrize(
    ("situation", "bet"),
    [
        ("K after nothing", 1 / 3),  # three times 1/6 is right
        ("Q after nothing", 1 / 3),
        ("Q after pass, bet", 1 / 3),
        ("Q after bet", 0),
        ("J after pass", 1),
    ],
)
def test_strategies_outside_kuhns_family_can_be_exploited(game_and_tree, situation, bet):
    game, tree = game_and_tree("kuhn")
    sigma = strategy_from(game, tree, {**kuhn_equilibrium(1 / 6), situation: bet})
    assert best_response.nash_conv(tree, sigma) > 0.01


@pytest.mark.parametrize(
    ("name", "published"),
    [("kuhn", 11 / 12), ("leduc_textbook", 4.747222222222222)],  # OpenSpiel's exploitability tests
)
def test_uniform_play_has_the_published_nash_conv(game_and_tree, name, published):
    _, tree = game_and_tree(name)
    assert abs(best_response.nash_conv(tree, tree.uniform()) - published) < 1e-12


@pytest.mark.parametrize(
    ("player", "best"),
    [("random", 596 / 405), ("call", 11 / 15)],  # 1.471604938 and 0.7333 big blinds
)
def test_best_responses_in_the_benchmark_have_the_known_values(game_and_tree, player, best):
    game, tree = game_and_tree("leduc")
    players = {
        "random": UniformPolicy,
        "call": lambda: registry.scripted_players(game)["call"](game),
    }
    sigma = best_response.sigma_of(tree, [players[player]()] * 2)
    won = [best_response.best_response(tree, sigma, seat)[0] for seat in range(2)]
    assert abs(sum(won) / 2 - best) < 1e-12


def test_against_a_caller_kuhn_is_won_by_betting_the_king(game_and_tree):
    """A caller never bets, so J loses an ante, Q wins as much as it loses, and K wins two."""
    game, tree = game_and_tree("kuhn")
    caller = registry.scripted_players(game)["call"](game)
    sigma = best_response.sigma_of(tree, [caller] * 2)
    for seat in range(2):
        best, reply = best_response.best_response(tree, sigma, seat)
        assert abs(best - (2 + 0 - 1) / 3) < 1e-12
        words = [game.describe(observed) for observed in tree.observations.observation]
        situation = ["K after nothing", "K after pass"][seat]
        assert reply[words.index(situation)].tolist() == [0, 1]


def test_no_pure_strategy_of_kuhn_beats_the_best_response(game_and_tree, rng, random_strategy):
    _, tree = game_and_tree("kuhn")
    for _ in range(5):
        sigma = random_strategy(tree, rng)
        for seat in range(2):
            own = np.flatnonzero(tree.observations.seat == seat)
            won = []
            for actions in itertools.product((PASS, BET), repeat=len(own)):
                reply = sigma.copy()
                reply[own] = np.eye(2)[list(actions)]
                won.append(best_response.expected(tree, reply)[seat])
            best, reply = best_response.best_response(tree, sigma, seat)
            assert abs(best - max(won)) < 1e-12
            assert abs(best_response.expected(tree, reply)[seat] - best) < 1e-12


@pytest.mark.parametrize("name", GAMES)
def test_terminal_reach_sums_to_1(game_and_tree, name, rng, random_strategy):
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    reach = best_response.reach(tree, sigma)
    ends = tree.children == 0
    assert abs(reach[ends].sum() - 1) < 1e-12
    # a node's reach is the sum of its children's
    below = np.bincount(tree.parent[1:], reach[1:], minlength=tree.nodes)
    assert np.abs(below - reach)[~ends].max() < 1e-12


@pytest.mark.parametrize("name", GAMES)
def test_reach_without_a_seat_is_the_reach_if_that_seat_plays_to_the_node(
    game_and_tree, name, rng, random_strategy
):
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    for seat in range(2):
        others = best_response.reach(tree, sigma, without=seat)
        own = (tree.observations.seat == seat)[:, None]
        pure = np.eye(tree.legal.shape[1])[sample_actions(tree.uniform(), rng).action]
        reach = best_response.reach(tree, np.where(own, pure, sigma))
        allowed = best_response.reach(tree, np.where(own, pure, 1.0)) > 0
        assert np.abs(reach - others * allowed).max() < 1e-15
        assert (others >= best_response.reach(tree, sigma)).all()


@pytest.mark.parametrize("name", GAMES)
def test_the_expected_value_is_the_mean_over_terminal_nodes(
    game_and_tree, name, rng, random_strategy
):
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    total = tree.gain.copy()  # from the root down
    for node in range(1, tree.nodes):
        total[node] += total[tree.parent[node]]
    ends = tree.children == 0
    reach = best_response.reach(tree, sigma)
    assert np.abs(reach[ends] @ total[ends] - best_response.expected(tree, sigma)).max() < 1e-12


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_the_gradient_is_the_slope_of_the_expected_value(game_and_tree, name, rng, random_strategy):
    """The value is linear in the probabilities at one information set, so a step of 1 is exact:
    playing an action there with certainty gains reach x advantage."""
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    before = best_response.expected(tree, sigma)
    for seat in range(2):
        come, advantage = best_response.policy_gradient(tree, sigma, seat)
        own = tree.observations.seat == seat
        assert not come[~own].any()
        assert not advantage[~own].any()
        assert not advantage[~tree.legal].any()
        for row, action in np.argwhere(tree.legal & own[:, None]):
            changed = sigma.copy()
            changed[row] = np.eye(tree.legal.shape[1])[action]
            gained = best_response.expected(tree, changed)[seat] - before[seat]
            assert abs(gained - come[row] * advantage[row, action]) < 1e-12


def test_the_gradient_is_the_slope_along_any_change_of_strategy(
    game_and_tree, rng, random_strategy
):
    _, tree = game_and_tree("leduc_textbook")
    sigma, other = random_strategy(tree, rng), random_strategy(tree, rng)
    small = 1e-6
    for seat in range(2):
        own = (tree.observations.seat == seat)[:, None]
        along = np.where(own, other - sigma, 0)
        ends = [best_response.expected(tree, sigma + s * small * along)[seat] for s in (-1, 1)]
        come, advantage = best_response.policy_gradient(tree, sigma, seat)
        slope = (come[:, None] * other * advantage).sum()
        assert abs((ends[1] - ends[0]) / (2 * small) - slope) < 1e-8


@pytest.mark.parametrize("name", ["brps", "kuhn", "one_card", "leduc_textbook"])
def test_action_values_of_first_decisions_add_up_to_the_expected_value(
    game_and_tree, name, rng, random_strategy
):
    """In these games every seat acts at least once, so every game has a first decision."""
    _, tree = game_and_tree(name)
    sigma = random_strategy(tree, rng)
    for seat in range(2):
        others = best_response.reach(tree, sigma, without=seat)
        values = best_response.counterfactual_values(tree, sigma, others, seat)
        first = (tree.observations.seat == seat) & (tree.stage == 0)
        assert (
            abs((sigma * values)[first].sum() - best_response.expected(tree, sigma)[seat]) < 1e-12
        )
        assert not values[tree.observations.seat != seat].any()
        assert not values[~tree.legal].any()


def some_batch(rng, games=40, seats=2, longest=5):
    """Return rewards of artificial games in which seats make 0 to `longest` - 1 decisions."""
    counts = rng.integers(longest, size=games * seats)
    owner = np.repeat(np.arange(games * seats), counts)
    reward = rng.normal(size=len(owner))
    last = np.append(owner[1:] != owner[:-1], True)
    none = np.zeros(len(owner), np.int64)
    game, seat = owner // seats, owner % seats
    return Trajectories(1, game, seat, none[:, None], None, None, none, none * 0.0, reward, last)


def stretches(batch):
    """Return the first and one past the last decision of each seat of each game."""
    start = 0
    for stop in np.flatnonzero(batch.last) + 1:
        yield start, int(stop)
        start = int(stop)


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
def test_advantages_are_schulmans_equation_16(rng, gamma, lam):
    """delta_t = r_t + gamma V_{t+1} - V_t; A_t = sum over l of (gamma lam)^l delta_{t+l}."""
    batch = some_batch(rng)
    values = rng.normal(size=len(batch))
    wanted = []
    for start, stop in stretches(batch):
        v = [*values[start:stop], 0.0]  # no value follows the last decision
        r = batch.reward[start:stop]
        delta = [r[t] + gamma * v[t + 1] - v[t] for t in range(stop - start)]
        for t in range(stop - start):
            terms = [(gamma * lam) ** step * d for step, d in enumerate(delta[t:])]
            wanted.append(sum(terms))
    assert np.abs(generalised_advantages(batch, values, gamma, lam) - wanted).max() < 1e-12


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
def test_discounted_returns_are_the_sums_of_what_follows(rng, gamma):
    batch = some_batch(rng)
    wanted = []
    for start, stop in stretches(batch):
        r = batch.reward[start:stop]
        wanted += [sum(gamma**k * x for k, x in enumerate(r[t:])) for t in range(stop - start)]
    assert np.abs(discounted_returns(batch, gamma) - wanted).max() < 1e-12


def test_advantages_with_lambda_one_are_returns_less_the_baseline(rng):
    batch = some_batch(rng)
    values = rng.normal(size=len(batch))
    gap = generalised_advantages(batch, values, 0.97, 1.0) - (
        discounted_returns(batch, 0.97) - values
    )
    assert np.abs(gap).max() < 1e-12


def test_the_leave_one_out_baseline_keeps_the_mean_gradient(rng):
    """The baseline is compared with a loop."""
    advantage = rng.normal(size=60)
    infoset, member = rng.integers(0, 4, 60), np.repeat(np.arange(3), 20)
    less = subtract_leave_one_out_mean(advantage, infoset, member, 2.0)
    for d in range(60):
        others = (infoset == infoset[d]) & (member == member[d])
        others[d] = False
        baseline = advantage[others].sum() / (others.sum() + 2.0)
        assert abs(less[d] - (advantage[d] - baseline)) < 1e-12
    advantage[7] += 100  # a game's return is not in its own baseline
    assert (
        abs(subtract_leave_one_out_mean(advantage, infoset, member, 2.0)[7] - less[7] - 100) < 1e-9
    )
