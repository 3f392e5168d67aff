"""Checks of a game against the contract of core/games.py, also for games outside the package."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Array,
    BoundedPayoff,
    CompactFeatures,
    Deals,
    Enumerable,
    Game,
    Observations,
    PrivilegedFeatures,
    PublicSituations,
    Redealable,
    Resumable,
    UserError,
    ValidatesObservations,
    is_zero_sum,
    select_rows,
)
from overtrick.games import observation_checks
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build

GAMES = 2_000  # of random play
LONGEST = 1_000  # turns of a game
ROWS = 100  # of a turn that are looked at one by one
ERRORS = 6  # standard errors that sampled and exact values may differ by
COLUMNS = ("seat", "observation", "legal", "infoset")

Turns = list[tuple[Any, Observations, Array]]
"""Random play: at each turn a copy of the state before it, the rows, the points (G, S)."""


class BrokenGameError(UserError):
    """A game breaks its contract; the message names the method and the remedy."""


def check_game(game: Any, deals: Deals | None = None, seed: int = 0) -> None:
    """Raise BrokenGameError for the first law of the contract that a game breaks.

    deals (G, C) replace those of game.deal where solving them is slow. The check plays random
    games, so a rare fault may escape it. Games of real moves are checked without their actions.
    """
    _names(game)
    rng = np.random.default_rng(seed)
    count = GAMES if game.actions is not None else 4
    first, again = (game.deal(count, np.random.default_rng(seed)) for _ in range(2))
    _law(len(first) == count, "deal", f"must return one row a game, {count}, not {len(first)}")
    _law(np.array_equal(first, again), "deal", "must draw only from the generator that it is given")
    deals = first if deals is None else deals
    turns = _turns(game, deals, rng)
    for state, observations, gain in turns:
        _rows(game, observations)
        _points(game, observations, gain, len(deals))
        _copies(game, state)
        _features(game, observations)
        _words(game, observations)
        _capabilities(game, observations, deals, rng)
    _redeals(game, turns[0][1], rng)
    _payoffs(game, turns)
    _pickles(game, deals, turns)
    if game.actions is not None:
        _validation(game, turns, rng)
        _illegal(game, turns)
    if isinstance(game, Enumerable) and game.infosets is not None:
        _enumeration(game, deals, turns)


def _law(holds: Any, method: str, why: str) -> None:
    """Raise BrokenGameError with the method and the remedy unless a law holds."""
    if not holds:
        raise BrokenGameError(f"{method}: {why}")


def _names(game: Any) -> None:
    """Check the attributes and methods that every game has."""
    wanted = sorted(name for name in (*Game.__annotations__, *vars(Game)) if name[0] != "_")
    missing = [name for name in wanted if not hasattr(game, name)]
    _law(not missing, "Game", f"define {', '.join(missing)}: every game has them")
    _law(game.name and game.unit, "name", "name and unit must not be empty")
    if game.actions is not None:
        named, actions = len(game.action_names), game.actions
        _law(named == actions, "action_names", f"must name each of {actions} actions, not {named}")
        _law(isinstance(game, BoundedPayoff), "lowest_payoff", "define it: illegal actions pay it")


def _turns(game: Any, deals: Deals, rng: Generator) -> Turns:
    """Play uniformly at random to the end."""
    state, turns = game.start(deals.copy()), Turns()
    while len(observations := game.observe(state)):
        _law(len(turns) < LONGEST, "step", f"games must end within {LONGEST} turns")
        before = copy.deepcopy(state)
        if game.actions is None:
            action = rng.uniform(-1, 1, (len(observations), len(game.action_names)))
        else:
            _rows(game, observations)
            action = sample_actions(UniformPolicy().probs(observations), rng).action
        turns.append((before, observations, game.step(state, observations, action)))
    _law(turns, "observe", "must return the rows that act at the start of a game, not none")
    return turns


def _rows(game: Any, rows: Observations) -> None:
    """Check the shapes, types and ranges of decision rows."""
    count, wide = len(rows), len(game.observation_fields)
    shape = rows.observation.shape
    _law(shape == (count, wide), "observe", f"observation must be {(count, wide)}, not {shape}")
    fine = ((rows.seat >= 0) & (rows.seat < game.seats)).all()
    _law(fine, "observe", f"seat must be from 0 to {game.seats - 1}")
    owner = rows.game * game.seats + rows.seat
    _law(len(np.unique(owner)) == count, "observe", "a seat must have at most one row a game")
    if game.actions is None:
        _law(rows.legal is None, "observe", "legal must be None where actions are real vectors")
        return
    whole = np.issubdtype(rows.observation.dtype, np.integer)
    _law(whole, "observe", f"observation must be integers, not {rows.observation.dtype}")
    fine = rows.legal is not None and rows.legal.shape == (count, game.actions)
    _law(fine, "observe", f"legal must be {(count, game.actions)}")
    assert rows.legal is not None
    _law(rows.legal.dtype == bool, "observe", f"legal must be bool, not {rows.legal.dtype}")
    _law(rows.legal.any(axis=1).all(), "observe", "every row must have a legal action")
    numbered = rows.infoset is not None
    _law(numbered == (game.infosets is not None), "observe", "infoset must be None if infosets is")
    if rows.infoset is not None:
        fine = ((rows.infoset >= 0) & (rows.infoset < game.infosets)).all()
        _law(fine, "observe", f"infoset must be from 0 to {game.infosets - 1}")


def _points(game: Any, rows: Observations, gain: Array, games: int) -> None:
    """Check the points of one turn."""
    shape = (games, game.seats)
    _law(gain.shape == shape, "step", f"must return points {shape}, not {gain.shape}")
    _law(np.isfinite(gain).all(), "step", "points must be finite")
    still = np.setdiff1d(np.arange(games), rows.game)
    _law(not gain[still].any(), "step", "a game in which nobody acted must gain no points")


def _payoffs(game: Any, turns: Turns) -> None:
    """Check the points of whole games."""
    payoff = np.sum([gain for _, _, gain in turns], axis=0)
    if is_zero_sum(game):
        far = np.abs(payoff.sum(axis=1)).max()
        why = f"payoffs must sum to zero, not {far:g}: correct them or set zero_sum to False"
        _law(far < 1e-9, "step", why)
    if isinstance(game, BoundedPayoff):
        low, found = game.lowest_payoff, payoff.min()
        _law(low <= found + 1e-9, "lowest_payoff", f"is {low}, but a seat got {found:g}")


def _same(a: Any, b: Any) -> bool:
    """Return whether two states are equal."""
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def _copies(game: Any, state: Any) -> None:
    """Check that select_rows copies and that observe changes nothing."""
    before = copy.deepcopy(state)
    game.observe(state)
    _law(_same(before, state), "observe", "must not change the state")
    games = len(getattr(state, fields(state)[0].name))
    for each in fields(state):
        rows = len(getattr(state, each.name))
        why = f"field {each.name} must have {games} rows, one a game, not {rows}"
        _law(rows == games, "start", why)
    taken = select_rows(state, np.arange(games)[::-1])
    back = select_rows(taken, np.arange(games)[::-1])
    _law(_same(before, back), "start", "games must be selectable by row")


def _features(game: Any, rows: Observations) -> None:
    """Check the network inputs."""
    found = game.features(rows)
    fine = found.ndim == 2 and len(found) == len(rows) and found.dtype == np.float32
    _law(fine, "features", f"must be (R, F) float32, not {found.shape} {found.dtype}")
    _law(np.isfinite(found).all(), "features", "must be finite")
    some = np.arange(len(rows))[::-7]
    alone = game.features(select_rows(rows, some))
    fine = np.array_equal(alone, found[some])
    _law(fine, "features", "must have one width and depend on each row alone")


def _words(game: Any, rows: Observations) -> None:
    """Check the texts."""
    named = game.hand(rows) if game.actions is not None else np.full(len(rows), "")
    _law(named.shape == (len(rows),), "hand", f"must return (R,) strings, not {named.shape}")
    for row in rows.observation[:ROWS]:
        said = game.describe(row)
        _law(isinstance(said, str) and said, "describe", "must return words, not nothing")


def _equal_rows(one: Observations, two: Observations) -> bool:
    """Return whether rows have equal seats, observations, legal actions, information sets."""
    return all(np.array_equal(getattr(one, n), getattr(two, n)) for n in COLUMNS)


def _capabilities(game: Any, rows: Observations, deals: Deals, rng: Generator) -> None:
    """Check the shapes and laws of what the game adds to the contract."""
    some = select_rows(rows, slice(0, ROWS))
    if isinstance(game, Redealable):
        again = game.redeal(some, rng)
        shape = (len(some), deals.shape[1])
        _law(again.shape == shape, "redeal", f"must return deals {shape}, not {again.shape}")
        if isinstance(game, Resumable):
            there = game.observe(game.resume(some, again))
            fine = len(there) == len(some) and _equal_rows(there, some)
            _law(fine, "resume", "games must stand at the rows that they resume")
    if isinstance(game, PublicSituations):
        found, most = game.public_situation(some), game.public_situations
        within = found.shape == (len(some),) and ((found >= 0) & (found < most)).all()
        _law(within, "public_situation", f"must return (R,) numbers from 0 to {most - 1}")
    if isinstance(game, CompactFeatures):
        found = game.compact_features(some)
        small = found.ndim == 2 and len(found) == len(some) and (np.abs(found) <= 1).all()
        _law(small, "compact_features", "must return (R, F) numbers from -1 to 1")
    if isinstance(game, PrivilegedFeatures):
        found = game.privileged_features(some, deals[some.game])
        fine = found.ndim == 2 and len(found) == len(some) and found.dtype == np.float32
        _law(fine and np.isfinite(found).all(), "privileged_features", "must be (R, F) float32")


def _redeals(game: Any, rows: Observations, rng: Generator) -> None:
    """Check that a deal sampled again shows the seat what it had observed at the first turn."""
    if not isinstance(game, Redealable):
        return
    again = game.observe(game.start(game.redeal(rows, rng)))
    owner = np.arange(len(rows)) * game.seats + rows.seat
    found = np.flatnonzero(np.isin(again.game * game.seats + again.seat, owner))
    fine = len(found) == len(rows) and _equal_rows(select_rows(again, found), rows)
    _law(fine, "redeal", "must keep all that the seat has observed")


def _pickles(game: Any, deals: Deals, turns: Turns) -> None:
    """Check that a game can be pickled and that its copy starts the same games."""
    pickle.dumps(game)
    again = copy.deepcopy(game)
    for name in ("name", "seats", "unit", "actions", "action_names", "observation_fields"):
        fine = getattr(again, name) == getattr(game, name)
        _law(fine, "__reduce__", f"a pickled game must keep {name}")
    fine = _equal_rows(again.observe(again.start(deals.copy())), turns[0][1])
    _law(fine, "__reduce__", "a pickled game must start the same games")


def _validation(game: Any, turns: Turns, rng: Generator) -> None:
    """Check that observations alone rebuild their rows and that foreign ones are refused."""
    if not isinstance(game, ValidatesObservations):
        return
    refused = 0
    for _, rows, _ in turns:
        some = select_rows(rows, slice(0, ROWS))
        try:
            found = observation_checks.validated_observations(game, some.observation)
        except UserError as error:
            raise BrokenGameError(f"validated_observations: refuses a true row: {error}") from None
        _law(_equal_rows(found, some), "validated_observations", "must rebuild the observed rows")
        foreign = some.observation[:1].astype(np.int64)
        foreign[0, rng.integers(foreign.shape[1])] = 10**15
        with contextlib.suppress(UserError):
            observation_checks.validated_observations(game, foreign)
            refused -= 1
        refused += 1
    why = "must raise UserError for an observation that no seat can have"
    _law(refused == len(turns), "validated_observations", why)


def _illegal(game: Any, turns: Turns) -> None:
    """Check that illegal actions are refused before anything has changed."""
    for state, rows, _ in turns:
        assert rows.legal is not None
        for wrong in (-1, game.actions, *np.flatnonzero(~rows.legal[0])):
            action, there = rows.legal.argmax(axis=1), copy.deepcopy(state)
            action[0] = wrong
            refused = False
            try:
                game.step(there, rows, action)
            except ValueError as error:
                refused = "illegal action" in str(error)
            why = f"must raise ValueError with 'illegal action' for action {wrong}"
            _law(refused, "step", why)
            _law(_same(there, state), "step", "must change nothing when it refuses an action")


def _enumeration(game: Any, played: Deals, turns: Turns) -> None:
    """Check deals, information sets and the values of the tree."""
    deals, probability = game.every_deal()
    total = probability.sum()
    _law(len(np.unique(deals, axis=0)) == len(deals), "every_deal", "deals must be distinct")
    _law((probability > 0).all(), "every_deal", "probabilities must be above 0")
    _law(abs(total - 1) < 1e-9, "every_deal", f"probabilities must sum to 1, not {total:g}")
    wide, other = deals.shape[1], played.shape[1]
    _law(wide == other, "every_deal", f"must have {other} columns as deal has, not {wide}")
    known = {tuple(deal) for deal in deals.tolist()}
    _law(known.issuperset(map(tuple, played.tolist())), "every_deal", "must list what deal draws")
    try:
        tree = build(game)
    except UserError:
        return  # too large for a tree
    except ValueError as error:
        why = f"{error}: number information sets without gaps, with perfect recall"
        raise BrokenGameError(f"infosets: {why}") from None
    _law(
        0 < game.min_tree_size <= tree.nodes,
        "min_tree_size",
        f"must be from 1 to {tree.nodes}, the tree's nodes",
    )
    for _, rows, _ in turns:
        assert rows.infoset is not None
        theirs = select_rows(tree.observations, rows.infoset)
        why = "rows of one information set must have equal seats, observations and legal actions"
        _law(_equal_rows(theirs, rows), "observe", why)
    sights = np.column_stack([tree.observations.seat, tree.observations.observation])
    why = "two information sets must not look the same"
    _law(len(np.unique(sights, axis=0)) == tree.infosets, "observe", why)
    payoff = np.sum([gain for _, _, gain in turns], axis=0)
    spread = payoff.std(axis=0, ddof=1) / np.sqrt(len(payoff))
    gap = np.abs(payoff.mean(axis=0) - best_response.expected(tree, tree.uniform()))
    why = "random play must win what the tree expects: deal and every_deal differ"
    _law((gap <= ERRORS * spread + 1e-9).all(), "deal", why)
    for before, after in itertools.pairwise(turns):
        fine = np.isin(after[1].game, before[1].game).all()
        _law(fine, "observe", "a game that is over must have no more rows")
