"""Policies of AgentZoo, RoboSumo's published ants, decoded from their flat parameter files.

The files have no stated licence and are not part of this package. A folder of AgentZoo's files
contains mlp/agent-params-v1.npy to mlp/agent-params-v3.npy, and the same three in lstm/.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, UserError
from overtrick.core.files import read_array
from overtrick.games.sumo.observation import FIELDS, MOTORS, from_world, in_world_axes
from overtrick.policies.action_sampling import sample_gaussian_actions

Kind = Literal["mlp", "lstm"]
POLICY_NAMES = tuple(f"zoo:{kind}{version}" for kind in ("mlp", "lstm") for version in (1, 2, 3))
HIDDEN_UNITS = 64  # of each layer
OBSERVATION_WIDTH, ACTION_WIDTH = len(FIELDS), len(MOTORS)


def _shapes(kind: Kind) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a parameter file by name, in the order of the file.

    A weight matrix has the shape (inputs, outputs).
    """
    width, hidden = OBSERVATION_WIDTH, HIDDEN_UNITS
    second = (hidden, hidden) if kind == "mlp" else (2 * hidden, 4 * hidden)  # an LSTM's four gates
    # the array "return" has the sum, the sum of squares and the count of returns
    shapes = {"return": (3,), "sum": (width,), "squares": (width,), "count": ()}
    for net, outputs in (("value", 1), ("policy", ACTION_WIDTH)):
        layers = {"first": (width, hidden), "second": second, "head": (hidden, outputs)}
        for layer, shape in layers.items():
            shapes |= {f"{net}_{layer}_w": shape, f"{net}_{layer}_b": shape[1:]}
    return shapes | {"log_std": (ACTION_WIDTH,)}


SHAPES: dict[Kind, dict[str, tuple[int, ...]]] = {"mlp": _shapes("mlp"), "lstm": _shapes("lstm")}
"""Shapes of the arrays of a parameter file, by kind of policy and by name."""


def decode(kind: Kind, flat: Array, source: str) -> dict[str, Array]:
    """Split the flat parameters of a policy into float64 arrays by name.

    flat: (n,) all numbers of the file. source: name of the file for error messages. Raises
    UserError if n is wrong, if a number is not finite, or if the observation count of the
    normalisation statistics is not positive.
    """
    shapes = SHAPES[kind]
    ends = list(itertools.accumulate(int(np.prod(shape)) for shape in shapes.values()))
    if flat.shape != (ends[-1],):
        raise UserError(
            f"{source}: {'x'.join(map(str, flat.shape)) or 1} numbers, but an {kind} policy of "
            f"AgentZoo has {ends[-1]}: is it the right file?"
        )
    if not np.isfinite(flat).all():
        raise UserError(f"{source}: some of its numbers are NaN or infinite: fetch it again")
    arrays = np.split(flat.astype(np.float64), ends[:-1])
    named = {n: array.reshape(s) for (n, s), array in zip(shapes.items(), arrays, strict=True)}
    if named["count"] <= 0:
        raise UserError(
            f"{source}: its statistics count {named['count']:g} observations: fetch it again"
        )
    return named


class ZooPolicy:
    """A policy of AgentZoo: an MLP or an LSTM.

    `numbers`: the arrays of the policy's parameter file by name, as returned by `decode`.
    `sample`: if true, sample actions from the normal distribution around the mean action, as the
        original demonstration does; otherwise use the mean.
    """

    def __init__(self, kind: Kind, numbers: dict[str, Array], sample: bool = True) -> None:
        self.kind = kind
        self.remembers = kind == "lstm"
        self.sample = sample
        self.mean = numbers["sum"] / numbers["count"]
        variance = numbers["squares"] / numbers["count"] - self.mean**2
        self.std = np.sqrt(np.maximum(variance, 0.01))
        self.net = {n.removeprefix("policy_"): v for n, v in numbers.items() if "policy" in n}
        self.log_std = numbers["log_std"]

    def start(self, games: int, rng: Generator) -> _ZooSession:
        """Return an object that chooses actions in `games` new matches; its LSTM state is 0."""
        return _ZooSession(self, games, rng)


class _ZooSession:
    """Play G matches with an AgentZoo policy; keep the LSTM state of each match and seat."""

    def __init__(self, policy: ZooPolicy, games: int, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng
        self.cell, self.hidden = np.zeros((2, games, 2, HIDDEN_UNITS))  # (G, 2, 64) each

    def act(self, observations: Observations) -> Actions:
        """Return actions (R, 8) and their log probabilities (R,), which are 0 for mean actions."""
        policy, net = self.policy, self.policy.net
        observation, transform = in_world_axes(observations.observation)
        normalised = ((observation - policy.mean) / policy.std).clip(-5, 5)
        first = normalised @ net["first_w"] + net["first_b"]
        if policy.kind == "mlp":
            last = np.tanh(np.tanh(first) @ net["second_w"] + net["second_b"])
        else:
            last = self._lstm(np.maximum(first, 0), observations)
        mean = last @ net["head_w"] + net["head_b"]
        if not policy.sample:
            return Actions(from_world(mean, transform), np.zeros(len(mean)))
        drawn = sample_gaussian_actions(mean, policy.log_std, self.rng)
        return replace(drawn, action=from_world(drawn.action, transform))

    def _lstm(self, inputs: Array, observations: Observations) -> Array:
        """Run one LSTM step on inputs (R, 64): update the memory, return the hidden state.

        The hidden state is (R, 64). `observations`: give the game and seat of each row. The gates
        are in the order input, candidate, forget, output; the forget gate has bias 1.
        """
        at = observations.game, observations.seat
        net = self.policy.net
        gates = np.concatenate([inputs, self.hidden[at]], axis=1) @ net["second_w"]
        enter, candidate, forget, leave = np.split(gates + net["second_b"], 4, axis=1)
        remembered = _logistic(forget + 1) * self.cell[at]
        self.cell[at] = remembered + _logistic(enter) * np.tanh(candidate)
        self.hidden[at] = _logistic(leave) * np.tanh(self.cell[at])
        return self.hidden[at]


def load(name: str, folder: str | None) -> ZooPolicy:
    """Load a policy of AgentZoo from a folder of its parameter files.

    name: one of POLICY_NAMES. Raises UserError if `folder` is None, or if the policy's file is
    missing or damaged.
    """
    kind: Kind = "lstm" if "lstm" in name else "mlp"
    if folder is None:
        raise UserError(
            f"{name} needs AgentZoo's parameter files: set game.zoo (or OVERTRICK_ZOO) to the "
            "folder that holds mlp/ and lstm/"
        )
    path = Path(folder) / kind / f"agent-params-v{name[-1]}.npy"
    if not os.path.isfile(path):
        raise UserError(f"{name}: there is no {path}: set game.zoo to the folder of mlp/ and lstm/")
    try:
        flat = read_array(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path} is not a file of numbers: fetch it again") from None
    return ZooPolicy(kind, decode(kind, flat, str(path)))


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
