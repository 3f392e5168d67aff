"""Abstract limit hold'em by name: which abstraction, and what strategies remember."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from overtrick.core import Array, BucketedGame, UserError
from overtrick.games.poker.holdem.abstract_betting import abstract_holdem, paper_index
from overtrick.games.poker.rules import LIMIT_HOLDEM_TEXTBOOK as RULES

ABSTRACTION = "abstractions/holdem-6.parquet"
INDICES = ("paper", "public")


def file_digest(file: Path) -> str:
    """What tells a file from every other, 16 hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


class AbstractionTables(Protocol):
    """What an abstraction measured; K buckets a round."""

    @property
    def start(self) -> Array: ...  # (K, K)
    @property
    def moves(self) -> Sequence[Array]: ...  # 3 of (K, K)
    @property
    def joint(self) -> Sequence[Array]: ...  # 3 of (K, K, K, K)
    @property
    def win(self) -> Array: ...  # (K, K)


class AbstractHoldem:
    """Limit hold'em in which a hand is a bucket: solved and evolved on, never played card by card.

    abstraction: the file that `overtrick generate abstraction` made. index: `paper` forgets the
    betting of earlier rounds (bucket, round, button, raises of both seats in this round); `public`
    remembers all of it. joint: buckets move jointly, as cards do, or each for itself. digest: of
    the file, if it must be the one that a run began with.
    """

    name = RULES.name
    seats = 2
    unit = RULES.unit
    actions = len(RULES.actions)
    action_names = tuple(name for name, _ in RULES.actions)
    infosets = None  # it depends on the abstraction

    def __init__(
        self,
        abstraction: str = ABSTRACTION,
        index: str = "paper",
        joint: bool = False,
        digest: str | None = None,
    ) -> None:
        if not isinstance(abstraction, str):
            raise TypeError(f"abstraction must be the path of a file, not {abstraction!r}")
        if index not in INDICES:
            raise TypeError(f"index must be paper or public, not {index!r}")
        if not isinstance(joint, bool):
            raise TypeError(f"joint must be true or false, not {joint!r}")
        self.abstraction = abstraction
        self.digest = digest
        self.index = index
        self.joint = joint

    def __reduce__(self) -> tuple[Any, ...]:
        return AbstractHoldem, (self.abstraction, self.index, self.joint, self.digest)

    def portable_options(self) -> dict[str, Any]:
        """The options that make this game from any folder, and on this very file."""
        file = Path(self.abstraction).absolute()
        digest = self.digest
        if digest is None and file.is_file():
            digest = file_digest(file)
        return {
            "abstraction": str(file), "index": self.index, "joint": self.joint, "digest": digest,
        }  # fmt: skip

    def check(self, file: Path) -> None:
        """Raise UserError if the file is not the one that the game was made with."""
        if self.digest is not None and self.digest != file_digest(file):
            raise UserError(
                f"{file} is another abstraction than this was made with (its digest is not "
                f"{self.digest}): put that one back, or start anew"
            )

    def bucketed_game(self, tables: AbstractionTables) -> tuple[BucketedGame, Array | None]:
        """The game on an abstraction's tables, and the index (B,) of its strategies."""
        moves = np.stack(tables.joint if self.joint else tables.moves)
        index = paper_index()[0] if self.index == "paper" else None
        return abstract_holdem(tables.start, moves, tables.win), index

    def situations(self) -> Array:
        """(N / K, 4) int32 round, button, own and the other's raises of each index of the paper.

        Raises UserError for the public index, whose situations are more than that.
        """
        if self.index != "paper":
            raise UserError(f"{self.name}: only index paper has situations, inputs of a network")
        return paper_index()[1]

    def bucket_features(self, buckets: int) -> Array:
        """(N, 5) float64 inputs of a small network, each from -1 to 1: bucket and situation."""
        situations = self.situations()
        scaled = 2 * situations / situations.max(axis=0) - 1
        bucket = np.tile(np.linspace(-1, 1, buckets), len(situations))
        return np.column_stack([bucket, np.repeat(scaled, buckets, axis=0)])
