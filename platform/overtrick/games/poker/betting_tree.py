"""The betting tree of limit poker as arrays: one node for each public betting sequence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.poker.rules import CALL, CHECK, CLOSER_LEFT, FOLD, RAISE, VERBS, PokerRules

MOST_NODES = 32_767  # observations hold a node's number as int16


@dataclass(frozen=True, eq=False)
class BettingTree:
    """All B public betting nodes of a game as arrays, in preorder; node 0 is the root."""

    after: Array  # (B, A) int32 next node, -1 where illegal
    legal: Array  # (B, A) bool
    verb: Array  # (B, 4) int8 action that means fold, check, call, raise here; -1 if none does
    seat: Array  # (B,) int8 seat to act, -1 at a terminal node
    round: Array  # (B,) int8 betting round; at a terminal node, the round of the last action
    raised: Array  # (B, rounds) int8 number of raises in each round so far
    chips: Array  # (B, S) int16 chips that each seat has in the pot
    live: Array  # (B, S) bool: the seat has not folded
    history: tuple[tuple[int, ...], ...]  # (B,) the actions from the root to each node


class _Node(NamedTuple):
    """One betting node during construction of the tree."""

    round: int
    seat: int
    pending: int  # seats that must still act before the round ends
    raised: tuple[int, ...]  # raises made in each round
    chips: tuple[int, ...]
    live: tuple[bool, ...]
    history: tuple[int, ...] = ()


@cache
def build_betting_tree(rules: PokerRules) -> BettingTree:
    """Build the betting tree of a game from its rules.

    The result is cached by rules, because hold'em's tree takes a moment to build.
    """
    seats = len(rules.posts)
    everyone = (True,) * seats
    first = _Node(0, rules.openers[0], seats, (0,) * len(rules.caps), rules.posts, everyone)
    nodes: list[_Node] = []
    after: list[list[int]] = []
    verbs: list[list[int]] = []

    def visit(node: _Node) -> int:
        index = len(nodes)
        nodes.append(node)
        row = [-1] * len(rules.actions)
        after.append(row)
        verb_actions = [-1] * len(VERBS)
        verbs.append(verb_actions)
        if node.seat >= 0:
            allowed = _legal_verbs(rules, node)
            for action, (_, meanings) in enumerate(rules.actions):
                for verb in allowed & set(meanings):
                    verb_actions[VERBS.index(verb)] = action
                    child = _apply(rules, node, verb)
                    row[action] = visit(child._replace(history=(*node.history, action)))
        return index

    visit(first)
    if len(nodes) > MOST_NODES:
        raise UserError(
            f"{rules.name}: {len(nodes):,} betting nodes, and observations number at most "
            f"{MOST_NODES:,}: lower caps"
        )
    table = np.array(after, np.int32)
    return BettingTree(
        after=table,
        legal=table >= 0,
        verb=np.array(verbs, np.int8),
        seat=np.array([n.seat for n in nodes], np.int8),
        round=np.array([n.round for n in nodes], np.int8),
        raised=np.array([n.raised for n in nodes], np.int8),
        chips=np.array([n.chips for n in nodes], np.int16),
        live=np.array([n.live for n in nodes], bool),
        history=tuple(n.history for n in nodes),
    )


def _legal_verbs(rules: PokerRules, node: _Node) -> set[str]:
    facing = max(node.chips) > node.chips[node.seat]
    verbs = {CALL} if facing else {CHECK}
    if facing or rules.fold_when_free:
        verbs.add(FOLD)
    if node.raised[node.round] < rules.caps[node.round]:
        verbs.add(RAISE)
    return verbs


def _apply(rules: PokerRules, node: _Node, verb: str) -> _Node:
    chips, live = list(node.chips), list(node.live)
    pending, raised = node.pending - 1, list(node.raised)
    if verb == FOLD:
        live[node.seat] = False
    elif verb == CALL:
        chips[node.seat] = max(chips)
    elif verb == RAISE:
        chips[node.seat] = max(chips) + rules.raises[node.round]
        pending = sum(live) - 1
        raised[node.round] += 1
    last_round = node.round == len(rules.caps) - 1
    after = node._replace(raised=tuple(raised), chips=tuple(chips), live=tuple(live))
    if sum(live) == 1 or (pending == 0 and last_round):
        return after._replace(seat=-1, pending=0)
    if pending == 0:
        opener = rules.openers[node.round + 1]
        seat = _live_from(live, node.seat + 1 if opener == CLOSER_LEFT else opener)
        return after._replace(round=node.round + 1, seat=seat, pending=sum(live))
    return after._replace(seat=_live_from(live, node.seat + 1), pending=pending)


def _live_from(live: list[bool], seat: int) -> int:
    """Return the first seat from `seat` on, in order of play, that has not folded.

    `live`: for each seat, whether it has not folded.
    """
    return next(s % len(live) for s in range(seat, seat + len(live)) if live[s % len(live)])
