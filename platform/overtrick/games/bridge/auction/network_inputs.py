"""Build the inputs of bidding networks: general features of an auction, its calls, or both.

The calls of an auction are an array of callers (R, 105) int8. For each of the 35 bids it holds the
seat that made the bid, then, for each bid, the seat that doubled it, then the seat that redoubled
it. Seats are relative to the seat to call: 0 itself, 1 its left-hand opponent, 2 its partner, 3 its
right-hand opponent; -1 if nobody did. The passes between these calls follow from their seats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from overtrick.core import Array
from overtrick.core.devices import gpu_in_use
from overtrick.core.lazy_modules import torch
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.features import FIRST_PLAYER, WIDTH
from overtrick.games.bridge.auction.packed_features import unpack, unpack_by_torch
from overtrick.games.bridge.auction_rules import BIDS, CALLERS_WIDTH, PASS

if TYPE_CHECKING:
    from torch import Tensor

Inputs = Literal["features", "last_bid", "auction", "both"]
"""Inputs of a network. features: the 1,284 auction features. last_bid: the features and the last
bid, its seat, and whether it is doubled. auction: the hand, vulnerability, dealer and seat, and all
calls. both: the features and all calls."""

LAST_BID_SIZES = (BIDS + 1, 5, 3)
"""Widths of the one-hot columns of a last bid: the bid, or none; its seat, or none; undoubled,
doubled or redoubled."""

WIDTHS: dict[Inputs, int] = {
    "features": WIDTH,
    "last_bid": WIDTH + sum(LAST_BID_SIZES),
    "auction": FIRST_PLAYER + 4 * CALLERS_WIDTH,
    "both": WIDTH + 4 * CALLERS_WIDTH,
}
"""Numbers of inputs. They all differ, so that a network's weights tell what its inputs are."""


def inputs_of_width(width: int) -> Inputs | None:
    """Return the kind of inputs that have this width; None if there is no such kind."""
    return next((kind for kind, own in WIDTHS.items() if own == width), None)


def network_inputs(features: Array, callers: Array, kind: Inputs) -> Array:
    """Return the inputs (R, F) of a network from auction features (R, 1284) and callers (R, 105).

    kind: selects the inputs, of which there are F = WIDTHS[kind].
    """
    if kind == "features":
        return features
    known = features[:, :FIRST_PLAYER] if kind == "auction" else features
    return np.concatenate([known, _auction_columns(callers, kind)], axis=1)


def unpack_inputs(bits: Array, callers: Array, kind: Inputs) -> Array:
    """Return the inputs (R, F) float32 of a network from packed auction features (R, 161).

    The other arguments are those of `network_inputs`.
    """
    if kind == "auction":
        return network_inputs(unpack(bits), callers, kind)
    inputs = np.zeros((len(bits), WIDTHS[kind]), np.float32)
    unpack(bits, inputs)
    if kind != "features":
        inputs[:, WIDTH:] = _auction_columns(callers, kind)
    return inputs


def learner_inputs(bits: Array, callers: Array, kind: Inputs) -> Array | Tensor:
    """Return the result of `unpack_inputs`, as a tensor on the GPU if this thread uses one."""
    if not gpu_in_use():
        return unpack_inputs(bits, callers, kind)
    features = unpack_by_torch(bits)
    if kind == "features":
        return features
    known = features[:, :FIRST_PLAYER] if kind == "auction" else features
    return torch.cat([known, torch.as_tensor(_auction_columns(callers, kind))], dim=1)


def callers_in_observations(observation: Array) -> Array:
    """Return the callers (R, 105) int8 of the auctions at observations (R, K).

    `auction_rules.recorded_callers` returns the same numbers from recorded calls.
    """
    seats, to_call = observation[:, obs.CALLERS :], observation[:, obs.SEAT, None]
    return np.where(seats >= 0, (seats - to_call) % 4, -1).astype(np.int8)


def callers_after(callers: Array, call: Array) -> Array:
    """Return the callers (R, 105) after adding one call (R,) to each auction.

    Seats remain relative to the player who made the added call: its own seat is 0.
    """
    after, row = callers.copy(), np.flatnonzero(call != PASS)
    made = call[row].astype(np.int64)
    bid = np.where(made < BIDS, made, last_bids(callers[row])[:, 0])
    after[row, bid + BIDS * np.maximum(made - PASS, 0)] = 0
    return after


def last_bids(callers: Array) -> Array:
    """Return three numbers (R, 3) that describe the last bid and determine the legal calls.

    callers: (R, 105). Columns of the result:

    0: the last bid, or -1 before any bid
    1: the seat that made the last bid, relative to the seat to call; -1 before any bid
    2: 2 if the last bid is redoubled, 1 if it is doubled, otherwise 0
    """
    seats = callers.reshape(len(callers), 3, BIDS)
    bid = seats[:, 0] >= 0
    last = np.where(bid.any(axis=1), BIDS - 1 - bid[:, ::-1].argmax(axis=1), -1)
    row = np.arange(len(callers))
    by = np.where(last >= 0, seats[row, 0, last], -1)
    doubled = (seats[row, 1:, last] >= 0).sum(axis=1) * (last >= 0)
    return np.stack([last, by, doubled], axis=1)


def _auction_columns(callers: Array, kind: Inputs) -> Array:
    """Return one-hot columns float32 of the last bid (R, 44), or of all callers (R, 420)."""
    if kind != "last_bid":
        seats = callers[:, :, None] == np.arange(4)
        return seats.reshape(len(callers), 4 * CALLERS_WIDTH).astype(np.float32)
    columns = np.zeros((len(callers), sum(LAST_BID_SIZES)), np.float32)
    row, first = np.arange(len(callers)), 0
    for value, width in zip(last_bids(callers).T, LAST_BID_SIZES, strict=True):
        columns[row, first + value % width] = 1  # -1 is the last column
        first += width
    return columns
