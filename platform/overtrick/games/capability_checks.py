"""Check the optional methods of a game, such as `redeal` or those of games evaluated by walks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick import core
from overtrick.core import Array, Deals, Observations, UserError, select_rows
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.uniform import UniformPolicy

MAX_ROWS = 100  # most rows of a turn that are checked one by one

Turns = list[tuple[Any, Observations, Array]]
"""Turns of random play: state before the turn, observations, and points gained (G, S)."""

COLUMNS = ("seat", "observation", "legal", "infoset")


class BrokenGameError(UserError):
    """Error: a game violates the interface in core/games.py.

    The message names the method and the remedy.
    """


def check(holds: Any, method: str, why: str) -> None:
    """Raise BrokenGameError unless `holds` is true.

    `method`: the method at fault, for the message. `why`: the remedy, for the message.
    """
    if not holds:
        raise BrokenGameError(f"{method}: {why}")


def equal_rows(one: Observations, two: Observations) -> bool:
    """Return True if two batches of observations are equal, ignoring the game index of each row."""
    return all(np.array_equal(getattr(one, n), getattr(two, n)) for n in COLUMNS)


def check_capabilities(game: Any, rows: Observations, deals: Deals, rng: Generator) -> None:
    """Check the optional methods of a game, such as `redeal`, on some of its observations.

    `rows`: the result of one call of `observe`. `deals`: the deals (G, C) of the games.
    """
    some = select_rows(rows, slice(0, MAX_ROWS))
    if isinstance(game, core.Redealable):
        again = game.redeal(some, rng)
        shape = (len(some), deals.shape[1])
        check(again.shape == shape, "redeal", f"must return deals {shape}, not {again.shape}")
        if isinstance(game, core.Resumable):
            there = game.observe(game.resume(some, again))
            ok = len(there) == len(some) and equal_rows(there, some)
            check(ok, "resume", "games must stand at the rows that they resume")
    if isinstance(game, core.ValidatesDeals):
        fine = game.are_possible_deals(deals)
        check(fine.shape == (len(deals),), "are_possible_deals", "must return (G,) bool")
        check(fine.all(), "are_possible_deals", "must accept the deals that `deal` draws")
        if deals.shape[1]:
            wrong = game.are_possible_deals(deals.astype(np.int64) + 10_000).any()
            check(not wrong, "are_possible_deals", "must refuse numbers that no deal contains")
    if isinstance(game, core.PublicActionGame):
        owners = game.column_seats
        ok = len(owners) == deals.shape[1] and set(owners) <= {-1, *range(game.seats)}
        check(ok, "column_seats", f"must have {deals.shape[1]} numbers: a seat each, or -1 for all")
    if isinstance(game, core.PublicSituations):
        found, most = game.public_situation(some), game.public_situations
        within = found.shape == (len(some),) and ((found >= 0) & (found < most)).all()
        check(within, "public_situation", f"must return (R,) numbers from 0 to {most - 1}")
    if isinstance(game, core.CompactFeatures):
        found = game.compact_features(some)
        small = found.ndim == 2 and len(found) == len(some) and (np.abs(found) <= 1).all()
        check(small, "compact_features", "must return (R, F) numbers from -1 to 1")
    if isinstance(game, core.PrivilegedFeatures):
        found = game.privileged_features(some, deals[some.game])
        ok = found.ndim == 2 and len(found) == len(some) and found.dtype == np.float32
        check(ok and np.isfinite(found).all(), "privileged_features", "must be (R, F) float32")
    if isinstance(game, core.SuitSymmetric):
        _check_canonical_suits(game, some)
    if isinstance(game, core.AbstractStates):
        _check_abstract_states(game, some)


def check_redeal(game: Any, rows: Observations, rng: Generator) -> None:
    """Check that deals sampled by `redeal` give the same observations at the start of a game.

    `rows`: the observations at the start of some games.
    """
    if not isinstance(game, core.Redealable):
        return
    again = game.observe(game.start(game.redeal(rows, rng)))
    owner = np.arange(len(rows)) * game.seats + rows.seat
    found = np.flatnonzero(np.isin(again.game * game.seats + again.seat, owner))
    ok = len(found) == len(rows) and equal_rows(select_rows(again, found), rows)
    check(ok, "redeal", "must keep all that the seat has observed")


def check_related_games(game: Any, deals: Deals, turns: Turns) -> None:
    """Check that games derived from this one give the same observations at the start.

    The derived games come from `portable_options`, `evaluation_game`, `with_shaping` and
    `policy_of_view`; a game may lack each of these methods. `deals`: the deals (G, C) of some
    games. `turns`: all turns of these games.
    """
    related: dict[str, Any] = {}
    if isinstance(game, core.PortableOptions):
        related["portable_options"] = type(game)(**game.portable_options())
    if isinstance(game, core.EvaluatedOnAnother):
        related["evaluation_game"] = game.evaluation_game()
    if isinstance(game, core.ShapesRewards):
        related["with_shaping"] = game.with_shaping(0.5)
    if isinstance(game, core.SeveralViews):
        same: list[Any] = []
        game.policy_of_view(game.view, same.append)
        check(len(same) == 1, "policy_of_view", "must call make once")
        related["policy_of_view"] = same[0]
    for method, other in related.items():
        ok = equal_rows(other.observe(other.start(deals.copy())), turns[0][1])
        check(ok, method, "the game must start as this game does")


def _check_canonical_suits(game: Any, rows: Observations) -> None:
    """Check how a game relabels the suits of observations to a canonical order.

    The relabelling must permute the actions, and leave an observation in canonical order unchanged.
    """
    found, original = game.canonical_observations(rows)
    order = np.sort(original, axis=1)
    ok = order.shape == (len(rows), game.actions) and (order == np.arange(game.actions)).all()
    check(ok, "canonical_observations", "must return a permutation of the actions for each row")
    ok = np.array_equal(np.take_along_axis(rows.legal, original, axis=1), found.legal)
    check(ok, "canonical_observations", "must relabel the legal actions like the observation")
    ok = equal_rows(game.canonical_observations(found)[0], found)
    check(ok, "canonical_observations", "must leave rows in canonical order as they are")
    uniform = UniformPolicy()
    ok = np.allclose(game.canonical_policy(uniform).probs(rows), uniform.probs(rows))
    check(ok, "canonical_policy", "must give each action the probability of its relabelled action")


def _check_abstract_states(game: Any, rows: Observations) -> None:
    """Check the methods of core.AbstractStates: `state_keys` and `combined_policy`.

    `state_keys` must reject the name of an unknown state abstraction. `combined_policy` combines
    policies of named players, such as the declarer, with a default policy `others` for all
    remaining players. Without named players, the combined policy must equal `others`.
    """
    try:
        game.state_keys("")
    except UserError:
        pass
    else:
        raise BrokenGameError("state_keys: must raise UserError for an unknown name")
    uniform = UniformPolicy()
    ok = np.array_equal(game.combined_policy({}, uniform).probs(rows), uniform.probs(rows))
    check(ok, "combined_policy", "must act as `others` for players without a policy")


def check_walked_game(game: Any, deals: Deals, turns: Turns, rng: Generator) -> None:
    """Check the methods by which a game without a tree is evaluated exactly, if it has them.

    `deals`: the deals (G, C) of some games. `turns`: all turns of these games.
    """
    if isinstance(game, core.PhantomGame):
        for _, observations, _ in turns:
            _check_phantom_views(game, observations)
    if isinstance(game, core.HiddenBidGame):
        for _, observations, _ in turns:
            _check_hidden_bid_views(game, observations)
        _check_hidden_bids(game, deals, rng)


def _check_phantom_views(game: Any, rows: Observations) -> None:
    """Check that a phantom game makes the observations of its turns from the seats' attempts."""
    check(
        game.wins.dtype == bool and game.wins.shape == (2, 2**game.actions),
        "wins",
        f"must be (2, {2**game.actions}) bool: both seats, all sets of marks",
    )
    _check_view_observations(game, rows, np.int8)


def _check_hidden_bid_views(game: Any, rows: Observations) -> None:
    """Check that a bidding game with hidden bids makes the observations of its turns from views."""
    check(game.actions == game.cards, "cards", f"must be {game.actions}, the number of actions")
    _check_view_observations(game, rows, np.int64)


def _check_hidden_bids(game: Any, deals: Deals, rng: Generator) -> None:
    """Play random games; check the results that seats see, and the payoffs."""
    n, (games,) = game.cards, deals.shape[:1]
    state, gain = game.start(deals.copy()), np.zeros((games, game.seats))
    bids = np.zeros((games, game.seats, n), np.int64)
    rows: Any = None
    for turn in range(n - 1):
        rows = game.observe(state)
        check(len(rows) == games * game.seats, "observe", "both seats must bid in every round")
        action = sample_actions(UniformPolicy().probs(rows), rng).action
        bids[rows.game, rows.seat, turn] = action + 1
        gain += game.step(state, rows, action)
    check(not len(game.observe(state)), "step", "the last cards must be bid without a decision")
    bids[:, :, -1] = n * (n + 1) // 2 - bids.sum(axis=2)
    won = np.sign(bids[:, 0] - bids[:, 1])
    seen = won[rows.game, : n - 2] * np.where(rows.seat == 0, 1, -1)[:, None]
    shown = rows.observation[:, 2 * n - 2 :]
    check(np.array_equal(shown, seen), "observe", "must show who has won each round before")
    prizes = np.zeros((games, n), np.int64)
    prizes[rows.game, :-1] = rows.observation[:, 1:n]
    prizes[:, -1] = game.prize_orders()[0].sum() - prizes.sum(axis=1)
    expected = np.sign((won * prizes).sum(axis=1))
    right = np.array_equal(gain, np.column_stack([expected, -expected]))
    check(right, "step", "the seat with the higher total of prizes must gain 1, the other lose 1")


def _check_view_observations(game: Any, rows: Observations, kind: type) -> None:
    """Check that `view_observations` makes the observations of play from their view's columns."""
    for seat in range(game.seats):
        own = select_rows(rows, np.flatnonzero(rows.seat == seat))
        made = game.view_observations(seat, own.observation[:, 1:].astype(kind))
        same = all(
            np.array_equal(getattr(made, name), getattr(own, name))
            for name in ("seat", "observation", "legal")
        )
        check(same, "view_observations", "must make the observations that play shows")
