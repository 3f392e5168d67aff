"""Compute North-South's scores of contracts, and format contracts in bridge notation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, scoring
from overtrick.games.bridge.auction_rules import PASSED_OUT, STRAIN_LETTERS, Contracts
from overtrick.games.bridge.cards import SEATS
from overtrick.games.bridge.par import SIDE_VULNERABLE

VULNERABILITIES = ("None", "NS", "EW", "All")


def north_south_points(contracts: Contracts, vulnerable: Array, tricks: Array) -> Array:
    """Return North-South's duplicate points (G,) for contracts and the tricks won in them.

    vulnerable: (G,) 0 None, 1 NS, 2 EW, 3 All. tricks: (G,) tricks of the declaring side, ignored
    where all four players passed.
    """
    side = contracts.declarer % 2
    won = scoring.duplicate_points(
        np.maximum(contracts.level, 1), np.maximum(contracts.strain, 0), contracts.doubled,
        SIDE_VULNERABLE[vulnerable, side], tricks,
    )  # fmt: skip
    return np.where(contracts.level == 0, 0, np.where(side == 0, won, -won))


def format_contracts(contracts: Contracts) -> list[str]:
    """Format contracts as "4S", "3NX" or "2HXX"; "Pass" where all passed."""
    rows = zip(contracts.level, contracts.strain, contracts.doubled, strict=True)
    return [f"{lv}{STRAIN_LETTERS[st]}{'X' * dbl}" if lv else PASSED_OUT for lv, st, dbl in rows]


def format_declarers(contracts: Contracts) -> list[str | None]:
    """Format declarers as N, E, S or W; None where all passed."""
    return [SEATS[seat] if seat >= 0 else None for seat in contracts.declarer]


def describe_contracts(contracts: Contracts) -> list[str]:
    """Describe contracts and declarers, such as "4S by N"; "Pass" where all passed."""
    both = zip(format_contracts(contracts), format_declarers(contracts), strict=True)
    return [said if who is None else f"{said} by {who}" for said, who in both]


def contract_of_finished_auction(
    calls: Sequence[int], dealer: str
) -> tuple[str | None, str | None]:
    """Return contract and declarer as `describe_contract`; (None, None) if the auction goes on.

    Raises UserError for an illegal call.
    """
    auction_rules.check_auction(calls, done=False)
    if not calls or not auction_rules.is_complete(calls):
        return None, None
    return describe_contract(calls, dealer)


def describe_contract(calls: Sequence[int], dealer: str) -> tuple[str, str | None]:
    """Return the contract of one legal auction, such as "4S", "3NX" or "2HXX", and its declarer.

    The declarer is N, E, S or W. Return ("Pass", None) if all passed. calls: the complete auction.
    dealer: N, E, S or W.
    """
    dealers = np.array([SEATS.index(dealer)])
    contracts = auction_rules.final_contracts(np.array([[*calls, -1]]), dealers)
    return format_contracts(contracts)[0], format_declarers(contracts)[0]
