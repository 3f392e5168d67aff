"""Who may sit at the table to bid: systems by their rules, and trained networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field, ValidationInfo, field_validator

from overtrick.config.job_file import Job, Opponent
from overtrick.core import Array, Deals, Policy, UserError
from overtrick.distributed.workers import RngStream, generator
from overtrick.games.bridge import scoring
from overtrick.games.bridge.auction import (
    features_from_observation,
    network_bidder,
    stored_networks,
)
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_WIDTH, Auction
from overtrick.games.bridge.auction.network_bidder import (
    BiddingNetwork,
    CandidateCall,
    NetworkBidder,
)
from overtrick.games.bridge.auction_rules import LONGEST_AUCTION
from overtrick.games.bridge.cards import CARDS, TRICKS, hand_bits, parse_deal, parse_hand
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.games.bridge.system.loader import System
from overtrick.policies.rollout import play
from overtrick.storage import locate, model_files, parquet


class BiddingSystemJob(Job):
    """What a job says of the calls of its network."""

    system: Opponent = Field(default="natural", description="what its calls mean")
    system_version: dict[str, str] = Field(
        default={}, description="the version of its rules; a new run takes the present one"
    )

    @field_validator("system")
    @classmethod
    def _it_is_there(cls, name: str) -> str:
        loader.load(name)
        return name

    @field_validator("system_version")
    @classmethod
    def _a_version_is_told(cls, rules: dict[str, str], told: ValidationInfo) -> dict[str, str]:
        if "system" not in told.data:  # which is wrong, and says so
            return rules
        own = loader.load(told.data["system"])
        return {own.name: loader.fingerprint(own), **rules}


class Side(NamedTuple):
    """A pair of players: how it bids, and what its calls mean."""

    name: str
    system: System
    calls: BiddingNetwork | None = None  # none: it bids by the rules of its system
    imps: BiddingNetwork | None = None

    def policy(self, ns: System, ew: System, epsilon: float = 0.0) -> Policy:
        """A player at a table where the sides' calls have these meanings."""
        if self.calls is None:
            return network_bidder.SystemBidder(ns, ew)
        return NetworkBidder(ns, ew, self.calls, self.imps, epsilon)


def load_side(what: str) -> Side:
    """A side by the name or file of its system, or by a model: its folder, that of its run, or what
    it is registered as. Raises UserError."""
    folder = locate.model_folder(what)
    if not (folder / model_files.CARD).exists():
        rules = loader.load(what)
        return Side(rules.name, rules)
    stored = model_files.load(folder, Auction.name)
    calls, imps = stored_networks.load_networks(stored.weights, stored.job, str(folder))
    if calls is None:
        raise UserError(f"the model in {folder} only values calls: to bid takes one of calls, too")
    name = folder.parent.name if folder.name == "model" else folder.name
    return Side(name, stored_networks.load_system(stored.job, str(folder)), calls, imps)


def bid_auctions(
    ns: Side, ew: Side, holder: Array, dealer: Array, vulnerable: Array, rng: Generator
) -> Array:
    """(G, L) int8 how two sides bid deals, padded with -1; L depends on the sides alone.

    holder (G, 52), dealer and vulnerable (G,) as `trainers.deals.dealt` has them.
    """
    if ns.calls is None and ew.calls is None:
        return auction_simulation.bid_auctions(
            hand_bits(holder), dealer, vulnerable, ns.system, ew.system
        )
    deals = np.zeros((len(holder), DEAL_WIDTH), np.int8)
    deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1] = holder, dealer, vulnerable
    pair = [side.policy(ns.system, ew.system) for side in (ns, ew)]
    batch = play(Auction("nothing", seats=2), pair, deals, rng).batch
    place = features_from_observation.calls_made(batch.observation)
    calls = np.full((len(holder), LONGEST_AUCTION), -1, np.int8)
    calls[batch.game, place] = batch.action
    return calls


def imps_between(a: Side, b: Side, deals: Deals, rng: Generator) -> Array:
    """(G,) the IMPs that side a wins on solved deals (G, 74): each is bid at two tables, at the
    first of which a sits North-South."""
    game = Auction("points", seats=2)
    points = []
    for (ns, ew), child in zip(((a, b), (b, a)), rng.spawn(2), strict=True):
        pair = [side.policy(ns.system, ew.system) for side in (ns, ew)]
        points.append(play(game, pair, deals, child, recorded=()).payoff[:, 0])
    found: Array = scoring.imps((points[0] - points[1]).astype(np.int64))
    return found


def rank_calls(
    side: Side, other: Side, calls: Sequence[int], hand: str, dealer: int, vulnerable: int
) -> list[CandidateCall]:
    """What a bidder with a hand in PBN thinks of after some calls, the best first. Raises UserError
    for a hand that is none, a side that bids by rules, or an auction that is over."""
    if side.calls is None:
        raise UserError(f"{side.name} bids by rules: ask a trained network")
    own = sorted(set(parse_hand(hand)))
    if len(own) != TRICKS:
        raise UserError(f"a hand has 13 cards, but '{hand}' has {len(own)}")
    turn = Auction("nothing", seats=2).observation_after(
        dealer, vulnerable, sum(1 << c for c in own), calls
    )
    ns, ew = (side, other) if turn.seat[0] == 0 else (other, side)
    bidder = NetworkBidder(ns.system, ew.system, side.calls, side.imps)
    return bidder.candidates(turn)[0]


def solved_deals(path: str) -> Iterator[Deals]:
    """(G, 74) the deals of a Parquet file with columns deal and dd_table, some thousands at a time;
    North deals, nobody is vulnerable. Raises UserError."""
    number = found = 0
    for columns in parquet.batches(Path(path), ("deal", "dd_table"), ()):
        rows = np.zeros((len(columns["deal"]), DEAL_WIDTH), np.int8)
        kept = np.zeros(len(rows), np.bool_)
        for k, (deal, table) in enumerate(zip(*columns.values(), strict=True)):
            number += 1
            if table is None:
                continue
            try:
                if not isinstance(deal, str) or not isinstance(table, str):
                    raise UserError("its deal and dd_table must be text")
                rows[k, :CARDS], rows[k, DD_TABLE:] = (
                    parse_deal(deal),
                    parse_trick_table(table).ravel(),
                )
            except UserError as error:
                raise UserError(f"{path}: row {number}: {error}") from None
            kept[k] = True
        found += int(kept.sum())
        yield rows[kept]
    if not found:
        raise UserError(f"{path} holds no deals with double-dummy tricks")


@lru_cache(maxsize=2)
def sample_deals(path: str, most: int, seed: int) -> Deals:
    """(G, 74) the solved deals of a file in its order, at most so many, all as likely: those with
    the lowest random numbers. Raises UserError."""
    rng = generator(seed, RngStream.INITIAL)
    deals, luck, more = np.zeros((0, DEAL_WIDTH), np.int8), np.zeros(0), list[Deals]()
    for part in chain(solved_deals(path), [None]):
        more += [] if part is None else [part]
        if part is None or sum(map(len, more)) >= most:  # now and then, for to sort takes a moment
            deals = np.concatenate([deals, *more])
            luck = np.concatenate([luck, rng.random(len(deals) - len(luck))])
            kept = np.sort(np.argsort(luck)[:most])
            deals, luck, more = deals[kept], luck[kept], []
    return deals


def rotate_deals(deals: Deals, rng: Generator) -> Deals:
    """The same deals with the hands at other seats, any dealer and any vulnerability."""
    turn, dealer, vulnerable = rng.integers(4, size=(3, len(deals)))
    found = deals.copy()
    found[:, :CARDS] = (deals[:, :CARDS] + turn[:, None]) % 4
    found[:, CARDS], found[:, CARDS + 1] = dealer, vulnerable
    seats = (np.arange(4) - turn[:, None]) % 4
    tables = deals[:, DD_TABLE:].reshape(-1, 4, 5)
    found[:, DD_TABLE:] = tables[np.arange(len(deals))[:, None], seats].reshape(len(deals), 20)
    return found
