"""Accuracy of bidding networks on recorded auctions: predicted calls and predicted IMPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.auction.network_bidder import IMPS, MAX_IMPS
from overtrick.games.bridge.auction_rules import BIDS
from overtrick.games.bridge.system.public_knowledge import TYPES

Predictions = Mapping[str, Array]
"""Columns (R,) of examples, together with a network's predictions for them."""

LENGTHS = {"4 to 8 calls": (4, 8), "4": (4, 4), "5 to 8": (5, 8), "9 to 12": (9, 12),
           "13 to 16": (13, 16), "17 and more": (17, 1000)}  # fmt: skip
"""Rows of the accuracy table: ranges of the number of calls in the auction.

Source: Zhang et al. 2022, Fig. 12.
"""

BINS = 10  # bins of probability for the calibration error
IMP_TOLERANCE = 2  # IMPs; an error up to this counts as "within 2" (Zhang et al. 2022, Fig. 13)


def predict_calls(log_probs: Array) -> dict[str, Array]:
    """Return the most likely call of each row (`predicted`) and its probability (`sure`).

    `log_probs` (R, 38): a network's log-probabilities of the calls.
    """
    best = log_probs.argmax(axis=1)
    sure = np.exp(log_probs[np.arange(len(best)), best])
    return {"predicted": best.astype(np.int8), "sure": sure.astype(np.float32)}


def predict_imps(log_probs: Array) -> dict[str, Array]:
    """Return the most likely IMPs of each row (`predicted`) and the mean IMPs (`expected`).

    `log_probs` (R, 49): a network's log-probabilities of -24 to 24 IMPs.
    """
    best = log_probs.argmax(axis=1) - MAX_IMPS
    expected = (np.exp(log_probs) @ IMPS).astype(np.float32)
    return {"predicted": best.astype(np.int8), "expected": expected}


def call_accuracy(of: Predictions) -> dict[str, float | None]:
    """Compute the accuracy of predicted calls.

    `of`: columns (R,) with the recorded `call` and the result of `predict_calls`. Returns:

    - `total`: share of correct predictions among all calls.
    - `real`: share of correct predictions among bids.
    - `unreal`: share of correct predictions among passes, doubles and redoubles (Zhang et al. 2022,
      section 5.2.1).
    - `sure`: mean probability of the predicted call.
    - `calibration_error`: expected calibration error over ten bins (Guo et al. 2017, eq. 5).

    A value is None if there are no calls to compute it from.
    """
    right, bids = of["predicted"] == of["call"], of["call"] < BIDS
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
    """Compute the accuracy of predicted IMPs (Zhang et al. 2022, Fig. 13).

    `of`: columns (R,) with the true `imps` and the result of `predict_imps`. Returns:

    - `error`: mean absolute error of the expected IMPs.
    - `within_2`: share of examples in which this error is at most 2 IMPs.
    - `likeliest_right`: share of examples in which the most likely IMPs are exact.
    - `likeliest_within_2`: share of examples in which the most likely IMPs are at most 2 IMPs off.

    A value is None if there are no examples.
    """
    error = np.abs(of["expected"] - of["imps"])
    likeliest = np.abs(of["predicted"].astype(np.int64) - of["imps"])
    return {
        "error": _mean(error),
        "within_2": _mean(error <= IMP_TOLERANCE),
        "likeliest_right": _mean(likeliest == 0),
        "likeliest_within_2": _mean(likeliest <= IMP_TOLERANCE),
    }


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def accuracy_table(
    of: Predictions, measure: Callable[[Predictions], dict[str, float | None]]
) -> list[dict[str, Any]]:
    """Compute the accuracy on all examples, by range of auction length, and by type of call.

    `of`: columns (R,) of the examples. `measure`: function that computes the accuracy, such as
    `call_accuracy`. Returns one row for each group that has examples: its name `part`, the number
    of its `calls`, and the results of `measure`.
    """
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
"""For each target of a network: the columns of the accuracy table that its figure shows.

PREDICTORS and MEASURES hold the predictions of each target and their measure.
"""
