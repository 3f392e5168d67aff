"""Adapter that plays a policy of one view in a game with any view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Observations, Policy, PolicySession, PolicyWithMemory
from overtrick.games.sumo import observation as obs


class PolicyOfView:
    """A policy of one view, with its observations and actions converted to those of a game."""

    def __init__(self, policy: Policy, view: str) -> None:
        self.policy = policy
        self.view = view
        self.remembers = isinstance(policy, PolicyWithMemory) and policy.remembers

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of `games` new matches."""
        return _SessionOfView(self.policy.start(games, rng), self.view)


class _SessionOfView:
    """Matches of a `PolicyOfView`."""

    def __init__(self, session: PolicySession, view: str) -> None:
        self.session = session
        self.view = view

    def act(self, observations: Observations) -> Actions:
        """Choose actions (R, 8) in the view of the game."""
        world, of_game = obs.in_world_axes(observations.observation)
        own = obs.transform_of_view(world, self.view)
        seen = np.column_stack([obs.from_world(world, own), own])
        chosen = self.session.act(replace(observations, observation=seen))
        return replace(chosen, action=obs.from_world(obs.to_world(chosen.action, own), of_game))
