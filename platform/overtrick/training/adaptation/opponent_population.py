"""Whom a meta-model meets in training: a population that evolves against it (Wu et al. 2022,
algorithm 2), new random members at each renewal, or itself as it is and was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, GameChoice, UnusedKeys
from overtrick.core import Array, Game, UserError
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.weights import repeat, stack
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.policies.network import network_policy
from overtrick.population.genetic import EvolutionConfig
from overtrick.population.population import Population, with_candidate
from overtrick.training.adaptation.rollouts import fitness
from overtrick.training.shared_sections import GeneticOperators, RandomMembers

SHARD = 5  # members of one shard, whatever the number of workers

Kind = Literal["evolving", "random", "selfplay"]
EVOLVING_KEYS = ("elite_share", "mutation_rate", "mutation_strength", "fitness_games")
"""Keys that only an evolving population reads."""


class Opponents(GeneticOperators, RandomMembers):
    """Opponent population of training (Wu et al. 2022, Table 1, column Leduc)."""

    unused_keys = (
        UnusedKeys({"kind": ("random",)}, (*EVOLVING_KEYS, "immigrants")),
        UnusedKeys({"kind": ("selfplay",)}, EVOLVING_KEYS),
        UnusedKeys({"kind": ("selfplay",), "immigrants": (0,)}, tuple(RandomMembers.model_fields)),
    )

    kind: Kind = Field(
        default="evolving",
        description="evolving: scored against the meta-model, selected, crossed and mutated. "
        "random: all members are new at each renewal. selfplay: the meta-model at the latest "
        "renewals",
    )
    size: Count = Field(default=10, description="members of the population")
    fitness_games: Count = Field(default=50, description="games that score a member")
    every: Count = Field(default=1, description="iterations between renewals")
    immigrants: int = Field(
        default=0, ge=0, description="opponents of each iteration that are new random networks"
    )


class Opposition(ABC):
    """A population behind a host; kinds differ in who founds it and how it is renewed.

    sizes: units of each layer of a member; founder: the meta-model at the start.
    """

    def __init__(
        self,
        game: GameChoice,
        sizes: Sequence[int],
        plan: Opponents,
        founder: Weights,
        crew: WorkerPool,
        rng: Generator,
    ) -> None:
        self.game = game
        self.sizes = sizes
        self.plan = plan
        self.crew = crew
        first = founder.get(LOG_STD)  # None where actions are single
        self.log_std = None if first is None else first + np.float32(np.log(plan.action_std_scale))
        operators = EvolutionConfig(plan.elite_share, plan.mutation_rate, plan.mutation_strength)
        self.host = crew.host(Population(self.founders(founder, rng), operators))

    @abstractmethod
    def renew(self, guest: Weights, rng: Generator) -> dict[str, float]:
        """The population of the next iteration, in which the meta-model is the guest."""

    def founders(self, founder: Weights, rng: Generator) -> Weights:
        """(M, ...) the first members."""
        return self.newcomers(self.plan.size, rng)

    def members(self) -> Weights:
        """(M, ...) the population as it stands: the last elite or the newest member first."""
        return self.host.state()

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
        return newcomers(
            self.sizes,
            members,
            self.plan.head_init_scale,
            self.plan.logit_bias_std,
            rng,
            self.log_std,
        )

    def state(self) -> dict[str, Array]:
        return self.host.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self.host.load(state)


class Evolving(Opposition):
    """Algorithm 2; its members are scored by the crew."""

    def renew(self, guest: Weights, rng: Generator) -> dict[str, float]:
        """The guest joins, everyone is scored against it, the worst leaves, the rest evolve."""
        score_rng, evolve_rng = rng.spawn(2)
        candidates = with_candidate(self.members(), guest)
        common = (self.game, guest, self.plan.fitness_games)
        scores = self.crew.map(_score, common, shards(candidates), score_rng)
        return self.host.call("advance", guest, np.concatenate(scores), evolve_rng)


class Random(Opposition):
    """Nobody stays: what meta-learning alone (MAML, Finn et al. 2017) has to train against."""

    def renew(self, guest: Weights, rng: Generator) -> dict[str, float]:
        """All members are new, and nothing is measured."""
        self.host.load(self.newcomers(self.plan.size, rng))
        return {}


class SelfPlay(Opposition):
    """The meta-model as it is and was: the paper's method without its evolution ("ours - EA")."""

    def founders(self, founder: Weights, rng: Generator) -> Weights:
        return repeat(founder, self.plan.size)

    def renew(self, guest: Weights, rng: Generator) -> dict[str, float]:
        """The guest joins and the oldest member leaves."""
        members = self.members()
        self.host.load({n: np.concatenate([guest[n][None], v[:-1]]) for n, v in members.items()})
        return {}


KINDS: dict[str, type[Opposition]] = {
    "evolving": Evolving,
    "random": Random,
    "selfplay": SelfPlay,
}


def newcomers(
    sizes: Sequence[int],
    members: int,
    style: float,
    lean: float,
    rng: Generator,
    log_std: Array | None = None,
) -> Weights:
    """(members, ...) random networks, mostly mild, some pronounced.

    style: largest scale of the last layer's weights; lean: largest spread of its biases, logits or
    mean moves. log_std: of all their moves, where they move.
    """
    weights = stack([initial_weights(sizes, rng, style) for _ in range(members)])
    last = len(sizes) - 2
    leans = lean * rng.normal(0, 1, weights[f"b{last}"].shape)
    mildness = rng.random((2, members)) ** 2
    weights[f"w{last}"] *= mildness[0, :, None, None].astype(np.float32)
    weights[f"b{last}"] = (leans * mildness[1, :, None]).astype(np.float32)
    if log_std is not None:
        weights[LOG_STD] = np.repeat(log_std[None], members, axis=0)
    return dict(sorted(weights.items()))  # in the order that files have, as `initial` says


def check_spread(key: str, spread: float, game: Game) -> None:
    """Raise UserError for a spread of moves in a game of single actions; key is the job's."""
    if game.actions is not None and spread != 1:
        raise UserError(
            f"{key}: {game.name} has single actions, without a standard deviation: leave it out"
        )


def shards(members: Weights) -> list[tuple[Weights]]:
    """A population cut into shards of a fixed size."""
    count = len(members["w0"])
    return [({n: v[i : i + SHARD] for n, v in members.items()},) for i in range(0, count, SHARD)]


def _score(rng: Generator, common: Any, members: Weights) -> Array:
    """(M,) mean points a game of members against the guest (eq. 8)."""
    choice, guest, games = common
    game, _ = two_seat_game(choice)
    return fitness(game, members, network_policy(game.features, guest), games, rng)
