"""Abstract heads-up limit hold'em as a BucketedGame: buckets of hands replace cards.

Samothrakis and Lucas 2011, "Approximating n-player behavioural strategy Nash equilibria using
coevolution". Details that the paper does not state are as in Johanson 2007, "Robust strategies
and counter-strategies". Payoffs are in small bets: a bet is 1 before the turn, then 2.
"""

from __future__ import annotations

import numpy as np

from overtrick.core import END, Array, BucketedGame, UserError
from overtrick.games.poker.betting_tree import build_betting_tree
from overtrick.games.poker.rules import LIMIT_HOLDEM_TEXTBOOK, RAISE, VERBS, PokerRules

SITUATION = ("round", "button", "own raises", "other's raises")
"""Names of the columns of the public betting states that `paper_index` returns."""

ROUNDING = 1e-6  # largest accepted error of a sum of stored probabilities


def abstract_holdem(
    start: Array, moves: Array, win: Array, rules: PokerRules = LIMIT_HOLDEM_TEXTBOOK
) -> BucketedGame:
    """Build abstract limit hold'em from the tables of a card abstraction; seat 0 has the button.

    `start`: (K, K) joint probability of both seats' first buckets.
    `moves`: transition probabilities of the buckets to the flop, to the turn and to the river. With
        shape (3, K, K), the bucket of each seat changes independently, and the first buckets are
        independent, too. With shape (3, K, K, K, K), the pair of both seats' buckets changes; the
        old pair precedes the new pair.
    `win`: (K, K) probability that seat 0 wins the showdown, plus half the probability of a tie.

    Probabilities are normalised to sum to exactly 1. Raises UserError for other shapes, and for
    probabilities that do not sum to 1 up to rounding.
    """
    start, moves, win = (np.asarray(table, np.float64) for table in (start, moves, win))
    betting = build_betting_tree(rules)
    size, changes = win.shape[0] if win.ndim else 0, len(rules.caps) - 1
    shapes = ((changes, size, size), (changes, size, size, size, size))
    if win.shape != (size, size) or start.shape != (size, size):
        raise UserError(
            f"start and win must be square tables of one size, not {start.shape}, {win.shape}"
        )
    if moves.shape not in shapes:
        raise UserError(f"moves must be {shapes[0]}, or joint {shapes[1]}, not {moves.shape}")
    if not ((win >= 0) & (win <= 1)).all():
        raise UserError("win must hold probabilities, from 0 to 1")
    start = _normalised("start", start, start.sum())
    joint = moves.ndim == 5
    sums = moves.sum(axis=(-2, -1) if joint else -1, keepdims=True)
    moves = _normalised("each table of moves", moves, sums)
    if not joint:
        start = np.outer(start.sum(axis=1), start.sum(axis=0))
    acts, shown = betting.seat >= 0, betting.live.all(axis=1)
    points = betting.chips.min(axis=1) / rules.chips_a_unit  # the loser's contribution to the pot
    return BucketedGame(
        name=rules.name,
        unit=rules.unit,
        action_names=tuple(name for name, _ in rules.actions),
        after=betting.after,
        seat=np.where(acts, betting.seat, END).astype(np.int32),
        round=betting.round.astype(np.int32),
        gain=np.where(acts | shown, 0.0, np.where(betting.live[:, 0], points, -points)),
        stake=np.where(~acts & shown, points, 0.0),
        start=start,
        moves=moves,
        win=win,
    )


def paper_index(rules: PokerRules = LIMIT_HOLDEM_TEXTBOOK) -> tuple[Array, Array]:
    """Number the betting states of Samothrakis and Lucas 2011.

    A strategy of that paper sees the betting of the current round only. Return two int32 arrays.
    The first is the index (B,) of the betting state at each public node, -1 at terminal nodes. The
    second lists the betting states (n, 4) in lexicographic order, with these columns:

    - round
    - 1 if the seat to act has the button, otherwise 0
    - raises of the seat to act in this round; the big blind is not a raise
    - raises of the other seat in this round
    """
    betting = build_betting_tree(rules)
    raised = np.zeros((len(betting.seat), 2), np.int32)
    acts = np.flatnonzero(betting.seat >= 0)
    for node in acts:
        raising = betting.verb[node, VERBS.index(RAISE)]
        for action, child in enumerate(betting.after[node]):
            if child >= 0 and betting.round[child] == betting.round[node]:
                raised[child] = raised[node]
                raised[child, betting.seat[node]] += action == raising
    seat = betting.seat[acts].astype(np.int64)
    own, other = raised[acts, seat], raised[acts, 1 - seat]
    rows = np.stack([betting.round[acts], seat == 0, own, other], axis=1)
    situations, number = np.unique(rows, axis=0, return_inverse=True)
    index = np.full(len(betting.seat), -1, np.int32)
    index[acts] = number.reshape(-1)
    return index, situations.astype(np.int32)


def _normalised(name: str, table: Array, sums: Array) -> Array:
    """Divide probabilities by their sums, so that they sum to exactly 1.

    name: name of the table for the error message. table: probabilities. sums: their sums, of a
    shape that broadcasts to `table`. Raises UserError for a negative probability, and for sums that
    differ from 1 by more than rounding.
    """
    if not (np.abs(sums - 1) < ROUNDING).all() or (table < 0).any():
        worst = np.ravel(sums)[np.abs(np.ravel(sums) - 1).argmax()]
        raise UserError(f"{name} must be probabilities that sum to 1, not to {worst:.6g}")
    return table / sums
