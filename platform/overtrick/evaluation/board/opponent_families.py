"""Families of opponents in games with a tree: each draws a strategy with random parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, PublicSituations
from overtrick.games import registry
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.supervised.behaviour_cloning import (
    CloningConfig,
    Demonstrations,
    clone_behaviour,
)
from overtrick.policies.network import NetworkPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

NETWORK_SIZES = (32, 32)  # units of the hidden layers of an imitating network
EXPLOITABILITIES = (0.02, 0.1, 0.3, 0.6)
"""Exploitabilities of the family `near_equilibrium`, in points per game."""

BISECTIONS = 40

Draw = Callable[[Generator], Array]
"""Function that draws a strategy (N, A) with a random generator."""


@dataclass(frozen=True)
class OpponentFamilies:
    """Families of opponents in one game. `equilibrium` (N, A): an equilibrium of the game."""

    game: Game
    tree: Tree
    equilibrium: Array

    def training(self) -> Mapping[str, Draw]:
        """Return the families of which a population for training is drawn."""
        return {
            **self._base(),
            "exploiter": self.exploiter,
            "quantal_response": self.quantal_response,
            "two_members": self.two_members,
        }

    def development(self) -> Mapping[str, Draw]:
        """Return the families of the development opponents: some for training, and networks."""
        return {**self._base(), "imitating_network": self.imitating_network}

    def test_only(self) -> Mapping[str, Draw]:
        """Return the families of which only test opponents are drawn."""
        return {
            **({"card_blind": self.card_blind} if isinstance(self.game, PublicSituations) else {}),
            "restricted_equilibrium": self.restricted_equilibrium,
            "early_cfr": self.early_cfr,
            "random_network": self.random_network,
        }

    def _base(self) -> dict[str, Draw]:
        """Return the families for training that are not made of other families."""
        scripted = registry.scripted_families(self.game)
        return {
            "uniform_mixture": self.uniform_mixture,
            **{name: self._scripted(draw) for name, draw in scripted.items()},
            "near_equilibrium": self.near_equilibrium,
            "perturbed_equilibrium": self.perturbed_equilibrium,
        }

    def draw_training(self, count: int, rng: Generator) -> Array:
        """Draw `count` strategies (count, N, A), each of a random family for training."""
        return self._draw(self.training(), count, rng)

    def _draw(self, families: Mapping[str, Draw], count: int, rng: Generator) -> Array:
        """Draw `count` strategies (count, N, A), each of a random one of some families."""
        draws = list(families.values())
        return np.stack([draws[rng.integers(len(draws))](rng) for _ in range(count)])

    def uniform_mixture(self, rng: Generator) -> Array:
        """Draw a mixture, at each decision, of uniform play (30 to 95 %) and the equilibrium."""
        share = rng.uniform(0.3, 0.95)
        return share * self.tree.uniform() + (1 - share) * self.equilibrium

    def near_equilibrium(self, rng: Generator, exploitability: float | None = None) -> Array:
        """Draw a strategy of a given exploitability: the equilibrium mixed with random play.

        `exploitability`: in points per game; None: one of EXPLOITABILITIES. If random play is less
        exploitable, the result is random play.
        """
        target = float(rng.choice(EXPLOITABILITIES)) if exploitability is None else exploitability
        other = self.random_strategy(rng)
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            mixed = (1 - middle) * self.equilibrium + middle * other
            below = best_response.exploitability(self.tree, mixed) < target
            low, high = (middle, high) if below else (low, middle)
        return (1 - low) * self.equilibrium + low * other

    def perturbed_equilibrium(self, rng: Generator) -> Array:
        """Draw an equilibrium that prefers or avoids one action with one hand or in one stage.

        The odds of the action are multiplied by a log-normal factor with sigma 2. A stage is the
        number of decisions that the seat has made before.
        """
        hands = self.game.hand(self.tree.observations)
        tilted = (
            hands == rng.choice(np.unique(hands))
            if rng.random() < 0.5
            else self.tree.stage == rng.integers(2)
        )
        factor = np.ones(self.tree.legal.shape)
        factor[tilted, rng.integers(self.tree.legal.shape[1])] = np.exp(2 * rng.normal())
        # with some uniform play, the factor also acts where the equilibrium never takes the action
        return _normalised((0.95 * self.equilibrium + 0.05 * self.tree.uniform()) * factor)

    def imitating_network(self, rng: Generator) -> Array:
        """Draw a network that has learned from a few decisions of a player of another family."""
        member_rng, weights_rng, data_rng, learn_rng = rng.spawn(4)
        shown = self._draw(self._base(), 1, member_rng)[0]
        visits = data_rng.multinomial(2_000, np.full(self.tree.infosets, 1 / self.tree.infosets))
        taken = np.stack([data_rng.multinomial(n, p) for n, p in zip(visits, shown, strict=True)])
        rows = self.tree.observations
        examples = Demonstrations(self.game.features(rows), self.tree.legal, taken)
        adam = Adam(initial_policy_weights(self.game, NETWORK_SIZES, weights_rng, head=0.1), 0.003)
        weights, _ = clone_behaviour(adam, examples, CloningConfig(epochs=60), learn_rng)
        policy = NetworkPolicy(self.game.features, weights)
        return best_response.sigma_of(self.tree, [policy] * self.tree.seats)

    def exploiter(self, rng: Generator) -> Array:
        """Draw a best response to a player of another family, with 0 to 50 % uniform play."""
        other, share = self._draw(self._base(), 1, rng)[0], rng.uniform(0.5, 1)
        responses = best_response.best_responses(self.tree, other)
        return share * responses + (1 - share) * self.tree.uniform()

    def quantal_response(self, rng: Generator) -> Array:
        """Draw a logit response to nearly uniform play; its temperature is 0.2 to 2.7 points."""
        other = 0.3 * self.random_strategy(rng) + 0.7 * self.tree.uniform()
        precision, found = np.exp(rng.uniform(-1, 1.5)), np.zeros(self.tree.legal.shape)
        for seat in range(self.tree.seats):
            gain, _ = best_response.conditional_action_values(self.tree, other, seat)
            own = self.tree.observations.seat == seat
            odds = np.exp(precision * (gain - gain.max(axis=1, keepdims=True))) * self.tree.legal
            found[own] = _normalised(odds)[own]
        return found

    def two_members(self, rng: Generator) -> Array:
        """Draw a strategy (N, A) that follows another player in each seat.

        Both are of other families; they may be of the same one.
        """
        first, second = self._draw(self._base(), 2, rng)
        return np.where((self.tree.observations.seat == 0)[:, None], first, second)

    def card_blind(self, rng: Generator) -> Array:
        """Draw a strategy (N, A) that ignores the cards of its seat.

        Information sets of one seat in one public situation get the same row: the unweighted mean
        of their rows in a strategy of another family. The game must have public situations.
        """
        assert isinstance(self.game, PublicSituations)
        other, rows = self._draw(self._base(), 1, rng)[0], self.tree.observations
        public = np.column_stack([rows.seat, self.game.public_situation(rows)])
        _, group, size = np.unique(public, axis=0, return_inverse=True, return_counts=True)
        total = np.zeros((len(size), other.shape[1]))
        np.add.at(total, group.reshape(-1), other)
        return (total / size[:, None])[group.reshape(-1)]

    def restricted_equilibrium(self, rng: Generator) -> Array:
        """Draw an equilibrium, with 5 % uniform play, that never takes one action if it can."""
        odds = 0.95 * self.equilibrium + 0.05 * self.tree.uniform()
        avoided = odds.copy()
        avoided[:, rng.integers(odds.shape[1])] = 0
        possible = avoided.sum(axis=1, keepdims=True) > 0
        return _normalised(np.where(possible, avoided, odds))

    def early_cfr(self, rng: Generator) -> Array:
        """Draw the average strategy of CFR+ after 1 to 8 iterations, with up to 20 % uniform."""
        share, found = rng.uniform(0.8, 1), cfr.solve(self.tree, int(rng.integers(1, 9)))
        return share * found + (1 - share) * self.tree.uniform()

    def random_network(self, rng: Generator) -> Array:
        """Draw a network with random weights and a large output layer."""
        weights = initial_policy_weights(self.game, NETWORK_SIZES, rng, head=4.0)
        policy = NetworkPolicy(self.game.features, weights)
        return best_response.sigma_of(self.tree, [policy] * self.tree.seats)

    def random_strategy(self, rng: Generator) -> Array:
        """Draw a strategy from a Dirichlet distribution (all parameters 1/2) at each decision."""
        return _normalised(rng.gamma(0.5, size=self.tree.legal.shape) * self.tree.legal)

    def _scripted(self, draw: Callable[[Generator], BehaviouralPolicy]) -> Draw:
        """Return a family of scripted players as a function that draws strategies (N, A)."""

        def strategy(rng: Generator) -> Array:
            return best_response.sigma_of(self.tree, [draw(rng)] * self.tree.seats)

        return strategy


def _normalised(weights: Array) -> Array:
    """Divide each row of weights (N, A) by its sum."""
    return weights / weights.sum(axis=1, keepdims=True)
