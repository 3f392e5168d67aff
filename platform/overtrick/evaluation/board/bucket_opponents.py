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
    write_text,
    write_weights_whole,
)
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.evaluation.board import opponent_files
from overtrick.evaluation.board.bucket_families import (
    STRATEGY,
    BucketFamilies,
    DrawnOpponent,
    DrawOpponent,
)
from overtrick.evaluation.board.opponent_files import (
    DESCRIPTIONS,
    DEVELOPMENT_SEED,
    REPAIR,
    check_digests,
    read_arrays,
)
from overtrick.policies.network import NetworkPolicy

ARRAYS = "opponents.safetensors"  # of networks and strategies, in a folder of opponents
DECIMALS = 4  # to which probabilities are rounded for the SHA-256 of scripted players
SHARED_FAMILIES = 2  # families of test opponents that occur in training, too
DEVELOPMENT_FAMILIES = ("raiser", "tight", "loose", "bluffer")  # besides the trained networks


@dataclass(frozen=True, eq=False)
class BucketOpponent:
    """An opponent of a board."""

    name: str
    family: str
    seed: int | None  # with which it was drawn from its family; None: a trained network
    drawn: DrawnOpponent
    digest: str  # SHA-256 of its arrays, or of a scripted player's rounded probabilities
    changes: bool = False  # no opponent changes during a match

    @property
    def policy(self) -> BehaviouralPolicy:
        """Return its policy."""
        return self.drawn.policy


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
    draws: dict[str, DrawOpponent] = {**families.training(), **families.test_only()}
    if family not in draws:
        raise UserError(f"there is no family {family} of opponents in {families.game.name}")
    drawn = draws[family](np.random.default_rng(seed))
    return BucketOpponent(name, family, seed, drawn, digest(families, drawn))


def stored_opponent(
    families: BucketFamilies, name: str, family: str, seed: int | None, arrays: dict[str, Array]
) -> BucketOpponent:
    """Return the opponent that arrays define: a strategy of the abstraction, or a network."""
    policy: BehaviouralPolicy = NetworkPolicy(families.game.features, arrays)
    if STRATEGY in arrays:
        policy = families.abstraction.policy(arrays[STRATEGY])
    drawn = DrawnOpponent(policy, arrays)
    return BucketOpponent(name, family, seed, drawn, digest(families, drawn))


def digest(families: BucketFamilies, drawn: DrawnOpponent) -> str:
    """Return the SHA-256 of an opponent's arrays, or of its rounded probabilities without any."""
    found = hashlib.sha256()
    for name in sorted(drawn.arrays):
        found.update(np.ascontiguousarray(drawn.arrays[name], "<f4").tobytes())
    if not drawn.arrays:
        table = families.abstraction.tabulate(drawn.policy, np.random.default_rng(0))
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
    """Write opponents to a folder: a description of each, and the arrays that define them.

    `options`: of their game.
    """
    arrays = {
        f"{each.name}/{name}": array
        for each in opponents
        for name, array in each.drawn.arrays.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_weights_whole(folder / ARRAYS, arrays)
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
    found = read_json(folder / DESCRIPTIONS, DESCRIPTIONS_SCHEMA, REPAIR)
    if found["options"] != dict(options):
        raise UserError(
            f"opponents: those in {folder} are for {families.game.name} with options "
            f"{found['options']}: give the game these options, or {opponent_files.REMEDY}"
        )
    stored = read_arrays(folder / ARRAYS)
    opponents = []
    for each in found["opponents"]:
        name, family, seed = each["name"], each["family"], each["seed"]
        start = f"{name}/"
        own = {key.removeprefix(start): v for key, v in stored.items() if key.startswith(start)}
        if own:
            opponent = stored_opponent(families, name, family, seed, own)
        elif seed is not None:
            opponent = draw_opponent(families, name, family, seed)
        else:
            raise UserError(f"{folder / ARRAYS} lacks {name}: {REPAIR}")
        opponents.append(opponent)
    check_digests(folder, opponents, found["opponents"])
    return opponents
