"""Scores of contracts: duplicate bridge, Mini-Bridge, and international match points (IMPs)."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.cards import NOTRUMP

TRICK_POINTS = np.array([20, 20, 30, 30, 30])  # by strain; 10 more for the first trick in notrump
GAME_POINTS = 100  # lowest trick score of a game contract
GAME_LEVEL = np.array([5, 5, 4, 4, 3])  # lowest level of an undoubled game, by strain

PART_SCORE_BONUS = 50
GAME_BONUS, SMALL_SLAM_BONUS, GRAND_SLAM_BONUS = (300, 500), (500, 750), (1000, 1500)
OVERTRICK_DOUBLED = (100, 200)
"""Bonuses, and points of a doubled overtrick, as (not vulnerable, vulnerable) (law 77)."""

DOWN_DOUBLED = (
    (100, 300, 500, *range(800, 3501, 300)),
    (200, 500, 800, *range(1100, 3801, 300)),
)
"""Points lost in a doubled contract, by vulnerability and number of undertricks (1 to 13)."""

IMP_FLOORS = np.array([
    20, 50, 90, 130, 170, 220, 270, 320, 370, 430, 500, 600, 750, 900, 1100, 1300, 1500, 1750,
    2000, 2250, 2500, 3000, 3500, 4000,
])  # fmt: skip
"""Lowest point difference for 1, 2, ... 24 IMPs (Laws of Duplicate Bridge 2017, law 78B)."""


def trick_score(level: Array, strain: Array) -> Array:
    """Return the trick score (G,) of undoubled contracts that are made, without overtricks.

    level: (G,) 1 to 7. strain: (G,) 0 to 4 for C, D, H, S, NT.
    """
    return level * TRICK_POINTS[strain] + 10 * (strain == NOTRUMP)


def trick_difference_reward(above: Array) -> Array:
    """Return the reward (G,) of Hadjur 2018, Algorithm 1, for tricks won relative to the contract.

    above: (G,) tricks won minus tricks needed for the contract. The reward is this difference, plus
    1 if the contract is made.
    """
    return above + (above >= 0)


def minibridge_points(level: Array, strain: Array, tricks: Array) -> Array:
    """Return the declarer's Mini-Bridge points (G,): Hadjur 2018, Table 3.1.

    A made contract scores its trick score without overtricks. Each undertrick costs 50.

    level: (G,) 1 to 7. strain: (G,). tricks: (G,) tricks of the declarer's side.
    """
    above = tricks - level - 6
    return np.where(above >= 0, trick_score(level, strain), 50 * above)


def duplicate_points(
    level: Array, strain: Array, doubled: Array, vulnerable: Array, tricks: Array
) -> Array:
    """Return the declaring side's points (G,) by the Laws of Duplicate Bridge 2017, law 77.

    All arguments have shape (G,). level: 1 to 7. doubled: 0; 1 if doubled, 2 if redoubled.
    vulnerable: 1 if the declaring side is vulnerable, otherwise 0. tricks: tricks of the declaring
    side.
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
    """Convert point differences (G,) to IMPs (G,) of the same sign."""
    return np.sign(points) * np.searchsorted(IMP_FLOORS, np.abs(points), side="right")


def matchpoints(points: Array) -> Array:
    """Return North-South's share of the matchpoints (T, G) at T >= 2 tables that play G boards.

    A table gets one matchpoint for each other table whose score is lower, and half a matchpoint for
    each equal score (Laws of Duplicate Bridge 2017, law 78A); the share is of the T - 1 possible.
    East-West has the rest. points: (T, G) scores of North-South.
    """
    beaten = (points[:, None] > points[None]).sum(axis=1)
    equal = (points[:, None] == points[None]).sum(axis=1) - 1  # without the table itself
    return (beaten + equal / 2) / (len(points) - 1)
