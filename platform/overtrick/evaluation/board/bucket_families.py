"""Families of opponents in games with an abstraction of hands; each draws a policy at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, HandAbstraction
from overtrick.games import registry
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.policies.network import NetworkPolicy
from overtrick.solvers.lookahead.abstraction_response import abstraction_response
from overtrick.solvers.public_tree.values import IndexedGame

NETWORK_SIZES = (32, 32)  # units of the hidden layers of a random network
HEAD_SCALE = 4.0  # of the output layer's random weights
STRATEGY = "strategy"  # name of the array of an opponent that follows a strategy


class DrawnOpponent(NamedTuple):
    """A drawn opponent: its policy, and the arrays that define it."""

    policy: BehaviouralPolicy
    arrays: dict[str, Array]
    """The weights of a network, or `strategy` (N, A) float32 of the abstraction. Empty for a
    scripted player, which the seed of the draw defines."""


DrawOpponent = Callable[[Generator], DrawnOpponent]
"""Function that draws an opponent with a random generator."""


@dataclass(frozen=True, eq=False)
class BucketFamilies:
    """Families of opponents in one game.

    Scripted players and networks act by the game's own observations. The others follow a strategy
    (N, A) of the abstraction.
    """

    game: Game
    abstraction: HandAbstraction
    indexed: IndexedGame  # of the abstraction

    def training(self) -> Mapping[str, DrawOpponent]:
        """Return the families from which a population for training is drawn."""
        return {
            **{name: self._drawn(draw) for name, draw in self._scripted().items()},
            "exploiter": self._of_strategies(self.exploiter),
            "uniform_mixture": self._of_strategies(self.uniform_mixture),
            "two_members": self._of_strategies(self.two_members),
        }

    def test_only(self) -> Mapping[str, DrawOpponent]:
        """Return the families from which only test opponents are drawn."""
        return {
            "two_stages": self._of_strategies(self.two_stages),
            "card_blind": self._of_strategies(self.card_blind),
            "avoids_action": self._of_strategies(self.avoids_action),
            "random_network": self.random_network,
        }

    def draw_training(self, count: int, rng: Generator) -> Array:
        """Draw strategies (count, N, A) float32, each of a random family for training."""
        draws = list(self.training().values())
        found = np.empty((count, *self.indexed.legal.shape), np.float32)
        for strategy in found:
            policy, arrays = draws[rng.integers(len(draws))](rng)
            table = arrays.get(STRATEGY)
            strategy[:] = self.abstraction.tabulate(policy, rng) if table is None else table
        return found

    def exploiter(self, rng: Generator) -> Array:
        """Draw a best response to a scripted player, with 0 to 50 % uniform play."""
        share = rng.uniform(0.5, 1)
        response = abstraction_response(self.indexed, self._scripted_strategy(rng))
        return share * response + (1 - share) * self.indexed.uniform()

    def uniform_mixture(self, rng: Generator) -> Array:
        """Draw a mixture, at each decision, of uniform play (30 to 95 %) and a scripted player."""
        share = rng.uniform(0.3, 0.95)
        return share * self.indexed.uniform() + (1 - share) * self._scripted_strategy(rng)

    def two_members(self, rng: Generator) -> Array:
        """Draw a player that follows two scripted players, one in each seat."""
        first, second = self._scripted_strategy(rng), self._scripted_strategy(rng)
        return np.where((self.indexed.seat == 0)[:, None], first, second)

    def two_stages(self, rng: Generator) -> Array:
        """Draw a strategy (N, A) that follows one scripted player, then another.

        Both are drawn at random. The change is at the start of the second or a later betting round,
        with equal probabilities.
        """
        first, second = self._scripted_strategy(rng), self._scripted_strategy(rng)
        rules = self.indexed.rules
        stage = np.repeat(rules.round[rules.seat >= 0], self.indexed.buckets)
        return np.where((stage < rng.integers(1, stage.max() + 1))[:, None], first, second)

    def card_blind(self, rng: Generator) -> Array:
        """Draw a player that ignores its cards: the mean of a scripted player over all buckets."""
        other = self._scripted_strategy(rng)
        mean = other.reshape(-1, self.indexed.buckets, other.shape[1]).mean(axis=1)
        return np.repeat(mean, self.indexed.buckets, axis=0)

    def avoids_action(self, rng: Generator) -> Array:
        """Draw a scripted player, with 5 % uniform play, that avoids one action.

        It takes this action only where no other is legal.
        """
        odds = 0.95 * self._scripted_strategy(rng) + 0.05 * self.indexed.uniform()
        avoided = odds.copy()
        avoided[:, rng.integers(odds.shape[1])] = 0
        total = avoided.sum(axis=1, keepdims=True)
        return np.where(total > 0, avoided / np.where(total > 0, total, 1), odds)

    def random_network(self, rng: Generator) -> DrawnOpponent:
        """Draw a network with random weights; those of the output layer are scaled up."""
        weights = initial_policy_weights(self.game, NETWORK_SIZES, rng, head=HEAD_SCALE)
        return DrawnOpponent(NetworkPolicy(self.game.features, weights), weights)

    def _scripted(self) -> Mapping[str, Callable[[Generator], BehaviouralPolicy]]:
        return registry.scripted_families(self.game)

    def _scripted_strategy(self, rng: Generator) -> Array:
        """Draw the strategy (N, A) of a player of a random scripted family."""
        draws = list(self._scripted().values())
        return self.abstraction.tabulate(draws[rng.integers(len(draws))](rng), rng)

    def _drawn(self, draw: Callable[[Generator], BehaviouralPolicy]) -> DrawOpponent:
        return lambda rng: DrawnOpponent(draw(rng), {})

    def _of_strategies(self, draw: Callable[[Generator], Array]) -> DrawOpponent:
        def drawn(rng: Generator) -> DrawnOpponent:
            strategy = draw(rng).astype(np.float32)
            return DrawnOpponent(self.abstraction.policy(strategy), {STRATEGY: strategy})

        return drawn
