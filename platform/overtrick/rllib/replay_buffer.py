"""Episode replay buffer of DQN and SAC for RLlib, with a checkpoint as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.replay_buffers import MultiAgentEpisodeReplayBuffer

from overtrick.core import Array, RunError, concat_columns
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.rllib.algorithm_config import MultiAgentSetup
from overtrick.rllib.multi_agent_env import agent_name

OBSERVATIONS = "shown"


class LearnerReplayBuffer(MultiAgentEpisodeReplayBuffer):
    """Replay buffer of the newest games; decisions of opponents are not sampled.

    A checkpoint, too, has the decisions of learners only. Its arrays describe G games, E episodes
    (one for each seat that a learner played) and D decisions:

    - `turns`, `over` (G,): length of each game and whether it has ended.
    - `seats` (G,): number of seats that learners played.
    - `seat`, `decisions`, `ended` (E,): the seat of an episode, its number of decisions, and
      whether it has ended.
    - `action`, `reward` (D,): each decision, and its reward until the seat's next decision.
    - observations (D + E, ...): each episode has one observation more than decisions.
    """

    def __init__(self, setup: MultiAgentSetup) -> None:
        super().__init__(capacity=setup.section["replay_capacity"])
        self._setup = setup

    def reseed(self, seed: Any) -> None:
        """Seed the generator of all later samples."""
        self.rng = np.random.default_rng(seed)

    def sample(self, *args: Any, **options: Any) -> Any:
        """Sample decisions of the RLModules that are trained, not of opponents.

        The arguments are those of RLlib's buffer. Raises RunError if the buffer has no decision of
        a trained RLModule.
        """
        learners = [name for name in self._setup.learners() if self._module_to_indices.get(name)]
        if not learners:
            raise RunError("no learner has made a decision yet: raise learning_starts")
        return super().sample(*args, **options, modules_to_sample=learners)

    def state(self) -> dict[str, Array]:
        """Return the buffer's games as arrays by name (see the class); {} for an empty buffer."""
        games = list(self.episodes)
        by_game = [self._learner_episodes(game) for game in games]
        episodes = [episode for seats in by_game for episode in seats.values()]
        if not episodes:
            return {}
        return {
            "turns": np.array([game.env_steps() for game in games]),
            "over": np.array([game.is_terminated for game in games]),
            "seats": np.array([len(seats) for seats in by_game]),
            "seat": np.array([seat for seats in by_game for seat in seats]),
            "decisions": np.array([len(each) for each in episodes]),
            "ended": np.array([each.is_terminated for each in episodes]),
            "action": np.concatenate([np.asarray(each.get_actions()) for each in episodes]),
            "reward": np.concatenate([np.asarray(each.get_rewards()) for each in episodes]),
            **prefixed(
                OBSERVATIONS,
                concat_columns([_columns(each.get_observations()) for each in episodes]),
            ),
        }

    def _learner_episodes(self, game: MultiAgentEpisode) -> dict[int, SingleAgentEpisode]:
        """Return the episodes of the learners in a game, by seat."""
        own = {agent_name(seat, ""): seat for seat in range(self._setup.seats)}
        episodes = game.agent_episodes.items()
        return {own[agent]: each for agent, each in episodes if agent in own and len(each)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Add games to the buffer from arrays that the method `state` returned."""
        columns = unprefixed(OBSERVATIONS, state)
        episode = first = row = 0
        games = []
        for turns, over, seats in zip(*(state[n] for n in ("turns", "over", "seats")), strict=True):
            game = MultiAgentEpisode(len_lookback_buffer=0)
            game.env_t, game.is_terminated = int(turns), bool(over)
            for _ in range(int(seats)):
                agent = agent_name(int(state["seat"][episode]), "")
                steps = int(state["decisions"][episode])
                game._agent_to_module_mapping[agent] = self._setup.module_of(agent)
                game.env_t_to_agent_t[agent] = InfiniteLookbackBuffer(list(range(steps + 1)))
                game.agent_episodes[agent] = SingleAgentEpisode(
                    agent_id=agent,
                    module_id=self._setup.module_of(agent),
                    multi_agent_episode_id=game.id_,
                    observations=[
                        {name: column[k] for name, column in columns.items()}
                        for k in range(row, row + steps + 1)
                    ],
                    actions=list(state["action"][first : first + steps]),
                    rewards=state["reward"][first : first + steps].tolist(),
                    terminated=bool(state["ended"][episode]),
                    len_lookback_buffer=0,
                )
                episode, first, row = episode + 1, first + steps, row + steps + 1
            games.append(game)
        self.add(games)


def _columns(observations: Any) -> dict[str, Array]:
    """Return an episode's observations as one array for each name in RLlib's observation space.

    RLlib stores them in this form, or as a list with one dictionary for each observation.
    """
    if isinstance(observations, Mapping):
        return dict(observations)
    return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
