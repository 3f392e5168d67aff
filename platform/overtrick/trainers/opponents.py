"""Opponents that evolve against whoever is their guest of honour (Wu et al. 2022, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config import Count, GameChoice, Positive, Section, Share
from overtrick.core import Array
from overtrick.learners.networks import initial, stack
from overtrick.policies import Network, Weights
from overtrick.population.evolution import Evolution
from overtrick.population.population import Population, with_guest
from overtrick.trainers.adaptation import fitness
from overtrick.trainers.kept import two_seats
from overtrick.workers import Crew

SHARD = 5  # members of one shard, whatever the number of workers


class Opponents(Section):
    """The evolving opponents (Table 1, column Leduc)."""

    size: Count = Field(default=10, description="members")
    elite_share: Share = Field(default=0.2, description="share that is kept unchanged")
    mutation_rate: Share = Field(default=0.3, description="probability that a member mutates")
    mutation_strength: float = Field(
        default=0.1, ge=0, description="noise as a multiple of a layer's root mean square"
    )
    fitness_games: Count = Field(default=50, description="games that score a member")
    style: Positive = Field(default=1.0, description="largest scale of a new member's last layer")
    lean: float = Field(
        default=0.0, ge=0, description="largest spread of a new member's action preferences, logits"
    )
    immigrants: int = Field(
        default=0, ge=0, description="tasks of each iteration that are met by new random members"
    )


class EvolvingOpponents:
    """A population behind a host; its members are scored by the crew."""

    def __init__(
        self,
        game: GameChoice,
        sizes: Sequence[int],
        plan: Opponents,
        crew: Crew,
        rng: Generator,
    ) -> None:
        self.game = game
        self.sizes = sizes
        self.plan = plan
        self.crew = crew
        operators = Evolution(plan.elite_share, plan.mutation_rate, plan.mutation_strength)
        self.host = crew.host(Population(self.newcomers(plan.size, rng), operators))

    def members(self) -> Weights:
        """(M, ...) the population as it stands, the elite of the last generation first."""
        return self.host.state()

    def evolve(self, guest: Weights, rng: Generator) -> dict[str, float]:
        """Algorithm 2: the guest joins, everyone is scored against it, the rest evolve."""
        score_rng, evolve_rng = rng.spawn(2)
        candidates = with_guest(self.members(), guest)
        common = (self.game, guest, self.plan.fitness_games)
        scores = self.crew.map(_score, common, shards(candidates), score_rng)
        return self.host.call("advance", guest, np.concatenate(scores), evolve_rng)

    def choose(self, tasks: int, rng: Generator) -> Weights:
        """(tasks, ...) opponents drawn from the population, and immigrants."""
        members = self.members()
        newcomers = self.plan.immigrants
        drawn = tasks - newcomers
        size = self.plan.size
        chosen = rng.choice(size, drawn, replace=drawn > size)
        known = {n: v[chosen] for n, v in members.items()}
        if not newcomers:
            return known
        new = self.newcomers(newcomers, rng)
        return {n: np.concatenate([known[n], new[n]]) for n in known}

    def newcomers(self, members: int, rng: Generator) -> Weights:
        """(members, ...) new random opponents."""
        return newcomers(self.sizes, self.plan.style, self.plan.lean, members, rng)

    def state(self) -> dict[str, Array]:
        return self.host.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self.host.load(state)


def newcomers(
    sizes: Sequence[int], style: float, lean: float, members: int, rng: Generator
) -> Weights:
    """(members, ...) new random networks, mostly mild, some pronounced.

    style: largest scale of a last layer; lean: largest spread of action preferences, logits.
    """
    weights = stack([initial(sizes, rng, style) for _ in range(members)])
    last = len(sizes) - 2
    preferences = lean * rng.normal(0, 1, weights[f"b{last}"].shape)
    mildness = rng.random((2, members)) ** 2
    weights[f"w{last}"] *= mildness[0, :, None, None].astype(np.float32)
    weights[f"b{last}"] = (preferences * mildness[1, :, None]).astype(np.float32)
    return weights


def shards(members: Weights) -> list[tuple[Weights]]:
    """A population cut into shards of a fixed size."""
    count = len(members["w0"])
    return [({n: v[i : i + SHARD] for n, v in members.items()},) for i in range(0, count, SHARD)]


def _score(rng: Generator, common: Any, members: Weights) -> Array:
    """(M,) mean points a game of members against the guest (eq. 8)."""
    choice, guest, games = common
    game, _ = two_seats(choice)
    return fitness(game, members, Network(game.features, guest), games, rng)
