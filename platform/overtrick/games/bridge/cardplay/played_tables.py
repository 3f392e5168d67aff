"""Tables of tricks in every contract, from play without sight of hidden hands."""

from __future__ import annotations

from typing import Literal

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.cardplay.playout import play_out

ANY_TARGET = 7  # tricks needed: the players do not depend on it


def play_every_contract(holder: Array, player: Literal["careful"]) -> Array:
    """Play each deal in all 20 contracts; return the declaring side's tricks (G, 4, 5) int8.

    The axes of a table are the declarer's seat N E S W and the strain C D H S NT, as in a
    double-dummy table. Unlike there, no player sees hidden hands.

    holder: (G, 52) the seat that holds each card.
    player: player of both sides; it makes no random choices.
    """
    rng = np.random.default_rng(0)  # never drawn from
    tricks = np.empty((len(holder), 4, 5), np.int8)
    if len(holder):
        for declarer in range(4):
            for strain in range(5):
                ends = np.full((len(holder), 2), (strain, ANY_TARGET))
                deals = np.concatenate([(holder - declarer) % 4, ends], axis=1).astype(np.int8)
                _, tricks[:, declarer, strain] = play_out(deals, player, player, rng)
    return tricks
