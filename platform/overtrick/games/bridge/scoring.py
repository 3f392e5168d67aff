"""What a contract is worth, in points for the declaring side."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.cards import NOTRUMP

TRICK_POINTS = np.array([20, 20, 30, 30, 30])  # by strain; the first one in notrump brings 10 more
GAME_POINTS = 100  # points bid and made from which a contract is a game

PART_SCORE_BONUS = 50
GAME_BONUS, SMALL_SLAM_BONUS, GRAND_SLAM_BONUS = (300, 500), (500, 750), (1000, 1500)
OVERTRICK_DOUBLED = (100, 200)
"""By vulnerability: none, vulnerable. Laws of Duplicate Bridge 2017, law 77."""

DOWN_DOUBLED = (
    (100, 300, 500, *range(800, 3501, 300)),
    (200, 500, 800, *range(1100, 3801, 300)),
)
"""Points lost doubled, by vulnerability and undertricks from 1 to 13."""

IMP_FLOORS = np.array([
    20, 50, 90, 130, 170, 220, 270, 320, 370, 430, 500, 600, 750, 900, 1100, 1300, 1500, 1750,
    2000, 2250, 2500, 3000, 3500, 4000,
])  # fmt: skip
"""Points from which a difference is worth 1, 2, ... 24 international match points. Laws of
Duplicate Bridge 2017, law 78B."""


def trick_score(level: Array, strain: Array) -> Array:
    """(G,) what the tricks of an undoubled contract (level 1 to 7) are worth."""
    return level * TRICK_POINTS[strain] + 10 * (strain == NOTRUMP)


def trick_difference_reward(above: Array) -> Array:
    """(G,) tricks above those needed, one more if the contract was made: never 0 (the reward of
    Hadjur 2018, Algorithm 1)."""
    return above + (above >= 0)


def minibridge_points(level: Array, strain: Array, tricks: Array) -> Array:
    """(G,) points as Hadjur 2018 counts them, Table 3.1: what was bid, if it was made, and 50 to
    the defenders for each trick that is missing."""
    above = tricks - level - 6
    return np.where(above >= 0, trick_score(level, strain), 50 * above)


def duplicate_points(
    level: Array, strain: Array, doubled: Array, vulnerable: Array, tricks: Array
) -> Array:
    """(G,) points by the laws of duplicate bridge.

    level 1 to 7; doubled 0, 1 or 2 for redoubled; vulnerable 0 or 1: the declaring side.
    """
    above = tricks - level - 6
    times = np.array([1, 2, 4])[doubled]
    bid = trick_score(level, strain) * times
    at = np.asarray(vulnerable)
    bonus = np.where(bid >= GAME_POINTS, np.array(GAME_BONUS)[at], PART_SCORE_BONUS)
    bonus = bonus + np.where(level == 6, np.array(SMALL_SLAM_BONUS)[at], 0)
    bonus = bonus + np.where(level == 7, np.array(GRAND_SLAM_BONUS)[at], 0)
    insult = 50 * np.asarray(doubled)
    each = np.where(doubled > 0, np.array(OVERTRICK_DOUBLED)[at] * times / 2, TRICK_POINTS[strain])
    made = bid + bonus + insult + above * each
    down = np.maximum(-above, 1) - 1
    doubled_loss = np.array(DOWN_DOUBLED)[at, down] * times / 2
    lost = np.where(doubled > 0, doubled_loss, 50 * (1 + at) * (down + 1))
    return np.where(above >= 0, made, -lost).astype(np.int64)


def imps(points: Array) -> Array:
    """(G,) a difference in points as international match points, of the same sign."""
    return np.sign(points) * np.searchsorted(IMP_FLOORS, np.abs(points), side="right")
