"""Bidders of the auction: bidding systems that follow their rules, and trained networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Policy, UserError, check_choice
from overtrick.distributed.workers import RngStream, generator
from overtrick.games.bridge import scoring
from overtrick.games.bridge.auction import features_from_observation, network_bidder
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_WIDTH, Auction
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork, NetworkBidder
from overtrick.games.bridge.auction.stored_networks import load_networks, load_system
from overtrick.games.bridge.auction_rules import LONGEST_AUCTION
from overtrick.games.bridge.cards import CARDS, TRICKS, hand_bits, parse_deal, parse_hand
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table
from overtrick.games.bridge.players.card_players import CARD_PLAYERS
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.games.bridge.system.loader import System
from overtrick.policies.rollout import play
from overtrick.storage import locate, model_files, parquet
from overtrick.storage.bucket_copy import local_copy
from overtrick.storage.champions import default_champion


class Side(NamedTuple):
    """Partnership of two bidders: its bidding system and, if trained, its bidding networks."""

    name: str
    system: System
    calls: BiddingNetwork | None = None  # policy network; None: bid by the system's rules
    imps: BiddingNetwork | None = None  # value network, which predicts IMPs
    cards: str | None = None  # card player, a name in CARD_PLAYERS; None: cards are not played

    def policy(self, ns: System, ew: System, epsilon: float = 0.0) -> Policy:
        """Return the policy with which this partnership bids.

        `ns`, `ew`: the bidding systems of North-South and East-West, which give the calls their
        meaning. `epsilon`: probability with which a bidding network makes a random one of its
        likely calls.
        """
        if self.calls is None:
            return network_bidder.SystemBidder(ns, ew)
        return NetworkBidder(ns, ew, self.calls, self.imps, epsilon)


def load_side(name: str) -> Side:
    """Load a partnership that bids by a bidding system or by trained networks.

    `name`: the name or file of a bidding system, or a model as `locate.model_folder` takes it, such
    as champion:NAME. A plus sign and a card player may follow, as in natural+search. Raises
    UserError for an unknown system, model or card player. Raises UserError also for a model without
    a bidding policy network, or if the rules of its system have changed since it was trained.
    """
    bidder, cards = split_player(name)
    side = _load_bidder(bidder)
    return side if cards is None else side._replace(name=f"{side.name}+{cards}", cards=cards)


def split_player(name: str) -> tuple[str, str | None]:
    """Split BIDDER+CARD_PLAYER into the names of both; the second is None without a card player.

    Other names may contain a plus sign, too. Raises UserError for an unknown card player after the
    name of a bidding system.
    """
    bidder, plus, cards = name.rpartition("+")
    if not plus or Path(name).exists():
        return name, None
    if cards not in CARD_PLAYERS and bidder not in loader.system_names():
        return name, None
    check_choice("the card player", cards, tuple(CARD_PLAYERS))
    return bidder, cards


def _load_bidder(name: str) -> Side:
    folder = locate.model_folder(name)
    if not model_files.is_model(folder):
        rules = loader.load(name)
        return Side(rules.name, rules)
    stored = model_files.load(folder, Auction.name)
    calls, imps = load_networks(stored.weights, stored.job, str(folder))
    if calls is None:
        raise UserError(f"the model in {folder} has no network of calls: a bidder needs one")
    label = folder.parent.name if folder.name == "model" else folder.name
    return Side(label, load_system(stored.job, str(folder)), calls, imps)


def is_bidding_system(name: str) -> bool:
    """Return True if `name` is a bidding system's name, or the path of a bidding system's file.

    A card player may follow, as in natural+search.
    """
    bidder, _ = split_player(name)
    return bidder in loader.system_names() or Path(bidder).suffix == loader.SUFFIX


def default_bidder() -> str:
    """Return the default bidder of commands: the champion of the auction, as champion:NAME."""
    champion = default_champion(Auction.name, {})
    assert champion is not None, "the package has a champion of the auction"
    return champion


def find_bidder(what: str) -> Path | None:
    """Find the folder of a model that bids in the auction; return None for anything else.

    `what`: the path of the model, or the name of its run. Raises UserError for a damaged model.
    """
    try:
        folder = locate.existing_model(split_player(what)[0])
    except UserError:  # no run of this name: it may be a bidding system
        return None
    stored = model_files.load(folder)
    bids = any(name.startswith("calls.") for name in stored.weights)
    return folder if stored.game == Auction.name and bids else None


def bid_auctions(
    ns: Side, ew: Side, holder: Array, dealer: Array, vulnerable: Array, rng: Generator
) -> Array:
    """Bid G deals; return the calls (G, L) int8, padded with -1 after the end of the auction.

    `ns`, `ew`: the two partnerships. `holder` (G, 52): the seat that holds each card. `dealer`
    (G,): a seat. `vulnerable` (G,): 0 None, 1 NS, 2 EW, 3 All. L is LONGEST_AUCTION if a
    partnership bids by a network. Otherwise L is `auction_simulation.MAX_CALLS`.
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
    """Play a duplicate match of bidding; return the IMPs (G,) that side `a` wins on each deal.

    `a`, `b`: partnerships. A row of `deals` (G, 74) has the holders of the 52 cards, dealer,
    vulnerability and 20 double-dummy tricks, which score the contracts. Each deal is bid at two
    tables: `a` is North-South at the first table and East-West at the second.
    """
    game = Auction("points", seats=2)
    points = []
    for (ns, ew), child in zip(((a, b), (b, a)), rng.spawn(2), strict=True):
        pair = [side.policy(ns.system, ew.system) for side in (ns, ew)]
        points.append(play(game, pair, deals, child, recorded=()).payoff[:, 0])
    return scoring.imps((points[0] - points[1]).astype(np.int64))


def rank_calls(
    side: Side, other: Side, calls: Sequence[int], hand: str, dealer: int, vulnerable: int
) -> list[network_bidder.CandidateCall]:
    """List the candidate calls of a bidder for a hand and an auction, best first.

    The best call of a network has the highest expected IMPs or, without a value network, the
    highest probability. The first candidate of a bidding system is the call of its rules; then
    follow, with probability 0, the other calls that it makes here with some hand.

    - `side`: the bidder's partnership; `other`: the opponents' partnership.
    - `calls`: the auction so far.
    - `hand`: the bidder's hand in PBN.
    - `dealer`: a seat. `vulnerable`: 0 None, 1 NS, 2 EW, 3 All.

    Raises UserError for an invalid hand, or an auction that is over.
    """
    own = sorted(set(parse_hand(hand)))
    if len(own) != TRICKS:
        raise UserError(f"a hand has 13 cards, but '{hand}' has {len(own)}")
    turn = Auction("nothing", seats=2).observation_after(
        dealer, vulnerable, sum(1 << c for c in own), calls
    )
    ns, ew = (side, other) if turn.seat[0] == 0 else (other, side)
    if side.calls is None:
        (made,) = network_bidder.SystemBidder(ns.system, ew.system).probs(turn).argmax(axis=1)
        pair = dealer, vulnerable, ns.system, ew.system
        others = [c for c in auction_simulation.possible_calls(calls, *pair) if c != made]
        return [
            network_bidder.CandidateCall(call, float(call == made), None)
            for call in (int(made), *others)
        ]
    bidder = NetworkBidder(ns.system, ew.system, side.calls, side.imps)
    return bidder.candidates(turn)[0]


def solved_deals(path: str) -> Iterator[Deals]:
    """Yield the deals of a Parquet file that have double-dummy tricks, in batches (G, 74).

    The columns of a batch are the holders of the 52 cards, dealer, vulnerability and 20
    double-dummy tricks. The file has columns `deal` and `dd_table`; rows without `dd_table` are
    left out. Dealer and vulnerability are set to North and None. Raises UserError for an invalid
    deal, or for a file without double-dummy tricks.
    """
    number = found = 0
    for columns in parquet.batches(Path(path), {"deal": str, "dd_table": str}, {}):
        rows = np.zeros((len(columns["deal"]), DEAL_WIDTH), np.int8)
        solved = np.zeros(len(rows), np.bool_)
        for k, (deal, table) in enumerate(zip(*columns.values(), strict=True)):
            number += 1
            if table is None:
                continue
            try:
                if deal is None:
                    raise UserError("it has no deal")
                rows[k, :CARDS] = parse_deal(deal)
                rows[k, DD_TABLE:] = parse_trick_table(table).ravel()
            except UserError as error:
                raise UserError(f"{path}: row {number}: {error}") from None
            solved[k] = True
        found += int(solved.sum())
        yield rows[solved]
    if not found:
        raise UserError(f"{path} holds no deals with double-dummy tricks")


@lru_cache(maxsize=2)
def sample_deals(files: tuple[str, ...], limit: int, seed: int) -> Deals:
    """Sample uniformly at most `limit` deals (G, 74) of some files, as `solved_deals` yields them.

    `files`: the paths or URLs of the files. Each deal draws a random number. The sample is the
    `limit` deals with the lowest numbers, in the order of the files. Raises UserError as
    `solved_deals` does.
    """
    rng = generator(seed, RngStream.INITIAL)
    deals, keys, pending = np.zeros((0, DEAL_WIDTH), np.int8), np.zeros(0), list[Deals]()
    parts = (part for path in files for part in solved_deals(str(local_copy(path, "deals"))))
    for part in chain(parts, [None]):
        pending += [] if part is None else [part]
        if part is None or sum(map(len, pending)) >= limit:  # sorting for every part is slow
            deals = np.concatenate([deals, *pending])
            keys = np.concatenate([keys, rng.random(len(deals) - len(keys))])
            chosen = np.sort(np.argsort(keys)[:limit])
            deals, keys, pending = deals[chosen], keys[chosen], []
    return deals


def rotate_deals(deals: Deals, rng: Generator) -> Deals:
    """Rotate the hands of each deal (G, 74) by a random number of seats.

    The double-dummy tricks are rotated with the hands. The dealer and the vulnerability are drawn
    at random, too. The columns are those of `solved_deals`.
    """
    turn, dealer, vulnerable = rng.integers(4, size=(3, len(deals)))
    found = deals.copy()
    found[:, :CARDS] = (deals[:, :CARDS] + turn[:, None]) % 4
    found[:, CARDS], found[:, CARDS + 1] = dealer, vulnerable
    seats = (np.arange(4) - turn[:, None]) % 4
    tables = deals[:, DD_TABLE:].reshape(-1, 4, 5)
    found[:, DD_TABLE:] = tables[np.arange(len(deals))[:, None], seats].reshape(len(deals), 20)
    return found
