"""Opponents of a board in a game with an abstraction of hands: drawn, stored, and read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import TypeAdapter

from overtrick.core import Array, BehaviouralPolicy, UserError
from overtrick.core.files import (
    DamagedWeightsError,
    read_weights,
    write_text,
    write_weights_whole,
)
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.evaluation.board import opponent_files
from overtrick.evaluation.board.bucket_families import BucketFamilies, DrawPolicy
from overtrick.evaluation.board.opponent_files import DESCRIPTIONS, DEVELOPMENT_SEED
from overtrick.policies.network import NetworkPolicy

WEIGHTS = "networks.safetensors"  # of trained networks, in a folder of opponents
DECIMALS = 4  # to which probabilities are rounded for the SHA-256
SHARED_FAMILIES = 2  # families of test opponents that occur in training, too
DEVELOPMENT_FAMILIES = ("raiser", "tight", "loose", "bluffer")  # besides the trained networks


@dataclass(frozen=True, eq=False)
class BucketOpponent:
    """An opponent of a board. It is drawn from its family with a seed, or is a trained network."""

    name: str
    family: str
    seed: int | None  # None: a trained network
    policy: BehaviouralPolicy
    digest: str  # SHA-256 of a network's weights, or of a table of probabilities
    changes: bool = False  # no opponent changes during a match


class BucketDescription(ClosedRecord):
    """Description of a stored opponent."""

    name: str
    family: str
    seed: int | None
    sha256: str


class BucketDescriptions(ClosedRecord):
    """Descriptions of the opponents in a folder."""

    options: dict[str, Any]  # of the game, on which the inputs of networks depend
    opponents: list[BucketDescription]


DESCRIPTIONS_SCHEMA: TypeAdapter[Any] = TypeAdapter(BucketDescriptions)


def draw_opponent(families: BucketFamilies, name: str, family: str, seed: int) -> BucketOpponent:
    """Draw an opponent from its family with a seed. Raises UserError for an unknown family."""
    draws: dict[str, DrawPolicy] = {**families.training(), **families.test_only()}
    if family not in draws:
        raise UserError(f"there is no family {family} of opponents in {families.game.name}")
    policy = draws[family](np.random.default_rng(seed))
    return BucketOpponent(name, family, seed, policy, digest(families, policy))


def network_opponent(
    families: BucketFamilies, name: str, weights: dict[str, Array]
) -> BucketOpponent:
    """Return the opponent that follows a trained network, whose family is its name."""
    policy = NetworkPolicy(families.game.features, weights)
    return BucketOpponent(name, name, None, policy, digest(families, policy))


def digest(families: BucketFamilies, policy: BehaviouralPolicy) -> str:
    """Return the SHA-256 of a network's weights, or of another policy's rounded probabilities."""
    found = hashlib.sha256()
    if isinstance(policy, NetworkPolicy):
        for name in sorted(policy.weights):
            found.update(np.ascontiguousarray(policy.weights[name], "<f4").tobytes())
    else:
        table = families.abstraction.tabulate(policy, np.random.default_rng(0))
        found.update(np.rint(table * 10**DECIMALS).astype("<i4").tobytes())
    return found.hexdigest()


def draw_development(families: BucketFamilies) -> list[BucketOpponent]:
    """Draw the development opponents, except the trained networks."""
    return [
        draw_opponent(families, family, family, DEVELOPMENT_SEED + number)
        for number, family in enumerate(DEVELOPMENT_FAMILIES)
    ]


def draw_test(families: BucketFamilies, rng: Generator) -> list[BucketOpponent]:
    """Draw six test opponents of six families, four of which are for tests alone."""
    known = list(families.training())
    chosen = rng.choice(known, SHARED_FAMILIES, replace=False).tolist()
    return [
        draw_opponent(families, f"test_{family}", family, int(rng.integers(2**31)))
        for family in [*chosen, *families.test_only()]
    ]


def save(opponents: Sequence[BucketOpponent], options: Mapping[str, Any], folder: Path) -> None:
    """Write opponents to a folder: a description of each, and the weights of trained networks.

    `options`: of their game.
    """
    weights = {
        f"{each.name}/{name}": array
        for each in opponents
        if each.seed is None and isinstance(each.policy, NetworkPolicy)
        for name, array in each.policy.weights.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    if weights:
        write_weights_whole(folder / WEIGHTS, weights)
    descriptions = [
        {"name": each.name, "family": each.family, "seed": each.seed, "sha256": each.digest}
        for each in opponents
    ]
    content = {"options": dict(options), "opponents": descriptions}
    write_text(folder / DESCRIPTIONS, json.dumps(content, indent=1) + "\n")


def load(
    families: BucketFamilies, folder: Path, options: Mapping[str, Any]
) -> list[BucketOpponent]:
    """Read opponents from a folder. `options`: of the game.

    Raises UserError if a file is missing or damaged, if the opponents belong to other options, or
    if an opponent's SHA-256 is not that of its description.
    """
    remedy = "install the package again, or draw the opponents again"
    found = read_json(folder / DESCRIPTIONS, DESCRIPTIONS_SCHEMA, remedy)
    if found["options"] != dict(options):
        raise UserError(
            f"opponents: those in {folder} are for {families.game.name} with options "
            f"{found['options']}: give the game these options, or {opponent_files.REMEDY}"
        )
    opponents = []
    for each in found["opponents"]:
        if each["seed"] is None:
            weights = _weights(folder / WEIGHTS, each["name"], remedy)
            opponent = network_opponent(families, each["name"], weights)
        else:
            opponent = draw_opponent(families, each["name"], each["family"], each["seed"])
        if opponent.digest != each["sha256"]:
            raise UserError(
                f"{folder / DESCRIPTIONS}: the SHA-256 of {each['name']} is not that of the "
                f"opponent: {remedy}"
            )
        opponents.append(opponent)
    if not opponents:
        raise UserError(f"{folder / DESCRIPTIONS} is empty: {remedy}")
    return opponents


def _weights(file: Path, name: str, remedy: str) -> dict[str, Array]:
    """Return the weights of a network in a file. Raises UserError if they are missing."""
    try:
        tables = read_weights(file)
    except (OSError, DamagedWeightsError) as error:
        raise UserError(f"cannot read {file}: {error}: {remedy}") from None
    found = {key.partition("/")[2]: v for key, v in tables.items() if key.startswith(f"{name}/")}
    if not found:
        raise UserError(f"{file} lacks {name}: {remedy}")
    return found
