"""Measure auctions per second by rules and the features of their calls, on one core."""

from __future__ import annotations

import itertools
from statistics import median

import numpy as np
from tests.bench.measure import Result, seconds_of

from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction import features
from overtrick.games.bridge.cards import hand_bits, random_deals
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import bid_auctions

DEALS, ROWS, ROUNDS = 100_000, 2_000, 5
ENOUGH = 2000  # auctions a second


def run() -> Result:
    """Bid every pairing of the two systems. The first call compiles and is not measured."""
    rng = np.random.default_rng(0)
    cards = hand_bits(random_deals(DEALS, rng))
    dealer, vulnerable = rng.integers(4, size=(2, DEALS))
    of = cards, dealer, vulnerable
    few = tuple(part[:ROWS] for part in of)
    rates, lines = [], []
    for names in itertools.product(("natural", "precision"), repeat=2):
        ns, ew = map(loader.load, names)
        bid_auctions(*few, ns, ew)
        found = []
        seconds = seconds_of(
            lambda ns=ns, ew=ew, found=found: found.append(bid_auctions(*of, ns, ew))
        )
        lengths = (found[0] >= 0).sum(axis=1)
        for row, length in zip(found[0], lengths, strict=True):
            auction_rules.check_auction(row[:length])  # each auction is legal and complete
        rates.append(DEALS / seconds)
        lines.append(f"{'-'.join(names)} mean length {lengths.mean():.2f}, at most {lengths.max()}")
    rules = loader.load("natural")
    calls = bid_auctions(*few, rules, rules)
    out = np.empty(((calls >= 0).sum(), features.WIDTH), np.float32)
    rows = median(
        len(out) / seconds_of(lambda: features.auction_features(*few, calls, rules, rules, out))
        for _ in range(ROUNDS + 1)
    )
    return Result(
        name="bidding_speed",
        work=f"{DEALS:,} random deals bid by rules, one core, every auction legal: "
        f"{'; '.join(lines)}; {rows:,.0f} rows of {features.WIDTH} features a second",
        ours=min(rates),
        peer=ENOUGH,
        peer_name="enough for training",
        unit="auctions/s",
        ratio=min(rates) / ENOUGH,
        goal=1.0,
    )
