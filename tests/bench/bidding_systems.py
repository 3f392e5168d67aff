"""Bidding systems beside recorded auctions: how many calls agree, what contracts are worth, and how
far the calls of tournament players mean what the natural system says.

It reads the boards in OVERTRICK_DATA/bridge and fails with a line where they are absent.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tests.bench.measure import Result
from tests.data import DATA

from overtrick.core import Array
from overtrick.datasets import board_files
from overtrick.evaluation import system_agreement
from overtrick.evaluation.system_agreement import RecordedAuctions
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.formats import zhang_tsv
from overtrick.games.bridge.formats.pbn_lin import Board
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import bid_auctions

SAYC = Path(__file__).parents[1] / "laws" / "sayc.bidding"
NATURAL_PAIR = "natural_5cM_strongNT"
MARGIN = 1.5  # IMPs by which the way to par may be longer than the recorded one


def run() -> Result:
    """The figures of every set; the ratio is of the recorded way to par, and 1.5 more, to ours."""
    said, ways = [], []
    for name, file in (("natural",) * 2, ("precision",) * 2, (str(SAYC), "sayc")):
        rules = loader.load(name)
        of = system_agreement.select_auctions(_boards(file))
        shares = system_agreement.agreement_shares(of, system_agreement.follow_system(rules, of))
        said.append(
            f"{rules.name} on {len(of.calls):,} auctions: "
            + ", ".join(f"{key} {shares[key]:.1%}" for key in ("opening", "response", "all"))
        )
    systems = {name: loader.load(name) for name in ("natural", "precision")}
    for dealt in systems:
        of = system_agreement.select_auctions(_boards(f"dd_{dealt}"))
        tables = _solved(f"dd_{dealt}")
        assert len(tables) == len(of.calls)
        theirs = _way_to_par(of, of.calls, tables)
        for ns, ew in itertools.product(systems.values(), repeat=2):
            ours = _way_to_par(of, bid_auctions(*of[:3], ns, ew), tables)
            if ns.name == ew.name == dealt:
                ways.append((ours, theirs + MARGIN))
            said.append(f"{ns.name}-{ew.name} on dd_{dealt}: {ours:.2f} IMPs to par ({theirs:.2f})")
    said.append(_of_people(systems["natural"]))
    ours, peer = max(ways, key=lambda pair: pair[0] / pair[1])
    return Result(
        name="bidding_systems",
        work="; ".join(said),
        ours=ours,
        peer=peer,
        peer_name="recorded auctions and 1.5",
        unit="IMPs to par",
        ratio=peer / ours,
        goal=1.0,
    )


def _path(name: str) -> Path:
    return DATA / "bridge" / f"{name}.parquet"


def _boards(name: str) -> list[Board]:
    """The sound boards of a set."""
    if not _path(name).exists():
        raise SystemExit(f"no boards at {_path(name)}: set OVERTRICK_DATA")
    return board_files.load(_path(name)).boards


def _solved(name: str) -> Array:
    """(G, 4, 5) double-dummy tricks of a set in which all boards are sound."""
    digits = pq.read_table(_path(name), columns=["dd_table"])["dd_table"]
    return np.stack([zhang_tsv.parse_trick_table(each) for each in digits.to_pylist()])


def _way_to_par(of: RecordedAuctions, calls: Array, tables: Array) -> float:
    """IMPs between what auctions come to double dummy and par, on average."""
    reached = auction_rules.final_contracts(calls, of.dealer)
    tricks = tables[np.arange(len(calls)), reached.declarer, reached.strain].astype(np.int64)
    points = contract_results.north_south_points(reached, of.vulnerable, tricks)
    best = par(tables, of.dealer, of.vulnerable)
    return float(np.abs(scoring.imps(points - best.score)).mean())


def of_people(rules: loader.System, boards: list[Board]) -> dict[str, Any]:
    """How far the calls of natural pairs in tournaments show what they have, of all types."""
    of = system_agreement.select_auctions(boards, NATURAL_PAIR, "human")
    return system_agreement.meaning_table(rules, of, system_agreement.follow_system(rules, of))[-1]


def _of_people(rules: loader.System) -> str:
    told = of_people(rules, _boards("boards"))
    return (
        f"{told['calls']:,} calls of natural pairs in tournaments: {told['true']:.1%} are true of "
        f"all that is shown so far, bids leave {told['width']:.2f} numbers of honour points"
    )
