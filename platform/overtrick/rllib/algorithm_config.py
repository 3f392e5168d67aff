"""Who learns what, how, and against whom: a plan, and the same in RLlib's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from overtrick.policies.model_kinds import SEAT
from overtrick.rllib.multi_agent_env import GameEnv, opponent_of_agent, seat_of_agent
from overtrick.rllib.rl_modules import MODULES, FixedPolicyModule, NoCatalog

LEARNER = "learner"
PAST_SELF, OPPONENT = "past", "stranger"
CONFIGS: dict[str, Any] = {"PPO": PPOConfig, "APPO": APPOConfig, "DQN": DQNConfig, "SAC": SACConfig}
TRUNCATED_EPISODES = {"num_envs_per_env_runner": 16, "batch_mode": "truncate_episodes"}
"""Games side by side, cut where an iteration ends; their rest is guessed by the critic."""
COMPLETE_EPISODES = {
    "num_envs_per_env_runner": 1,
    "batch_mode": "complete_episodes",
    "rollout_fragment_length": 1,
}
"""One game after the other: replay cannot join what was cut between two turns of a seat, and of
several games side by side RLlib would drop those that last longest."""
SINGLE_STEPS = {**TRUNCATED_EPISODES, "rollout_fragment_length": 1}
"""Moves that all make at once can be joined again: one of each game at a time."""
SAMPLING: dict[str, dict[str, Any]] = {
    "PPO": TRUNCATED_EPISODES,
    "APPO": TRUNCATED_EPISODES,
    "DQN": COMPLETE_EPISODES,
    "SAC": SINGLE_STEPS,
}
NO_VALUE_CLIPPING = 1e6  # points: RLlib cuts errors of the value there, which is nowhere


@dataclass(frozen=True)
class MultiAgentSetup:
    """Who learns what, how, and against whom."""

    algorithm: str  # of CONFIGS
    game: str
    options: Mapping[str, Any]
    seats: int
    renamed: bool  # are cards shown and played as the game's `renamed` calls them?
    seed: int
    workers: int  # RLlib's env runners; 0: in this process
    cpus: float  # of each of those
    turns: int  # of games in an iteration, at least
    length: float  # turns of a usual game
    hidden: tuple[int, ...]
    rate: float  # Adam's
    discount: float
    by_seat: bool  # a network for each seat, else one for all
    past: int  # past selves
    strangers: tuple[Callable[[], Any], ...]  # what makes the policy of each
    share: float  # of games in which a past self or a stranger sits in all seats but one
    own: Mapping[str, Any]  # the section of the algorithm

    @property
    def remembers(self) -> bool:
        """Does it learn from games that it remembers, again and again?"""
        return self.algorithm in ("DQN", "SAC")

    def learners(self) -> list[str]:
        """The modules that learn, by seat; one name if there is one."""
        return [SEAT.format(k) for k in range(self.seats)] if self.by_seat else [LEARNER]

    def guests(self) -> list[str]:
        """Who may sit in all seats but one."""
        past = [f"{PAST_SELF}_{k}" for k in range(self.past)]
        return past + [f"{OPPONENT}_{k}" for k in range(len(self.strangers))]

    def module_of(self, agent: str) -> str:
        """The module that plays an agent of `Seats`."""
        learners, guest = self.learners(), opponent_of_agent(agent)
        learner = learners[seat_of_agent(agent) % len(learners)]
        return past_self_module(guest, learner) if guest.startswith(PAST_SELF) else guest or learner


def past_self_module(guest: str, learner: str) -> str:
    """The module of a past self of one that learns."""
    return f"{guest}_{learner}"


def algorithm_config(plan: MultiAgentSetup) -> AlgorithmConfig:
    """A plan in RLlib's words."""
    about = {
        "game": plan.game,
        "options": dict(plan.options),
        "seed": plan.seed,
        "renamed": plan.renamed,
    }
    network = RLModuleSpec(
        module_class=MODULES[plan.algorithm],
        catalog_class=NoCatalog,
        model_config={"hidden": plan.hidden},
    )
    modules = dict.fromkeys(plan.learners(), network)
    for k in range(plan.past):
        modules |= {past_self_module(f"{PAST_SELF}_{k}", m): network for m in plan.learners()}
    for k, make in enumerate(plan.strangers):
        told = {**about, "make": make}
        modules[f"{OPPONENT}_{k}"] = RLModuleSpec(module_class=FixedPolicyModule, model_config=told)
    view = {"guests": plan.guests(), "share": plan.share, "facts": bool(plan.strangers)}
    return (
        CONFIGS[plan.algorithm]()
        .environment(
            GameEnv,
            env_config={**about, **view},
            disable_env_checking=True,  # it plays what is illegal
            normalize_actions=False,
            clip_actions=False,
        )
        .env_runners(
            num_env_runners=plan.workers,
            num_cpus_per_env_runner=plan.cpus,
            episodes_to_numpy=False,  # else every step converts all episodes
            **_sampling(plan),
        )
        .learners(num_learners=0)
        .multi_agent(
            policies=set(modules),
            policies_to_train=plan.learners(),
            policy_mapping_fn=lambda agent, *_, **__: plan.module_of(agent),
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
        .debugging(log_level="ERROR")  # with a seed here it deals the same game again and again
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=plan.turns)
        .training(gamma=plan.discount, grad_clip=None, **TRAINING[plan.algorithm](plan, **plan.own))
    )


def _sampling(plan: MultiAgentSetup) -> dict[str, Any]:
    """How games are played: as SAMPLING has it, but by PPO at so few tables at once that each plays
    two games an iteration, for what a seat did last is lost where its game is cut."""
    how = SAMPLING[plan.algorithm]
    tables = how["num_envs_per_env_runner"]
    if plan.algorithm == "PPO":
        room = plan.turns / (2 * plan.length * max(plan.workers, 1))
        tables = min(tables, max(1, int(room)))
    return {**how, "num_envs_per_env_runner": tables}


def _ppo(
    plan: MultiAgentSetup,
    minibatch_size: int,
    epochs: int,
    gae_lambda: float,
    vf_loss_coef: float,
    **own: Any,
) -> dict[str, Any]:
    return {
        "train_batch_size_per_learner": plan.turns,
        "minibatch_size": minibatch_size,
        "num_epochs": epochs,
        "lambda_": gae_lambda,
        "use_kl_loss": False,
        "vf_loss_coeff": vf_loss_coef,
        "vf_clip_param": NO_VALUE_CLIPPING,
        **_gradients(plan, **own),
    }


def _appo(
    plan: MultiAgentSetup,
    minibatch_size: int,
    epochs: int,
    gae_lambda: float,
    vf_loss_coef: float,
    **own: Any,
) -> dict[str, Any]:
    return {  # nothing reads gae_lambda: V-trace has no lambda here
        "train_batch_size_per_learner": minibatch_size,
        "circular_buffer_iterations_per_batch": epochs,
        "vf_loss_coeff": 2 * vf_loss_coef,  # of half the squared error, where PPO has the whole
        **_gradients(plan, **own),
    }


def _gradients(plan: MultiAgentSetup, clip_param: float, entropy_coef: float) -> dict[str, Any]:
    return {"lr": plan.rate, "clip_param": clip_param, "entropy_coeff": entropy_coef}


def _dqn(
    plan: MultiAgentSetup,
    target_update_interval: int,
    double_q: bool,
    epsilon: float,
    epsilon_end: float,
    **own: Any,
) -> dict[str, Any]:
    return {
        "lr": plan.rate,
        "double_q": double_q,
        "dueling": False,
        "target_network_update_freq": target_update_interval,
        "epsilon": epsilon,
        **_replay(plan, **own),
    }


def _sac(plan: MultiAgentSetup, tau: float, initial_alpha: float, **own: Any) -> dict[str, Any]:
    rates = dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), plan.rate)
    own_words = {"tau": tau, "initial_alpha": initial_alpha, "twin_q": True}
    return {**rates, "lr": None, **own_words, **_replay(plan, **own)}


def _replay(
    plan: MultiAgentSetup, gradient_steps: int, batch_size: int, replay_capacity: int,
    learning_starts: int,
) -> dict[str, Any]:  # fmt: skip
    # RLlib learns after each round of sampling, and takes it that one brings a turn of each game,
    # and that this process plays beside its workers; where games are whole it brings a game
    how = SAMPLING[plan.algorithm]
    aside = how["num_envs_per_env_runner"]
    turns = max(plan.workers, 1) * (plan.length if how is COMPLETE_EPISODES else aside)
    return {
        "replay_buffer_config": {
            "type": "MultiAgentEpisodeReplayBuffer",
            "capacity": replay_capacity,
        },
        "train_batch_size_per_learner": batch_size,
        "training_intensity": gradient_steps
        * turns
        / plan.turns
        * batch_size
        / (aside * (plan.workers + 1)),
        "num_steps_sampled_before_learning_starts": learning_starts,
        "n_step": 1,
    }


TRAINING: dict[str, Callable[..., dict[str, Any]]] = {
    "PPO": _ppo,
    "APPO": _appo,
    "DQN": _dqn,
    "SAC": _sac,
}
