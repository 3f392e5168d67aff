"""Pack the 1,284 auction features of a row into 161 bytes without loss, one bit per feature.

The features of one quantity, such as high-card points, are a uniform distribution over its possible
values, or all 0 (see `features`). It is enough to store which values are possible. All other
features are 0 or 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.games.bridge.auction.features import FIRST_PLAYER, PLAYER_WIDTH, WIDTH

if TYPE_CHECKING:
    from torch import Tensor

PACKED_WIDTH = -(-WIDTH // 8)
RANGE_WIDTHS = np.repeat(
    [5, 41, 14, 8, 4, 3, 10, 15, 4, 5, 6, 4, 5, 3], [1, 3, 4, 4, 4, 4, 1, 1, 1, 1, 2, 1, 1, 2]
)
"""Widths of the groups of one player's features, in the order listed in `features`."""

_FIRST = np.cumsum([0, *RANGE_WIDTHS])
_PLAYERS = FIRST_PLAYER + PLAYER_WIDTH * np.arange(4)
_RANGES = np.concatenate([first + np.stack([_FIRST[:-1], _FIRST[1:]], 1) for first in _PLAYERS])
_RANGE_OF_COLUMN = np.full(WIDTH, len(_RANGES))  # other features are 0 or 1
for _which, (_begin, _end) in enumerate(_RANGES):
    _RANGE_OF_COLUMN[_begin:_end] = _which
_SHARES = np.array([0, *(np.float32(1 / n) for n in range(1, max(RANGE_WIDTHS) + 1))], np.float32)


def pack(features: Array) -> Array:
    """Pack features (R, 1284) into bytes (R, 161) uint8: a bit is 1 if its feature is not 0."""
    return np.packbits(features > 0, axis=1)


def unpack(bits: Array, out: Array | None = None) -> Array:
    """Unpack features (R, 1284) float32 from packed bytes (R, 161).

    out: array of R rows and at least 1284 columns to write to; columns after 1283 are not changed.
    Raises ValueError if the shapes do not fit.
    """
    features = np.empty((len(bits), WIDTH), np.float32) if out is None else out
    too_narrow = features.shape[1] < WIDTH
    if len(features) != len(bits) or too_narrow or bits.shape[1] != PACKED_WIDTH:
        raise ValueError(f"bits {bits.shape} do not fit into features {features.shape}")
    _unpack(np.ascontiguousarray(bits), _RANGES, _SHARES, features)
    return features


@njit(cache=True)
def _unpack(bits, ranges, shares, features):  # type: ignore[no-untyped-def]
    for row in range(len(bits)):
        packed, numbers = bits[row], features[row]
        for byte in range(len(packed)):
            for k in range(min(8, WIDTH - 8 * byte)):
                numbers[8 * byte + k] = packed[byte] >> (7 - k) & 1
        for first, end in ranges:
            count = 0
            for at in range(first, end):
                count += numbers[at] > 0
            if count > 1:
                for at in range(first, end):
                    numbers[at] *= shares[count]


def unpack_by_torch(bits: Array) -> Tensor:
    """Unpack features (R, 1284) float32 from packed bytes (R, 161), on torch's default device.

    The numbers are those of `unpack`. A GPU receives 161 bytes a row instead of 5,136.
    """
    shift = torch.arange(7, -1, -1, dtype=torch.uint8)
    each_bit = torch.as_tensor(bits)[:, :, None] >> shift & 1
    features = each_bit.flatten(1)[:, :WIDTH].float()
    range_of_column = torch.as_tensor(_RANGE_OF_COLUMN)
    count = torch.zeros(len(bits), len(_RANGES) + 1).index_add_(1, range_of_column, features)
    count[:, -1] = 1
    return features * torch.as_tensor(_SHARES)[count.long()][:, range_of_column]
