"""Walks and random strategies for tests of exact evaluation."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.games.phantom import PhantomBoard
from overtrick.solvers.walks.game_walk import Views
from overtrick.solvers.walks.phantom_walk import PhantomWalk, number_views


def walk_over(game: PhantomBoard) -> PhantomWalk:
    """Return the walk over a phantom game, without the cache folder."""
    return PhantomWalk(game, number_views(game))


def random_strategy(views: Views, rng: Generator) -> np.ndarray:
    """Draw a strategy (L,) of a seat."""
    drawn = rng.random(views.start[-1])
    sums = np.add.reduceat(drawn, views.start[:-1])
    return drawn / np.repeat(sums, np.diff(views.start))
