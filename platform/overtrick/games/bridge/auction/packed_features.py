"""The 1,284 numbers of a decision as 161 bytes, and back again without loss.

A number is 0, or 1 shared evenly by the places of its range, so that it is known which are not 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction.features import FIRST_PLAYER, PLAYER_WIDTH, WIDTH

VERSION = 1
"""Of the features: to be raised when a number comes to mean something else."""

PACKED_WIDTH = -(-WIDTH // 8)
RANGE_WIDTHS = (
    5,
    41,
    41,
    41,
    *[14] * 4,
    *[8] * 4,
    *[4] * 4,
    *[3] * 4,
    10,
    15,
    4,
    5,
    6,
    6,
    4,
    5,
    3,
    3,
)
"""Of the ranges of one player, in the order of `features`."""

_FIRST = np.cumsum((0, *RANGE_WIDTHS))
_RANGES = np.concatenate(
    [np.stack([_FIRST[:-1], _FIRST[1:]], 1) + FIRST_PLAYER + who * PLAYER_WIDTH for who in range(4)]
)
_SHARES = np.array([0, *(np.float32(1 / n) for n in range(1, max(RANGE_WIDTHS) + 1))], np.float32)


def pack(rows: Array) -> Array:
    """(R, 161) uint8 of features (R, 1284): a bit for each number that is not 0."""
    return np.packbits(rows > 0, axis=1)


def unpack(bits: Array, out: Array | None = None) -> Array:
    """(R, 1284) float32 the features of (R, 161) bits; out: an array to write them to, of as many
    rows and at least as wide, of which the other columns are left alone."""
    found = np.empty((len(bits), WIDTH), np.float32) if out is None else out
    if len(found) != len(bits) or found.shape[1] < WIDTH or bits.shape[1] != PACKED_WIDTH:
        raise ValueError(f"bits {bits.shape} do not fit into features {found.shape}")
    _unpack(np.ascontiguousarray(bits), _RANGES, _SHARES, found)
    return found


@njit(cache=True)
def _unpack(bits, ranges, shares, found):  # type: ignore[no-untyped-def]
    for row in range(len(bits)):
        mine, numbers = bits[row], found[row]
        for byte in range(len(mine)):
            for k in range(min(8, WIDTH - 8 * byte)):
                numbers[8 * byte + k] = mine[byte] >> (7 - k) & 1
        for which in range(len(ranges)):
            some = 0
            for at in range(ranges[which, 0], ranges[which, 1]):
                some += numbers[at] > 0
            if some > 1:
                for at in range(ranges[which, 0], ranges[which, 1]):
                    numbers[at] *= shares[some]
