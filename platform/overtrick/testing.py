"""Check that a game fulfils the contract of core/games.py, also for games in other packages."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick import core
from overtrick.core import Array, Deals, Observations, UserError, select_rows
from overtrick.games import observation_validation
from overtrick.games.capability_checks import (
    MAX_ROWS,
    BrokenGameError,
    Turns,
    check,
    check_capabilities,
    check_redeal,
    check_related_games,
    check_walked_game,
    equal_rows,
)
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build

__all__ = ["BrokenGameError", "check_game"]

GAMES = 2_000  # games of random play
MAX_TURNS = 1_000  # most turns of a game
MAX_STANDARD_ERRORS = 6  # largest difference of sampled and exact values, in standard errors


def check_game(game: Any, deals: Deals | None = None, seed: int = 0) -> None:
    """Check that a game fulfils the contract of core/games.py. Raises BrokenGameError if not.

    `deals`: (G, C) deals to play; None: sample deals by game.deal. Give only a few if the game must
    solve each deal, which is slow. The check plays random games from `seed`, so it may miss rare
    errors. For games with continuous actions, illegal actions and the validation of observations
    are not checked.
    """
    _check_attributes(game)
    rng = np.random.default_rng(seed)
    count = GAMES if game.actions is not None else 4
    first, again = (game.deal(count, np.random.default_rng(seed)) for _ in range(2))
    check(len(first) == count, "deal", f"must return one row a game, {count}, not {len(first)}")
    check(np.array_equal(first, again), "deal", "must draw only from the given generator")
    sampled = deals is None
    deals = first if deals is None else deals
    turns = _play_randomly(game, deals, rng)
    for state, observations, gain in turns:
        _check_rows(game, observations)
        _check_points(game, observations, gain, len(deals))
        _check_state_copies(game, state)
        _check_features(game, observations)
        _check_texts(game, observations)
        check_capabilities(game, observations, deals, rng)
    check_walked_game(game, deals, turns, rng)
    check_redeal(game, turns[0][1], rng)
    _check_payoffs(game, turns)
    check_related_games(game, deals, turns)
    _check_pickling(game, deals, turns)
    if game.actions is not None:
        _check_validation(game, turns, rng)
        _check_illegal_actions(game, turns)
    if isinstance(game, core.Enumerable) and game.infosets is not None:
        _check_enumeration(game, deals, turns, sampled)


def _check_attributes(game: Any) -> None:
    """Check that the game has all attributes and methods of core.Game."""
    wanted = sorted(
        name for name in (*core.Game.__annotations__, *vars(core.Game)) if name[0] != "_"
    )
    missing = [name for name in wanted if not hasattr(game, name)]
    check(not missing, "Game", f"define {', '.join(missing)}: every game has them")
    check(game.name and game.unit, "name", "name and unit must not be empty")
    if game.actions is not None:
        named, actions = len(game.action_names), game.actions
        check(named == actions, "action_names", f"must name all {actions} actions, not {named}")
        ok = isinstance(game, core.BoundedPayoff)
        check(ok, "lowest_payoff", "define it: illegal actions pay it")


def _play_randomly(game: Any, deals: Deals, rng: Generator) -> Turns:
    """Play games with the given deals to the end, with uniformly random actions.

    `deals`: (G, C). Returns for each turn the state before, the observations and the points gained.
    """
    state, turns = game.start(deals.copy()), Turns()
    while len(observations := game.observe(state)):
        check(len(turns) < MAX_TURNS, "step", f"games must end within {MAX_TURNS} turns")
        before = copy.deepcopy(state)
        if game.actions is None:
            action = rng.uniform(-1, 1, (len(observations), len(game.action_names)))
        else:
            _check_rows(game, observations)
            action = sample_actions(UniformPolicy().probs(observations), rng).action
        turns.append((before, observations, game.step(state, observations, action)))
    check(turns, "observe", "must return the rows that act at the start of a game, not none")
    if isinstance(game, core.ReportsWinners):
        _check_outcome(game.outcome(state), turns[0][2].shape)
    return turns


def _check_outcome(outcome: Array, shape: tuple[int, int]) -> None:
    """Check the results (G, S) of complete games."""
    check(outcome.shape == shape, "outcome", f"must return {shape}, not {outcome.shape}")
    check(np.isin(outcome, (-1, 0, 1)).all(), "outcome", "must be 1, 0 or -1")
    check(not outcome.sum(axis=1).any(), "outcome", "must sum to 0 over the seats of a game")


def _check_rows(game: Any, rows: Observations) -> None:
    """Check shapes, types and ranges of `rows`, the result of one call of `observe`."""
    count, columns = len(rows), len(game.observation_fields)
    shape = rows.observation.shape
    check(shape == (count, columns), "observe", f"must return {(count, columns)}, not {shape}")
    ok = ((rows.seat >= 0) & (rows.seat < game.seats)).all()
    check(ok, "observe", f"seat must be from 0 to {game.seats - 1}")
    owner = rows.game * game.seats + rows.seat
    check(len(np.unique(owner)) == count, "observe", "a seat must have at most one row a game")
    if game.actions is None:
        check(rows.legal is None, "observe", "legal must be None where actions are continuous")
        return
    ok = np.issubdtype(rows.observation.dtype, np.integer)
    check(ok, "observe", f"observation must be integers, not {rows.observation.dtype}")
    ok = rows.legal is not None and rows.legal.shape == (count, game.actions)
    check(ok, "observe", f"legal must be {(count, game.actions)}")
    assert rows.legal is not None
    check(rows.legal.dtype == bool, "observe", f"legal must be bool, not {rows.legal.dtype}")
    check(rows.legal.any(axis=1).all(), "observe", "every row must have a legal action")
    numbered = rows.infoset is not None
    check(numbered == (game.infosets is not None), "observe", "infoset must be None if infosets is")
    if rows.infoset is not None:
        ok = ((rows.infoset >= 0) & (rows.infoset < game.infosets)).all()
        check(ok, "observe", f"infoset must be from 0 to {game.infosets - 1}")


def _check_points(game: Any, rows: Observations, gain: Array, games: int) -> None:
    """Check the points `gain` (G, S) that one call of `step` returned.

    `rows`: the observations before that call. `games`: the number of games G.
    """
    shape = (games, game.seats)
    check(gain.shape == shape, "step", f"must return points {shape}, not {gain.shape}")
    check(np.isfinite(gain).all(), "step", "points must be finite")
    still = np.setdiff1d(np.arange(games), rows.game)
    check(not gain[still].any(), "step", "a game in which nobody acted must gain no points")


def _check_payoffs(game: Any, turns: Turns) -> None:
    """Check the payoffs of complete games: their sum over seats, and the lowest payoff.

    `turns`: all turns of the games.
    """
    payoff = np.sum([gain for _, _, gain in turns], axis=0)
    if core.is_zero_sum(game):
        far = np.abs(payoff.sum(axis=1)).max()
        why = f"payoffs must sum to zero, not {far:g}: correct them or set zero_sum to False"
        check(far < 1e-9, "step", why)
    if isinstance(game, core.BoundedPayoff):
        low, found = game.lowest_payoff, payoff.min()
        check(low <= found + 1e-9, "lowest_payoff", f"is {low}, but a seat got {found:g}")


def _equal_states(a: Any, b: Any) -> bool:
    """Return True if all fields of two states of a game are equal."""
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def _check_state_copies(game: Any, state: Any) -> None:
    """Check that `observe` does not change the state of a batch of games.

    Also checks that `select_rows` can select games from the state. `state`: a dataclass of arrays,
    each with one row for each game.
    """
    before = copy.deepcopy(state)
    game.observe(state)
    check(_equal_states(before, state), "observe", "must not change the state")
    games = len(getattr(state, fields(state)[0].name))
    for each in fields(state):
        rows = len(getattr(state, each.name))
        why = f"field {each.name} must have {games} rows, one a game, not {rows}"
        check(rows == games, "start", why)
    taken = select_rows(state, np.arange(games)[::-1])
    back = select_rows(taken, np.arange(games)[::-1])
    check(_equal_states(before, back), "start", "games must be selectable by row")
    if isinstance(state, core.CountsDivergedGames):
        diverged = state.diverged_games
        ok = diverged.shape == (games,) and diverged.dtype == bool
        check(ok, "diverged_games", f"must be (G,) bool, not {diverged.shape} {diverged.dtype}")


def _check_features(game: Any, rows: Observations) -> None:
    """Check shape, type and values of `game.features` for some observations."""
    found = game.features(rows)
    ok = found.ndim == 2 and len(found) == len(rows) and found.dtype == np.float32
    check(ok, "features", f"must be (R, F) float32, not {found.shape} {found.dtype}")
    check(np.isfinite(found).all(), "features", "must be finite")
    some = np.arange(len(rows))[::-7]
    alone = game.features(select_rows(rows, some))
    ok = np.array_equal(alone, found[some])
    check(ok, "features", "must have one width and depend on each row alone")


def _check_texts(game: Any, rows: Observations) -> None:
    """Check the texts that `game.hand` and `game.describe` return for some observations."""
    named = game.hand(rows) if game.actions is not None else np.full(len(rows), "")
    check(named.shape == (len(rows),), "hand", f"must return (R,) strings, not {named.shape}")
    for row in rows.observation[:MAX_ROWS]:
        said = game.describe(row)
        check(isinstance(said, str) and said, "describe", "must return words, not nothing")


def _check_pickling(game: Any, deals: Deals, turns: Turns) -> None:
    """Check that a game can be pickled.

    A copy must have the same attributes as the game, and the same observations at the start.
    `deals`: the deals (G, C) of some games. `turns`: all turns of these games.
    """
    pickle.dumps(game)
    again = copy.deepcopy(game)
    for name in ("name", "seats", "unit", "actions", "action_names", "observation_fields"):
        ok = getattr(again, name) == getattr(game, name)
        check(ok, "__reduce__", f"a pickled game must keep {name}")
    ok = equal_rows(again.observe(again.start(deals.copy())), turns[0][1])
    check(ok, "__reduce__", "a pickled game must start the same games")


def _check_validation(game: Any, turns: Turns, rng: Generator) -> None:
    """Check that `validated_observations` accepts all observed rows and rejects impossible ones.

    `turns`: all turns of some games, with the observed rows.
    """
    if not isinstance(game, core.ValidatesObservations):
        return
    refused = 0
    for _, rows, _ in turns:
        some = select_rows(rows, slice(0, MAX_ROWS))
        try:
            found = observation_validation.validated_observations(game, some.observation)
        except UserError as error:
            raise BrokenGameError(f"validated_observations: rejects a valid row: {error}") from None
        check(equal_rows(found, some), "validated_observations", "must rebuild the observed rows")
        foreign = some.observation[:1].astype(np.int64)
        foreign[0, rng.integers(foreign.shape[1])] = 10**15
        with contextlib.suppress(UserError):
            observation_validation.validated_observations(game, foreign)
            refused -= 1
        refused += 1
    why = "must raise UserError for an observation that no seat can have"
    check(refused == len(turns), "validated_observations", why)


def _check_illegal_actions(game: Any, turns: Turns) -> None:
    """Check that `step` rejects illegal actions and leaves the state unchanged.

    `turns`: all turns of some games; an illegal action is tried in each.
    """
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
            check(refused, "step", why)
            check(_equal_states(there, state), "step", "must change nothing on illegal actions")


def _check_enumeration(game: Any, played: Deals, turns: Turns, sampled: bool) -> None:
    """Check the deals, information sets and payoffs that an enumerable game defines.

    - `every_deal` must list each deal once, with probabilities that sum to 1.
    - All observations of one information set must be equal.
    - Different information sets must have different observations.
    - The payoffs of random play must have the mean that the game tree gives.

    If the game tree does not fit in memory, only `every_deal` is checked. `played`: the deals
    (G, C) of random games. `turns`: all turns of these games. `sampled`: whether game.deal drew the
    deals; the payoffs of other deals are not compared with the tree.
    """
    deals, probability = game.every_deal()
    total = probability.sum()
    check(len(np.unique(deals, axis=0)) == len(deals), "every_deal", "deals must be distinct")
    check((probability > 0).all(), "every_deal", "probabilities must be above 0")
    check(abs(total - 1) < 1e-9, "every_deal", f"probabilities must sum to 1, not {total:g}")
    columns, other = deals.shape[1], played.shape[1]
    check(columns == other, "every_deal", f"must have {other} columns as deal has, not {columns}")
    known = {tuple(deal) for deal in deals.tolist()}
    check(known.issuperset(map(tuple, played.tolist())), "every_deal", "must list what deal draws")
    try:
        tree = build(game)
    except UserError:
        return  # the tree does not fit in memory
    except ValueError as error:
        why = f"{error}: number information sets without gaps, with perfect recall"
        raise BrokenGameError(f"infosets: {why}") from None
    check(
        0 < game.min_tree_size <= max(tree.nodes, len(deals)),
        "min_tree_size",
        f"must be from 1 to {max(tree.nodes, len(deals))}, the tree's nodes or deals",
    )
    for _, rows, _ in turns:
        assert rows.infoset is not None
        theirs = select_rows(tree.observations, rows.infoset)
        why = "rows of one information set must have equal seats, observations and legal actions"
        check(equal_rows(theirs, rows), "observe", why)
    sights = np.column_stack([tree.observations.seat, tree.observations.observation])
    why = "two information sets must not look the same"
    check(len(np.unique(sights, axis=0)) == tree.infosets, "observe", why)
    for before, after in itertools.pairwise(turns):
        ok = np.isin(after[1].game, before[1].game).all()
        check(ok, "observe", "a game that is over must have no more rows")
    if not sampled:  # the mean payoff of given deals may differ from the game's
        return
    payoff = np.sum([gain for _, _, gain in turns], axis=0)
    spread = payoff.std(axis=0, ddof=1) / np.sqrt(len(payoff))
    gap = np.abs(payoff.mean(axis=0) - best_response.expected(tree, tree.uniform()))
    why = "random play must win what the tree expects: deal and every_deal differ"
    check((gap <= MAX_STANDARD_ERRORS * spread + 1e-9).all(), "deal", why)
