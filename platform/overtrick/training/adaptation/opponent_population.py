"""Opponent populations for meta-training: evolving, random, self-play, and stored populations.

Source: Wu et al. 2022, algorithm 2. Additions to the paper are new random networks among the
opponents of an iteration (`immigrants`), and random networks with pronounced preferences among
actions (`logit_bias_std`), and the policies of a stored run of PSRO or of a league.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count, ModelPath, UnusedKeys
from overtrick.core import Array, Game, UserError, concat_columns, select_rows
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry
from overtrick.learners.weights import repeat
from overtrick.policies import model_kinds
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.policies.network import network_policy
from overtrick.policies.policy_batch import batch_size, draw_policies
from overtrick.population.population import Population, with_candidate
from overtrick.storage import locate, model_files
from overtrick.training.adaptation.gradient_samples import mean_payoffs
from overtrick.training.shared_sections import (
    GeneticOperators,
    HeadInitScale,
    LogitBiasStd,
    RandomMembers,
)

SHARD = 5  # members per shard, independent of the number of workers

EVOLVING_KEYS = (*GeneticOperators.model_fields, "fitness_games")
"""Settings that only an evolving population uses."""

STORED_KINDS = ("psro", "league")
"""Kinds of populations that are read from a stored model."""


class Opponents(GeneticOperators, RandomMembers):
    """Settings of the opponent population in training.

    The defaults are good values for Leduc. The descriptions name those of Wu et al. 2022, Table 1,
    column Leduc. In the paper head_init_scale is 1 and logit_bias_std 0.
    """

    unused_keys = (
        UnusedKeys({"kind": ("random",)}, (*EVOLVING_KEYS, "immigrants")),
        UnusedKeys({"kind": ("selfplay",)}, EVOLVING_KEYS),
        UnusedKeys(
            {"kind": ("selfplay",), "immigrants": (None, 0)}, tuple(RandomMembers.model_fields)
        ),
        UnusedKeys(
            {"kind": STORED_KINDS},
            (*EVOLVING_KEYS, *RandomMembers.model_fields, "size", "every", "immigrants"),
        ),
        UnusedKeys({"kind": ("evolving", "random", "selfplay")}, ("model",)),
    )

    kind: Literal["evolving", "random", "selfplay", "psro", "league"] = "evolving"
    """Kind of population. evolving: members are scored against the meta-model, selected, crossed
    and mutated. random: random networks, all of which are replaced together. selfplay: earlier
    versions of the meta-model. psro, league: the policies of a stored run of the trainer psro or
    league.
    """

    model: ModelPath | None = None
    """Stored run of psro or league, or the folder of its model, whose policies are the opponents.
    Policies of a run with psro.form normal are drawn by their shares of the mixture. Those of other
    runs are equally likely.
    """

    size: Count = 20
    """Number of members of the population (paper: 10)."""

    fitness_games: Count = 200
    """Games that determine the fitness of a member (paper: 50)."""

    head_init_scale: HeadInitScale = 2.0
    logit_bias_std: LogitBiasStd = 5.0

    every: Count = 1
    """Iterations between replacements of members."""

    immigrants: Annotated[int, Field(ge=0)] | None = None
    """Number of new random networks among the opponents of each iteration (paper: 0). null: two
    thirds of meta.tasks with an evolving population, else 0.
    """

    def immigrants_among(self, tasks: int) -> int:
        """Return the number of new random networks among an iteration's opponents (`tasks`)."""
        if self.immigrants is None:
            return tasks * 2 // 3 if self.kind == "evolving" else 0
        return self.immigrants


class OpponentPopulation(ABC):
    """Base class of populations of M networks that serve as training opponents of a learner.

    The learner is a policy network. The population's weights are stored in a Ray actor, or in this
    process if the worker pool has no workers. `sizes`: units of each layer of a network.
    `initial`: weights of the learner before training.
    """

    def __init__(
        self,
        game: GameChoice,
        sizes: Sequence[int],
        section: Opponents,
        initial: Weights,
        pool: WorkerPool,
        rng: Generator,
    ) -> None:
        self.game = game
        self.sizes = sizes
        self.section = section
        self.pool = pool
        first = initial.get(LOG_STD)  # None in games of discrete actions
        scale = np.float32(np.log(section.action_std_scale))
        self.log_std = None if first is None else first + scale
        members = self.initial_members(initial, rng)
        self.remote = pool.host(Population(members, section.operators()))

    @abstractmethod
    def renew(self, candidate: Weights, rng: Generator) -> dict[str, float]:
        """Replace members for the next iterations and return metrics.

        `candidate`: weights of the current learner, which may join the population.
        """

    def initial_members(self, initial: Weights, rng: Generator) -> Weights:
        """Return the weights (M, ...) of the population before training.

        `initial`: weights of the learner before training.
        """
        return self.random_networks(self.section.size, rng)

    def members(self) -> Weights:
        """Return the weights (M, ...) of all networks of the population.

        After `renew`, network 0 of an evolving population is the fittest. Network 0 of a self-play
        population is the newest past version of the learner.
        """
        return self.remote.state()

    def sample(self, tasks: int, rng: Generator) -> Weights:
        """Draw an iteration's opponents; return their weights (tasks, ...).

        `tasks`: number of opponents. The last of them are new random networks, as many as the
        setting `immigrants`. The others are drawn at random from the population.
        """
        members, size = self.members(), self.section.size
        immigrants = self.section.immigrants_among(tasks)
        drawn = tasks - immigrants
        chosen = rng.choice(size, drawn, replace=drawn > size)
        opponents = select_rows(members, chosen)
        if not immigrants:
            return opponents
        return concat_columns([opponents, self.random_networks(immigrants, rng)])

    def random_networks(self, count: int, rng: Generator) -> Weights:
        """Return the weights (count, ...) of new random networks."""
        return self.section.random_networks(self.sizes, count, rng, self.log_std)

    def state(self) -> dict[str, Array]:
        """Return the weights of all members, for a checkpoint."""
        return self.remote.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the weights of all members."""
        self.remote.load(state)


class EvolvingPopulation(OpponentPopulation):
    """Population that evolves against the learner (Wu et al. 2022, algorithm 2)."""

    def renew(self, candidate: Weights, rng: Generator) -> dict[str, float]:
        """Add the current learner, remove the least fit network, and evolve the others.

        The fitness of a network is its mean payoff against the current learner, `candidate`.
        Returns the best, mean and worst fitness as metrics.
        """
        score_rng, evolve_rng = rng.spawn(2)
        candidates = with_candidate(self.members(), candidate)
        common = (self.game, candidate, self.section.fitness_games)
        scores = self.pool.map(_fitness, common, weight_shards(candidates), score_rng)
        return self.remote.call("replace_worst", candidate, np.concatenate(scores), evolve_rng)


class RandomPopulation(OpponentPopulation):
    """Population of random networks, all of which `renew` replaces by new random networks.

    Source: Finn et al. 2017 (MAML), where the training tasks are drawn anew in each iteration.
    """

    def renew(self, candidate: Weights, rng: Generator) -> dict[str, float]:
        """Replace all members by new random networks; return no metrics."""
        self.remote.load(self.random_networks(self.section.size, rng))
        return {}


class SelfPlayPopulation(OpponentPopulation):
    """Population of earlier versions of the learner: ablation "ours - EA" of Wu et al. 2022."""

    def initial_members(self, initial: Weights, rng: Generator) -> Weights:
        """Return M copies (M, ...) of `initial`, the learner before training."""
        return repeat(initial, self.section.size)

    def renew(self, candidate: Weights, rng: Generator) -> dict[str, float]:
        """Add the current learner, `candidate`, and drop the oldest member; return no metrics."""
        members = self.members()
        joined = {n: np.concatenate([candidate[n][None], v[:-1]]) for n, v in members.items()}
        self.remote.load(joined)
        return {}


class StoredPopulation(OpponentPopulation):
    """Population of the policies in a stored model of PSRO or of a league; it never changes.

    The shares with which they are drawn are one more array of the population.
    """

    def initial_members(self, initial: Weights, rng: Generator) -> Weights:
        """Return the policies of the stored model and their shares."""
        return population_of(self.game, self.section)

    def members(self) -> Weights:
        """Return the policies, as a batch (see policies/policy_batch.py)."""
        return {n: v for n, v in self.remote.state().items() if n != model_kinds.SHARES}

    def renew(self, candidate: Weights, rng: Generator) -> dict[str, float]:
        """Change nothing; return no metrics."""
        return {}

    def sample(self, tasks: int, rng: Generator) -> Weights:
        """Draw an iteration's opponents; return them as a batch of `tasks` policies.

        Each opponent has in each seat a policy of the population, drawn with the seat's shares as
        probabilities. A network that plays all seats is drawn by the shares of seat 0. Raises
        UserError unless the game has two seats.
        """
        _, tree = two_seat_game(self.game)
        owner = None if tree is None else tree.observations.seat
        shares = self.remote.state()[model_kinds.SHARES].T
        return draw_policies(self.members(), shares, owner, tasks, rng)

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore policies and shares from a checkpoint, even if the stored model has changed."""
        self.remote.call("replace", dict(state))


def population_of(choice: GameChoice, section: Opponents) -> Weights:
    """Read the stored population of a section `population`. Raises UserError."""
    remedy = "set population.kind to the trainer of the run, psro or league"
    return stored_population(choice, section.kind, section.model, "population.model", remedy)


def stored_population(
    choice: GameChoice, kind: str, model: str | None, key: str, remedy: str
) -> Weights:
    """Read the population of a stored model: K policies, and their shares, transposed to (K, S).

    `kind`: psro or league. `key`: of the model in the job. `remedy`: for a model of another
    trainer. Raises UserError if the model is missing or damaged, or belongs to another trainer or
    game.
    """
    if model is None:
        raise UserError(f"population.kind: {kind} needs a run: set {key}")
    folder = locate.model_folder(model)
    stored = model_files.load(folder, choice.name)
    if (trainer := stored.job.get("trainer")) != kind:
        raise UserError(f"{key}: {folder} is a model of trainer {trainer}, not of {kind}: {remedy}")
    found = registry.player_options(choice.name, stored.game_options)
    needed = registry.player_options(choice.name, choice.options)
    if found != needed:
        raise UserError(f"{key}: {folder} plays {choice.name} with options {found}, not {needed}")
    members = unprefixed(model_kinds.MEMBERS, stored.weights)
    counts = {len(value) for value in members.values()}
    if counts == {0}:
        raise UserError(f"{key}: {folder} has no past players: train it longer")
    shares = stored.weights.get(model_kinds.SHARES)
    if len(counts) == 1 and shares is None:
        shares = np.full((2, *counts), 1 / max(counts))
    if shares is None or shares.shape != (2, *counts):
        raise UserError(f"{key}: the model in {folder} is damaged: train it again")
    return {**members, model_kinds.SHARES: shares.T}


POPULATIONS: dict[str, type[OpponentPopulation]] = {
    "evolving": EvolvingPopulation,
    "random": RandomPopulation,
    "selfplay": SelfPlayPopulation,
    **dict.fromkeys(STORED_KINDS, StoredPopulation),
}
"""Classes of opponent populations by `population.kind`."""


def check_action_std_scale(key: str, scale: float, game: Game) -> None:
    """Raise UserError if `action_std_scale` is not 1 in a game of discrete actions.

    `key`: name of the setting in the message, such as `population.action_std_scale`.
    """
    if game.actions is not None and scale != 1:
        raise UserError(
            f"{key}: {game.name} has discrete actions, without a standard deviation: leave it out"
        )


def weight_shards(members: Weights, size: int = SHARD) -> list[tuple[Weights]]:
    """Divide a batch of M policies, such as networks, into shards of `size` policies.

    A shard is a tuple (batch,), as `WorkerPool.map` takes it.
    """
    count = batch_size(members)
    return [(select_rows(members, slice(k, k + size)),) for k in range(0, count, size)]


def _fitness(rng: Generator, common: Any, members: Weights) -> Array:
    """Return (M,) each network's mean points per game against the learner.

    `common`: the tuple (game, weights of the learner, number of games per network). `members`:
    weights of a shard of M networks of the population. Source: Wu et al. 2022, eq. 8.
    """
    choice, candidate, games = common
    game, _ = two_seat_game(choice)
    return mean_payoffs(game, members, network_policy(game.features, candidate), games, rng)
