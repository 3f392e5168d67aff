"""Local best response: a lower bound on exploitability, for games too large for a tree.

At each decision the responder estimates the return of every action and takes the best one. The
estimate assumes that the responder follows a simple fallback policy after the action and that the
opponent follows its known policy. The responder sees no hidden card, so its expected value is at
most that of a best response. Errors of estimation can only lower this value. With several fallbacks
the method is parallel rollout (Chang, Givan and Chong 2004), whose value is at least that of every
fallback.

Source: Lisy and Bowling 2017, "Equilibrium approximation quality of current no-limit poker bots".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

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
"""Upper limit of games x particles simulated at the same time, which limits memory."""

ActionHistory = list[Array]
"""Joint actions of all turns so far: one array (G, S) for each turn, -1 where a seat did not act.
"""


@dataclass(frozen=True)
class ResponsePayoff:
    """Payoff of a response in sampled games: a lower bound on the value of a best response."""

    mean: float  # points per game
    standard_error: float  # of the mean
    values: tuple[float, float]  # points per game in each seat
    standard_errors: tuple[float, float]  # of the values
    deals: int  # number of deals, each played in both seats

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the responder's mean payoff (Student's t)."""
        margin = float(scipy.special.stdtrit(self.deals - 1, 0.975)) * self.standard_error
        return self.mean - margin, self.mean + margin


def local_best_response(
    game: Redealable,
    policy: BehaviouralPolicy,
    fallbacks: Sequence[BehaviouralPolicy],
    games: int,
    rng: Generator,
    particles: int = 200,
) -> ResponsePayoff:
    """Play a local best response against `policy` in both seats and return its mean payoff.

    In a zero-sum game the expected payoff is a lower bound on the exploitability of `policy`.
    Raises UserError unless the game has two seats and discrete actions, and the arguments are in
    range.

    - `fallbacks`: at least one rollout policy, which the responder may follow after its next
      action. Examples for poker: a policy that always calls, a policy that checks or folds, and
      `policy` itself. With `policy` itself, the payoff is rarely below that of `policy` against
      itself.
    - `games`: number of games; even, because each deal is played in both seats, and at least 4.
    - `particles`: deals sampled at each decision, at least 1. More particles make a stronger and
      slower responder.
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
    returns = []
    for start, block_rng in zip(range(0, pairs, block), rng.spawn(-(-pairs // block)), strict=True):
        deals = np.repeat(game.deal(min(block, pairs - start), block_rng), 2, axis=0)
        points = responder.play(deals, np.arange(len(deals)) % 2, block_rng)
        returns.append(points.reshape(-1, 2))
    by_seat = np.concatenate(returns)
    mean_of_seats = by_seat.mean(axis=1)
    seat_errors = (by_seat.std(axis=0, ddof=1) / math.sqrt(pairs)).tolist()
    return ResponsePayoff(
        mean=float(mean_of_seats.mean()),
        standard_error=float(mean_of_seats.std(ddof=1)) / math.sqrt(pairs),
        values=(float(by_seat[:, 0].mean()), float(by_seat[:, 1].mean())),
        standard_errors=(seat_errors[0], seat_errors[1]),
        deals=pairs,
    )


@dataclass(frozen=True)
class Responder:
    """Player of local best responses: knows the other seat's policy and looks one action ahead.

    After the next action it assumes one of the policies `fallbacks` for itself. It samples
    `particles` deals at each decision.
    """

    game: Redealable
    policy: BehaviouralPolicy  # of the other seat
    fallbacks: tuple[BehaviouralPolicy, ...]
    particles: int

    def play(self, deals: Deals, seat: Array, rng: Generator) -> Array:
        """Play G games with the given deals as the responder; return (G,) the responder's points.

        `seat` (G,): seat of the responder in each game.
        """
        own_rng, opponent_rng = rng.spawn(2)
        opponent = self.policy.start(len(deals), opponent_rng)
        history: ActionHistory = []

        def best(observations: Observations) -> Array:
            return self.action_values(observations, history, own_rng).argmax(axis=1)

        return _play(self.game, self.game.start(deals), seat, best, opponent, history)

    def action_values(
        self, observations: Observations, history: ActionHistory, rng: Generator
    ) -> Array:
        """Estimate the responder's action values (R, A) at R decisions, in points.

        The value of an action is the maximum over the rollout policies `fallbacks`: the estimated
        return if the responder follows this policy after the action. Illegal actions have the value
        -inf.

        - `observations`: the R decisions, at most one for each game
        - `history`: joint actions so far of all G games, including games without a decision now
        """
        legal = observations.legal
        assert legal is not None
        row = np.repeat(np.arange(len(observations)), self.particles)
        seat = observations.seat[row]
        state = self.game.start(self.game.redeal(select_rows(observations, row), rng))
        belief = self._belief(state, seat, [each[observations.game[row]] for each in history])
        # one simulation for each legal action of each particle of positive probability
        particle, action = np.nonzero(legal[row] & (belief > 0)[:, None])
        index = row[particle] * legal.shape[1] + action
        action_values = np.full(legal.size, -np.inf)
        for fallback in self.fallbacks:
            returns = self.simulate(
                fallback, select_rows(state, particle), seat[particle], action, rng
            )
            mean = np.bincount(index, belief[particle] * returns, legal.size)
            np.maximum(action_values, mean, out=action_values, where=legal.ravel())
        return action_values.reshape(legal.shape)

    def _belief(self, state: Any, seat: Array, history: ActionHistory) -> Array:
        """Return (n,) the posterior probability of each particle, given the opponent's actions.

        A particle is a sampled deal. Each decision of the responder has `particles` particles, in
        adjacent rows, and their posterior probabilities sum to 1. These probabilities are uniform
        if the opponent's actions have probability 0 in all particles of the decision.

        - `state`: new games with the deals of the n particles; the games are advanced through
          `history` in place
        - `seat` (n,): seat of the responder in each game
        - `history`: joint actions (n, S) of each turn so far
        """
        log_likelihood = np.zeros(len(seat))
        for joint_action in history:
            observations = self.game.observe(state)
            action = joint_action[observations.game, observations.seat]
            # at most one row per game
            others = np.flatnonzero(observations.seat != seat[observations.game])
            if len(others):
                theirs = select_rows(observations, others)
                chance = self.policy.probs(theirs)[np.arange(len(others)), action[others]]
                with np.errstate(divide="ignore"):
                    log_likelihood[theirs.game] += np.log(chance)
            self.game.step(state, observations, action)
        by_row = log_likelihood.reshape(-1, self.particles)
        by_row[np.isneginf(by_row).all(axis=1)] = 0
        belief = np.exp(by_row - by_row.max(axis=1, keepdims=True))
        return (belief / belief.sum(axis=1, keepdims=True)).ravel()

    def simulate(
        self, fallback: BehaviouralPolicy, state: Any, seat: Array, first: Array, rng: Generator
    ) -> Array:
        """Play n games from `state` to their end, and return (n,) the responder's points.

        `seat` (n,) is the responder's seat in each game. The responder begins with the actions
        `first` (n,) and then follows `fallback`; the opponent follows its known policy throughout.
        """
        responder, opponent = fallback.start(len(seat), rng), self.policy.start(len(seat), rng)
        history: ActionHistory = []

        def own(observations: Observations) -> Array:
            return responder.act(observations).action if history else first[observations.game]

        return _play(self.game, state, seat, own, opponent, history)


def _play(
    game: Redealable,
    state: Any,
    seat: Array,
    own: Callable[[Observations], Array],
    other: PolicySession,
    history: ActionHistory,
) -> Array:
    """Play two-seat games from `state` to their end; return (n,) one seat's points in each game.

    - `seat` (n,): the seat whose points are returned, for each game
    - `own`: maps observations of this seat to actions
    - `other`: policy session that plays the opposite seat
    - `history`: list to which the joint action (n, S) of each turn is appended
    """
    returns = np.zeros(len(seat))
    while len(observations := game.observe(state)):
        mine = observations.seat == seat[observations.game]
        action = np.empty(len(observations), np.int64)
        if mine.any():
            action[mine] = own(select_rows(observations, mine))
        if not mine.all():
            action[~mine] = other.act(select_rows(observations, ~mine)).action
        joint_action = np.full((len(seat), game.seats), -1, np.int16)
        joint_action[observations.game, observations.seat] = action
        returns += game.step(state, observations, action)[np.arange(len(seat)), seat]
        history.append(joint_action)
    return returns


def exact_local_best_response(
    tree: Tree, sigma: Array, fallbacks: Sequence[Array], seat: int
) -> tuple[float, Array]:
    """Compute the local best response of `seat` on a game tree, with exact action values.

    - `sigma` (N, A): strategy of the other seats
    - `fallbacks`: rollout strategies (N, A) that the seat may follow after its next action; only
      the rows of `seat` are used

    Returns the response's value in points, and sigma with the rows of `seat` replaced by the
    response. Ties go to the first action. The value is at most that of a best response. It is at
    least that of each fallback, because the response is one step of policy improvement. Raises
    UserError unless sigma, and each fallback in the rows of `seat`, are probabilities of this
    tree's legal actions.
    """
    best_response.check_strategy(tree, sigma)
    if not fallbacks:
        raise UserError("a local best response needs at least one fallback strategy")
    own = tree.observations.seat[tree.action_infoset] == seat
    others = best_response.reach(tree, sigma, without=seat)
    action_values = np.full(tree.legal.shape, -np.inf)
    for fallback in fallbacks:
        base = tree.table(np.where(own, tree.flat(fallback), tree.flat(sigma)))
        best_response.check_strategy(tree, base)
        worth = best_response.counterfactual_values(tree, base, others, seat)
        np.maximum(action_values, worth, out=action_values, where=tree.legal)
    reply = sigma.copy()
    rows = np.flatnonzero(tree.observations.seat == seat)
    if len(rows):  # a game without decisions may have no actions
        reply[rows] = np.eye(tree.legal.shape[1])[action_values[rows].argmax(axis=1)]
    return float(best_response.expected(tree, reply)[seat]), reply
