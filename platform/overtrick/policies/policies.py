"""Policies that any game can seat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import leaky_relu

from overtrick.core import (
    Array,
    Choice,
    Deals,
    Failed,
    Game,
    Mixed,
    Player,
    Refused,
    Turn,
    take_turn,
)

Weights = dict[str, Array]
"""Layers of a network: w0 (F, H), b0 (H,), w1, ...; for a population each with M in front. One that
moves by real vectors gives their mean, and has their log_std (A,) beside."""

LOG_STD = "log_std"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
WILD = 20.0  # a log_std that nobody means


class Memoryless(ABC):
    """A policy known by its probabilities; subclasses give `probs`."""

    @abstractmethod
    def probs(self, turn: Turn) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""

    def sit(self, games: int, rng: Generator) -> Player:
        return Sampler(self, rng)


class Sampler:
    """Draws from a policy's probabilities."""

    def __init__(self, policy: Mixed, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        return draw(self.policy.probs(turn), self.rng)


def draw(probs: Array, rng: Generator) -> Choice:
    """One action a row from (R, A) probabilities. Never one whose probability is 0."""
    cumulative = probs.cumsum(axis=1)
    if not (cumulative[:, -1] > 0).all():
        raise Failed(
            "a policy has diverged: its probabilities are no numbers; try smaller gradient steps"
        )
    # the last column is the sum: with it as scale, rounding can never push past the last action
    mark = rng.random(len(probs)) * cumulative[:, -1]
    action = (mark[:, None] >= cumulative).sum(axis=1)
    return Choice(action, np.log(probs[np.arange(len(probs)), action]))


def draw_moves(mean: Array, log_std: Array, rng: Generator) -> Choice:
    """One move a row from independent normal distributions, (R, A) each."""
    if not (np.isfinite(mean).all() and (log_std < WILD).all()):
        raise Failed("a policy has diverged: its moves are no numbers; try smaller gradient steps")
    noise = rng.standard_normal(mean.shape)
    density = -(np.square(noise) / 2 + log_std + np.log(2 * np.pi) / 2)
    return Choice(mean + np.exp(log_std) * noise, density.sum(axis=1))


class Uniform(Memoryless):
    """Every legal action with equal probability."""

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        return turn.legal / turn.legal.sum(axis=1, keepdims=True)


class UniformMoves:
    """Every vector of so many numbers from -1 to 1 with equal probability."""

    def __init__(self, width: int) -> None:
        self.width = width

    def sit(self, games: int, rng: Generator) -> Player:
        return _SeatedMoves(self.width, rng)


class _SeatedMoves:
    def __init__(self, width: int, rng: Generator) -> None:
        self.width = width
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        move = self.rng.uniform(-1, 1, (len(turn), self.width))
        return Choice(move, np.full(len(turn), -self.width * np.log(2)))


class Tabular(Memoryless):
    """Probabilities by information set: sigma (N, A), 0 where illegal.

    `probs` raises Refused for a turn of a game with other actions or more information sets.
    """

    def __init__(self, sigma: Array) -> None:
        self.sigma = sigma

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        assert turn.infoset is not None
        sets, actions = 1 + int(turn.infoset.max(initial=-1)), turn.legal.shape[1]
        if sets > len(self.sigma) or actions != self.sigma.shape[1]:
            raise Refused(
                f"a strategy for another game: it is {self.sigma.shape}, this game has {actions} "
                f"actions and {sets} or more information sets"
            )
        return self.sigma[turn.infoset]


class Network(Memoryless):
    """A multilayer perceptron over a game's features (R, F)."""

    def __init__(self, features: Callable[[Turn], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def probs(self, turn: Turn) -> Array:
        with torch.inference_mode():
            logits = forward(tensors(self.weights), torch.from_numpy(self.features(turn)))
            return masked_log_softmax(logits, torch.from_numpy(turn.legal)).double().exp().numpy()


class BySeat(Memoryless):
    """In each seat the policy that is meant for it."""

    def __init__(self, policies: Sequence[Mixed]) -> None:
        self.policies = policies

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        out = np.zeros(turn.legal.shape)
        for seat, policy in enumerate(self.policies):
            rows = turn.seat == seat
            out[rows] = policy.probs(take_turn(turn, rows))
        return out


def of_network(features: Callable[[Turn], Array], weights: Weights) -> Any:
    """The policy of one network: Mixed, unless it moves by real vectors."""
    if LOG_STD in weights:
        return Crowd(features, {name: value[None] for name, value in weights.items()})
    return Network(features, weights)


class Crowd:
    """A population of networks as one batch of weights, leading axis = member.

    Seated for G games, member m plays games m * G / M up to (m + 1) * G / M; G must be a
    multiple of M. One call of the network serves all members.
    """

    def __init__(self, features: Callable[[Turn], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def sit(self, games: int, rng: Generator) -> Player:
        members = len(self.weights["w0"])
        if games % members:
            raise ValueError(f"{games} games cannot be shared evenly by {members} members")
        return _SeatedCrowd(self, games // members, rng)


class _SeatedCrowd:
    def __init__(self, crowd: Crowd, games_each: int, rng: Generator) -> None:
        self.crowd = crowd
        self.weights = tensors(crowd.weights)
        self.members = len(crowd.weights["w0"])
        self.games_each = games_each
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        member = turn.game // self.games_each
        slot = pad_slots(member, self.members)
        features = pad(self.crowd.features(turn), member, slot, self.members)
        with torch.inference_mode():
            out = forward(self.weights, torch.from_numpy(features))[member, slot]
            if turn.legal is None:
                return draw_moves(out.numpy(), self.weights[LOG_STD][member].numpy(), self.rng)
            logp = masked_log_softmax(out, torch.from_numpy(turn.legal))
        return draw(logp.double().exp().numpy(), self.rng)


def inputs(game: Game) -> int:
    """F: how many numbers a network sees of each row."""
    return int(game.features(_opening(game)[0]).shape[1])


def outputs(game: Game) -> int:
    """How many numbers a network says of each row: A, or the width of a move."""
    return len(game.action_names) if game.actions is None else game.actions


def hindsight_inputs(game: Any) -> int:
    """F: how many numbers a critic sees who judges finished games. Raises Refused for none."""
    if not hasattr(game, "hindsight"):
        raise Refused(f"{game.name} tells nothing in hindsight: set credit to critic")
    return int(game.hindsight(*_opening(game)).shape[1])


def _opening(game: Game) -> tuple[Turn, Deals]:
    """The first turn of some game, and its deal."""
    deals = game.deal(1, np.random.default_rng(0))
    turn = game.turn(game.start(deals))
    return turn, deals[turn.game]


def tensors(weights: Mapping[str, Array]) -> dict[str, Tensor]:
    """The same numbers as torch tensors."""
    return {name: torch.tensor(value) for name, value in weights.items()}


def forward(
    weights: Mapping[str, Tensor],
    x: Tensor,
    activation: str = "relu",
    disturb: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Hidden layers and a linear head: x (R, F) to (R, out), or (M, R, F) with (M, ...) weights.

    disturb: what is done to each hidden layer while it learns.
    """
    layers = len(weights) // 2
    for layer in range(layers):
        w, b = weights[f"w{layer}"], weights[f"b{layer}"]
        # a bias that is added apart would make float32 of half products
        half = w.dim() == 2 and torch.is_autocast_enabled(x.device.type)
        x = torch.addmm(b, x, w) if half else x @ w + b.unsqueeze(-2)
        if layer < layers - 1:
            x = ACTIVATIONS[activation](x)
            x = x if disturb is None else disturb(x)
    return x


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Logarithm of action probabilities (..., A); -inf where illegal, here and nowhere else."""
    return logits.masked_fill(~legal, -torch.inf).log_softmax(dim=-1)


def pad_slots(member: Array, members: int) -> Array:
    """Place of each row among its member's rows, in order: (R,) members to (R,) slots from 0."""
    order = np.argsort(member, kind="stable")
    starts = np.searchsorted(member[order], np.arange(members))
    slot = np.empty(len(member), np.int64)
    slot[order] = np.arange(len(member)) - starts[member[order]]
    return slot


def pad(rows: Array, member: Array, slot: Array, members: int) -> Array:
    """Rows (R, ...) as (M, longest, ...), zeros where a member has fewer rows than the longest."""
    longest = int(slot.max()) + 1 if len(slot) else 0
    out = np.zeros((members, longest, *rows.shape[1:]), rows.dtype)
    out[member, slot] = rows
    return out
