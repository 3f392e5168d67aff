"""Local best responses: how much a policy loses at least, in games too large for a tree.

The responder asks at each of its decisions what every action wins if it goes on with a simple
fallback while the opponent keeps to its known policy, and takes the best action. That is a
strategy that anybody can play who knows the policy and sees no hidden card, so on average it
wins no more than a best response does; poor estimates only make it win less.
Lisy and Bowling 2017, "Equilibrium approximation quality of current no-limit poker bots"; with
several fallbacks it is parallel rollout (Chang, Givan and Chong 2004), never worse than any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import stdtrit

from overtrick.core import (
    Array,
    BehaviouralPolicy,
    Deals,
    Observations,
    PolicySession,
    Redealable,
    UserError,
    select_rows,
)
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

MAX_PARALLEL_GAMES = 1 << 17
"""Games, imagined ones included, that are played side by side: this bounds the memory."""

Past = list[Array]
"""For each turn so far the actions (G, S) of everybody, -1 where a seat did not act."""


@dataclass(frozen=True)
class LocalBestResponseResult:
    """What a local best response won, and so what a best response wins at least."""

    mean: float  # points a game
    standard_error: float  # of the mean
    values: tuple[float, float]  # points a game in each seat
    standard_errors: tuple[float, float]  # of the values
    deals: int  # each played in both seats

    @property
    def interval(self) -> tuple[float, float]:
        """Where the responder's true mean lies, with 95 % confidence (Student's t)."""
        margin = float(stdtrit(self.deals - 1, 0.975)) * self.standard_error
        return self.mean - margin, self.mean + margin


def local_best_response(
    game: Redealable,
    policy: BehaviouralPolicy,
    fallbacks: Sequence[BehaviouralPolicy],
    games: int,
    rng: Generator,
    particles: int = 200,
) -> LocalBestResponseResult:
    """What a local best response wins against a policy, the mean of both seats.

    In a zero-sum game that is no more than the policy's exploitability, but for luck.

    fallbacks: how the responder imagines to go on; in poker a caller, one who checks or folds,
    and the policy itself, with which the bound is hardly ever below what the policy wins. games:
    how many to play, an even number, since each deal is played in both seats. particles: deals
    imagined at each decision; more of them make the responder stronger and slower. Raises
    UserError if the game or the numbers will not do.
    """
    if game.seats != 2 or game.actions is None:
        raise UserError(f"{game.name}: a local best response needs 2 seats and countable actions")
    if games < 4 or games % 2:
        raise UserError(f"{games} games: a local best response needs an even number, 4 or more")
    if particles < 1 or not fallbacks:
        raise UserError("a local best response needs at least 1 particle and 1 fallback")
    responder = Responder(game, policy, tuple(fallbacks), particles)
    pairs = games // 2
    block = max(1, MAX_PARALLEL_GAMES // (2 * particles * game.actions))
    won = []
    for start, luck in zip(range(0, pairs, block), rng.spawn(-(-pairs // block)), strict=True):
        deals = np.repeat(game.deal(min(block, pairs - start), luck), 2, axis=0)
        points = responder.play(deals, np.arange(len(deals)) % 2, luck)
        won.append(points.reshape(-1, 2))
    by_seat = np.concatenate(won)
    each = by_seat.mean(axis=1)
    zero, one = (by_seat.std(axis=0, ddof=1) / math.sqrt(pairs)).tolist()
    return LocalBestResponseResult(
        mean=float(each.mean()),
        standard_error=float(each.std(ddof=1)) / math.sqrt(pairs),
        values=(float(by_seat[:, 0].mean()), float(by_seat[:, 1].mean())),
        standard_errors=(zero, one),
        deals=pairs,
    )


@dataclass(frozen=True)
class Responder:
    """One who knows how the other seat plays, and looks one action ahead."""

    game: Redealable
    policy: BehaviouralPolicy  # the other seat's
    fallbacks: tuple[BehaviouralPolicy, ...]
    particles: int

    def play(self, deals: Deals, seat: Array, rng: Generator) -> Array:
        """(G,) points won in these deals (G, C), sitting in these seats (G,)."""
        ours, theirs = rng.spawn(2)
        opponent = self.policy.start(len(deals), theirs)
        past: Past = []

        def best(observations: Observations) -> Array:
            return self.hopes(observations, past, ours).argmax(axis=1)

        return _play(self.game, self.game.start(deals), seat, best, opponent, past)

    def hopes(self, observations: Observations, past: Past, rng: Generator) -> Array:
        """(R, A) estimated points from here on by each action; -inf where illegal.

        turn: at most one decision of each game; past tells of all games, not only of these.
        """
        legal = observations.legal
        assert legal is not None
        row = np.repeat(np.arange(len(observations)), self.particles)
        seat = observations.seat[row]
        state = self.game.start(self.game.redeal(select_rows(observations, row), rng))
        belief = self._belief(state, seat, [acted[observations.game[row]] for acted in past])
        # a particle for each action that can be taken, unless it is ruled out by what was done
        one, action = np.nonzero(legal[row] & (belief > 0)[:, None])
        place = row[one] * legal.shape[1] + action
        hopes = np.full(legal.size, -np.inf)
        for fallback in self.fallbacks:
            won = self.imagine(fallback, select_rows(state, one), seat[one], action, rng)
            mean = np.bincount(place, belief[one] * won, legal.size)
            np.maximum(hopes, mean, out=hopes, where=legal.ravel())
        return hopes.reshape(legal.shape)

    def _belief(self, state: Any, seat: Array, past: Past) -> Array:
        """(n,) probability of each particle given what the other seat did: a row's sum to 1.

        The state goes through the past (n, S). Where no particle explains it, all are as likely.
        """
        logs = np.zeros(len(seat))
        for acted in past:
            observations = self.game.observe(state)
            action = acted[observations.game, observations.seat]
            others = np.flatnonzero(
                observations.seat != seat[observations.game]
            )  # at most one a game
            if len(others):
                theirs = select_rows(observations, others)
                chance = self.policy.probs(theirs)[np.arange(len(others)), action[others]]
                with np.errstate(divide="ignore"):
                    logs[theirs.game] += np.log(chance)
            self.game.step(state, observations, action)
        by_row = logs.reshape(-1, self.particles)
        by_row[np.isneginf(by_row).all(axis=1)] = 0
        belief = np.exp(by_row - by_row.max(axis=1, keepdims=True))
        return (belief / belief.sum(axis=1, keepdims=True)).ravel()

    def imagine(
        self, fallback: BehaviouralPolicy, state: Any, seat: Array, first: Array, rng: Generator
    ) -> Array:
        """(n,) points from the first actions (n,) on, if a fallback goes on from them."""
        ours, theirs = fallback.start(len(seat), rng), self.policy.start(len(seat), rng)
        past: Past = []

        def own(observations: Observations) -> Array:
            return ours.act(observations).action if past else first[observations.game]

        return _play(self.game, state, seat, own, theirs, past)


def _play(
    game: Redealable,
    state: Any,
    seat: Array,
    own: Callable[[Observations], Array],
    other: PolicySession,
    past: Past,
) -> Array:
    """(n,) points that one seat of each game wins from here on; what happens joins the past."""
    won = np.zeros(len(seat))
    while len(observations := game.observe(state)):
        mine = observations.seat == seat[observations.game]
        action = np.empty(len(observations), np.int64)
        if mine.any():
            action[mine] = own(select_rows(observations, mine))
        if not mine.all():
            action[~mine] = other.act(select_rows(observations, ~mine)).action
        acted = np.full((len(seat), game.seats), -1, np.int16)
        acted[observations.game, observations.seat] = action
        won += game.step(state, observations, action)[np.arange(len(seat)), seat]
        past.append(acted)
    return won


def exact_local_best_response(
    tree: Tree, sigma: Array, fallbacks: Sequence[Array], seat: int
) -> tuple[float, Array]:
    """What a local best response that estimates nothing but knows wins, in points, and how.

    fallbacks: strategies (N, A), of which only the seat's rows are read. Returns the value and
    sigma with the seat's rows replaced by the reply (the first of equally good actions), as
    value.best_response does, which wins at least as much. As one step of policy improvement
    the reply wins at least as much as each fallback. Raises UserError if sigma, or sigma with the
    seat's rows of a fallback, is no strategy of this tree.
    """
    best_response.check_strategy(tree, sigma)
    own = tree.observations.seat[tree.owner] == seat
    others = best_response.reach(tree, sigma, without=seat)
    hopes = np.full(tree.legal.shape, -np.inf)
    for fallback in fallbacks:
        base = tree.table(np.where(own, tree.flat(fallback), tree.flat(sigma)))
        best_response.check_strategy(tree, base)
        worth = best_response.counterfactual_values(tree, base, others, seat)
        np.maximum(hopes, worth, out=hopes, where=tree.legal)
    reply = sigma.copy()
    rows = np.flatnonzero(tree.observations.seat == seat)
    if len(rows):  # a game without decisions may know no action at all
        reply[rows] = np.eye(tree.legal.shape[1])[hopes[rows].argmax(axis=1)]
    return float(best_response.expected(tree, reply)[seat]), reply
