"""The walk over the lines of a game, with the numbers of its information sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from overtrick.core import PhantomGame, SealedBidGame, UserError, WalkedGame
from overtrick.solvers.walks import phantom_walk, sealed_bid_walk
from overtrick.solvers.walks.game_walk import GameWalk
from overtrick.solvers.walks.numbering_cache import stored_numbering
from overtrick.solvers.walks.phantom_walk import PhantomWalk
from overtrick.solvers.walks.sealed_bid_walk import SealedBidWalk


def make_walk(game: WalkedGame, progress: Callable[[int], None] = lambda percent: None) -> GameWalk:
    """Return the walk over a game, and number the game's information sets if necessary.

    `progress`: called with the percentage of information sets that are numbered. Raises UserError
    for a game that is too large.
    """
    if isinstance(game, PhantomGame):
        return PhantomWalk(game, stored_numbering(game, progress))
    return SealedBidWalk(game)


def is_evaluated_by_walks(game: Any) -> TypeGuard[WalkedGame]:
    """Return whether a game has the interface of walks and is small enough for them."""
    try:
        if isinstance(game, PhantomGame):
            phantom_walk.check_size(game)
        elif isinstance(game, SealedBidGame):
            sealed_bid_walk.check_size(game)
        else:
            return False
    except UserError:
        return False
    return True
