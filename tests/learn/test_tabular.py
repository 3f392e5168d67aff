"""Tables of action values: what they learn, and how tables are merged."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rounding import assert_float32_close

from overtrick.core import Trajectories
from overtrick.games.registry import make
from overtrick.learners.value_based.tabular import (
    INITIAL_CAPACITY,
    QTable,
    TabularConfig,
)
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build


def by_infoset(observations):
    """Return the information set as the state of a row; 0 is no state."""
    return (observations.infoset + 1).astype(np.uint64)[:, None]


def by_action(observations):
    """Return the state for each legal action."""
    states = (
        observations.infoset[:, None] * observations.legal.shape[1]
        + np.arange(observations.legal.shape[1])
    ) + 1
    return np.where(observations.legal, states, 0).astype(np.uint64)


def path(states, actions, rewards, game=None):
    """Return one game of single decisions with two legal actions."""
    count = len(states)
    game = np.zeros(count, np.int64) if game is None else np.array(game)
    last = np.append(game[1:] != game[:-1], True)
    return Trajectories(
        int(game[-1]) + 1, game, np.zeros(count, np.int64), np.zeros((count, 0), np.int64),
        np.ones((count, 2), bool), np.array(states), np.array(actions), np.zeros(count),
        np.array(rewards, float), last,
    )  # fmt: skip


def values_of(table, states):
    """Return the values of both actions of some states."""
    observations = path(states, [0] * len(states), [0.0] * len(states)).observations()
    return table.policy(False).values(observations).tolist()


@pytest.mark.parametrize("states", [by_infoset, by_action])
@pytest.mark.parametrize(("rule", "epsilon"), [("q", 1.0), ("sarsa", 0.05)])
def test_a_table_finds_the_best_response_on_kuhn(states, rule, epsilon):
    game = make("kuhn")
    tree = build(game)
    opponent = best_response.sigma_of(tree, [UniformPolicy()] * 2)
    table = QTable(states, TabularConfig(rule, None, 1.0))
    rng = np.random.default_rng(0)
    for round in range(20):
        mine = table.policy(True, 1.0 if round == 0 else epsilon)
        table.learn(play(game, (mine, UniformPolicy()), 1000, rng, recorded=[0]).batch)
    both = best_response.sigma_of(tree, [table.policy(False)] * 2)
    reply = np.where((tree.observations.seat == 0)[:, None], both, opponent)
    best, _ = best_response.best_response(tree, opponent, 0)
    assert best_response.expected(tree, reply)[0] == pytest.approx(best, abs=0.01)


def test_q_learning_bootstraps_from_the_best_action_and_sarsa_from_the_next_one():
    # in state 2 action 1 has value 1, and action 0 none; then a game goes 1 -> 2 by action 0
    played = path([2, 2, 1, 2], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 2, 2])
    for rule, follows in (("q", 0.5 * 0.5), ("sarsa", 0.0)):
        table = QTable(by_infoset, TabularConfig(rule, 0.5, 0.5))
        table.learn(played)
        assert values_of(table, [1])[0] == [0.5 * follows, -np.inf]


def test_alpha_is_the_learning_rate_and_none_gives_the_mean():
    rewards = [1.0, 0.0, 0.0, 3.0]
    played = path([7] * 4, [0] * 4, rewards, [0, 1, 2, 3])
    moved = 0.0
    for reward in rewards:
        moved += 0.3 * (reward - moved)
    for alpha, expected in ((0.3, moved), (None, 1.0)):
        table = QTable(by_infoset, TabularConfig("q", alpha, 0.9))
        table.learn(played)
        assert values_of(table, [7])[0][0] == pytest.approx(expected)


def test_neighbouring_actions_learn_a_share_of_the_reward():
    like = np.array([[1], [-1]]), np.array([[2], [1]])
    table = QTable(by_infoset, TabularConfig("q", 1.0, 0.0, 0.8), like)
    table.learn(path([3, 4], [0, 1], [1.0, 1.0], [0, 1]))
    assert values_of(table, [3, 4]) == [[1.0, pytest.approx(0.64)], [-np.inf, 1.0]]


def test_merged_values_are_weighted_by_visits():
    plan = TabularConfig("q", None, 0.0)
    one, other = QTable(by_infoset, plan), QTable(by_infoset, plan)
    one.learn(path([5, 5, 5, 6], [0] * 4, [1.0, 1.0, 1.0, 2.0], [0, 1, 2, 3]))
    other.learn(path([5, 9], [0, 1], [5.0, 4.0], [0, 1]))
    one.merge(other.columns)
    assert values_of(one, [5, 6, 9]) == [[2.0, -np.inf], [2.0, -np.inf], [-np.inf, 4.0]]


def test_merged_tables_of_means_equal_one_table_of_all_games():
    rng = np.random.default_rng(1)
    plan = TabularConfig("q", None, 0.0)
    parts = [
        path(
            rng.integers(1, 3000, 5000),
            rng.integers(2, size=5000),
            rng.normal(size=5000),
            range(5000),
        )
        for _ in range(5)
    ]
    whole, apart = QTable(by_infoset, plan), [QTable(by_infoset, plan) for _ in parts]
    for table, part in zip(apart, parts, strict=True):
        table.learn(part)
        whole.learn(part)
    merged, *others = apart
    for other in others:
        merged.merge(other.columns)
    states = list(range(1, 3000))
    found, wanted = (np.asarray(values_of(table, states)) for table in (merged, whole))
    visited = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(found), visited)
    assert_float32_close(found[visited], wanted[visited])


def test_a_growing_table_keeps_its_entries():
    table = QTable(by_infoset, TabularConfig("q", 1.0, 0.0))
    states = np.arange(1, 4 * INITIAL_CAPACITY)
    table.learn(path(states, states % 2, states.astype(float), np.arange(len(states))))
    expected = np.array(values_of(table, states))
    assert (expected[np.arange(len(states)), states % 2] == states).all()
    assert np.isneginf(expected[np.arange(len(states)), 1 - states % 2]).all()
    again = QTable(by_infoset, table.config)
    again.load(table.state())
    assert (np.array(values_of(again, states)) == expected).all()
    assert (again.choices, again.states_known) == (table.choices, table.states_known)


def test_unknown_states_are_played_at_random():
    table = QTable(by_infoset, TabularConfig("q", 1.0, 0.0))
    table.learn(path([1], [1], [-1.0]))
    observations = path([1, 2], [0, 0], [0.0, 0.0]).observations()
    assert table.policy(False).probs(observations).tolist() == [[0.0, 1.0], [0.5, 0.5]]


def test_a_random_action_may_be_the_best_one():
    table = QTable(by_infoset, TabularConfig("q", 1.0, 0.0))
    table.learn(path([1, 1], [0, 1], [-1.0, 2.0]))
    observations = path([1, 2], [0, 0], [0.0, 0.0]).observations()
    explored = table.policy(epsilon=0.4).probs(observations)
    assert explored == pytest.approx(np.array([[0.2, 0.8], [0.5, 0.5]]))
