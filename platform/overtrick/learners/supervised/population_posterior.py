"""Bayesian estimate of an opponent's strategy on a game tree, with a population as prior.

The estimate is made from a seat's observations at the ends of games, which may leave the opponent's
cards hidden. Hidden cards are marginalised. Several hypotheses are kept side by side:

- The opponent follows one member of the population in both seats, or a member of its own in each.
- Its strategy is the members' posterior mean, or deviates from it: at each information set it was
  drawn from a Dirichlet distribution with this mean and one of several concentrations.

Each hypothesis predicts the next game. The estimate mixes the hypotheses in proportion to the
probabilities that they gave to the games so far (prequential weights, Dawid 1984).

| here | Bayes' Bluff (Southey et al. 2005) |
|---|---|
| prior of members, and Dirichlet deviations from their posterior mean | one Dirichlet prior |
| hidden cards by expected counts, a few EM steps from the last estimate | posterior samples |
| several concentrations, weighted by their predictions | one concentration |
| the members' posterior mean is the mean of the deviations, although it uses the same games | |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array
from overtrick.solvers.extensive.traversal_order import (
    depth_and_chance_reach,
    fill_plan,
    realisation_plan,
)
from overtrick.solvers.extensive.tree import Tree

CONCENTRATIONS = (1.0, 4.0, 16.0, 64.0, np.inf)
"""Concentrations of the Dirichlet deviations: pseudo-counts at each information set. Infinity
stands for no deviation."""

EM_STEPS = 4  # at each update
UNIFORM_SHARE = 0.02  # of uniform play in the mean of deviations, so that all actions are possible
LIKELIHOOD_FLOOR = 1e-12  # lowest likelihood of a member, relative to the members' mean
PREDICTION_FLOOR = 1e-9  # lowest probability of an observation under a hypothesis


@dataclass(frozen=True)
class PopulationPrior:
    """Strategies of M possible opponents in a two-seat game, before any game is seen."""

    tree: Tree
    members: Array  # (M, N, A) strategies
    end_observations: tuple[Array, Array]
    """For seats 0 and 1 (V,): number of its observation at each terminal node, else -1."""

    @cached_property
    def flat(self) -> Array:
        """(M, L) the members' probabilities of all legal actions."""
        return self.tree.flat(self.members)

    @cached_property
    def plans(self) -> Array:
        """(M, 1 + L) the members' realisation plans."""
        return np.stack([realisation_plan(self.tree, flat) for flat in self.flat])

    @cached_property
    def chance_reach(self) -> Array:
        """(V,) product of chance's probabilities on the way to each node."""
        _, reach = depth_and_chance_reach(self.tree.parent, self.tree.seat, self.tree.chance)
        return np.asarray(reach)

    @cached_property
    def log_likelihood(self) -> tuple[Array, Array]:
        """For seats 0 and 1 (E, M): the log-probability of each of the seat's end observations.

        The opponent follows a member's strategy. The seat's own actions count as probability 1.
        """
        return self._log_likelihood(0), self._log_likelihood(1)

    @cached_property
    def seat_of_action(self) -> Array:
        """(L,) the seat of each legal action."""
        return self.tree.observations.seat[self.tree.action_infoset]

    def _log_likelihood(self, seat: int) -> Array:
        number = self.end_observations[seat]
        ends = np.flatnonzero(number >= 0)
        likelihood = np.zeros((number.max() + 1, len(self.members)))
        reached = self.plans[:, self.tree.sequence[ends, 1 - seat]].T
        np.add.at(likelihood, number[ends], self.chance_reach[ends, None] * reached)
        floor = LIKELIHOOD_FLOOR * likelihood.mean(axis=1, keepdims=True)
        return np.log(likelihood + floor + np.finfo(float).tiny)


class OpponentEstimate:
    """Estimate of one opponent's strategy from the games of a match.

    There are H hypotheses: for one member in both seats each concentration, then the same for a
    member of its own in each seat.
    """

    def __init__(
        self, prior: PopulationPrior, concentrations: tuple[float, ...] = CONCENTRATIONS
    ) -> None:
        self.prior, self.concentrations = prior, np.tile(concentrations, 2)  # (H,)
        self.log_posterior = np.zeros((2, len(prior.members)))  # by the seat that has observed
        self.counts = tuple(np.zeros(each.max() + 1) for each in prior.end_observations)
        self.log_weights = np.zeros(len(self.concentrations))  # of the hypotheses
        self.uniform = prior.tree.flat(prior.tree.uniform())
        self.strategies = np.tile(self.uniform, (len(self.log_weights), 1))  # (H, L)
        self.expected_counts = np.zeros(self.strategies.shape)  # (H, L) of the opponent's actions
        self.update()

    def observe(self, seat: int, number: int) -> None:
        """Add a finished game: the observing seat, and the number of its end observation.

        The estimates change at the next call of `update`.
        """
        ends = np.flatnonzero(self.prior.end_observations[seat] == number)
        reached = self.plans[:, self.prior.tree.sequence[ends, 1 - seat]]
        predicted = reached @ self.prior.chance_reach[ends]
        self.log_weights += np.log(predicted + PREDICTION_FLOOR)
        self.log_posterior[seat] += self.prior.log_likelihood[seat][number]
        self.counts[seat][number] += 1

    def update(self) -> None:
        """Compute the estimate of each hypothesis from all games so far."""
        both = self.log_posterior.sum(axis=0)
        first, second = self.log_posterior  # the opponent sits in the other seat
        means = self._mean((both, both)), self._mean((second, first))
        for k, concentration in enumerate(self.concentrations):
            mean = means[0] if k < len(self.concentrations) // 2 else means[1]
            if np.isinf(concentration):
                self.strategies[k] = mean
                continue
            mean = (1 - UNIFORM_SHARE) * mean + UNIFORM_SHARE * self.uniform
            self.strategies[k], self.expected_counts[k] = self._deviation(
                mean, concentration, self.strategies[k]
            )
        self.plans = np.stack([realisation_plan(self.prior.tree, f) for f in self.strategies])

    def strategy(self) -> Array:
        """Return the estimated strategy (N, A): the mixture of all hypotheses."""
        weights = softmax(self.log_weights)
        fallback = self.strategies[weights.argmax()]
        return self.prior.tree.table(self._behaviour(weights @ self.plans, fallback))

    def sample(self, rng: Generator) -> Array:
        """Draw a strategy (N, A): a hypothesis, members by their posterior, and a deviation.

        Samples differ most where the opponent was seldom seen.
        """
        drawn = int(rng.choice(len(self.log_weights), p=softmax(self.log_weights)))
        posteriors = self.log_posterior[::-1]  # of seats 0 and 1
        if drawn < len(self.log_weights) // 2:
            posteriors = self.log_posterior.sum(axis=0, keepdims=True)
        members = [int(rng.choice(len(logs), p=softmax(logs))) for logs in posteriors]
        first, second = self.prior.flat[members[0]], self.prior.flat[members[-1]]
        flat = np.where(self.prior.seat_of_action == 0, first, second)
        concentration = self.concentrations[drawn]
        if np.isfinite(concentration):
            mean = (1 - UNIFORM_SHARE) * flat + UNIFORM_SHARE * self.uniform
            drawn_counts = rng.gamma(concentration * mean + self.expected_counts[drawn])
            flat = self._normalised(drawn_counts + np.finfo(float).tiny)
        return self.prior.tree.table(flat)

    def _mean(self, log_posterior: tuple[Array, Array]) -> Array:
        """Return the mean strategy (L,) of the members.

        `log_posterior`: unnormalised log-posterior (M,) of the members in seats 0 and 1.
        """
        prior, plan = self.prior, np.zeros(1 + len(self.prior.seat_of_action))
        likeliest = np.zeros(len(prior.seat_of_action))
        for seat, logs in enumerate(log_posterior):
            weights = softmax(logs)
            own = prior.seat_of_action == seat
            plan[1:][own] = weights @ prior.plans[:, 1:][:, own]
            likeliest[own] = prior.flat[weights.argmax(), own]
        return self._behaviour(plan, likeliest)

    def _behaviour(self, plan: Array, fallback: Array) -> Array:
        """Return the behaviour strategy (L,) of a realisation plan (1 + L,).

        `fallback` (L,): the strategy at information sets that the plan does not reach.
        """
        start = self.prior.tree.start
        total = np.repeat(np.add.reduceat(plan[1:], start[:-1]), np.diff(start))
        return np.where(total > 0, plan[1:] / np.where(total > 0, total, 1), fallback)

    def _normalised(self, weights: Array) -> Array:
        """Divide weights (L,) by their sum at each information set."""
        start = self.prior.tree.start
        total = np.add.reduceat(weights, start[:-1])
        return np.asarray(weights / np.repeat(total, np.diff(start)))

    def _deviation(self, mean: Array, concentration: float, start: Array) -> tuple[Array, Array]:
        """Estimate a strategy (L,) given its mean (L,) and a concentration.

        Returns the strategy and the expected counts (L,) of its actions. `start` (L,): the strategy
        from which the search starts.
        """
        prior, tree = self.prior, self.prior.tree
        found: tuple[Array, Array] = _expectation_maximisation(
            tree.parent, tree.seat, tree.sequence, tree.order, tree.start, tree.parent_sequence,
            prior.chance_reach, *prior.end_observations, *self.counts, mean, concentration, start,
        )  # fmt: skip
        return found


def softmax(logs: Array) -> Array:
    """Return probabilities proportional to the exponentials of `logs`."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


@njit(cache=True)
def _expectation_maximisation(  # type: ignore[no-untyped-def]
    parent, seat_of, sequence, order, start, past, chance_reach, number0, number1, counts0, counts1,
    mean, concentration, strategy,
):  # fmt: skip
    """Estimate a strategy (L,) from counted end observations; return it and its expected counts.

    The prior at each information set is a Dirichlet distribution with pseudo-counts `concentration`
    x `mean`. A step computes the expected counts of the opponent's actions under the strategy, and
    replaces the strategy by the posterior mean that they give. The first step starts from
    `strategy`. `number0`: the end observation of seat 0 at each terminal node (V,), else -1.
    `counts0`: how often seat 0 had each. `number1`, `counts1`: of seat 1.
    """
    flat, expected = strategy.copy(), np.zeros(len(mean))
    plan = np.ones(1 + len(flat))
    weight = np.empty(len(parent))
    for _ in range(EM_STEPS):
        fill_plan(order, start, past, flat, plan)
        expected[:] = 0
        for seat in range(2):
            number, seen = (number0, counts0) if seat == 0 else (number1, counts1)
            opponent = 1 - seat
            total = np.zeros(len(seen))
            for node in range(len(parent)):
                weight[node] = 0.0
                if number[node] >= 0 and seen[number[node]] > 0:
                    weight[node] = chance_reach[node] * plan[sequence[node, opponent]]
                    total[number[node]] += weight[node]
            for node in range(len(parent)):
                if number[node] >= 0 and total[number[node]] > 0:
                    weight[node] *= seen[number[node]] / total[number[node]]
            for node in range(len(parent) - 1, 0, -1):
                weight[parent[node]] += weight[node]
                if seat_of[parent[node]] == opponent:
                    expected[sequence[node, opponent] - 1] += weight[node]
        for row in range(len(start) - 1):
            total_count = concentration
            for place in range(start[row], start[row + 1]):
                total_count += expected[place]
            for place in range(start[row], start[row + 1]):
                flat[place] = (concentration * mean[place] + expected[place]) / total_count
    return flat, expected
