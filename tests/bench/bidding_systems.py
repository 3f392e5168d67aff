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
from overtrick.games.bridge import auction, result, rows, score, system
from overtrick.games.bridge.bidding import auctions
from overtrick.games.bridge.cards import SEATS, hands, read
from overtrick.games.bridge.par import par
from overtrick.games.bridge.result import VULNERABILITIES
from overtrick.trainers import agreement
from overtrick.trainers.agreement import Auctions

SAYC = Path(__file__).parents[1] / "laws" / "sayc.bidding"
NATURAL_PAIR = "natural_5cM_strongNT"
MARGIN = 1.5  # IMPs by which the way to par may be longer than the recorded one


def run() -> Result:
    """The figures of every set; the ratio is of the recorded way to par, and 1.5 more, to ours."""
    said, ways = [], []
    for name, recorded in (("natural",) * 2, ("precision",) * 2, (str(SAYC), "sayc")):
        rules = system.load(name)
        of, _ = recorded_boards(recorded)
        shares = agreement.shares(of, agreement.followed(rules, of))
        said.append(
            f"{rules.name} on {len(of.calls):,} auctions: "
            + ", ".join(f"{key} {shares[key]:.1%}" for key in ("opening", "response", "all"))
        )
    systems = {name: system.load(name) for name in ("natural", "precision")}
    for dealt in systems:
        of, tables = recorded_boards(f"dd_{dealt}")
        theirs = _way_to_par(of, of.calls, tables)
        for ns, ew in itertools.product(systems.values(), repeat=2):
            ours = _way_to_par(of, auctions(*of[:3], ns, ew), tables)
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


def recorded_boards(
    name: str, only: dict[str, Any] | None = None, most: int | None = None
) -> tuple[Auctions, Array]:
    """The auctions of a set, or the first so many, and its double-dummy tricks if it has them."""
    path = DATA / "bridge" / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(f"no boards at {path}: set OVERTRICK_DATA")
    table = pq.read_table(path).slice(0, most)
    if only is not None:
        for column, value in only.items():
            table = table.filter(np.array(table[column].to_pylist(), object) == value)
    columns = table.to_pydict()
    told = [auction.read(text) for text in columns["auction"]]
    calls = np.full((len(told), max(map(len, told))), -1, np.int8)
    for row, made in enumerate(told):
        calls[row, : len(made)] = made
    of = Auctions(
        hands(np.stack([read(deal) for deal in columns["deal"]])),
        np.array([SEATS.index(dealer) for dealer in columns["dealer"]]),
        np.array([VULNERABILITIES.index(which) for which in columns["vulnerability"]]),
        calls,
    )
    digits = columns["dd_table"] if name.startswith("dd_") else []
    return of, np.array([rows.table_read(each) for each in digits])


def _way_to_par(of: Auctions, calls: Array, tables: Array) -> float:
    """IMPs between what auctions come to double dummy and par, on average."""
    reached = auction.contract_of(calls, of.dealer)
    tricks = tables[np.arange(len(calls)), reached.declarer, reached.strain].astype(np.int64)
    points = result.points(reached, of.vulnerable, tricks)
    best = par(tables, of.dealer, of.vulnerable)
    return float(np.abs(score.imps(points - best.score)).mean())


def shown_by_people(rules: system.System) -> tuple[Array, Array]:
    """Of each call but passes of natural pairs in tournaments, whether the hand has the points and
    lengths that its player's calls so far show; of each bid, how many numbers of honour points they
    leave."""
    counted = []
    for side, column in ((0, "sys_inferred_ns"), (1, "sys_inferred_ew")):
        of, _ = recorded_boards("boards", {"kind": "human", column: NATURAL_PAIR})
        by = agreement.followed(rules, of)
        seat = (of.dealer[:, None] + np.arange(of.calls.shape[1])) % 4
        part = (of.calls >= 0) & (of.calls != auction.PASS) & (seat % 2 == side)
        counted.append((by.true[part], by.width[part & (of.calls < auction.BIDS)]))
    true, width = (np.concatenate(each) for each in zip(*counted, strict=True))
    return true, width


def _of_people(rules: system.System) -> str:
    true, width = shown_by_people(rules)
    return (
        f"{len(true):,} calls of natural pairs in tournaments: {true.mean():.1%} are true of all "
        f"that is shown so far, bids leave {width.mean():.2f} numbers of honour points"
    )
