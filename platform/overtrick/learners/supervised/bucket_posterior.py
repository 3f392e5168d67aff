"""Bayesian estimate of an opponent's strategy in an abstraction of hands.

The counterpart of `population_posterior` for games that are too large for a tree; the prior is a
population, too. The estimate is made from finished games. Where a game leaves the opponent's hand
hidden, all possible hands are marginalised. Several hypotheses are kept side by side:

- The opponent follows a member of the population.
- It deviates from the members' posterior mean: in each group of rows (a kind of public situation
  and neighbouring buckets) the mean probabilities of the actions are multiplied by factors.
  These are the posterior mean of a Dirichlet distribution with one of several concentrations,
  divided by the prior mean.

Each hypothesis predicts the next game. The estimate mixes the hypotheses in proportion to the
probabilities that they gave to the games so far (prequential weights, Dawid 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array
from overtrick.learners.supervised.population_posterior import softmax
from overtrick.solvers.public_tree.values import IndexedGame

CONCENTRATIONS = (np.inf, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Concentrations of the Dirichlet distributions: pseudo-counts of a group of rows. Infinity stands
for no deviation."""

EM_STEPS = 2  # at each update
UNIFORM_SHARE = 0.02  # of uniform play in the mean of deviations, so that all actions are possible
FLOOR = 1e-6  # lowest likelihood of a game, relative to that of uniform play


@dataclass(frozen=True, eq=False)
class BucketPrior:
    """Strategies of M possible opponents in an abstraction, before any game is seen."""

    game: IndexedGame  # with independent buckets of both seats
    members: Array  # (M, N, A) float32 strategies
    groups: Array  # (N,) number of each row's group; the rows of a group share deviations

    @cached_property
    def plans(self) -> Array:
        """(M, N, A) float32 the realisation plan of each member, with chance of its own buckets.

        Entry (m, n, a) is the probability that member m's buckets and actions reach row n, times
        that of action a there.
        """
        rules, found = self.game.rules, np.zeros(self.members.shape, np.float32)
        first = np.stack([rules.start.sum(axis=1), rules.start.sum(axis=0)])
        _fill_plans(
            rules.after, rules.seat, rules.round, self.game.index, first, rules.moves,
            self.members, found,
        )  # fmt: skip
        return found

    @cached_property
    def uniform(self) -> Array:
        """(N, A) uniform play."""
        return self.game.uniform()


class BucketEstimate:
    """Estimate of one opponent's strategy (N, A) from the games of a match, with H hypotheses."""

    def __init__(
        self, prior: BucketPrior, concentrations: tuple[float, ...] = CONCENTRATIONS
    ) -> None:
        self.prior, self.concentrations = prior, np.array(concentrations)
        self.log_posterior = np.zeros(len(prior.members))
        self.log_weights = np.zeros(len(concentrations))  # of the hypotheses
        self.games: list[tuple[Array, Array, Array]] = []  # rows (D, J), shares (J,), actions (D,)
        self.strategies: list[Array] = []
        self.update()

    def observe(self, rows: Array, actions: Array) -> None:
        """Add a finished game; the estimates change at the next call of `update`.

        `rows` (D, H): row of the opponent's strategy at each of its D decisions, for each of H
        hands that are equally likely before the game. `actions` (D,): the actions taken.
        """
        if not len(actions):
            return
        distinct, counts = np.unique(rows, axis=1, return_counts=True)
        game = distinct, counts / counts.sum(), actions
        self.games.append(game)
        floor = FLOOR * _likelihood(self.prior.uniform, *game)
        members = _likelihoods(self.prior.members, *game)
        self.log_posterior += np.log(members + floor)
        predicted = np.array([_likelihood(each, *game) for each in self.strategies])
        self.log_weights += np.log(predicted + floor)

    def update(self) -> None:
        """Compute the estimate of each hypothesis from all games so far."""
        mean = self._mean()
        mixed = (1 - UNIFORM_SHARE) * mean + UNIFORM_SHARE * self.prior.uniform
        before = self.strategies or [mixed] * len(self.concentrations)
        self.strategies = [
            mean if np.isinf(c) else self._deviation(mixed, c, each)
            for c, each in zip(self.concentrations, before, strict=True)
        ]

    def strategy(self) -> Array:
        """Return the estimated strategy (N, A): the mixture of all hypotheses."""
        return np.tensordot(softmax(self.log_weights), np.stack(self.strategies), axes=1)

    def sample(self, rng: Generator) -> Array:
        """Draw a strategy (N, A): a member by its posterior, or a hypothesis that deviates."""
        drawn = int(rng.choice(len(self.log_weights), p=softmax(self.log_weights)))
        if np.isfinite(self.concentrations[drawn]):
            return self.strategies[drawn]
        member = rng.choice(len(self.log_posterior), p=softmax(self.log_posterior))
        return self.prior.members[member].astype(float)

    def _mean(self) -> Array:
        """Return the members' posterior mean strategy (N, A).

        At each row a member is also weighted by the probability that its play reaches the row.
        """
        weights = softmax(self.log_posterior).astype(np.float32)
        plan = np.tensordot(weights, self.prior.plans, axes=1).astype(float)
        total = plan.sum(axis=1, keepdims=True)
        likeliest = self.prior.members[weights.argmax()]
        return np.where(total > 0, plan / np.where(total > 0, total, 1), likeliest)

    def _deviation(self, mean: Array, concentration: float, strategy: Array) -> Array:
        """Estimate a strategy (N, A) under Dirichlet priors with mean (N, A) and a concentration.

        `strategy`: the strategy from which the search starts.
        """
        groups = self.prior.groups
        for _ in range(EM_STEPS):
            counts = np.zeros((groups.max() + 1, mean.shape[1]))
            expected = np.zeros_like(counts)
            for rows, shares, actions in self.games:
                _add_counts(strategy, mean, groups, rows, shares, actions, counts, expected)
            total = expected.sum(axis=1, keepdims=True)  # decisions of a group
            prior = expected / np.where(total > 0, total, 1)
            posterior = (counts + concentration * prior) / (total + concentration)
            factors = np.where(prior > 0, posterior / np.where(prior > 0, prior, 1), 1)
            strategy = mean * factors[groups]
            strategy /= strategy.sum(axis=1, keepdims=True)
        return strategy


@njit(cache=True)
def _fill_plans(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    after, seat, stage, index, first, moves, members, plans
):
    """Compute the plans of all members; see `BucketPrior.plans`.

    `after`, `seat`, `stage`, `moves`: of the BucketedGame; parents have lower numbers than their
    children. `index` (B,): number of each decision node. `first` (2, K): the first buckets.
    """
    buckets = first.shape[1]
    reach = np.zeros((len(after), 2, buckets))
    for m in range(len(members)):
        reach[0] = first
        for node in range(len(after)):
            if seat[node] < 0:
                continue
            own, base = seat[node], index[node] * buckets
            for action in range(after.shape[1]):
                child = after[node, action]
                if child < 0:
                    continue
                for k in range(buckets):
                    plans[m, base + k, action] = reach[node, own, k] * members[m, base + k, action]
                if seat[child] < 0:
                    continue
                same = stage[child] == stage[node]
                for player in range(2):
                    if not same:
                        reach[child, player] = 0
                    for k in range(buckets):
                        here = reach[node, player, k]
                        if player == own:
                            here *= members[m, base + k, action]
                        if same:
                            reach[child, player, k] = here
                        else:
                            for j in range(buckets):
                                reach[child, player, j] += here * moves[stage[node], k, j]


@njit(cache=True)
def _likelihood(strategy, rows, shares, actions):  # type: ignore[no-untyped-def]
    """Return the probability of a game's actions under one strategy (N, A)."""
    found = 0.0
    for j in range(len(shares)):
        product = shares[j]
        for d in range(len(actions)):
            product *= strategy[rows[d, j], actions[d]]
        found += product
    return found


@njit(cache=True)
def _likelihoods(members, rows, shares, actions):  # type: ignore[no-untyped-def]
    """Return the probability of a game's actions under each member (M, N, A)."""
    found = np.empty(len(members))
    for m in range(len(members)):
        found[m] = _likelihood(members[m], rows, shares, actions)
    return found


@njit(cache=True)
def _add_counts(strategy, mean, groups, rows, shares, actions, counts, expected):  # type: ignore[no-untyped-def]
    """Add one game's counts by group of rows to `counts` and `expected`, both (groups, A).

    `counts`: actions that the opponent took. `expected`: action probabilities of `mean` (N, A) at
    the same decisions. Each possible hand is weighted by its probability given the game, if the
    opponent follows `strategy` (N, A).
    """
    total = _likelihood(strategy, rows, shares, actions)
    if total <= 0:
        return
    for j in range(len(shares)):
        weight = shares[j] / total
        for d in range(len(actions)):
            weight *= strategy[rows[d, j], actions[d]]
        if weight < 1e-6:
            continue
        for d in range(len(actions)):
            row = rows[d, j]
            counts[groups[row], actions[d]] += weight
            for a in range(expected.shape[1]):
                expected[groups[row], a] += weight * mean[row, a]
