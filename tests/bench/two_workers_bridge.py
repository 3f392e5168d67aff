"""Compare two Ray workers with one on whole bridge boards with searches at all seats."""

from __future__ import annotations

from typing import Any

from numpy.random import Generator
from tests.bench.measure import Result
from tests.bench.worker_pools import seconds_with

from overtrick.core import Array
from overtrick.evaluation import bridge_boards
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.players.board_player import BoardPlayer
from overtrick.games.bridge.players.card_players import CARD_PLAYERS, Budget
from overtrick.games.bridge.system import loader

BOARDS, WORLDS = 40, 10


def play_searches(rng: Generator, common: Any, boards: int) -> Array:
    """Return the tricks (G,) of the declaring side on boards that four searches play."""
    natural = loader.load("natural")
    search = CARD_PLAYERS["search"](natural, natural, Budget(WORLDS))
    player = BoardPlayer(SystemBidder(natural, natural), search, search)
    deals = bridge_boards.contract_deals(natural, boards, rng)
    return bridge_boards.play_boards(player, deals, rng).progress[:, kernels.TRICKS_WON]


def run() -> Result:
    two, one = seconds_with((2, 1), play_searches, 1, BOARDS)
    return Result(
        name="two_workers_bridge",
        work=f"{BOARDS} boards bid and played by four searches, {WORLDS} deals a card, one board a "
        "shard; ours two Ray workers, peer one",
        ours=BOARDS / two,
        peer=BOARDS / one,
        peer_name="one worker",
        unit="boards/s",
        ratio=one / two,
        goal=1.8,
    )
