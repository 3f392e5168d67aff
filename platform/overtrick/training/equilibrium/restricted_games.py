"""Restricted games of PSRO: how the policies of a population are mixed, round by round.

Each of the K members of the population has one policy for every seat. Every class here adds members
and mixes all members added so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Game
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation.game_cache import playable_game
from overtrick.learners.weights import stack
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.by_seat import PolicyBySeat
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.policy_batch import SEAT
from overtrick.policies.rollout import play
from overtrick.solvers import cfr, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.meta_game import MetaGame
from overtrick.solvers.extensive.restricted_tree import restrict
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.meta_solvers import META_SOLVERS
from overtrick.training.equilibrium.oracles import Mixture
from overtrick.training.equilibrium.psro_job import Psro

SHARD = 10  # profiles of policies per shard, independent of the number of workers

Member = Mapping[str, Array]
"""Policies of one member: `sigma` (N, A), or the weights of a network for each seat.

The weights of seat s have the prefix `seat_s`.
"""


class RestrictedGame(ABC):
    """Base class: a population of which the members added so far are mixed."""

    @abstractmethod
    def add(self, member: Member, rng: Generator) -> int:
        """Add a member; return the number of decisions in the games that estimate its payoffs.

        `rng` draws these games.
        """

    @abstractmethod
    def mix(self) -> tuple[Mixture, Array]:
        """Mix all members: return the mixture, and the shares (S, K) of the members.

        Row s has the probabilities with which seat s draws each member before a game; the shares
        are 0 where the mixture is not one of whole policies.
        """

    def state(self) -> dict[str, Array]:
        """Return what `load` needs besides the members."""
        return {}

    @abstractmethod
    def load(self, members: Sequence[Member], state: Mapping[str, Array]) -> None:
        """Restore from the members, in the order in which they joined, and a result of `state`."""


class NormalFormOnTree(RestrictedGame):
    """Seats draw whole policies before the game; payoffs are exact, on the game tree."""

    def __init__(self, game: Game, tree: Tree, section: Psro) -> None:
        self.game, self.tree, self.section = game, tree, section
        self.meta_game = MetaGame(tree)

    def add(self, member: Member, rng: Generator) -> int:
        """Add a member; payoffs are exact, so `rng` is not used."""
        self._add(member)
        return 0

    def _add(self, member: Member) -> None:
        self.meta_game.add(tabulate(self.game, self.tree, member))

    def mix(self) -> tuple[Mixture, Array]:
        """Mix the members by the meta-solver."""
        solve = META_SOLVERS[self.section.meta_solver]
        shares = solve(self.meta_game.payoffs, self.section.meta_solver_steps)
        return Mixture(self.meta_game.equivalent_strategy(shares), [], []), np.array(shares)

    def load(self, members: Sequence[Member], state: Mapping[str, Array]) -> None:
        """Add the members again, in the same order, so that payoffs have the same bits."""
        self.meta_game = MetaGame(self.tree)
        for member in members:
            self._add(member)


class SequenceForm(RestrictedGame):
    """A seat may take every action that one of its policies takes at an information set.

    Source: McAleer et al. 2021, "XDO: a double oracle algorithm for extensive-form games". The
    first member, uniform play, is the mixture until a second one joins. Its actions do not count as
    allowed.
    """

    def __init__(self, tree: Tree, section: Psro) -> None:
        self.tree, self.section = tree, section
        self.allowed = np.zeros(tree.legal.shape, bool)
        self.members = 0

    def add(self, member: Member, rng: Generator) -> int:
        """Allow the actions of a member's pure strategies; `rng` is not used."""
        self._add(member)
        return 0

    def _add(self, member: Member) -> None:
        if self.members:
            self.allowed |= member["sigma"] > 0
        self.members += 1

    def mix(self) -> tuple[Mixture, Array]:
        """Solve the restricted game: by linear programming, or by CFR+."""
        shares = np.zeros((self.tree.seats, self.members))
        if self.members == 1:
            return Mixture(self.tree.uniform(), [], []), shares
        restricted = restrict(self.tree, self.allowed)
        if self.section.meta_solver == "nash":
            sigma = sequence_form.equilibrium(restricted.tree)[1]
        else:
            sigma = cfr.solve(restricted.tree, self.section.meta_solver_steps)
        return Mixture(restricted.extend(sigma), [], []), shares

    def load(self, members: Sequence[Member], state: Mapping[str, Array]) -> None:
        """Allow the actions of all members again."""
        self.allowed[:], self.members = False, 0
        for member in members:
            self._add(member)


class NormalFormBySampling(RestrictedGame):
    """Seats draw whole networks before the game; payoffs are estimated from games."""

    def __init__(self, choice: GameChoice, game: Game, section: Psro, pool: WorkerPool) -> None:
        self.choice, self.game, self.section, self.pool = choice, game, section, pool
        self.members: list[Member] = []
        self.payoffs = np.zeros((game.seats, *[0] * game.seats))

    def add(self, member: Member, rng: Generator) -> int:
        """Play all profiles that include the new member, `payoff_games` games each."""
        self.members.append(member)
        count, seats = len(self.members), self.game.seats
        grown = np.zeros((seats, *[count] * seats))
        grown[(slice(None), *[slice(count - 1)] * seats)] = self.payoffs
        profiles = np.argwhere(np.indices([count] * seats).max(axis=0) == count - 1)
        common = (self.choice, self.section.payoff_games, self._networks())
        shards = [(profiles[k : k + SHARD],) for k in range(0, len(profiles), SHARD)]
        played = self.pool.map(_profile_payoffs, common, shards, rng)
        grown[(slice(None), *profiles.T)] = np.concatenate([means for means, _ in played]).T
        self.payoffs = grown
        return sum(decisions for _, decisions in played)

    def _networks(self) -> list[Weights]:
        """Return for each seat the weights (K, ...) of the members' networks."""
        seats = range(self.game.seats)
        return [stack([_network(each, seat) for each in self.members]) for seat in seats]

    def mix(self) -> tuple[Mixture, Array]:
        """Mix the members by the meta-solver."""
        solve = META_SOLVERS[self.section.meta_solver]
        shares = solve(self.payoffs, self.section.meta_solver_steps)
        return Mixture(None, self._networks(), shares), np.array(shares)

    def state(self) -> dict[str, Array]:
        """Return the estimated payoffs (S, K, ..., K)."""
        return {"payoffs": self.payoffs}

    def load(self, members: Sequence[Member], state: Mapping[str, Array]) -> None:
        """Restore members and payoffs. Raises ValueError if their numbers differ."""
        wanted = (self.game.seats, *[len(members)] * self.game.seats)
        if state["payoffs"].shape != wanted:
            raise ValueError(f"payoffs have shape {state['payoffs'].shape}, not {wanted}")
        self.members, self.payoffs = list(members), state["payoffs"]


def restricted_game(
    choice: GameChoice, game: Game, tree: Tree | None, section: Psro, pool: WorkerPool
) -> RestrictedGame:
    """Make the restricted game of a job, without members."""
    if tree is None:
        return NormalFormBySampling(choice, game, section, pool)
    if section.form == "sequence":
        return SequenceForm(tree, section)
    return NormalFormOnTree(game, tree, section)


def tabulate(game: Game, tree: Tree, member: Member) -> Array:
    """Return the strategy (N, A) of a member's policies in all seats."""
    if "sigma" in member:
        return member["sigma"]
    networks = [NetworkPolicy(game.features, _network(member, s)) for s in range(game.seats)]
    return best_response.sigma_of(tree, [PolicyBySeat(networks)] * game.seats)


def _network(member: Member, seat: int) -> Weights:
    """Return the weights of a member's network in one seat."""
    return unprefixed(SEAT.format(seat), member)


def _profile_payoffs(rng: Generator, common: Any, profiles: Array) -> tuple[Array, int]:
    """Estimate the points (P, S) of all seats in P profiles of networks, from games.

    Also returns the number of decisions of all seats in these games.

    `common`: the tuple (game, games of each profile, list of the weights (K, ...) of each seat's
    networks). `profiles` (P, S): the member that plays in each seat.
    """
    choice, games, networks = common
    game, _ = playable_game(choice)
    policies = [
        BatchedNetworks(game.features, {n: v[profiles[:, s]] for n, v in weights.items()})
        for s, weights in enumerate(networks)
    ]
    played = play(game, policies, games * len(profiles), rng, recorded=())
    return played.payoff.reshape(len(profiles), games, -1).mean(axis=1), played.decision_count
