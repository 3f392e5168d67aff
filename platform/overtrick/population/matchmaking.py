"""Matchmaking of a league: which players a learner meets, by prioritised fictitious self-play.

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement
learning", methods, section "Multi-agent learning".

| here | the paper |
|---|---|
| share of points, so that a large win counts more than a small one | share of games won |
| a share is moved towards 1/2, as if PRIOR_GAMES more games had ended in a draw | not stated |
| a main agent meets all main agents equally often, whatever the results | it avoids some of them |
| a main exploiter below WEAK meets past main agents in every game | in half of its games |
| league exploiters use the priorities of main agents | other priorities |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overtrick.core import Array

WEAK = 0.2
"""Share of points against the current main agents below which a main exploiter meets only past main
agents."""
RESULT_DECAY = 0.9
"""Weight of the results of the iteration before, relative to those of this iteration."""
PRIOR_GAMES = 10.0
"""Drawn games that are added to those of every pair, so that few games decide little."""


@dataclass(frozen=True)
class Players:
    """The P players of a league: its L learners, then its past players.

    `learner` (P,): for a learner its own number, for a copy that of its original, and L for a
    random network.
    """

    learners: int  # L
    learner: Array
    main_agents: int  # learners 0 to main_agents - 1
    main_exploiters: int  # the learners after them; the rest are league exploiters

    @property
    def past(self) -> Array:
        """(P,) bool: the player is a past player, which no longer changes."""
        return np.arange(len(self.learner)) >= self.learners

    @property
    def main(self) -> Array:
        """(P,) bool: the player is a main agent, or a copy of one."""
        return self.learner < self.main_agents

    @property
    def exploits_main(self) -> Array:
        """(P,) bool: the player is a main exploiter, or a copy of one."""
        return ~self.main & (self.learner < self.main_agents + self.main_exploiters)


@dataclass(frozen=True)
class MatchmakingConfig:
    """Shares of a main agent's opponents, and the priorities of past players."""

    self_play_share: float
    forgotten_share: float
    winning_share: float
    priority_power: float


class Results(NamedTuple):
    """Results of the L learners against the P players of a league; later games count more."""

    won: Array  # (L, P) points won, minus those lost
    moved: Array  # (L, P) points that changed hands
    decided: Array  # (L, P) games in which points changed hands
    played: Array  # (L, P) all games

    def points_share(self) -> Array:
        """Return (L, P) the share of points that a learner wins from a player: 1/2 if unknown.

        In games for one point this is the share of games won, where draws and PRIOR_GAMES further
        games count as half won.
        """
        stakes = np.where(self.moved > 0, self.moved, 1) / np.maximum(self.decided, 1e-12)
        return (1 + self.won / (stakes * (self.played + PRIOR_GAMES))) / 2


def prioritised(share: Array, among: Array, power: float) -> Array:
    """Return probabilities of opponents by prioritised fictitious self-play.

    `share` (P,): share of the points that the learner wins from each player. `among` (P,): bool,
    True for the players that may be drawn, at least one. The probability is proportional to
    (1 - share)^power.
    """
    weight = np.where(among, (1 - share) ** power, 0)
    return weight / weight.sum() if weight.sum() > 0 else among / among.sum()


def opponents(players: Players, learner: int, share: Array, config: MatchmakingConfig) -> Array:
    """Return the probability (P,) with which a learner meets each player in a game.

    `share` (P,): share of the points that the learner wins from each player, 1/2 if unknown.
    """
    past, main = players.past, players.main
    current_main = main & ~past
    if players.main[learner]:
        return _opponents_of_main_agent(players, share, config)
    if players.exploits_main[learner]:
        past_main = past & main
        if share[current_main].mean() < WEAK and past_main.any():
            even = np.where(past_main, share * (1 - share), 0)  # largest near an even game
            if even.sum() > 0:
                return even / even.sum()
        return current_main / current_main.sum()
    return prioritised(share, past if past.any() else current_main, config.priority_power)


def _opponents_of_main_agent(players: Players, share: Array, config: MatchmakingConfig) -> Array:
    """Return the probability (P,) with which a main agent meets each player in a game."""
    past, main = players.past, players.main
    hard = past & np.where(main, share < 0.5, players.exploits_main)
    probability = np.zeros(len(past))
    if past.any():
        rest = max(0.0, 1 - config.self_play_share - config.forgotten_share)
        probability += rest * prioritised(share, past, config.priority_power)
    if hard.any():
        probability += config.forgotten_share * prioritised(share, hard, config.priority_power)
    current_main = main & ~past
    rest = max(0.0, 1 - probability.sum())  # rounding may leave less than 0
    return probability + rest * current_main / current_main.sum()


def beats_all(
    players: Players, learner: int, share: Array, played: Array, config: MatchmakingConfig
) -> bool:
    """Return True if an exploiter beats all its opponents.

    The opponents of a main exploiter are the main agents, those of a league exploiter all past
    players. `played` (P,): games of the learner against each player. The other arguments are those
    of `opponents`.
    """
    exploits_main = players.exploits_main[learner]
    targets = players.main & ~players.past if exploits_main else players.past
    beaten = (played > 0) & (share >= config.winning_share)
    return bool(targets.any() and beaten[targets].all())
