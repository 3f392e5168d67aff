"""Boards that two bidding systems bid, solved double dummy and kept: a Parquet file for anyone.

A row has the columns of real boards: dealer, vulnerability, deal (PBN), auction, system_ns,
system_ew, contract, declarer; dd_table, 20 hexadecimal digits, seats N S E W by strains N S H D C;
tricks, what the declaring side makes double dummy; score, the points of North-South; par_score and
par_contract; imps, those of the score against par. Where all pass there is no declarer and there
are no tricks.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Section, validated
from overtrick.config.overrides import field_overrides
from overtrick.core import Array
from overtrick.datasets import chunked_build
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.games.bridge import auction_rules, contract_results, double_dummy, scoring
from overtrick.games.bridge.cards import SEATS, format_deal, hand_bits, random_deals
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats.zhang_tsv import format_trick_table
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.games.bridge.system.loader import System
from overtrick.storage import parquet

KIND = parquet.Kind("bridge deals", 1, "generate them again, in another file")
SHARD = 5  # boards, whatever the number of workers: about a second of work
SHARDS_PER_PART = 40  # shards of a part
Order = Literal["random", "rotating"]

ROUND = 16  # boards after which dealer and vulnerability of a duplicate match repeat
ROTATION = np.array([(board + board // 4) % 4 for board in range(ROUND)])
"""Vulnerability by board: None NS EW All, NS EW All None, and so on."""


class DealsConfig(Section):
    """Which boards, and who bids them."""

    boards: Count = Field(default=1000, description="boards that are dealt")
    system_ns: str = Field(default="natural", description="what North-South bid")
    system_ew: str = Field(default="natural", description="what East-West bid")
    dealer: Order = Field(default="random", description="or rotating, as boards of a match")
    vulnerability: Order = Field(default="random", description="the same")
    seed: int = Field(default=0, ge=0, description="same seed, same boards")

    def systems(self) -> tuple[System, System]:
        """Both systems, North-South's first. Raises Refused."""
        return loader.load(self.system_ns), loader.load(self.system_ew)


def plan_of(overrides: Sequence[str]) -> DealsConfig:
    """The plan of key=value overrides. Raises Refused."""
    plan = validated(DealsConfig, field_overrides(DealsConfig, overrides, "deals"))
    plan.systems()
    return plan


def place_of(plan: DealsConfig) -> Path:
    """Where the boards of a plan lie if nobody says another place."""
    names = "-".join(Path(name).stem for name in (plan.system_ns, plan.system_ew))
    return Path(f"boards/deals-{names}-{plan.boards}-{plan.seed}.parquet")


def generate(
    plan: DealsConfig, out: Path, crew: WorkerPool, progress: chunked_build.Progress
) -> dict[str, Any]:
    """Make the boards, or those that are still missing: the file, rows, and the seconds taken.

    A file that is there already and was made by this plan, with systems that say the same wherever
    their files lie, stays as it is. Raises Refused where anything else lies, or nothing can be
    written.
    """
    began = time.monotonic()
    systems = plan.systems()
    made_with = plan.model_dump() | {
        "system_ns": systems[0].name,
        "system_ew": systems[1].name,
        "rules": [loader.fingerprint(each) for each in systems],
    }
    if not chunked_build.load_existing(out, KIND, made_with):
        shards = [
            (first, min(SHARD, plan.boards - first)) for first in range(0, plan.boards, SHARD)
        ]
        common = (plan, *(replace(each, places=(), rules=()) for each in systems))  # words stay
        columns = chunked_build.run_shards(
            out, KIND, made_with, "boards", _solved, common, shards, SHARDS_PER_PART, crew, progress
        )
        parquet.save(out, KIND, made_with, columns)
        shutil.rmtree(chunked_build.parts_folder(out))
    return {"path": str(out), "rows": plan.boards, "seconds": time.monotonic() - began}


def deal_boards(
    first: int, count: int, dealer: Order, vulnerability: Order, rng: Generator
) -> tuple[Array, Array, Array]:
    """Boards from number `first` (from 0) on: who holds each card (G, 52), dealers (G,) and
    vulnerabilities (G,)."""
    board = first + np.arange(count)
    holder = random_deals(count, rng)
    chance = rng.integers(4, size=(2, count))
    dealers = chance[0] if dealer == "random" else board % 4
    return holder, dealers, chance[1] if vulnerability == "random" else ROTATION[board % ROUND]


def _solved(
    rng: Generator, common: tuple[DealsConfig, System, System], first: int, count: int
) -> dict[str, Array]:
    """The rows of one shard."""
    plan, ns, ew = common
    luck = generator(plan.seed, RngStream.INITIAL, first // SHARD)
    holder, dealer, vulnerable = deal_boards(first, count, plan.dealer, plan.vulnerability, luck)
    calls = auction_simulation.bid_auctions(hand_bits(holder), dealer, vulnerable, ns, ew)
    contracts = auction_rules.final_contracts(calls, dealer)
    tables = double_dummy.trick_tables(holder)
    tricks = tables[np.arange(count), contracts.declarer, contracts.strain].astype(np.int64)
    points = contract_results.north_south_points(contracts, vulnerable, tricks)
    best = par(tables, dealer, vulnerable)
    at_par = auction_rules.Contracts(best.declarer, best.level, best.strain, best.doubled)
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
        "tricks": [
            None if who is None else int(n) for who, n in zip(declarers, tricks, strict=True)
        ],
        "par_contract": contract_results.describe_contracts(at_par),
    }
    return {
        "board": first + 1 + np.arange(count),
        **{name: np.array(column, object) for name, column in texts.items()},
        "score": points,
        "par_score": best.score,
        "imps": scoring.imps(points - best.score),
    }
