"""The opponents of a board: drawn from families, stored with digests, and read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from pydantic import TypeAdapter

from overtrick.core import Array, UserError
from overtrick.core.files import (
    DamagedWeightsError,
    append_line,
    read_weights,
    write_text,
    write_weights_whole,
)
from overtrick.core.json_files import ClosedRecord, read_intact_lines, read_json
from overtrick.evaluation.board.opponent_families import OpponentFamilies
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

FOLDER = Path(__file__).parents[2] / "board_opponents"  # of the development opponents, by game
DEVELOPMENT = "development"  # in place of a folder: the development opponents
DEVELOPMENT_SEED = 20261127  # of `draw_development`, for the opponents in FOLDER
DESCRIPTIONS, STRATEGIES = "opponents.json", "opponents.safetensors"
USES = "uses.jsonl"  # of a folder of test opponents: a line for each use
REMEDY = "draw new test opponents with `overtrick board make JOB --out FOLDER`"
REPAIR = "install the package again, or draw the opponents again"
CHANGES_AFTER = 1_000  # games after which a changing opponent changes
CHANGING = "changing"  # name of its family
TEST_EXPLOITABILITY = 0.02  # of the test opponent of family `near_equilibrium`, in points
SHARED_FAMILIES = 8  # families of test opponents that occur elsewhere, too


@dataclass(frozen=True, eq=False)
class BoardOpponent:
    """An opponent of a board: one strategy, or two if it changes during a match."""

    name: str
    family: str
    phases: tuple[Array, ...]  # strategies (N, A)

    @property
    def changes(self) -> bool:
        """Return whether the opponent changes its strategy after CHANGES_AFTER games."""
        return len(self.phases) > 1

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all probabilities, as float64 in the order of the tables."""
        found = hashlib.sha256()
        for phase in self.phases:
            found.update(np.ascontiguousarray(phase, "<f8").tobytes())
        return found.hexdigest()

    def phase_index(self, game: int) -> int:
        """Return the index of the strategy in a game of a match; the first game is number 0."""
        return len(self.phases) - 1 if game >= CHANGES_AFTER else 0


class StoredOpponent(Protocol):
    """An opponent with a name and a SHA-256."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def digest(self) -> str:
        """Return its SHA-256."""


class OpponentDescription(ClosedRecord):
    """Description of a stored opponent."""

    name: str
    family: str
    sha256: str
    exploitability: list[float]  # of each phase, in points per game


DESCRIPTIONS_SCHEMA: TypeAdapter[Any] = TypeAdapter(list[OpponentDescription])


class OpponentUse(ClosedRecord):
    """A use of test opponents: by a board, or from Python."""

    user: str
    time: str


USE_SCHEMA: TypeAdapter[Any] = TypeAdapter(OpponentUse)


def draw_development(families: OpponentFamilies, rng: Generator) -> list[BoardOpponent]:
    """Draw the development opponents: one of each family, and one that changes.

    There are four near-equilibria, with exploitabilities 0.02, 0.1, 0.3 and 0.6. Trained networks
    are not among the opponents; `comparison.board_networks` trains them.
    """
    draws = {n: draw for n, draw in families.development().items() if n != "near_equilibrium"}
    *rngs, first_rng, second_rng = rng.spawn(len(draws) + 2)

    def near(exploitability: float, near_rng: Generator) -> BoardOpponent:
        strategy = families.near_equilibrium(near_rng, exploitability)
        name = f"near_equilibrium_{exploitability:g}"
        return BoardOpponent(name, "near_equilibrium", (strategy,))

    return [
        *(BoardOpponent(n, n, (draws[n](each),)) for n, each in zip(draws, rngs, strict=True)),
        near(0.02, first_rng),
        near(0.3, second_rng),
        _changing(families, rng),
        *map(near, (0.1, 0.6), rng.spawn(2)),
    ]


def draw_test(families: OpponentFamilies, rng: Generator) -> list[BoardOpponent]:
    """Draw twelve test opponents, each of another family; eleven without public situations.

    They are a near-equilibrium of exploitability 0.02, seven of random families for training or
    development, and one of each of the four families for tests alone, one of which needs public
    situations.
    """
    draws = {**families.training(), **families.development(), **families.test_only()}
    known = [name for name in draws if name not in {"near_equilibrium", *families.test_only()}]
    chosen = rng.choice([*known, CHANGING], SHARED_FAMILIES - 1, replace=False).tolist()
    near = families.near_equilibrium(rng, TEST_EXPLOITABILITY)
    opponents = [BoardOpponent("test_near_equilibrium", "near_equilibrium", (near,))]
    for family in [*chosen, *families.test_only()]:
        if family == CHANGING:
            opponents.append(_changing(families, rng))
        else:
            opponents.append(BoardOpponent(f"test_{family}", family, (draws[family](rng),)))
    return opponents


def _changing(families: OpponentFamilies, rng: Generator) -> BoardOpponent:
    """Draw an opponent that follows two strategies of families for training in turn."""
    return BoardOpponent(CHANGING, CHANGING, tuple(families.draw_training(2, rng)))


def save(opponents: Sequence[BoardOpponent], tree: Tree, folder: Path) -> None:
    """Write opponents to a folder: their strategies, and a description of each with its SHA-256."""
    tables = {f"{o.name}/{k}": phase for o in opponents for k, phase in enumerate(o.phases)}
    folder.mkdir(parents=True, exist_ok=True)
    write_weights_whole(folder / STRATEGIES, tables)
    descriptions = [
        {
            "name": each.name,
            "family": each.family,
            "sha256": each.digest,
            "exploitability": [best_response.exploitability(tree, p) for p in each.phases],
        }
        for each in opponents
    ]
    write_text(folder / DESCRIPTIONS, json.dumps(descriptions, indent=1) + "\n")


def load(folder: Path, tree: Tree) -> list[BoardOpponent]:
    """Read opponents from a folder.

    Raises UserError if a file is missing or damaged, if a strategy is not one of this tree, or if
    an opponent's SHA-256 is not that of its description.
    """
    file, remedy = folder / STRATEGIES, REPAIR
    descriptions = read_json(folder / DESCRIPTIONS, DESCRIPTIONS_SCHEMA, remedy)
    tables = read_arrays(file)
    opponents = []
    for each in descriptions:
        names = [f"{each['name']}/{k}" for k in range(len(each["exploitability"]))]
        if missing := [name for name in names if name not in tables]:
            raise UserError(f"{file} lacks {missing[0]}: {remedy}")
        opponent = BoardOpponent(each["name"], each["family"], tuple(tables[n] for n in names))
        try:
            for phase in opponent.phases:
                best_response.check_strategy(tree, phase)
        except UserError as error:
            raise UserError(f"{each['name']} in {file}: {error}") from None
        opponents.append(opponent)
    check_digests(folder, opponents, descriptions)
    return opponents


def read_arrays(file: Path) -> dict[str, Array]:
    """Read the arrays of opponents. Raises UserError if the file is missing or damaged."""
    try:
        return read_weights(file)
    except (OSError, DamagedWeightsError) as error:
        raise UserError(f"cannot read {file}: {error}: {REPAIR}") from None


def check_digests(
    folder: Path, opponents: Sequence[StoredOpponent], descriptions: Sequence[Mapping[str, Any]]
) -> None:
    """Raise UserError if there are no opponents, or if one has not the SHA-256 of its description.

    `folder`: of the opponents. `descriptions`: of the opponents, with the key `sha256`.
    """
    if not opponents:
        raise UserError(f"{folder / DESCRIPTIONS} is empty: {REPAIR}")
    for opponent, described in zip(opponents, descriptions, strict=True):
        if opponent.digest != described["sha256"]:
            raise UserError(
                f"{folder / DESCRIPTIONS}: the SHA-256 of {opponent.name} is not that of its "
                f"strategy: {REPAIR}"
            )


def record_use(folder: Path, user: str) -> None:
    """Record that a player is evaluated by the test opponents in a folder."""
    append_line(folder / USES, json.dumps({"user": user, "time": now()}))


def uses(folder: Path) -> list[dict[str, str]]:
    """Return the uses of the test opponents in a folder; see OpponentUse."""
    return read_intact_lines(folder / USES, USE_SCHEMA) if (folder / USES).exists() else []


def now() -> str:
    """Return the time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
