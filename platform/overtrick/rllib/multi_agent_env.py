"""A game as an environment of RLlib, in which each seat is an agent.

An observation has the game's features and, where actions are single, which are legal; it can have
the facts, by which a policy of ours sits in an agent's place. Features, what is legal and actions
can be renamed so that alike looks alike; facts never are.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from overtrick.core import Array, Game
from overtrick.games import registry
from overtrick.policies.network_sizes import input_size

FEATURES, ACTION_MASK, OBSERVATION, MATCH = "observations", "action_mask", "facts", "match"
AnyDict = dict[str, Any]
_tables = itertools.count()  # of this process


def observation_space(game: Game, facts: bool) -> Dict:
    """The space of observations; facts: are they among them, and beside them the table and which
    of its games it is?"""
    spaces: dict[str, Any] = {FEATURES: Box(-np.inf, np.inf, (input_size(game),), np.float32)}
    if game.actions is not None:
        spaces[ACTION_MASK] = Box(0, 1, (game.actions,), np.float32)
    if facts:
        wide = (len(game.observation_fields),)
        whole = game.actions is not None
        spaces[OBSERVATION] = (
            Box(-(2**62), 2**62, wide, np.int64)
            if whole
            else Box(-np.inf, np.inf, wide, np.float64)
        )
        spaces[MATCH] = Box(0, 2**62, (2,), np.int64)
    return Dict(spaces)


def action_space(game: Game) -> gym.Space:
    """The space of actions."""
    if game.actions is not None:
        return Discrete(game.actions)
    return Box(-1, 1, (len(game.action_names),), np.float32)


class GameEnv(MultiAgentEnv):
    """Every seat is an agent, called by its number; a game an episode.

    In some games guests sit in all seats but one, which is drawn: such an agent is called by its
    number and the name of the guest, by which `module_of` finds who plays it.

    config: game, options, the seed of the first deals, guests (their names), share (of games with a
    guest, each as likely as another), facts (are they observed? by guests alone, if there are
    some), renamed (are cards shown and played as the game's `renamed` calls them?). RLlib's number
    of the worker is part of the seed.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.game: Any = registry.make(config["game"], **config["options"])
        self.guests: tuple[str, ...] = tuple(config.get("guests", ()))
        self.share: float = config.get("share", 0.0)
        self.observation_fields: bool = config.get("facts", False)
        self.renamed: bool = config.get("renamed", False)
        self.possible_agents = [
            agent_name(seat, guest)
            for seat in range(self.game.seats)
            for guest in ("", *self.guests)
        ]
        self.agents = list(self.possible_agents)
        spaces = [observation_space(self.game, facts) for facts in (False, True)]
        self.observation_spaces = {agent: spaces[self._factual(agent)] for agent in self.agents}
        self.action_spaces = dict.fromkeys(self.agents, action_space(self.game))
        self._table, self._match = next(_tables), 0
        self.reseed([config["seed"], getattr(config, "worker_index", 0)])

    def reseed(self, seed: Any) -> None:
        """All games from now on come from this seed."""
        self._rng = np.random.default_rng(seed)

    def reset(
        self, *, seed: int | None = None, options: AnyDict | None = None
    ) -> tuple[AnyDict, AnyDict]:
        if seed is not None:
            self.reseed(seed)
        self._state = self.game.start(self.game.deal(1, self._rng))
        self._match += 1
        names = [""] * self.game.seats
        if self.guests and self._rng.random() < self.share:
            names = [str(self._rng.choice(self.guests))] * self.game.seats
            names[self._rng.integers(self.game.seats)] = ""
        self.agents = [agent_name(seat, name) for seat, name in enumerate(names)]
        return self._look(), {}

    def step(self, action_dict: AnyDict) -> tuple[AnyDict, AnyDict, AnyDict, AnyDict, AnyDict]:
        acted = [self.agents[seat] for seat in self._turn.seat]
        moves = np.stack([np.asarray(action_dict[agent]) for agent in acted])
        if self.renamed:
            moves = self._own[np.arange(len(moves)), moves]
        (points,) = self.game.step(self._state, self._turn, moves)
        seen = self._look()
        over = not seen
        told = self.agents if over or points.any() else acted
        gained = {agent: float(points[seat_of_agent(agent)]) for agent in told}
        if over:
            self.agents = []
        return seen, gained, {"__all__": over}, {"__all__": False}, {}

    def _look(self) -> AnyDict:
        self._turn = self.game.observe(self._state)
        if not len(self._turn):
            return {}
        shown = self._turn
        if self.renamed:
            shown, self._own = self.game.canonical_observations(shown)
        columns: dict[str, Array] = {FEATURES: self.game.features(shown)}
        if shown.legal is not None:
            columns[ACTION_MASK] = shown.legal.astype(np.float32)
        told = {}
        for row, seat in enumerate(shown.seat):
            agent = self.agents[seat]
            told[agent] = {name: column[row] for name, column in columns.items()}
            if self._factual(agent):
                place = np.array([self._table, self._match])
                told[agent] |= {OBSERVATION: self._turn.observation[row], MATCH: place}
        return told

    def _factual(self, agent: str) -> bool:
        """Does this agent observe facts?"""
        return self.observation_fields and (bool(opponent_of_agent(agent)) or not self.guests)


def agent_name(seat: int, guest: str) -> str:
    """The name of an agent."""
    return f"{seat} {guest}".strip()


def seat_of_agent(agent: str) -> int:
    """The seat of an agent."""
    return int(agent.partition(" ")[0])


def opponent_of_agent(agent: str) -> str:
    """The guest who plays an agent; empty if nobody does."""
    return agent.partition(" ")[2]
