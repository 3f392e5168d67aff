"""Bidding examples for supervised learning, stored by split and read in batches.

An example is one call of an auction together with the information of the caller. Its columns:

- `before`: 1,284 features of the auction before the call, packed into 161 bytes
- `call`: the index of the call
- `callers`: the seats that made, doubled and redoubled each bid before the call, see
  `auction_rules.recorded_callers`
- `place`: the position of the call in the auction, from 0
- `length`: the number of calls of the auction
- `type`: the type of the call, such as natural or transfer; an index into `public_knowledge.TYPES`

Examples with outcomes have two more columns:

- `after`: the features of the auction after the call, as seen by the caller, packed like `before`
- `imps`: the double-dummy score of the caller's side against par, in IMPs
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError, concat_columns, select_rows
from overtrick.distributed import data_parallel
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction import packed_features
from overtrick.games.bridge.system import public_knowledge
from overtrick.storage import parquet
from overtrick.storage.bucket_copy import local_copy, path_or_url

VERSION = 2
"""Version of stored examples. Increase it when their columns or the meaning of features change."""

KIND = parquet.Kind(
    "bidding examples", VERSION, "generate them again, in another folder",
    {
        "before": parquet.Column("u", (packed_features.PACKED_WIDTH,)),
        "call": parquet.Column(least=0, most=auction_rules.REDOUBLE),
        "callers": parquet.Column(shape=(auction_rules.CALLERS_WIDTH,), least=-1, most=3),
        "place": parquet.Column(least=0, most=auction_rules.LONGEST_AUCTION),
        "length": parquet.Column(least=0, most=auction_rules.LONGEST_AUCTION),
        "type": parquet.Column(least=0, most=len(public_knowledge.TYPES) - 1),
        "after": parquet.Column("u", (packed_features.PACKED_WIDTH,), required=False),
        "imps": parquet.Column(least=-24, most=24, required=False),
    },
)  # fmt: skip
SPLITS = ("train", "test")
FILES_PER_WINDOW = 4  # files in memory at once, whose examples are shuffled together
TEST_SHARE = 0.2  # share of deals in the test split (Zhang et al. 2022, section 5.1)


class BiddingExamples:
    """Bidding examples of the training or test split, read from a few files at a time.

    `folder`: path or URL of a folder that has a folder of Parquet files for each split. `split`:
    "train" or "test". `readers`: number of cluster CPUs that read files by Ray Data; with 0 this
    process reads. The batches are the same for any number of readers. `share`: share of the
    examples to use, the first ones of each file. Raises UserError if there are
    no examples, if they have features of another version, or if they were generated with different
    parameters.
    """

    def __init__(self, folder: str, split: str, readers: int = 0, share: float = 1.0) -> None:
        self.readers = readers
        self.read = partial(_read, share=share)
        self.files = sorted(local_copy(folder, "the examples").glob(f"{split}/*.parquet"))
        if not self.files:
            raise UserError(
                f"no examples in {folder}: overtrick generate examples --file BOARDS --out {folder}"
            )
        heads = [parquet.head(file, KIND) for file in self.files]
        self.counts = [math.ceil(share * head.rows) for head in heads]
        self.columns = heads[0].columns
        found = [head.parameters for head in heads]
        self.parameters = parquet.common_parameters(self.files, found, KIND)

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(self, size: int, rng: Generator) -> Iterator[dict[str, Array]]:
        """Yield every example once, shuffled, in batches of `size`; the last may be smaller.

        A batch maps column names to arrays. The files are taken in random order, and examples are
        shuffled within each group of FILES_PER_WINDOW files.
        """
        order = rng.permutation(len(self.files))
        windows = [order[k : k + FILES_PER_WINDOW] for k in range(0, len(order), FILES_PER_WINDOW)]
        read = self._read_on_cluster if self.readers else self._read_in_background
        rest: dict[str, Array] = {}
        for window in read(windows):
            rows = concat_columns([rest, window]) if rest else window
            count = len(rows["call"])
            shuffled, used = rng.permutation(count), count - count % size
            for first in range(0, used, size):
                yield select_rows(rows, shuffled[first : first + size])
            rest = select_rows(rows, shuffled[used:])
        if len(rest["call"]):
            yield rest

    def in_order(self, limit: int) -> Iterator[dict[str, Array]]:
        """Yield the first `limit` examples in the order of the files, one batch per file.

        A batch maps column names to arrays.
        """
        for file, count in zip(self.files, self.counts, strict=True):
            if limit <= 0:
                return
            yield select_rows(self.read(str(file)), slice(limit))
            limit -= count

    def _read_in_background(self, windows: list[Array]) -> Iterator[dict[str, Array]]:
        """Yield the examples of each window, while a thread reads the next window.

        A window is a group of files whose examples are shuffled together. `windows`: for each
        window, an array of indices into `self.files`.
        """

        def read_window(places: Array) -> dict[str, Array]:
            return concat_columns([self.read(str(self.files[k])) for k in places])

        with ThreadPoolExecutor(1) as executor:
            pending = executor.submit(read_window, windows[0])
            for following in windows[1:]:
                rows = pending.result()
                pending = executor.submit(read_window, following)
                yield rows
            yield pending.result()

    def _read_on_cluster(self, windows: list[Array]) -> Iterator[dict[str, Array]]:
        """Yield the examples of each window, read by CPUs of the cluster.

        A window is a group of files whose examples are shuffled together. `windows`: for each
        window, an array of indices into `self.files`.
        """
        files = [path_or_url(self.files[k]) for places in windows for k in places]
        parts, available = list[dict[str, Array]](), 0
        stream = data_parallel.read_files(self.read, files, self.readers)
        for places in windows:
            wanted = sum(self.counts[k] for k in places)
            while available < wanted:
                parts.append(next(stream))
                available += len(parts[-1]["call"])
            rows = concat_columns(parts)
            yield select_rows(rows, slice(wanted))
            parts = [select_rows(rows, slice(wanted, None))]
            available -= wanted


def _read(file: str, share: float) -> dict[str, Array]:
    columns = parquet.load(local_copy(file, "a file of examples"), KIND).columns
    return select_rows(columns, slice(math.ceil(share * len(columns["call"]))))


def in_test_split(hands: Array) -> Array:
    """Return (G,) bool: True for deals of the test split, about one deal in five.

    `hands`: (G, 4) the cards of each seat as bit sets. The split is decided by a hash of the four
    hands that is invariant under rotation of the seats. So a deal and its rotations are in the same
    split, in every data set.
    """
    with np.errstate(over="ignore"):
        hashes = [np.zeros(len(hands), np.uint64) for _ in range(4)]
        for turn in range(4):
            for seat in range(4):
                own = hands[:, (seat + turn) % 4].astype(np.uint64)
                hashes[turn] = (hashes[turn] ^ own) * np.uint64(0x9E3779B97F4A7C15)
                hashes[turn] ^= hashes[turn] >> np.uint64(29)
        least = np.minimum.reduce(hashes)
        least = (least ^ (least >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (least >> np.uint64(11)).astype(np.float64) / 2.0**53 < TEST_SHARE
