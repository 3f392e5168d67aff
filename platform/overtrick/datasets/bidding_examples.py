"""Calls of auctions as examples to learn from, kept packed and parted by deal, read as a stream.

An example is a call that somebody made. Its columns: before, the 1,284 features (161 bytes) before
the call; call; situation, as `auction.situations`; place in its auction from 0, and length of that;
type, as known.TYPES. With outcomes also after, the features as the caller has them once the call is
made, and imps, those of the contract against par at double-dummy tricks, for the caller's side.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError, concat_columns
from overtrick.distributed import data_parallel
from overtrick.games.bridge.auction import packed_features
from overtrick.storage import parquet

KIND = parquet.Kind(
    "bidding examples", packed_features.VERSION, "generate them again, in another folder"
)
SPLITS = ("train", "test")
FILES_PER_WINDOW = 4  # files of a window, in which examples are shuffled
TEST_SHARE = 0.2  # share of deals that are kept for testing (Zhang et al. 2022, section 5.1)


class BiddingExamples:
    """The examples of one side of a folder, never all in memory. Raises UserError if there are
    none, if they are of features of another version, or were not made together.

    readers: so many CPUs of the cluster read them, by Ray Data; 0: this process does. The batches
    are the same.
    """

    def __init__(self, folder: str, split: str, readers: int = 0) -> None:
        self.readers = readers
        self.files = sorted(Path(folder).glob(f"{split}/*.parquet"))
        if not self.files:
            raise UserError(
                f"no examples in {folder}: overtrick generate examples --file BOARDS --out {folder}"
            )
        heads = [parquet.head(file, KIND) for file in self.files]
        self.counts = [head.rows for head in heads]
        self.columns, self.parameters = heads[0].columns, heads[0].parameters
        for file, head in zip(self.files, heads, strict=True):
            if head.parameters != self.parameters:
                raise UserError(f"{file} was made otherwise than {self.files[0]}: {KIND.remedy}")

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(self, size: int, rng: Generator) -> Iterator[dict[str, Array]]:
        """Every example once, so many at a time, in random order: files at random, and examples at
        random among those of some files, of which the next are read meanwhile."""
        order = rng.permutation(len(self.files))
        windows = [order[k : k + FILES_PER_WINDOW] for k in range(0, len(order), FILES_PER_WINDOW)]
        rest: dict[str, Array] = {}
        for window in self._spread(windows) if self.readers else self._ahead(windows):
            rows = concat_columns([rest, window]) if rest else window
            count = len(rows["call"])
            mixed, whole = rng.permutation(count), count - count % size
            for first in range(0, whole, size):
                yield {name: c[mixed[first : first + size]] for name, c in rows.items()}
            rest = {name: column[mixed[whole:]] for name, column in rows.items()}
        if len(rest["call"]):
            yield rest

    def in_order(self, most: int) -> Iterator[dict[str, Array]]:
        """The first examples, at most so many, file by file."""
        for file, count in zip(self.files, self.counts, strict=True):
            if most <= 0:
                return
            columns = parquet.load(file, KIND).columns
            yield {name: column[:most] for name, column in columns.items()}
            most -= count

    def _ahead(self, windows: list[Array]) -> Iterator[dict[str, Array]]:
        """The examples of the files of each window, of which the next is read meanwhile."""
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._window, windows[0])
            for following in windows[1:]:
                rows = coming.result()
                coming = ahead.submit(self._window, following)
                yield rows
            yield coming.result()

    def _window(self, places: Array) -> dict[str, Array]:
        return concat_columns([_loaded(str(self.files[k])) for k in places])

    def _spread(self, windows: list[Array]) -> Iterator[dict[str, Array]]:
        """The same, read by the cluster."""
        files = [str(self.files[k]) for places in windows for k in places]
        parts, had = list[dict[str, Array]](), 0
        coming = data_parallel.read_files(_loaded, files, self.readers)
        for places in windows:
            wanted = sum(self.counts[k] for k in places)
            while had < wanted:
                parts.append(next(coming))
                had += len(parts[-1]["call"])
            rows = concat_columns(parts)
            yield {name: column[:wanted] for name, column in rows.items()}
            parts = [{name: column[wanted:] for name, column in rows.items()}]
            had -= wanted


def _loaded(file: str) -> dict[str, Array]:
    return parquet.load(Path(file), KIND).columns


def in_test_split(hands: Array) -> Array:
    """(G,) bool which deals (G, 4) are kept for testing, one in five: by what they hold alone, so
    that a deal and its rotations are on the same side in every set that is ever made."""
    with np.errstate(over="ignore"):
        mixed = [np.zeros(len(hands), np.uint64) for _ in range(4)]
        for turn in range(4):
            for seat in range(4):
                own = hands[:, (seat + turn) % 4].astype(np.uint64)
                mixed[turn] = (mixed[turn] ^ own) * np.uint64(0x9E3779B97F4A7C15)
                mixed[turn] ^= mixed[turn] >> np.uint64(29)
        least = np.minimum.reduce(mixed)
        least = (least ^ (least >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (least >> np.uint64(11)).astype(np.float64) / 2.0**53 < TEST_SHARE
