"""Small files for tests of bidding: boards bid by the rules of natural, and untrained networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overtrick.core.checkpoints import prefixed
from overtrick.datasets.bridge_deals import deal_boards
from overtrick.evaluation import bidders
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction import network_bidder, network_inputs
from overtrick.games.bridge.cards import SEATS, format_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats.zhang_tsv import format_trick_table
from overtrick.games.bridge.system import loader
from overtrick.learners.initialisation import initial_weights
from overtrick.storage import model_files

RULES_OF_OLD_RUNS = {"natural": "a8fb6af9ee5a2cbc", "precision": "910adcda6d43d253"}
"""Fingerprints of the rules by which the runs of tests/fixtures/runs_before_house read calls."""


def write_boards(path: Path, boards: int, seed: int, row_group_size: int | None = None) -> None:
    """Write boards with the auctions of natural and random tricks as a parquet file."""
    rng = np.random.default_rng(seed)
    holder, dealer, vulnerable = deal_boards(0, boards, "random", "random", rng)
    side = bidders.load_side("natural")
    calls = bidders.bid_auctions(side, side, holder, dealer, vulnerable, rng)
    tables = rng.integers(14, size=(boards, 4, 5))
    columns = {
        "dealer": [SEATS[seat] for seat in dealer],
        "vulnerability": [VULNERABILITIES[which] for which in vulnerable],
        "deal": [format_deal(each) for each in holder],
        "auction": [auction_rules.format_calls(each[each >= 0].tolist()) for each in calls],
        "system_ns": (["2/1", "unknown"] * boards)[:boards],
        "system_ew": (["Precision", "unknown"] * boards)[:boards],
        "sys_inferred_ew": ([None, "strong_club"] * boards)[:boards],
        "dd_table": [format_trick_table(table) for table in tables],
    }
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)


INPUTS: dict[str, network_inputs.Inputs] = {"calls": "features", "imps": "last_bid"}


def write_untrained_model(folder: Path) -> None:
    """Write a model of two untrained networks; the value network sees the last bid."""
    rng = np.random.default_rng(3)
    weights: dict[str, np.ndarray] = {}
    for name, outputs in network_bidder.OUTPUT_WIDTHS.items():
        sizes = (network_inputs.WIDTHS[INPUTS[name]], 8, outputs)
        weights |= prefixed(name, initial_weights(sizes, rng, 3.0))
    job = {
        "system": "natural",
        "system_version": {"natural": loader.fingerprint(loader.load("natural"))},
        "network": {"activation": "leaky_relu", "bfloat16": False},
    }
    model_files.save(model_files.Model(weights, "auction", job), folder)
