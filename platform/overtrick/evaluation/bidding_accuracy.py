"""How well networks know recorded auctions: which call is made, and what it brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.auction.network_bidder import IMPS, MAX_IMPS
from overtrick.games.bridge.auction_rules import BIDS
from overtrick.games.bridge.system.public_knowledge import TYPES

Predictions = Mapping[str, Array]
"""Columns (R,) of what a network said of examples, and of what they were."""

LENGTHS = {"4 to 8 calls": (4, 8), "4": (4, 4), "5 to 8": (5, 8), "9 to 12": (9, 12),
           "13 to 16": (13, 16), "17 and more": (17, 1000)}  # fmt: skip
"""Parts of the table by the length of the auction (Zhang et al. 2022, Fig. 12)."""

BINS = 10  # of probabilities, for the calibration
IMP_TOLERANCE = 2  # IMPs (Zhang et al. 2022, Fig. 13)


def predict_calls(log_probs: Array) -> dict[str, Array]:
    """The likeliest call of each row (R, 38), and how sure of it the network is."""
    best = log_probs.argmax(axis=1)
    sure = np.exp(log_probs[np.arange(len(best)), best])
    return {"said": best.astype(np.int8), "sure": sure.astype(np.float32)}


def predict_imps(log_probs: Array) -> dict[str, Array]:
    """The IMPs that are expected of each row (R, 49), and the likeliest."""
    best = log_probs.argmax(axis=1) - MAX_IMPS
    return {"said": best.astype(np.int8), "expected": (np.exp(log_probs) @ IMPS).astype(np.float32)}


def call_accuracy(of: Predictions) -> dict[str, float | None]:
    """Shares of calls foretold: total; real, of bids; unreal, of passes, doubles and redoubles
    (Zhang et al. 2022, section 5.2.1); how sure the network was; and its calibration error, the
    mean distance of both over ten bins (Guo et al. 2017, eq. 5). None where there are no such."""
    right, bids = of["said"] == of["call"], of["call"] < BIDS
    place = np.minimum((of["sure"] * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(place, right - of["sure"].astype(np.float64), BINS)
    return {
        "total": _mean(right),
        "real": _mean(right[bids]),
        "unreal": _mean(right[~bids]),
        "sure": _mean(of["sure"]),
        "calibration_error": float(np.abs(gaps).sum() / len(right)) if len(right) else None,
    }


def imp_errors(of: Predictions) -> dict[str, float | None]:
    """Of what is expected in IMPs: the mean error; the share within 2; by the likeliest, the share
    that is right, and within 2 (Zhang et al. 2022, Fig. 13). None where there is nothing."""
    off = np.abs(of["expected"] - of["imps"])
    said = np.abs(of["said"].astype(np.int64) - of["imps"])
    return {
        "error": _mean(off),
        "within_2": _mean(off <= IMP_TOLERANCE),
        "likeliest_right": _mean(said == 0),
        "likeliest_within_2": _mean(said <= IMP_TOLERANCE),
    }


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def accuracy_table(
    of: Predictions, measure: Callable[[Predictions], dict[str, float | None]]
) -> list[dict[str, Any]]:
    """Of all examples, by the length of their auctions, and by the type of the call."""
    parts = {"all": np.ones(len(of["call"]), bool)}
    parts |= {
        name: (of["length"] >= low) & (of["length"] <= high)
        for name, (low, high) in LENGTHS.items()
    }
    parts |= {name: of["type"] == k for k, name in enumerate(TYPES)}
    return [
        {"part": name, "calls": int(rows.sum()), **measure({n: c[rows] for n, c in of.items()})}
        for name, rows in parts.items()
        if rows.any()
    ]


PREDICTORS = {"calls": predict_calls, "imps": predict_imps}
MEASURES = {"calls": call_accuracy, "imps": imp_errors}
FIGURE_COLUMNS = {"calls": ("total", "real", "unreal"), "imps": ("within_2", "likeliest_within_2")}
"""By what a network learns: what it says, how that is measured, and which of it is drawn."""
