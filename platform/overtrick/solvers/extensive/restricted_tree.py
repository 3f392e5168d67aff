"""Restricted games: a game tree in which every seat may use only some of its actions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from overtrick.core import Array, TreeNodes, select_rows
from overtrick.solvers.extensive.tree import Tree, tree_from_nodes


@dataclass(frozen=True)
class RestrictedTree:
    """Tree of a restricted game, and the place of its n information sets in the whole game."""

    whole: Tree
    tree: Tree
    allowed: Array  # (N, A) bool the actions of the whole game that may be used
    rows: Array  # (n,) index of each information set in the whole game

    def extend(self, sigma: Array) -> Array:
        """Return the strategy (N, A) of the whole game that plays sigma (n, A) where it is defined.

        Elsewhere, where allowed actions never lead, all allowed actions are equally likely.
        """
        extended = self.allowed / self.allowed.sum(axis=1, keepdims=True)
        extended[self.rows] = sigma
        return extended


def restrict(tree: Tree, allowed: Array) -> RestrictedTree:
    """Build the restricted game of a game tree.

    `allowed` (N, A): True for the legal actions that may be used, at least one in every row.
    """
    kept, new_parent = _kept_nodes(tree.parent, tree.edge, tree.seat, tree.infoset, allowed)
    infosets = tree.infoset[kept]
    rows = np.unique(infosets[infosets >= 0])
    # the last entry stands for -1, no information set
    number = np.full(tree.infosets + 1, -1, np.int32)
    number[rows] = np.arange(len(rows))
    observations = replace(select_rows(tree.observations, rows), legal=allowed[rows])
    if observations.infoset is not None:
        observations = replace(observations, infoset=np.arange(len(rows)))
    nodes = TreeNodes(
        tree.seats,
        new_parent,
        tree.edge[kept],
        tree.seat[kept],
        number[infosets],
        tree.chance[kept],
        tree.gain[kept],
        observations,
    )
    return RestrictedTree(tree, tree_from_nodes(nodes, "the restricted game"), allowed, rows)


@njit(cache=True)
def _kept_nodes(parent, edge, seat, infoset, allowed):  # type: ignore[no-untyped-def]
    """Return (kept,) the nodes that allowed actions reach, and the new numbers of their parents.

    `parent`, `edge`, `seat`, `infoset` (V,): those of TreeNodes. `allowed` (N, A): bool.
    """
    number = np.full(len(parent), -1, np.int32)
    number[0] = 0
    kept, above = [0], [-1]
    for node in range(1, len(parent)):
        over = parent[node]
        if number[over] < 0 or (seat[over] >= 0 and not allowed[infoset[over], edge[node]]):
            continue
        number[node] = len(kept)
        kept.append(node)
        above.append(number[over])
    return np.array(kept), np.array(above, dtype=np.int32)
