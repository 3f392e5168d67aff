"""What sampled decisions deserve, less the luck that the tree can tell (AIVAT).

Games are drawn on the tree, and a guess of how the others play gives each node a worth. What
chance and the seat's own draws added to that worth, against what they add on average, is luck:
its mean is 0 whatever the others really play, so it is left out, and no bias comes in. What the
others did stays. Burch et al. 2018, "AIVAT: a new variance reduction technique for agent
evaluation in imperfect information games".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array
from overtrick.solvers.extensive.best_response import edge_probability
from overtrick.solvers.extensive.tree import Tree


@dataclass(frozen=True)
class AivatRollouts:
    """What came of some games, added up by information set."""

    taken: Array  # (N, A) decisions of all seats for each action
    credit: Array  # (N, A) sum of the advantages of the seat's decisions for an action
    returns: Array  # (N,) sum of the points won from the seat's decisions on
    payoff: float  # sum of the points won


def sample_rollouts(
    tree: Tree, sigma: Array, guess: Array, seat: int, games: int, rng: Generator
) -> AivatRollouts:
    """Play games by sigma (N, A), and credit a seat's decisions without its luck.

    guess (N, A) has the seat's own rows of sigma, and of the others what they are thought to
    play: the nearer to the truth, the less noise is left. An advantage is the worth of what the
    action led to, less that of the node, plus what the others' later actions changed. Whoever
    judges a finished game so looks at all of its cards.
    """
    gain = tree.gains[seat]
    worth = _worth(tree.parent, gain, edge_probability(tree, guess))
    drawn = edge_probability(tree, sigma)
    found = AivatRollouts(
        np.zeros(sigma.shape), np.zeros(sigma.shape), np.zeros(tree.infosets), 0.0
    )
    payoff = _roll(
        tree.first, tree.children, tree.edge, tree.seat, tree.infoset, gain, drawn, worth,
        seat, games, rng, found.taken, found.credit, found.returns,
    )  # fmt: skip
    return AivatRollouts(found.taken, found.credit, found.returns, payoff)


@njit(cache=True)
def _worth(parent, gain, probability):  # type: ignore[no-untyped-def]
    """(V,) mean points gained on the edge into a node and below it."""
    worth = gain.copy()
    for node in range(len(parent) - 1, 0, -1):
        worth[parent[node]] += probability[node] * worth[node]
    return worth


@njit(cache=True)
def _roll(  # type: ignore[no-untyped-def]
    first, children, edge, seat, infoset, gain, drawn, worth, who, games, rng,
    taken, credit, returns,
):  # fmt: skip
    payoff = 0.0
    path = [0]
    for _ in range(games):
        node = 0
        path.clear()
        path.append(node)
        while children[node] > 0:
            child, last = first[node], first[node] + children[node] - 1
            left = rng.random()
            while child < last and left >= drawn[child]:
                left -= drawn[child]
                child += 1
            node = child
            path.append(node)
        won, later = 0.0, 0.0  # points, and what the others' actions changed, from here on
        for k in range(len(path) - 1, 0, -1):
            child, node = path[k], path[k - 1]
            change = worth[child] - (worth[node] - gain[node])
            won += gain[child]
            if seat[node] >= 0:
                row = infoset[node]
                taken[row, edge[child]] += 1
                if seat[node] == who:
                    credit[row, edge[child]] += change + later
                    returns[row] += won
                else:
                    later += change
        payoff += won
    return payoff
