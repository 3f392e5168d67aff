"""Bid a bridge hand by the rules of a bidding system, and explain every call of the auction."""

from overtrick.evaluation.bidders import load_side, rank_calls
from overtrick.games.bridge.auction_rules import CALLS, parse_calls
from overtrick.games.bridge.system.auction_simulation import explain_calls

natural = load_side("natural")
auction = parse_calls("1N P")
best, *others = rank_calls(natural, natural, auction, "AQ42.K5.QT93.K76", dealer=0, vulnerable=0)

calls = [*auction, best.call]
meanings = explain_calls(calls, 0, 0, natural.system, natural.system)
for call, meaning in zip(calls, meanings, strict=True):
    print(f"{CALLS[call]:>3}  {meaning}")
