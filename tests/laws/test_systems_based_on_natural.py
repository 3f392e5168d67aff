"""Textbook facts of the bidding systems that are based on natural: a hand, the calls before, and
the call that the system makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overtrick.games.bridge.auction_rules import CALLS, PASS, parse_calls
from overtrick.games.bridge.cards import parse_hand
from overtrick.games.bridge.system import loader, parser
from overtrick.games.bridge.system.auction_simulation import replay_auctions
from overtrick.games.bridge.system.bidding_system import build_system

SAYC = (
    ("AQ5.KJ7.KT84.A95", "", "1N"),
    ("AQJ85.K7.984.Q95", "", "1S"),
    ("AQJ5.K7.984.AQ95", "", "1N"),
    ("AQJ5.K7.9842.A95", "", "1D"),
    ("AQ85.K76.984.KJ5", "", "1C"),
    ("65.KQJT74.83.Q72", "", "2H"),
    ("4.32.KQJT64.Q872", "", "2D"),
    ("AKQ8.AKJ.AQ4.KJ5", "", "2C"),
    ("AKQ.KQ5.AQ42.854", "", "2N"),
    ("K4.Q83.AJ752.T94", "1S P", "1N"),
    ("K4.A83.KJ952.T94", "1S P", "2D"),
    ("4.AK83.K52.Q9765", "1S P", "2C"),
    ("K4.AQJ83.K52.976", "1S P", "2H"),
    ("Q4.K83.J752.T964", "1S P", "1N"),
    ("K4.Q83.AJ752.T94", "P P 1S P", "1N"),
    ("KJ4.Q83.A752.Q94", "1S P", "3S"),
    ("KJ42.Q83.AQ52.94", "1S P", "2N"),
    ("K742.3.AQ852.K94", "1S P", "4H"),
    ("Q42.K83.J7542.94", "1H P", "2H"),
    ("KQ42.83.J7542.94", "1H P", "1S"),
    ("AKQ742.83.AQ4.92", "1H P", "2S"),
    ("K4.Q873.AJ752.T4", "1C P", "1D"),
    ("KQJ42.8.AQJ4.A92", "1D P", "2S"),
    ("4.K83.A75.AQJ742", "1D P", "2C"),
    ("AQJ85.K7.984.Q95", "1S P 2H P", "2S"),
    ("AQJ85.K72.98.Q95", "1S P 2H P", "3H"),
    ("AQJ85.7.AKJ4.K95", "1S P 2H P", "3D"),
    ("AQJ85.K7.9843.A5", "1S P 2C P", "2D"),
    ("AQJ85.KJ74.98.Q5", "1S P 2D P", "2H"),
    ("K4.AQJ83.K52.976", "1S P 2H P 2S P", "3N"),
    ("4.KQ83.K52.Q9765", "1S P 2C P 2S P", "2N"),
    ("K42.AQJ83.KJ52.9", "1S P 2H P 2S P", "3S"),
    ("AQJ85.K7.984.KJ5", "1S P 1N P", "P"),
    ("AQJ85.K7.9.KQJ52", "1S P 1N P", "2C"),
    ("AQJ975.K7.94.Q95", "1S P 1N P", "2S"),
    ("Q4.83.KJ752.T964", "1S P 1N P 2D P", "P"),
    ("Q4.83.KJ752.T964", "1S P 1N P 2C P", "P"),
    ("Q4.K83.752.KT964", "1S P 1N P 2D P", "2S"),
    ("AQ742.K83.74.Q95", "1D P 1S P 1N P", "2C"),
    ("KQ742.K83.7.AQ95", "1D P 1S P 1N P", "2D"),
    ("KQ742.83.74.Q952", "1D P 1S P 1N P", "2S"),
    ("K4.A83.AQJ74.Q95", "1D P 1S P 1N P 2C P", "2D"),
    ("K94.A8.KJT74.Q95", "1D P 1S P 1N P 2D P", "3S"),
    ("AQ5.KJ7.KT84.A95", "1N P 2H P", "2S"),
    ("K5.QJ7.KT8.98752", "1N P", "3N"),
    ("KJT42.Q7.A84.952", "1N P", "2H"),
    ("KJ42.Q7.A843.952", "1N P", "2C"),
    ("42.K83.A7542.984", "2S P", "P"),
    ("AK.K8.AQJ742.984", "2S P", "2N"),
    ("KJT984.8.Q74.952", "2S P 2N P", "3C"),
    ("KJT984.8.KQ4.952", "2S P 2N P", "3H"),
    ("AKQ984.8.742.952", "2S P 2N P", "3S"),
    ("K4.A98.KQ74.9852", "1H 1S", "2S"),
    ("QJ42.K8.Q742.985", "1C 1H", "X"),
    ("AQ4.4.KQJ42.A985", "1H", "X"),
)

ACOL = (
    ("AQ5.KJ7.KT84.952", "", "1N"),
    ("AQ5.KJ74.KT8.952", "", "1N"),
    ("AQ5.KJ74.KT8.A52", "", "1H"),
    ("AQJ5.KJ74.KT8.A5", "", "1H"),
    ("AQJ5.K74.KT8.A52", "", "1S"),
    ("AQJ5.7.KT843.K52", "", "1D"),
    ("KQJ5.7.KT84.KQ52", "", "1D"),
    ("7.KQJ5.KT84.KQ52", "", "1D"),
    ("KQJ5.KT84.7.KQ52", "", "1C"),
    ("KQJ5.KT84.KQ52.7", "", "1H"),
    ("AQJ85.7.KQJ984.2", "", "1D"),
    ("7.AQJ85.2.KQJ984", "", "1C"),
    ("AQJ85.K7.984.Q95", "", "1S"),
    ("AQ5.KJ7.KT84.A95", "", "1D"),
    ("AKQ.KQ5.AQ42.J54", "", "2N"),
    ("AKQ8.AKJ.AQ4.KJ5", "", "2C"),
    ("65.KQJT74.83.Q72", "", "2H"),
    ("J8.Q754.K9832.42", "", "P"),
    ("J8.Q754.K9832.42", "1N P", "P"),
    ("K85.Q74.KQ832.42", "1N P", "P"),
    ("K85.AQ4.KJ832.42", "1N P", "3N"),
    ("K85.AQ4.QJ83.942", "1N P", "2N"),
    ("K85.A94.QJ83.942", "1N P", "P"),
    ("KQ85.A94.QJ8.942", "1N P", "2C"),
    ("K8532.94.QJ8.942", "1N P", "2H"),
    ("K8.AKJ94.QJ8.942", "1N P", "2D"),
    ("KQJ854.94.AJ8.94", "1N P", "4H"),
    ("KJ85.Q743.J9832.", "1N P", "2C"),
    ("AQ5.KJ7.KT84.952", "1N P 2N P", "P"),
    ("AQ5.KJ7.KT84.Q52", "1N P 2N P", "3N"),
    ("KQ85.A94.QJ8.942", "1N P 2C P 2D P", "3N"),
    ("KQ85.A94.QJ83.94", "1N P 2C P 2S P", "4S"),
    ("KJ85.Q743.J9832.", "1N P 2C P 2D P", "P"),
    ("K8.AKJ94.QJ8.942", "1N P 2D P 2H P", "3N"),
    ("K8532.94.QJ8.942", "1N P 2H P 2S P", "P"),
    ("K8532.94.QJ8.942", "1N X", "2S"),
    ("K85.AQ4.QJ83.942", "1N X", "XX"),
    ("K742.Q83.J752.94", "1S P", "2S"),
    ("K742.A83.Q752.94", "1S P", "3S"),
    ("K742.A83.AQ52.94", "1S P", "2N"),
    ("K7432.83.J7652.4", "1S P", "4S"),
    ("Q4.K83.J752.T964", "1S P", "1N"),
    ("Q4.K83.A752.QT64", "1S P", "2C"),
    ("4.K83.KQ752.J964", "1S P", "1N"),
    ("4.KQ8.KQ752.J964", "1S P", "2D"),
    ("K4.AQ832.K75.964", "1S P", "2H"),
    ("AQJ85.K7.984.Q95", "1S P 2D P", "2S"),
    ("AQJ5.KJ7.KT8.Q95", "1S P 2D P", "2N"),
    ("AQJ85.KJ72.98.Q5", "1S P 2D P", "2H"),
    ("AQJ85.K7.Q984.Q5", "1S P 2D P", "3D"),
    ("AQJ5.KJ7.KT8.Q95", "1S P 1N P", "P"),
    ("AQJ5.KJ7.KT8.A95", "1S P 1N P", "2N"),
    ("AQ5.KJ74.KT8.A52", "1H P 1S P", "1N"),
    ("AQ5.KJ74.KQ8.A75", "1H P 1S P", "2N"),
    ("A5.KJ742.KQ84.95", "1H P 1S P", "2D"),
    ("AQ5.KJ7.KT84.A95", "1D P 1S P", "1N"),
    ("A5.KJ7.KQT843.95", "1D P 1S P", "2D"),
    ("K8642.A94.Q83.94", "1D P 1S P 1N P", "2C"),
    ("K864.A94.Q83.Q94", "1D P 1S P 1N P", "3N"),
    ("K864.J94.Q83.J94", "1D P 1S P 1N P", "P"),
    ("AQ4.KJ7.KT843.A9", "1D P 1S P 1N P 2C P", "3S"),
)


def call_of(system: loader.System, hand: str, auction: str) -> str:
    """Return the call of a hand after the calls of `auction`; nobody is vulnerable."""
    calls = np.array([[*parse_calls(auction), PASS]])
    cards = np.full((1, 4), sum(1 << card for card in parse_hand(hand)))
    made = replay_auctions(cards, *np.zeros((2, 1), int), calls, system, system).calls
    return CALLS[made[0, -1]]


@pytest.mark.parametrize(("hand", "auction", "call"), SAYC)
def test_calls_of_sayc(hand: str, auction: str, call: str) -> None:
    assert call_of(loader.load("sayc"), hand, auction) == call


@pytest.mark.parametrize(("hand", "auction", "call"), ACOL)
def test_calls_of_acol(hand: str, auction: str, call: str) -> None:
    assert call_of(loader.load("acol"), hand, auction) == call


@pytest.mark.parametrize(
    ("opening", "passes", "invites", "plays_game"),
    [("10-12", 12, 13, 15), ("12-14", 10, 11, 13), ("15-17", 7, 8, 10)],
)
def test_answers_to_one_notrump_suit_the_range_of_a_file_based_on_acol(
    opening: str, passes: int, invites: int, plays_game: int, tmp_path: Path
) -> None:
    """The answers are inherited, and only the opening is in the file."""
    path = tmp_path / "mine.bidding"
    path.write_text(
        f"system mine\nbased on acol\nat opening\n  1N | {opening} hcp, balanced | Notrump\n"
    )
    head, places = parser.parse_file(path)
    system = build_system(head["system"], "", places)[0]
    hands = {
        7: "K85.Q94.Q983.942", 8: "K85.Q94.QJ83.942", 10: "K85.Q94.KJ83.J42",
        11: "K85.K94.KQ83.942", 12: "K85.A94.KQ83.942", 13: "K85.A94.KQJ3.942",
        15: "KJ5.A94.KQJ3.J42",
    }  # fmt: skip
    made = [call_of(system, hands[points], "1N P") for points in (passes, invites, plays_game)]
    assert made == ["P", "2N", "3N"]
