"""Deal boards, let two bidding systems bid them, solve them double dummy, and store them.

The Parquet file has a row for each board. It has the columns of recorded boards: dealer,
vulnerability, deal (PBN), auction, system_ns, system_ew, contract, declarer. Further columns:

- `board`: the board number, from 1
- `dd_table`: the double-dummy tricks as 20 hexadecimal digits, seats N S E W by strains N S H D C
- `tricks`: the double-dummy tricks of the declaring side
- `score`: the points of North-South
- `par_score`, `par_contract`: the par result
- `imps`: the score of North-South against par, in IMPs

A board that is passed out has no declarer and no tricks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.sections import Count
from overtrick.core import Array, concat_columns
from overtrick.datasets import chunked_build
from overtrick.datasets.chunked_build import Columns, DatasetConfig, Progress
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.games.bridge import auction_rules, contract_results, double_dummy, scoring
from overtrick.games.bridge.boards import rotating_dealer_and_vulnerability
from overtrick.games.bridge.cards import SEATS, format_deal, hand_bits, random_deals
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats.zhang_tsv import format_trick_table
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.games.bridge.system.loader import System
from overtrick.storage import parquet

KIND = parquet.Kind("bridge deals", 1, "generate them again, in another file")
SHARD = 5  # boards per shard: about a second of work
SHARDS_PER_PART = 40
Order = Literal["random", "rotating"]


class DealsConfig(DatasetConfig):
    """Settings of generated boards: their number, and the bidding systems that bid them."""

    subject = "deals"

    boards: Count = 1000
    """Number of boards."""

    system_ns: str = "natural"
    """Bidding system of North-South."""

    system_ew: str = "natural"
    """Bidding system of East-West."""

    dealer: Order = "random"
    """Random, or rotating as on the boards of a duplicate match."""

    vulnerability: Order = "random"
    """Random, or rotating as on the boards of a duplicate match."""

    seed: int = Field(default=0, ge=0)
    """Random seed of the deals."""

    @model_validator(mode="after")
    def _systems_exist(self) -> DealsConfig:
        self.systems()
        return self

    def systems(self) -> tuple[System, System]:
        """Load the systems of North-South and East-West. Raises UserError."""
        return loader.load(self.system_ns), loader.load(self.system_ew)

    def default_path(self) -> Path:
        """Return a file named after the systems, the number of boards and the seed."""
        names = "-".join(Path(name).stem for name in (self.system_ns, self.system_ew))
        return Path(f"boards/deals-{names}-{self.boards}-{self.seed}.parquet")

    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the boards in the file `out`, or check the existing file.

        If `out` exists, raises UserError unless its boards have these settings. Returns a
        dictionary with the key `rows`, the number of boards.
        """
        systems = self.systems()
        # systems are compared by their rules, wherever their files are
        names = {"system_ns": systems[0].name, "system_ew": systems[1].name}
        rules = [loader.fingerprint(each) for each in systems]
        made_with = self.model_dump() | names | {"rules": rules}
        if not chunked_build.load_existing(out, KIND, made_with):
            shards = [(k * SHARD, size) for k, (size,) in enumerate(chunks(self.boards, SHARD))]
            # explanations of calls are not sent to the workers
            common = (self, *(replace(each, places=(), rules=()) for each in systems))
            parts = chunked_build.run_shards(
                out, KIND, made_with, "boards", _bid_and_solve, common, shards, SHARDS_PER_PART,
                pool, progress,
            )  # fmt: skip
            parquet.save(out, KIND, made_with, concat_columns(list(parts)))
        return {"rows": self.boards}


def deal_boards(
    first: int, count: int, dealer: Order, vulnerability: Order, rng: Generator
) -> tuple[Array, Array, Array]:
    """Deal G = `count` boards of a match, starting with board number `first` (from 0).

    `dealer`, `vulnerability`: "random", or "rotating" with the board number. Returns the seat that
    holds each card (G, 52), dealers (G,), and vulnerabilities (G,) as indices into VULNERABILITIES.
    """
    board = first + np.arange(count)
    holder = random_deals(count, rng)
    chance = rng.integers(4, size=(2, count))
    rotating = rotating_dealer_and_vulnerability(board)
    dealers = chance[0] if dealer == "random" else rotating[0]
    return holder, dealers, chance[1] if vulnerability == "random" else rotating[1]


def _bid_and_solve(
    _: Generator, common: tuple[DealsConfig, System, System], first: int, count: int
) -> Columns:
    """Deal `count` boards, bid them by two systems and solve them double dummy.

    `common`: the tuple (settings, system of North-South, system of East-West). `first`: the number
    of the first board, from 0. Returns the columns of the data set by name.
    """
    config, ns, ew = common
    rng = generator(config.seed, RngStream.INITIAL, first // SHARD)
    holder, dealer, vulnerable = deal_boards(first, count, config.dealer, config.vulnerability, rng)
    calls = auction_simulation.bid_auctions(hand_bits(holder), dealer, vulnerable, ns, ew)
    contracts = auction_rules.final_contracts(calls, dealer)
    tables = double_dummy.trick_tables(holder)
    tricks = tables[np.arange(count), contracts.declarer, contracts.strain].astype(np.int64)
    points = contract_results.north_south_points(contracts, vulnerable, tricks)
    best = par(tables, dealer, vulnerable)
    declarers = contract_results.format_declarers(contracts)
    texts: dict[str, Sequence[Any]] = {
        "dealer": [SEATS[seat] for seat in dealer],
        "vulnerability": [VULNERABILITIES[which] for which in vulnerable],
        "deal": [format_deal(each) for each in holder],
        "auction": [auction_rules.format_calls(each[each >= 0].tolist()) for each in calls],
        "system_ns": [ns.name] * count,
        "system_ew": [ew.name] * count,
        "contract": contract_results.format_contracts(contracts),
        "declarer": declarers,
        "dd_table": [format_trick_table(table) for table in tables],
        "tricks": [n if who else None for who, n in zip(declarers, tricks.tolist(), strict=True)],
        "par_contract": contract_results.describe_contracts(best.contracts),
    }
    return {
        "board": first + 1 + np.arange(count),
        **{name: np.array(column, object) for name, column in texts.items()},
        "score": points,
        "par_score": best.score,
        "imps": scoring.imps(points - best.score),
    }
