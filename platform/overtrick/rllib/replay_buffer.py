"""What DQN and SAC remember of games, as arrays and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.replay_buffers import MultiAgentEpisodeReplayBuffer

from overtrick.core import Array, RunError, concat_columns
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.rllib.algorithm_config import MultiAgentSetup
from overtrick.rllib.multi_agent_env import agent_name

OBSERVATIONS = "shown"


class LearnerReplayBuffer(MultiAgentEpisodeReplayBuffer):
    """The newest games, of which only those decisions are drawn again from which somebody learns.

    As arrays it holds no decisions of guests. G games have their turns and whether they are over; E
    seats that were played the seat, its decisions and whether its part is over, D decisions an
    action and what was gained until the seat's next one, and D + E observations their columns.
    """

    def __init__(self, plan: MultiAgentSetup) -> None:
        super().__init__(capacity=plan.own["replay_capacity"])
        self._plan = plan

    def reseed(self, seed: Any) -> None:
        """All draws from now on come from this seed."""
        self.rng = np.random.default_rng(seed)

    def sample(self, *args: Any, **told: Any) -> Any:
        learn = [name for name in self._plan.learners() if self._module_to_indices.get(name)]
        if not learn:
            raise RunError("nobody who learns has decided anything yet: set first to more turns")
        return super().sample(*args, **told, modules_to_sample=learn)

    def state(self) -> dict[str, Array]:
        """Nothing if there are no games."""
        games = list(self.episodes)
        parts = [self._parts(game) for game in games]
        every = [part for each in parts for part in each.values()]
        if not every:
            return {}
        return {
            "turns": np.array([game.env_steps() for game in games]),
            "over": np.array([game.is_terminated for game in games]),
            "seats": np.array([len(each) for each in parts]),
            "seat": np.array([seat for each in parts for seat in each]),
            "decisions": np.array([len(part) for part in every]),
            "ended": np.array([part.is_terminated for part in every]),
            "action": np.concatenate([np.asarray(part.get_actions()) for part in every]),
            "reward": np.concatenate([np.asarray(part.get_rewards()) for part in every]),
            **prefixed(
                OBSERVATIONS, concat_columns([_columns(part.get_observations()) for part in every])
            ),
        }

    def _parts(self, game: MultiAgentEpisode) -> dict[int, SingleAgentEpisode]:
        """Those that a learner decided in a game, by seat."""
        own = {agent_name(seat, ""): seat for seat in range(self._plan.seats)}
        played = game.agent_episodes.items()
        return {own[agent]: part for agent, part in played if agent in own and len(part)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Remember these games too."""
        shown = unprefixed(OBSERVATIONS, state)
        part = first = seen = 0
        games = []
        for turns, over, seats in zip(*(state[n] for n in ("turns", "over", "seats")), strict=True):
            game = MultiAgentEpisode(len_lookback_buffer=0)
            game.env_t, game.is_terminated = int(turns), bool(over)
            for _ in range(int(seats)):
                agent, steps = (
                    agent_name(int(state["seat"][part]), ""),
                    int(state["decisions"][part]),
                )
                game._agent_to_module_mapping[agent] = self._plan.module_of(agent)
                game.env_t_to_agent_t[agent] = InfiniteLookbackBuffer(list(range(steps + 1)))
                game.agent_episodes[agent] = SingleAgentEpisode(
                    agent_id=agent,
                    module_id=self._plan.module_of(agent),
                    multi_agent_episode_id=game.id_,
                    observations=[
                        {name: column[row] for name, column in shown.items()}
                        for row in range(seen, seen + steps + 1)
                    ],
                    actions=list(state["action"][first : first + steps]),
                    rewards=state["reward"][first : first + steps].tolist(),
                    terminated=bool(state["ended"][part]),
                    len_lookback_buffer=0,
                )
                part, first, seen = part + 1, first + steps, seen + steps + 1
            games.append(game)
        self.add(games)


def _columns(shown: Any) -> dict[str, Array]:
    """Observations as columns: RLlib has them as such or one by one."""
    if isinstance(shown, Mapping):
        return dict(shown)
    return {name: np.stack([each[name] for each in shown]) for name in shown[0]}
