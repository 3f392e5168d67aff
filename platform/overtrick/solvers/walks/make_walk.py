"""The walk over a game, with the indices of its information sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from overtrick.core import PhantomGame, UserError, WalkedGame
from overtrick.solvers.walks import hidden_bid_walk, phantom_walk
from overtrick.solvers.walks.game_walk import GameWalk
from overtrick.solvers.walks.hidden_bid_walk import HiddenBidWalk
from overtrick.solvers.walks.numbering_cache import stored_numbering
from overtrick.solvers.walks.phantom_walk import PhantomWalk


def make_walk(game: WalkedGame, progress: Callable[[int], None] = lambda percent: None) -> GameWalk:
    """Return the walk over a game; index the game's information sets if necessary.

    `progress`: called with the percentage of information sets that are indexed. Raises UserError
    for a game that is too large.
    """
    if isinstance(game, PhantomGame):
        return PhantomWalk(game, stored_numbering(game, progress))
    return HiddenBidWalk(game)


def check_size(game: WalkedGame) -> None:
    """Raise UserError for a game that is too large for a walk."""
    if isinstance(game, PhantomGame):
        phantom_walk.check_size(game)
    else:
        hidden_bid_walk.check_size(game)


def is_evaluated_by_walks(game: Any) -> TypeGuard[WalkedGame]:
    """Return whether a game has the interface of walks and is small enough for them."""
    if not isinstance(game, WalkedGame):
        return False
    try:
        check_size(game)
    except UserError:
        return False
    return True
