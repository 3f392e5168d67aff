"""What the networks of all learners share: initial weights, flat vectors, optimiser memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array, Game
from overtrick.policies.policies import LOG_STD, Weights, forward, inputs, outputs, tensors

Params = dict[str, Tensor]
Make = Callable[[list[Tensor]], Any]
"""What makes an optimiser of torch for a list of weights."""


MOVE_STD = 0.5
"""Standard deviation of each number of a move, before anything is learnt."""


def fresh(game: Game, hidden: Sequence[int], rng: Generator, head: float = 1.0) -> Weights:
    """Fresh weights of a policy for a game, as `initial`; moves begin near 0."""
    layers = (inputs(game), *hidden, outputs(game))
    if game.actions is not None:
        return initial(layers, rng, head)
    spread = np.full(layers[-1], np.log(MOVE_STD), np.float32)
    return dict(sorted({**initial(layers, rng, head=0.1), LOG_STD: spread}.items()))


def initial(sizes: Sequence[int], rng: Generator, head: float = 1.0) -> Weights:
    """Fresh weights for layers of the given sizes (F, hidden ..., out), float32.

    Hidden layers have variance 2 / fan-in (He et al. 2015), biases are 0, and the last layer's
    standard deviation is `head` / sqrt(fan-in): the larger, the more pronounced the style.
    """
    weights: Weights = {}
    for layer, (wide, out) in enumerate(itertools.pairwise(sizes)):
        scale = head / np.sqrt(wide) if layer == len(sizes) - 2 else np.sqrt(2 / wide)
        weights[f"w{layer}"] = rng.normal(0, scale, (wide, out)).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(out, np.float32)
    # the order of names decides the order of sums and draws, so it is the one that files have
    return dict(sorted(weights.items()))


def stack(members: Sequence[Weights]) -> Weights:
    """Networks of one shape as one batch of weights, leading axis = member."""
    return {name: np.stack([m[name] for m in members]) for name in members[0]}


def repeat(weights: Weights, members: int) -> Weights:
    """One network as a batch of equal members."""
    return {name: np.repeat(value[None], members, axis=0) for name, value in weights.items()}


def arrays(params: Mapping[str, Tensor]) -> Weights:
    """The same numbers as numpy arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in params.items()}


def flat(params: Mapping[str, Tensor]) -> Tensor:
    """All weights as one vector, in the order of the names."""
    return torch.cat([value.reshape(-1) for value in params.values()])


def unflat(vector: Tensor, like: Mapping[str, Tensor]) -> Params:
    """A vector cut back into weights of the same shapes."""
    parts = torch.split(vector, [value.numel() for value in like.values()])
    return {n: p.reshape(v.shape) for p, (n, v) in zip(parts, like.items(), strict=True)}


def prefixed(prefix: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Names with a prefix, as they stand in a state."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def unprefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The part of a state under a prefix, without it."""
    start = f"{prefix}."
    return {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}


class Descent:
    """An optimiser of torch over named weights, with its memory as plain arrays."""

    def __init__(self, weights: Weights, optimizer: Make, device: str = "cpu") -> None:
        self.params: Params = {
            n: v.to(device).requires_grad_() for n, v in tensors(weights).items()
        }
        self._optimizer = optimizer(list(self.params.values()))

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of a loss."""
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()

    def pace(self, rate: float) -> None:
        """Another learning rate from now on; no part of the state."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def state(self) -> dict[str, Array]:
        out = arrays(self.params)
        for name, param in self.params.items():
            for key, value in self._optimizer.state.get(param, {}).items():
                if value is not None:
                    out[f"{key}.{name}"] = value.detach().cpu().numpy().copy()
        return out

    def load(self, state: Mapping[str, Array]) -> None:
        self._optimizer.state.clear()
        with torch.no_grad():
            for name, param in self.params.items():
                param.copy_(torch.tensor(state[name]))
                memory = {
                    key.removesuffix(f".{name}"): torch.tensor(value)
                    for key, value in state.items()
                    if key.endswith(f".{name}")
                }
                if memory:
                    fused = self._optimizer.defaults.get("fused")  # then steps are counted there
                    self._optimizer.state[param] = {
                        key: value if key == "step" and not fused else value.to(param.device)
                        for key, value in memory.items()
                    }


class Adam(Descent):
    """Adam (Kingma and Ba 2015) over named weights."""

    def __init__(self, weights: Weights, rate: float) -> None:
        super().__init__(weights, partial(torch.optim.Adam, lr=rate))


class Critic:
    """A network that predicts the discounted return of a decision: the baseline."""

    def __init__(self, inputs: int, hidden: Sequence[int], rng: Generator, rate: float) -> None:
        self.adam = Adam(initial([inputs, *hidden, 1], rng, head=0.1), rate)

    @property
    def weights(self) -> Weights:
        return arrays(self.adam.params)

    def fit(self, features: Array, returns: Array, rng: Generator, epochs: int = 2) -> float:
        """Regress (D, F) features on (D,) returns; the mean squared error in the last pass."""
        x, y = torch.from_numpy(features), torch.from_numpy(returns.astype(np.float32))
        loss = 0.0
        for _ in range(epochs):
            order = torch.from_numpy(rng.permutation(len(y)))
            total = 0.0
            for rows in torch.split(order, 512):
                error = (forward(self.adam.params, x[rows])[:, 0] - y[rows]).square()
                self.adam.descend(error.mean())
                total += float(error.detach().sum())
            loss = total / max(len(y), 1)
        return loss


def predict(weights: Weights, features: Array) -> Array:
    """(D,) values of (D, F) features by a critic's weights."""
    with torch.inference_mode():
        return forward(tensors(weights), torch.from_numpy(features))[:, 0].double().numpy()
