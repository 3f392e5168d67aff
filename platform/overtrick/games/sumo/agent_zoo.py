"""AgentZoo's ants: RoboSumo's published policies, decoded from their flat parameter files.

The files have no stated licence and are not part of this package: a folder of them holds
mlp/agent-params-v1.npy to lstm/agent-params-v3.npy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, UserError
from overtrick.games.sumo.observation import MOTORS, OBSERVATION_FIELDS, in_world_axes, rotated
from overtrick.policies.action_sampling import sample_gaussian_actions

Kind = Literal["mlp", "lstm"]
POLICY_NAMES = tuple(f"zoo:{kind}{version}" for kind in ("mlp", "lstm") for version in (1, 2, 3))
HIDDEN_UNITS = 64  # units of each layer
OBSERVATION_WIDTH, ACTION_WIDTH = len(OBSERVATION_FIELDS), len(MOTORS)


class ParameterBlock(NamedTuple):
    """A part of a file, in its order; matrices go from inputs to outputs."""

    name: str
    shape: tuple[int, ...]


def _blocks(kind: Kind) -> tuple[ParameterBlock, ...]:
    second = (
        (HIDDEN_UNITS, HIDDEN_UNITS) if kind == "mlp" else (2 * HIDDEN_UNITS, 4 * HIDDEN_UNITS)
    )  # of an LSTM all four gates
    net = [("first", (OBSERVATION_WIDTH, HIDDEN_UNITS)), ("second", second)]
    return (
        ParameterBlock("return", (3,)),  # sum, sum of squares, count
        ParameterBlock("sum", (OBSERVATION_WIDTH,)),
        ParameterBlock("squares", (OBSERVATION_WIDTH,)),
        ParameterBlock("count", ()),
        *_layers("value", [*net, ("head", (HIDDEN_UNITS, 1))]),
        *_layers("policy", [*net, ("head", (HIDDEN_UNITS, ACTION_WIDTH))]),
        ParameterBlock("log_std", (ACTION_WIDTH,)),
    )  # fmt: skip


def _layers(net: str, sizes: list[tuple[str, tuple[int, int]]]) -> Iterator[ParameterBlock]:
    for layer, shape in sizes:
        yield ParameterBlock(f"{net}_{layer}_w", shape)
        yield ParameterBlock(f"{net}_{layer}_b", shape[1:])


BLOCKS: dict[Kind, tuple[ParameterBlock, ...]] = {"mlp": _blocks("mlp"), "lstm": _blocks("lstm")}


def decode(kind: Kind, flat: Array, place: str) -> dict[str, Array]:
    """A file's numbers as named float64 arrays. Raises UserError, naming the place, if their number
    is wrong, one of them is no number, or nothing was counted of which they could be means."""
    blocks = BLOCKS[kind]
    ends = list(itertools.accumulate(int(np.prod(block.shape)) for block in blocks))
    if flat.shape != (ends[-1],):
        raise UserError(
            f"{place}: {'x'.join(map(str, flat.shape)) or 1} numbers, but an {kind} policy of "
            f"AgentZoo has {ends[-1]}: is it the right file?"
        )
    if not np.isfinite(flat).all():
        raise UserError(f"{place}: some of its numbers are NaN or infinite: fetch it again")
    parts = np.split(flat.astype(np.float64), ends[:-1])
    named = {b.name: part.reshape(b.shape) for b, part in zip(blocks, parts, strict=True)}
    if named["count"] <= 0:
        raise UserError(f"{place}: it has seen {named['count']:g} observations: fetch it again")
    return named


class ZooPolicy:
    """A policy of AgentZoo. It samples its actions, as the original demonstration does, unless it
    is told to play their means."""

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
        return _ZooSession(self, games, rng)


class _ZooSession:
    """An LSTM remembers each match in which it sits; before the first step that is nothing."""

    def __init__(self, zoo: ZooPolicy, games: int, rng: Generator) -> None:
        self.zoo = zoo
        self.rng = rng
        self.cell, self.hidden = np.zeros((2, games, 2, HIDDEN_UNITS))  # by game and seat

    def act(self, observations: Observations) -> Actions:
        zoo = self.zoo
        seen, turns = in_world_axes(observations.observation)
        seen = ((seen - zoo.mean) / zoo.std).clip(-5, 5)
        first = seen @ zoo.net["first_w"] + zoo.net["first_b"]
        if zoo.kind == "mlp":
            last = np.tanh(np.tanh(first) @ zoo.net["second_w"] + zoo.net["second_b"])
        else:
            last = self._remember(np.maximum(first, 0), observations)
        mean = last @ zoo.net["head_w"] + zoo.net["head_b"]
        if not zoo.sample:
            return Actions(rotated(mean, -turns), np.zeros(len(mean)))
        drawn = sample_gaussian_actions(mean, zoo.log_std, self.rng)
        return replace(drawn, action=rotated(drawn.action, -turns))

    def _remember(self, x: Array, observations: Observations) -> Array:
        """(R, 64) the new hidden state: gates in the order input, candidate, forget, output."""
        at = observations.game, observations.seat
        net = self.zoo.net
        gates = np.concatenate([x, self.hidden[at]], axis=1) @ net["second_w"] + net["second_b"]
        enter, candidate, forget, leave = np.split(gates, 4, axis=1)
        kept = _logistic(forget + 1) * self.cell[at]
        self.cell[at] = kept + _logistic(enter) * np.tanh(candidate)
        self.hidden[at] = _logistic(leave) * np.tanh(self.cell[at])
        return self.hidden[at]


def load(name: str, folder: str | None) -> ZooPolicy:
    """A policy by its name, one of NAMES, from a folder of AgentZoo's files.

    Raises UserError without a folder, or for a file that is missing or wrong.
    """
    kind: Kind = "lstm" if "lstm" in name else "mlp"
    if folder is None:
        raise UserError(
            f"{name} needs AgentZoo's parameter files: set game.zoo (or OVERTRICK_ZOO) to the "
            "folder that holds mlp/ and lstm/"
        )
    path = Path(folder) / kind / f"agent-params-v{name[-1]}.npy"
    if not path.is_file():
        raise UserError(f"{name}: there is no {path}: set game.zoo to the folder of mlp/ and lstm/")
    try:
        with path.open("rb") as file:
            flat = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, OSError, MemoryError) as error:
        raise UserError(f"{path} is no file of numbers ({error}): fetch it again") from None
    if flat.dtype.kind not in "fiu":
        raise UserError(f"{path} is no file of numbers: fetch it again")
    return ZooPolicy(kind, decode(kind, flat, str(path)))


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
