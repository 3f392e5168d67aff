"""Compare deep Q-learning of a declarer after 1,000 games: RLlib's with one seat and with four as
agents, beside ours with the same network on the same observation, and both with renamed suits."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Wrapper
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from scipy.stats import binomtest
from tests.bench.measure import Result

from overtrick import make
from overtrick.distributed.workers import start_ray
from overtrick.environments.gymnasium_env import single_env
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge.cardplay.suit_canonical import CanonicalPolicy, canonical_trajectories
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.value_based.dqn import Dqn, DqnConfig, GreedyPolicy, greedy_policy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.rllib.multi_agent_env import ACTION_MASK, FEATURES, GameEnv, observation_space
from overtrick.rllib.rl_modules import FixedPolicyModule, MaskedDqn, NoCatalog, extract_weights

GAMES, TURNS, AT_ONCE, DEALS, ROWS, UPDATES = 1000, 26, 100, 10_000, 256, 3000
OPTIONS = {"scoring": "tricks"}


def run() -> Result:
    """Measure contracts made on unseen deals against the rules, and seconds of learning."""
    start_ray([{"CPU": 1.0}] * 2)
    theirs: dict[str, Any] = {
        "gamma": 1.0, "lr": 0.001, "train_batch_size_per_learner": ROWS, "double_q": True,
        "dueling": False, "num_steps_sampled_before_learning_starts": 1000,
        "target_network_update_freq": 1000, "epsilon": [[0, 1.0], [GAMES * TURNS // 2, 0.1]],
        # decisions of a game; RLlib's training is counted in decisions
        "training_intensity": ROWS * UPDATES / GAMES,
    }  # fmt: skip
    found = {}
    for name, how in (
        ("RLlib, one seat", {"renamed": False, "whole": False}),
        ("RLlib, four seats", {"renamed": False, "whole": True}),
        ("RLlib, four seats with suits renamed", {"renamed": True, "whole": True}),
        ("ours, bootstrapped from the next decision", {"renamed": False, "whole": False}),
        ("ours, Monte Carlo returns", {"renamed": False, "whole": True}),
        ("ours, the same with suits renamed", {"renamed": True, "whole": True}),
    ):
        began = time.perf_counter()
        if name.startswith("RLlib"):
            policy, games = train_rllib(**how, training=theirs)
        else:
            policy, games = train_ours(**how), GAMES
        found[name] = share_made(policy)
        seconds = time.perf_counter() - began
        print(f"{name}: {percent(found[name])}, {games} games in {seconds:.0f} s")
    best = found["ours, the same with suits renamed"]
    return Result(
        name="minibridge_dqn",
        work=f"contracts made after {GAMES:,} games, {DEALS:,} unseen deals, in per cent ("
        + "; ".join(f"{name}: {percent(made)}" for name, made in found.items())
        + "; the report: 42 %)",
        ours=100 * best,
        peer=100 * found["RLlib, one seat"],
        peer_name="RLlib's DQN, one seat",
        unit="% made",
        ratio=best / found["RLlib, one seat"],
        goal=1,
    )


class Masked(Wrapper):
    """Environment of the declarer's seat with a mask of legal actions, in the format of RLlib's
    modules.

    config: game, options, others (constructor of their policy), and the seed of the first deals.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        others = [config["others"]()]
        super().__init__(single_env(config["game"], others, 0, **config["options"]))
        self.observation_space = observation_space(self.unwrapped.game, raw=False)
        self.env.reset(seed=config["seed"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._with_mask(*self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        observation, points, over, cut, info = self.env.step(action)
        if over:  # no action is legal there, but the maximum of the values needs one
            info["action_mask"][:] = 1
        observation, info = self._with_mask(observation, info)
        return observation, points, over, cut, info

    def _with_mask(
        self, observation: Any, info: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return {FEATURES: observation, ACTION_MASK: info["action_mask"].astype(np.float32)}, {}


def train_rllib(renamed: bool, whole: bool, training: dict[str, Any]) -> tuple[Any, int]:
    """Return RLlib's policy and its games. whole: every seat is an agent, two of them the learner's
    and two of the rules; else one seat is the agent and the rest is inside the environment."""
    about = {"game": "minibridge", "options": OPTIONS, "seed": 0, "canonical": renamed}
    rules = partial(make_opponent, "rules", make("minibridge", **OPTIONS), None)
    network = RLModuleSpec(
        module_class=MaskedDqn, catalog_class=NoCatalog, model_config={"hidden": (256, 256)}
    )
    memory = "MultiAgentEpisodeReplayBuffer" if whole else "EpisodeReplayBuffer"
    config = (
        DQNConfig()
        # whole games: its replay buffer cannot join games that were cut while an agent waits
        .env_runners(num_env_runners=0, batch_mode="complete_episodes", rollout_fragment_length=1)
        .training(**training, replay_buffer_config={"type": memory, "capacity": 100_000})
        .debugging(log_level="ERROR")  # a seed here would give every game the same deal
    )
    if whole:
        view = {**about, "options": {**OPTIONS, "seats": 4}, "raw": True}
        info = {"make": rules, **{name: view[name] for name in about}}
        both = {
            "learner": network,
            "others": RLModuleSpec(module_class=FixedPolicyModule, model_config=info),
        }
        config = (
            config.environment(GameEnv, env_config=view, disable_env_checking=True)
            .env_runners(episodes_to_numpy=False)  # else every step converts all episodes
            .multi_agent(
                policies=set(both),
                policies_to_train=["learner"],
                policy_mapping_fn=lambda agent, *_, **__: (
                    "learner" if agent in {"0", "2"} else "others"
                ),
            )
            .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=both))
        )
    else:
        inside = {**about, "others": rules}
        config = config.environment(Masked, env_config=inside, disable_env_checking=True)
        config = config.rl_module(rl_module_spec=network)
    torch.manual_seed(0)
    algorithm = config.build_algo()
    shutil.rmtree(algorithm.logdir, ignore_errors=True)  # an empty folder in the user's home
    done = 0
    while done < GAMES * TURNS * (1 + whole):
        found = algorithm.train()["env_runners"]
        done = int(found["num_env_steps_sampled_lifetime"])
    module = algorithm.get_module("learner") if whole else algorithm.get_module()
    weights = extract_weights(module.get_state(), "af")
    algorithm.stop()
    game = make("minibridge")
    policy = greedy_policy(weights, game) if renamed else GreedyPolicy(game.features, weights)
    return policy, int(found["num_episodes_lifetime"])


def train_ours(renamed: bool, whole: bool) -> Any:
    game, rng = make("minibridge", **OPTIONS), np.random.default_rng(0)
    rules = make_opponent("rules", game, None)
    plan = DqnConfig(
        0.001, UPDATES * AT_ONCE // GAMES, ROWS, 100_000, 300, 1.0, "squared", True, whole
    )
    learner = Dqn(game.features, initial_weights((input_size(game), 256, 256, 52), rng, 0.1), plan)
    for first in range(0, GAMES, AT_ONCE):
        policy = learner.policy(True, max(0.1, 1 - 1.8 * first / GAMES))
        player = CanonicalPolicy(policy) if renamed else policy
        batch = play(game, (player, rules), AT_ONCE, rng, recorded=[0]).batch
        learner.adam.set_learning_rate(plan.learning_rate * (1 - first / GAMES))
        learner.learn(canonical_trajectories(batch) if renamed else batch, rng)
    best = learner.policy(False)
    return CanonicalPolicy(best) if renamed else best


def share_made(policy: Any) -> float:
    game = make("minibridge")
    rules = make_opponent("rules", game, None)
    payoff = play(game, (policy, rules), DEALS, np.random.default_rng(1), recorded=()).payoff[:, 0]
    return float((payoff > 0).mean())


def percent(made: float) -> str:
    found = binomtest(round(made * DEALS), DEALS).proportion_ci(method="wilson")
    return f"{made:.1%} ({found.low:.1%} to {found.high:.1%})"
