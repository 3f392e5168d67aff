"""Settings of multi-agent training with RLlib, converted to RLlib's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from overtrick.games import registry
from overtrick.policies.policy_batch import SEAT
from overtrick.rllib.multi_agent_env import GameEnv, opponent_of_agent, seat_of_agent
from overtrick.rllib.rl_modules import MODULES, FixedPolicyModule, NoCatalog

LEARNER = "learner"
PAST_SELF, OPPONENT = "past", "stranger"
CONFIGS: dict[str, Any] = {"PPO": PPOConfig, "APPO": APPOConfig, "DQN": DQNConfig, "SAC": SACConfig}
TRUNCATED_EPISODES = {"num_envs_per_env_runner": 16, "batch_mode": "truncate_episodes"}
"""Sampling of several games in parallel, cut at the end of an iteration; the critic bootstraps."""
COMPLETE_EPISODES = {
    "num_envs_per_env_runner": 1,
    "batch_mode": "complete_episodes",
    "rollout_fragment_length": 1,
}
"""Sampling of one complete game after the other.

A replay buffer cannot join an episode that was cut between two decisions of a seat. RLlib would
drop the longest of several games played in parallel.
"""
SINGLE_STEPS = {**TRUNCATED_EPISODES, "rollout_fragment_length": 1}
"""Sampling of one step of each game; cut episodes can be joined where all seats act at once."""
SAMPLING: dict[str, dict[str, Any]] = {
    "PPO": TRUNCATED_EPISODES,
    "APPO": TRUNCATED_EPISODES,
    "DQN": COMPLETE_EPISODES,
    "SAC": SINGLE_STEPS,
}
NO_VALUE_CLIPPING = 1e6  # points: RLlib clips squared value errors here, beyond any payoff


@dataclass(frozen=True)
class MultiAgentSetup:
    """Game, learners, opponents and settings of one training run with RLlib."""

    algorithm: str  # a key of CONFIGS
    game: str
    options: Mapping[str, Any]
    seats: int
    canonical: bool  # observations and actions are in the game's canonical form
    seed: int
    workers: int  # number of RLlib's env runners; 0: sample in this process
    cpus: float  # per worker
    gpus: float  # of the learner
    env_steps: int  # smallest number of environment steps per iteration
    game_length: float  # mean environment steps per game
    hidden: tuple[int, ...]
    learning_rate: float
    discount: float
    by_seat: bool  # one network per seat, else one for all seats
    past_selves: int  # number of earlier versions of the learners kept as opponents
    opponents: tuple[Callable[[], Any], ...]  # functions that make the opponents' policies
    opponent_share: float  # share of games with a past self or opponent in all seats but one
    section: Mapping[str, Any]  # the job's section of the algorithm

    @property
    def has_replay_buffer(self) -> bool:
        """True if the algorithm trains from a replay buffer."""
        return self.algorithm in ("DQN", "SAC")

    def learners(self) -> list[str]:
        """List the names of the RLlib modules that train: one for each seat, or one for all."""
        return [SEAT.format(k) for k in range(self.seats)] if self.by_seat else [LEARNER]

    def opponent_names(self) -> list[str]:
        """List the names of all opponents.

        Frozen earlier versions of the learners are past_0, past_1, ...; the policies in the field
        `opponents` are stranger_0, stranger_1, ...
        """
        past = [f"{PAST_SELF}_{k}" for k in range(self.past_selves)]
        return past + [f"{OPPONENT}_{k}" for k in range(len(self.opponents))]

    def module_of(self, agent: str) -> str:
        """Return the name of the RLlib module that controls an agent of GameEnv."""
        learners, opponent = self.learners(), opponent_of_agent(agent)
        learner = learners[seat_of_agent(agent) % len(learners)]
        if opponent.startswith(PAST_SELF):
            return past_self_module(opponent, learner)
        return opponent or learner


def past_self_module(past_self: str, learner: str) -> str:
    """Return the name of the RLlib module that holds a frozen earlier version of a learner.

    `past_self`: name of the version, such as past_0. `learner`: name of the learner's module.
    """
    return f"{past_self}_{learner}"


def self_play_config(
    config: PPOConfig, game: str, hidden: Sequence[int] = (64, 64), **options: Any
) -> PPOConfig:
    """Complete a PPOConfig or APPOConfig of RLlib so that one network learns all seats of a game.

    The network masks illegal actions. All other settings stay as they are in `config`:

        algorithm = self_play_config(PPOConfig(), "leduc").build_algo()

    `hidden`: units of the network's layers. `options`: the game's options. Raises UserError for an
    unknown game or option, and for a game that cannot be played.
    """
    registry.check_playable(registry.make(game, **options))
    modules = {LEARNER: _network_spec("PPO", hidden)}
    return (
        _with_game(config, {"game": game, "options": options})
        .multi_agent(policies={LEARNER}, policy_mapping_fn=lambda *_, **__: LEARNER)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
    )


def _network_spec(algorithm: str, hidden: Sequence[int]) -> RLModuleSpec:
    """Return the specification of a module with a network. `hidden`: units of its layers."""
    return RLModuleSpec(
        module_class=MODULES[algorithm], catalog_class=NoCatalog, model_config={"hidden": hidden}
    )


def _with_game(config: Any, env: Mapping[str, Any]) -> Any:
    """Return RLlib's configuration with GameEnv as its environment. `env`: GameEnv's config."""
    return config.environment(
        GameEnv,
        env_config=env,
        disable_env_checking=True,  # the check takes illegal actions
        normalize_actions=False,
        clip_actions=False,
    )


def algorithm_config(setup: MultiAgentSetup) -> AlgorithmConfig:
    """Build RLlib's configuration of an algorithm from the settings of a training run."""
    env = {
        "game": setup.game,
        "options": dict(setup.options),
        "seed": setup.seed,
        "canonical": setup.canonical,
    }
    network = _network_spec(setup.algorithm, setup.hidden)
    modules = dict.fromkeys(setup.learners(), network)
    for k in range(setup.past_selves):
        modules |= {past_self_module(f"{PAST_SELF}_{k}", m): network for m in setup.learners()}
    for k, make in enumerate(setup.opponents):
        modules[f"{OPPONENT}_{k}"] = RLModuleSpec(
            module_class=FixedPolicyModule, model_config={**env, "make": make}
        )
    env |= {
        "opponents": setup.opponent_names(),
        "opponent_share": setup.opponent_share,
        "raw": bool(setup.opponents),
    }
    return (
        _with_game(CONFIGS[setup.algorithm](), env)
        .env_runners(
            num_env_runners=setup.workers,
            num_cpus_per_env_runner=setup.cpus,
            episodes_to_numpy=False,  # else every step converts all episodes
            **_sampling(setup),
        )
        .learners(num_learners=0, num_gpus_per_learner=setup.gpus)
        .multi_agent(
            policies=set(modules),
            policies_to_train=setup.learners(),
            policy_mapping_fn=lambda agent, *_, **__: setup.module_of(agent),
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
        .debugging(log_level="ERROR")  # with a seed here every episode would have the same deal
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=setup.env_steps)
        .training(gamma=setup.discount, grad_clip=None, **_training(setup))
    )


def _sampling(setup: MultiAgentSetup) -> dict[str, Any]:
    """Return RLlib's settings for sampling games with the run's algorithm.

    For PPO, the number of parallel environments is limited so that each environment can play two
    games per iteration.
    """
    # RLlib truncates the unfinished games at the end of an iteration and loses each seat's last
    # transition in them
    settings = SAMPLING[setup.algorithm]
    envs = settings["num_envs_per_env_runner"]
    if setup.algorithm == "PPO":
        most = setup.env_steps / (2 * setup.game_length * max(setup.workers, 1))
        envs = min(envs, max(1, int(most)))
    return {**settings, "num_envs_per_env_runner": envs}


def _training(setup: MultiAgentSetup) -> dict[str, Any]:
    """Convert the algorithm's hyperparameters in the job file to RLlib's training settings."""
    section = setup.section
    settings = {name: section[key] for key, name in SETTINGS[setup.algorithm].items()}
    if setup.algorithm == "PPO":
        settings |= {
            "train_batch_size_per_learner": setup.env_steps,
            "use_kl_loss": False,
            "vf_clip_param": NO_VALUE_CLIPPING,
        }
    elif setup.algorithm == "APPO":
        settings["vf_loss_coeff"] *= 2  # APPO halves the squared error, PPO does not
    elif setup.algorithm == "DQN":
        settings["dueling"] = False
    else:
        rates = dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), setup.learning_rate)
        settings |= {"lr": None, "twin_q": True, **rates}
    replay = _replay(setup) if setup.has_replay_buffer else {}
    return {"lr": setup.learning_rate, **settings, **replay}


def _replay(setup: MultiAgentSetup) -> dict[str, Any]:
    """Return RLlib's settings of the replay buffer and of the replay ratio.

    The replay ratio, `training_intensity`, is chosen so that an iteration takes the number of
    gradient steps in the job file.
    """
    # training_intensity: decisions trained on per decision sampled, as RLlib counts the latter. It
    # assumes that this process samples too (with workers, only they sample), and that each
    # environment makes one step per round (with COMPLETE_EPISODES it plays one complete game).
    sampling, section = SAMPLING[setup.algorithm], setup.section
    envs = sampling["num_envs_per_env_runner"]
    steps = max(setup.workers, 1) * (setup.game_length if sampling is COMPLETE_EPISODES else envs)
    learnt = section["gradient_steps"] * steps / setup.env_steps * section["batch_size"]
    return {
        "replay_buffer_config": {
            "type": "MultiAgentEpisodeReplayBuffer",
            "capacity": section["replay_capacity"],
        },
        "training_intensity": learnt / (envs * (setup.workers + 1)),
        "n_step": 1,
    }


_GRADIENT = {"clip_param": "clip_param", "entropy_coef": "entropy_coeff"}
_BUFFER = {
    "batch_size": "train_batch_size_per_learner",
    "learning_starts": "num_steps_sampled_before_learning_starts",
}
SETTINGS: dict[str, dict[str, str]] = {
    "PPO": {
        "minibatch_size": "minibatch_size",
        "epochs": "num_epochs",
        "gae_lambda": "lambda_",
        "vf_loss_coef": "vf_loss_coeff",
        **_GRADIENT,
    },
    "APPO": {  # without gae_lambda: RLlib's V-trace has no lambda
        "minibatch_size": "train_batch_size_per_learner",
        "epochs": "circular_buffer_iterations_per_batch",
        "vf_loss_coef": "vf_loss_coeff",
        **_GRADIENT,
    },
    "DQN": {
        "double_q": "double_q",
        "target_update_interval": "target_network_update_freq",
        "epsilon": "epsilon",
        **_BUFFER,
    },
    "SAC": {"tau": "tau", "initial_alpha": "initial_alpha", **_BUFFER},
}
"""For each algorithm: its hyperparameters in the job file, each with RLlib's name for it."""
