"""The memory of a tree is known before it is built: a job that cannot fit stops at once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import overtrick
from overtrick.core import END, Observations, TreeNodes, UserError
from overtrick.games.openspiel_tree import OpenSpiel
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build, estimated_bytes

GIB = 2**30


class Wide:
    """Game in which seats choose in turn between the first two of many actions, in public."""

    name, unit, action_names = "wide", "point", ()

    def __init__(self, depth, seats, actions):
        self.depth, self.seats, self.actions = depth, seats, actions

    def nodes(self, fits):
        inner = 2**self.depth - 1
        node = np.arange(2 * inner + 1)
        level = np.log2(node + 1).astype(int)
        acts = node < inner
        seat = np.where(acts, level % self.seats, END).astype(np.int32)
        rows = node[:inner]
        legal = np.zeros((inner, self.actions), bool)
        legal[:, :2] = True
        return TreeNodes(
            seats=self.seats,
            parent=((node + 1) // 2 - 1).astype(np.int32),
            edge=((node + 1) % 2).astype(np.int32),
            seat=seat,
            infoset=np.where(acts, node, -1).astype(np.int32),
            chance=np.ones(len(node)),
            gain=np.zeros((len(node), self.seats)),
            observations=Observations(
                rows, seat[:inner].astype(np.int64), rows[:, None], legal, rows
            ),
        )


def solved(game):
    """Build the tree and run the work that takes the most memory."""
    tree = build(game)
    sigma = cfr.solve(tree, 1)
    best_response.nash_conv(tree, sigma)
    best_response.policy_gradient(tree, sigma, 0)
    return tree


@pytest.mark.parametrize(
    "game",
    [
        lambda: overtrick.make("one_card", ranks=50),
        lambda: overtrick.make("leduc"),
        lambda: overtrick.make("leduc_textbook", fold=False),
        lambda: OpenSpiel("leduc_poker"),
        lambda: OpenSpiel("kuhn_poker(players=4)"),
        lambda: OpenSpiel("liars_dice(numdice=1,dice_sides=4)"),
        lambda: OpenSpiel("goofspiel(imp_info=true,num_cards=4)"),
        lambda: Wide(12, 2, 2),
        lambda: Wide(12, 6, 50),
        lambda: Wide(12, 10, 2),
        lambda: Wide(10, 2, 200),
    ],
)
def test_a_tree_takes_little_less_than_its_estimate(game):
    solved(game())  # compiles the kernels
    tracemalloc.start()
    tree = solved(game())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    peak += 2 * tree.gain.nbytes  # allocations of kernels are not traced
    assert (
        peak
        < estimated_bytes(tree.nodes, tree.infosets, tree.seats, tree.legal.shape[1])
        < 1.5 * peak
    )


def test_a_tree_that_just_fits_is_built_and_one_byte_less_is_not(game_and_tree):
    for name in ("leduc", "openspiel/kuhn_poker"):
        game, tree = game_and_tree(name)
        takes = int(estimated_bytes(tree.nodes, tree.infosets, tree.seats, tree.legal.shape[1]))
        assert build(game, memory=takes).nodes == tree.nodes
        with pytest.raises(UserError, match="do not fit in memory"):
            build(game, memory=takes - 1)


@pytest.mark.parametrize(
    ("name", "message"), [("one_card", "143,964,000"), ("leduc", "5,436,112,632,000")]
)
def test_a_tree_that_cannot_fit_is_refused_before_any_deal_is_made(monkeypatch, name, message):
    def never(self):
        raise AssertionError

    monkeypatch.setattr(EnumerablePoker, "_equal_deals", property(never))
    game = overtrick.make(name, ranks=4_000)
    with pytest.raises(UserError, match=f"{name} has {message} deals or nodes or more"):
        build(game, memory=16 * GIB)
