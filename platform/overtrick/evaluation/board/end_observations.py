"""Observations of seats at the end of a game: all actions, the cards seen, and the payoff."""

from __future__ import annotations

from typing import Literal

import numpy as np

from overtrick.core import CHANCE, END, Array, DealtCards, PublicActionGame
from overtrick.solvers.extensive.tree import Tree

Told = Literal["own_cards", "showdown", "all_cards"]
"""Cards of the opponent that a player is told after a game: none, those of a showdown, or all."""

SETTINGS: dict[str, Told] = {
    "own_cards": "own_cards",
    "showdown": "showdown",
    "all_cards": "all_cards",
}

Path = tuple[tuple[int, ...], tuple[int, ...]]
"""Chance outcomes (columns of the deal) and actions on the way to a node."""


def end_observations(game: PublicActionGame, tree: Tree, seat: int, told: Told) -> Array:
    """Number the observations that a seat can have at the end of a game.

    An observation consists of all actions, of the cards that the seat saw in play, of its payoff,
    and of the cards that it is told after the game. Returns (V,) int32: the number of the
    observation at each terminal node, -1 at other nodes. Nodes with equal observations have the
    same number.
    """
    payoff = end_payoffs(tree)
    numbers: dict[tuple[Path, float], int] = {}
    found = np.full(tree.nodes, -1, np.int32)
    for node, (cards, actions) in enumerate(node_paths(game, tree)):
        if tree.seat[node] != END:
            continue
        seen = seen_cards(game, seat, told, cards, actions)
        observed = (seen, actions), round(float(payoff[node, seat]), 6)
        found[node] = numbers.setdefault(observed, len(numbers))
    return found


def seen_cards(
    game: DealtCards, seat: int, told: Told, cards: tuple[int, ...], actions: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the cards of a finished game, -1 in place of those that a seat has not seen.

    `cards`: the columns of the deal that chance has drawn. `actions`: all actions of the game.
    """
    if told == "all_cards" or (told == "showdown" and game.ends_with_showdown(actions)):
        return cards
    owners = game.column_seats
    return tuple(c if owners[k] in (seat, -1) else -1 for k, c in enumerate(cards))


def end_payoffs(tree: Tree) -> Array:
    """Return (V, S) the points that each seat has gained from the root to each node."""
    total = tree.gain.copy()
    for node in range(1, tree.nodes):
        total[node] += total[tree.parent[node]]
    return total


def node_paths(game: PublicActionGame, tree: Tree) -> list[Path]:
    """Return the deal's columns that chance has drawn and the actions before each node."""
    deals = {tuple(deal) for deal in game.every_deal()[0].tolist()}
    outcomes: dict[tuple[int, ...], set[int]] = {}
    for deal in deals:
        for column, card in enumerate(deal):
            outcomes.setdefault(deal[:column], set()).add(card)
    in_order = {prefix: sorted(cards) for prefix, cards in outcomes.items()}
    paths: list[Path] = [((), ())]
    for node in range(1, tree.nodes):
        cards, actions = paths[tree.parent[node]]
        edge = int(tree.edge[node])
        if tree.seat[tree.parent[node]] == CHANCE:
            paths.append(((*cards, in_order[cards][edge]), actions))
        else:
            paths.append((cards, (*actions, edge)))
    return paths
