"""Compare bidding systems with recorded auctions: agreement of calls, value of contracts, and how
often the calls of tournament players fulfil the meaning that the natural system gives them.

The boards are in OVERTRICK_DATA/bridge; without them the bench fails with one line.
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
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.formats import zhang_tsv
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import bid_auctions

NATURAL_PAIR = "natural_5cM_strongNT"
MARGIN = 1.5  # IMPs by which our distance to par may exceed that of the recorded auctions


def run() -> Result:
    """Measure every data set. The ratio is the recorded distance to par plus 1.5 IMPs, divided by
    ours."""
    lines, distances = [], []
    for name in ("natural", "precision", "sayc"):
        rules = loader.load(name)
        of = system_agreement.select_auctions(_boards(name))
        shares = system_agreement.agreement_shares(of, system_agreement.follow_system(rules, of))
        lines.append(
            f"{rules.name} on {len(of.calls):,} auctions: "
            + ", ".join(f"{key} {shares[key]:.1%}" for key in ("opening", "response", "all"))
        )
    systems = {name: loader.load(name) for name in ("natural", "precision")}
    for dealt in systems:
        of = system_agreement.select_auctions(_boards(f"dd_{dealt}"))
        tables = _solved(f"dd_{dealt}")
        assert len(tables) == len(of.calls)
        theirs = distance_to_par(of, of.calls, tables)
        for ns, ew in itertools.product(systems.values(), repeat=2):
            ours = distance_to_par(of, bid_auctions(*of[:3], ns, ew), tables)
            if ns.name == ew.name == dealt:
                distances.append((ours, theirs + MARGIN))
            lines.append(
                f"{ns.name}-{ew.name} on dd_{dealt}: {ours:.2f} IMPs to par ({theirs:.2f})"
            )
    lines.append(_of_people(systems["natural"]))
    ours, peer = max(distances, key=lambda pair: pair[0] / pair[1])
    return Result(
        name="bidding_systems",
        work="; ".join(lines),
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
    """Read the valid boards of a data set."""
    if not _path(name).exists():
        raise SystemExit(f"no boards at {_path(name)}: set OVERTRICK_DATA")
    return board_files.load(_path(name)).boards


def _solved(name: str) -> Array:
    """Read the double-dummy tricks (G, 4, 5) of a data set without invalid boards."""
    digits = pq.read_table(_path(name), columns=["dd_table"])["dd_table"]
    return np.stack([zhang_tsv.parse_trick_table(each) for each in digits.to_pylist()])


def distance_to_par(of: RecordedAuctions, calls: Array, tables: Array) -> float:
    """Return the mean distance in IMPs between the double-dummy results of auctions and par."""
    reached = auction_rules.final_contracts(calls, of.dealer)
    tricks = tables[np.arange(len(calls)), reached.declarer, reached.strain].astype(np.int64)
    points = contract_results.north_south_points(reached, of.vulnerable, tricks)
    best = par(tables, of.dealer, of.vulnerable)
    return float(np.abs(scoring.imps(points - best.score)).mean())


def of_people(rules: loader.System, boards: list[Board]) -> dict[str, Any]:
    """Measure how often hands of natural pairs in tournaments are as their calls say."""
    of = system_agreement.select_auctions(boards, NATURAL_PAIR, "human")
    followed = system_agreement.follow_system(rules, of)
    explained = system_agreement.explain_recorded(rules, of)
    return system_agreement.meaning_table(rules, of, followed, explained)[-1]


def _of_people(rules: loader.System) -> str:
    shown = of_people(rules, _boards("boards"))
    return (
        f"{shown['calls']:,} calls of natural pairs in tournaments: {shown['true']:.1%} agree with "
        f"all meanings so far, bids leave {shown['width']:.2f} values of honour points possible; "
        f"{shown['explained']:.1%} are within their explanations, of {shown['explained_width']:.2f}"
    )
