"""Matchmaking of a league: which players a learner meets, by prioritised fictitious self-play.

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement
learning", methods, section "Multi-agent learning".

| here | the paper |
|---|---|
| points won / points that changed hands | share of games won |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overtrick.core import Array

EASY = 0.2  # share of points below which a main exploiter first meets past main agents
FORGET = 0.9
"""Weight of the results of the iteration before, relative to those of this iteration."""


@dataclass(frozen=True)
class Players:
    """The players of a league: its L learners, then its K past players.

    `learner` (L + K,) is the number of the learner that a player is, or of which it is a copy.
    """

    learners: int  # L
    learner: Array
    main_agents: int  # learners 0 to main_agents - 1
    main_exploiters: int  # the learners after them; the rest are league exploiters

    @property
    def past(self) -> Array:
        """(L + K,) bool: the player is a past player, which no longer changes."""
        return np.arange(len(self.learner)) >= self.learners

    @property
    def main(self) -> Array:
        """(L + K,) bool: the player is a main agent, or a copy of one."""
        return self.learner < self.main_agents

    @property
    def exploits_main(self) -> Array:
        """(L + K,) bool: the player is a main exploiter, or a copy of one."""
        return ~self.main & (self.learner < self.main_agents + self.main_exploiters)


@dataclass(frozen=True)
class MatchmakingConfig:
    """Shares of a main agent's opponents, and the priorities of past players."""

    self_play_share: float
    forgotten_share: float
    beaten_share: float
    priority_power: float


def points_share(won: Array, moved: Array) -> Array:
    """Return the share of points that a player wins from others: 1 all, 0 none, 1/2 unknown.

    `won`: points won, minus those lost. `moved`: points that changed hands, 0 if they never met.
    In games that one side wins by one point, the result is the share of games won.
    """
    return np.where(moved > 0, (1 + won / np.where(moved > 0, moved, 1)) / 2, 0.5)


def prioritised(share: Array, among: Array, power: float) -> Array:
    """Return probabilities of opponents by prioritised fictitious self-play.

    `share`: share of the points that the learner wins from each player. `among`: bool, True for
    those that may be drawn; at least one. The probability is proportional to (1 - share)^power.
    """
    weight = np.where(among, (1 - share) ** power, 0)
    return weight / weight.sum() if weight.sum() > 0 else among / among.sum()


def opponents(players: Players, learner: int, share: Array, config: MatchmakingConfig) -> Array:
    """Return the probability (L + K,) with which a learner meets each player in a game.

    `share` (L + K,): share of the points that the learner wins from each player, 1/2 if unknown.
    """
    past, main = players.past, players.main
    current_main = main & ~past
    if players.main[learner]:
        forgotten = past & np.where(main, share < 0.5, players.exploits_main)
        forgotten_share = config.forgotten_share if forgotten.any() else 0.0
        rest = 1 - config.self_play_share - config.forgotten_share if past.any() else 0.0
        met = (1 - rest - forgotten_share) * current_main / current_main.sum()
        if rest:
            met = met + rest * prioritised(share, past, config.priority_power)
        if forgotten_share:
            met = met + forgotten_share * prioritised(share, forgotten, config.priority_power)
        return met
    if players.exploits_main[learner]:
        weak = share[current_main].mean() < EASY
        if weak and (past & main).any():  # easier opponents first: those near an even game
            weight = np.where(past & main, share * (1 - share), 0)
            if weight.sum() > 0:
                return weight / weight.sum()
        return current_main / current_main.sum()
    among = past if past.any() else current_main
    return prioritised(share, among, config.priority_power)


def beats_all(
    players: Players, learner: int, share: Array, met: Array, config: MatchmakingConfig
) -> bool:
    """Return True if an exploiter beats all its opponents.

    The opponents of a main exploiter are the main agents, those of a league exploiter all past
    players. `met` (L + K,): bool, the learner has met this player. The other arguments are those of
    `opponents`.
    """
    exploits_main = players.exploits_main[learner]
    targets = players.main & ~players.past if exploits_main else players.past
    beaten = met & (share >= config.beaten_share)
    return bool(targets.any() and beaten[targets].all())
