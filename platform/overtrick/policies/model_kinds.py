"""Registry of the kinds of stored models that can be loaded as a policy for a game.

Other stored models are not policies by themselves: they must first search, or observe their
opponent. A kind, such as a strategy table or a Q-network, is recognised by the names of a model's
weights. A learner with its own kind of model registers the kind in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, Game, UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.policies.batched_networks import NetworkMixture
from overtrick.policies.by_seat import PolicyBySeat, PolicyWithMemoryBySeat
from overtrick.policies.forward_pass import LOG_STD
from overtrick.policies.network import network_policy
from overtrick.policies.network_sizes import check_layers, input_size, output_size
from overtrick.policies.policy_batch import SEAT
from overtrick.policies.recurrent_layer import check_memory, memory_arrays
from overtrick.policies.tabular import TabularPolicy

MEMBERS = "member"  # prefix of the policies (K, ...) of a population
SHARES = "shares"  # (S, K) probabilities with which each seat draws its policy before a game


class StoredWeights(NamedTuple):
    """The weights of a stored model, or of one of its seats."""

    arrays: dict[str, Array]
    job: Mapping[str, Any]  # plain data of the job that trained the model
    source: str  # the model's folder, for error messages

    def under(self, prefix: str) -> dict[str, Array]:
        """Return the arrays whose names begin with `PREFIX.`, with the prefix removed."""
        return unprefixed(prefix, self.arrays)

    def seat(self, seat: int) -> StoredWeights:
        """Return the weights of one seat's network; empty unless each seat has its own network."""
        return self._replace(arrays=self.under(SEAT.format(seat)))


class ModelKind(NamedTuple):
    """Kind of stored model, such as a Q-network: how to recognise it and how to load its policy."""

    matches: Callable[[StoredWeights], bool]
    """Recognise models of this kind by the names of their weights."""

    load: Callable[[StoredWeights, Any], Any]
    """Build the policy for a game. Raises UserError for weights that do not fit the game."""


KINDS: list[ModelKind] = []


def register(kind: ModelKind) -> None:
    """Register a kind of model; kinds are tried in the order of registration."""
    KINDS.append(kind)


def kind_of(weights: StoredWeights) -> ModelKind | None:
    """Find the registered kind of a stored model; None if the model is not a policy by itself."""
    return next((kind for kind in KINDS if kind.matches(weights)), None)


def load_policy(weights: StoredWeights, game: Any) -> Any:
    """Build the policy of a stored model for a game.

    The result is a BehaviouralPolicy if actions are discrete and the model is not a mixture of
    networks. Raises UserError if the model must first search or observe its opponent, is damaged,
    or does not fit the game.
    """
    kind = kind_of(weights)
    if kind is None:
        raise UserError(
            f"the model in {weights.source} is not a policy by itself: it must search, or observe "
            "its opponent first"
        )
    return kind.load(weights, game)


def load_strategy(weights: StoredWeights, game: Any) -> TabularPolicy:
    """Build the tabular policy of a stored strategy sigma (N, A).

    Raises UserError if the shape does not fit the game, or a row is not a probability distribution.
    """
    sigma = weights.arrays["sigma"]
    sets = game.infosets  # None in games too large to number them
    if sigma.ndim != 2 or sigma.shape != (sets or len(sigma), game.actions):
        raise UserError(
            f"the strategy in {weights.source} is {sigma.shape}, but {game.name} has {sets} "
            f"information sets and {game.actions} actions: was it solved with other options?"
        )
    sums = sigma.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1) < 1e-6) | (sigma < 0).any(axis=1))
    if len(wrong):
        raise UserError(
            f"the strategy in {weights.source} is damaged: row {wrong[0]} must be probabilities "
            f"with sum 1, but sums to {sums[wrong[0]]:.6g}; solve again or restore it"
        )
    return TabularPolicy(sigma)


def load_seats(weights: StoredWeights, game: Any) -> PolicyBySeat:
    """Build the policy of a stored model that has one network for each seat."""
    policies = []
    for seat in range(game.seats):
        own = weights.seat(seat)
        kind = kind_of(own) or NETWORK  # the network's check reports missing arrays
        policies.append(kind.load(own, game))
    return PolicyBySeat(policies)


def load_mixture(weights: StoredWeights, game: Any) -> PolicyWithMemoryBySeat:
    """Build the mixed policy of a stored population that has K networks for each seat."""
    members, shares = weights.under(MEMBERS), weights.arrays[SHARES]
    source = f"the population in {weights.source}"
    policies = []
    for seat in range(game.seats):
        networks = unprefixed(SEAT.format(seat), members)
        counts = {len(value) for value in networks.values()}
        fits = shares.shape == (game.seats, *counts) and (shares >= 0).all()
        if not fits or not np.isclose(shares.sum(axis=1), 1).all():
            raise UserError(
                f"{source} is damaged: {SHARES} {shares.shape} must be the probabilities of the "
                f"networks of {game.seats} seats; restore it, or train again"
            )
        check_network({name: value[0] for name, value in networks.items()}, game, source)
        policies.append(NetworkMixture(game.features, networks, shares[seat]))
    return PolicyWithMemoryBySeat(policies)


def load_network(weights: StoredWeights, game: Any) -> Any:
    """Build the policy of a stored network, which is Gaussian if actions are continuous."""
    arrays = weights.under("policy")
    check_network(arrays, game, f"the model in {weights.source}")
    return network_policy(game.features, arrays)


def check_network(arrays: Mapping[str, Array], game: Any, model: str) -> None:
    """Raise UserError unless the inputs and outputs of a network fit a game.

    `arrays`: the network's weights by name. `model`: the model, as error messages name it.
    """
    if not isinstance(game, Game):
        raise UserError(f"{model} is a network, and {game.name} has no features for networks")
    continuous = game.actions is None
    if (LOG_STD in arrays) != continuous:
        raise UserError(f"{model} is damaged: it has other layers than w0, b0, ...")
    memory = memory_arrays(arrays)
    others = {name: value for name, value in arrays.items() if name == LOG_STD or name in memory}
    layers = {name: value for name, value in arrays.items() if name not in others}
    check_layers(layers, input_size(game), output_size(game), model, game.name, others)
    if LOG_STD in others and others[LOG_STD].shape != (output_size(game),):
        raise UserError(f"{model} is damaged: log_std is {others[LOG_STD].shape}")
    if memory and not continuous:
        raise UserError(
            f"{model} has a recurrent layer, but the actions of {game.name} are discrete"
        )
    if memory:
        inputs, hidden = layers["w0"].shape
        check_memory(memory, inputs, hidden, model)


def _has_own_networks(weights: StoredWeights) -> bool:
    first = weights.seat(0)
    return bool(first.arrays) and kind_of(first) is not None


NETWORK = ModelKind(lambda weights: bool(weights.under("policy")), load_network)
register(ModelKind(lambda weights: "sigma" in weights.arrays, load_strategy))
register(ModelKind(lambda weights: SHARES in weights.arrays, load_mixture))
register(ModelKind(_has_own_networks, load_seats))
register(NETWORK)
