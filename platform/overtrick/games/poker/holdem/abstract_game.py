"""The game `abstract_holdem`: limit hold'em on a stored card abstraction."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import Array, BucketedGame, UserError
from overtrick.games.poker.holdem.bucketed_holdem import abstract_holdem, paper_index
from overtrick.games.poker.holdem.card_abstraction import Abstraction
from overtrick.games.poker.rules import LIMIT_HOLDEM_TEXTBOOK as RULES

PACKAGED_ABSTRACTION = "holdem-6"
"""The abstraction that comes with the package: six buckets, as `overtrick generate abstraction`
makes it by default."""

INDICES = ("paper", "public")


def file_digest(file: Path) -> str:
    """Return the first 16 hexadecimal digits of a file's SHA-256 digest."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


class AbstractHoldem:
    """Limit hold'em with buckets of hands, for solvers and evolution; it cannot be played.

    `abstraction`: holdem-6, the six buckets that come with the package, or the path of a file made
        by `overtrick generate abstraction`.
    `index`: the betting history in an information set. With `public` it is the complete betting.
        With `paper` it is the round, who has the button, and both seats' raises in this round
        (imperfect recall), as in Samothrakis and Lucas 2011.
    `joint`: if true, the next buckets of both seats are drawn from their joint distribution;
        otherwise each seat's next bucket is drawn independently of the other seat.
    `digest`: the `file_digest` that the file must have, because an earlier run used that file; None
        accepts any file.
    """

    name = RULES.name
    seats = 2
    unit = RULES.unit
    actions = len(RULES.actions)
    action_names = tuple(name for name, _ in RULES.actions)
    infosets = None  # depends on the abstraction

    def __init__(
        self,
        abstraction: str = PACKAGED_ABSTRACTION,
        index: str = "paper",
        joint: bool = False,
        digest: str | None = None,
    ) -> None:
        if not isinstance(abstraction, str):
            raise TypeError(f"abstraction must be holdem-6 or a file's path, not {abstraction!r}")
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

    @property
    def file(self) -> Path:
        """Return the absolute path of the abstraction's file."""
        if self.abstraction == PACKAGED_ABSTRACTION:
            return Path(__file__).with_name(f"{PACKAGED_ABSTRACTION}.parquet")
        return Path(self.abstraction).absolute()

    def portable_options(self) -> dict[str, Any]:
        """Return options that make the same game in any folder: absolute path and file digest."""
        packaged = self.abstraction == PACKAGED_ABSTRACTION
        digest = self.digest or (file_digest(self.file) if self.file.is_file() else None)
        return {
            "abstraction": PACKAGED_ABSTRACTION if packaged else str(self.file),
            "index": self.index,
            "joint": self.joint,
            "digest": digest,
        }

    def check_file(self) -> None:
        """Raise UserError if the digest of the abstraction's file is not the option `digest`.

        With `digest` None nothing is checked. Otherwise a missing file raises FileNotFoundError.
        """
        if self.digest is not None and self.digest != file_digest(self.file):
            raise UserError(
                f"{self.file} is not the abstraction of the earlier run (its digest is not "
                f"{self.digest}): restore that file, or start a new run"
            )

    def bucketed_game(self, tables: Abstraction) -> tuple[BucketedGame, Array | None]:
        """Return the bucketed game of a card abstraction, and the betting states of its nodes.

        The betting states depend on the game's option `index`:

        - index=paper: an array (B,) with the index of each public node's betting state, -1 at
          terminal nodes. Public nodes with the same index share their information sets: strategies
          have imperfect recall of the betting.
        - index=public: None. Strategies distinguish all public nodes.
        """
        moves = np.stack(tables.joint if self.joint else tables.moves)
        index = paper_index()[0] if self.index == "paper" else None
        return abstract_holdem(tables.start, moves, tables.win), index

    def situations(self) -> Array:
        """List the betting states (n, 4) int32 of Samothrakis and Lucas 2011.

        A strategy of that paper sees the betting of the current round only. Columns:

        0: betting round
        1: 1 if the seat to act has the button, otherwise 0
        2: raises of the seat to act in this round
        3: raises of the other seat in this round

        Raises UserError if the game's option `index` is not `paper`.
        """
        if self.index != "paper":
            raise UserError(f"{self.name}: a network needs betting situations: set index=paper")
        return paper_index()[1]

    def bucket_features(self, buckets: int) -> Array:
        """Return network inputs (N, 5) float64 for each information set, scaled to -1 to 1.

        `buckets`: number of buckets of hands in each round. Columns: the bucket; then the round,
        the button and both seats' raises, as in the method `situations`. Rows are sorted by public
        betting state, then by bucket.
        """
        situations = self.situations()
        scaled = 2 * situations / situations.max(axis=0) - 1
        bucket = np.tile(np.linspace(-1, 1, buckets), len(situations))
        return np.column_stack([bucket, np.repeat(scaled, buckets, axis=0)])
