"""An algorithm of RLlib at work on a game: built from a plan, stepped, its state as arrays."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from ray.rllib.utils.schedules.scheduler import Scheduler

from overtrick.core import Array
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.policies.forward_pass import Weights
from overtrick.rllib.algorithm_config import (
    OPPONENT,
    PAST_SELF,
    MultiAgentSetup,
    algorithm_config,
    past_self_module,
)
from overtrick.rllib.replay_buffer import LearnerReplayBuffer
from overtrick.rllib.rl_modules import (
    POLICY_NETWORKS,
    FixedPolicyModule,
    MaskedDqn,
    extract_weights,
)

LEARNER_METRICS = {"loss": "total_loss", "entropy_nats": "entropy"}
"""Our metrics of learning by RLlib's names; not every algorithm has all."""
POLICY_DRAWS, REPLAY_DRAWS = 1, 2
"""Who draws, the last part of a seed: after the iteration's, the worker and the table or the guest.
Deals have 0, as numpy takes no part for 0."""


def policy_networks(state: Mapping[str, Array], algorithm: str) -> dict[str, Weights]:
    """The network that plays, of each module that learns, out of the state of an algorithm."""
    modules = unprefixed("module", state)
    names = sorted({name.partition(".")[0] for name in modules})
    return {
        name: extract_weights(unprefixed(name, modules), POLICY_NETWORKS[algorithm])
        for name in names
        if not name.startswith((PAST_SELF, OPPONENT))
    }


class AlgorithmRunner:
    """An algorithm between its first iteration and its last."""

    def __init__(self, plan: MultiAgentSetup) -> None:
        self.plan = plan
        _seed_all([plan.seed])  # of the first weights
        self.algorithm = algorithm_config(plan).build_algo()
        self._still: Any = nullcontext()  # while in it, nothing is learnt
        if plan.algorithm == "APPO":
            self._still = _between_steps(self.algorithm.learner_group._learner)
        # in the user's home, and nothing is ever written to it
        shutil.rmtree(self.algorithm.logdir, ignore_errors=True)
        if plan.remembers:
            self.algorithm.local_replay_buffer = LearnerReplayBuffer(plan)
        # games and turns: all, and those that this process played, as RLlib counts them
        self._done = self._here = np.zeros(2, np.int64)
        for slot in range(plan.past):
            self.remember(slot)

    def step(self, seed: int, epsilon: float) -> dict[str, float]:
        """One iteration, whose luck comes from a seed; its metrics. epsilon: share of random
        actions, of one who learns values."""
        _seed_all([seed])
        runners = self.algorithm.env_runner_group
        anew = not self.plan.remembers
        runners.foreach_env_runner(lambda runner: _begin(runner, seed, epsilon, anew))
        if self.plan.remembers:
            self.algorithm.local_replay_buffer.reseed([seed, 0, 0, REPLAY_DRAWS])
        found = self.algorithm.train()
        sampled, learnt = found["env_runners"], found.get("learners", {})
        names = "num_episodes_lifetime", "num_env_steps_sampled_lifetime"
        # none before a game has ended
        here = np.array([int(sampled.get(name, 0)) for name in names])
        self._done, self._here = self._done + here - self._here, here
        metrics = {"games": float(self._done[0]), "turns": float(self._done[1])}
        for ours, theirs in LEARNER_METRICS.items():
            modules = [learnt.get(name, {}) for name in self.plan.learners()]
            told = [float(module[theirs]) for module in modules if theirs in module]
            if told:  # one who remembers games learns nothing at first
                metrics[ours] = float(np.mean(told))
        return metrics

    def remember(self, slot: int) -> None:
        """From now on a past self is what learns today."""
        modules = self._learner()["rl_module"]
        today = {
            past_self_module(f"{PAST_SELF}_{slot}", m): modules[m] for m in self.plan.learners()
        }
        self._set({"rl_module": today})

    def state(self) -> dict[str, Array]:
        """Weights, target networks, optimisers and games that are remembered."""
        learner = self._learner()
        out = {"done": self._done}
        for module, weights in learner["rl_module"].items():
            out |= {f"module.{module}.{name}": value for name, value in weights.items()}
        for name, optimizer in learner["optimizer"].items():
            for place, memory in optimizer["state"]["state"].items():
                out |= {
                    f"optimizer.{name}.{place}.{key}": np.asarray(v) for key, v in memory.items()
                }
        for module, alpha in self._temperatures(None).items():
            out[f"temperature.{module}"] = alpha
        if self.plan.remembers:
            out["target_age"] = np.array(self._here[1] - self._renewed())
            out |= prefixed("memory", self.algorithm.local_replay_buffer.state())
        return out

    def load(self, state: Mapping[str, Array]) -> None:
        """Go on from there."""
        learner = self._learner()
        modules: dict[str, dict[str, Array]] = {}
        temperatures: dict[str, Array] = {}
        for optimizer in learner["optimizer"].values():
            optimizer["state"]["state"] = {}
        for name, value in state.items():
            kind, _, rest = name.partition(".")
            part, _, key = rest.partition(".")
            if kind == "module":
                modules.setdefault(part, {})[key] = value
            elif kind == "optimizer":
                place, _, memory = key.partition(".")
                kept = learner["optimizer"][part]["state"]["state"]
                kept.setdefault(int(place), {})[memory] = value
            elif kind == "temperature":
                temperatures[part] = value
        self._done = state["done"]
        self._set({"rl_module": modules, "optimizer": learner["optimizer"]})
        self._temperatures(temperatures)
        if self.plan.remembers:
            self._recall(unprefixed("memory", state), int(state["target_age"]))

    def _recall(self, games: Mapping[str, Array], age: int) -> None:
        """Remember these games and no others, so many turns after target networks were renewed."""
        memory = self.algorithm.local_replay_buffer = LearnerReplayBuffer(self.plan)
        if games:
            memory.load(games)
        now = int(self._here[1])
        self._renewed(now - age)
        config = self.algorithm.config.copy(copy_frozen=False)
        wait = max(0, self.plan.own["learning_starts"] - int(self._done[1]))
        config.num_steps_sampled_before_learning_starts = now + wait
        config.freeze()
        self.algorithm.config = config

    def _renewed(self, put: int | None = None) -> int:
        """After which turn of this process the target networks of all modules were renewed."""

        def of(learner: Any) -> int:
            if put is not None:
                learner.last_update_ts_by_mid = defaultdict(lambda: put)
            return int(learner.last_update_ts_by_mid[self.plan.learners()[0]])

        (found,) = (each.get() for each in self.algorithm.learner_group.foreach_learner(of))
        return found

    def close(self) -> None:
        self.algorithm.stop()

    def _learner(self) -> dict[str, Any]:
        with self._still:
            return self.algorithm.learner_group.get_state()["learner"]

    def _set(self, learner: dict[str, Any]) -> None:
        """Change what learns and all copies of it."""
        group = self.algorithm.learner_group
        with self._still:
            group.set_state({"learner": learner})
            self.algorithm.env_runner_group.sync_weights(
                from_worker_or_learner_group=group, inference_only=True
            )

    def _temperatures(self, put: Mapping[str, Array] | None) -> dict[str, Array]:
        """The logarithm of SAC's temperature by module, which RLlib's own state leaves out."""
        if self.plan.algorithm != "SAC":
            return {}

        def of(learner: Any) -> dict[str, Array]:
            for name, value in (put or {}).items():
                learner.curr_log_alpha[name].data.copy_(torch.from_numpy(value))
            names = self.plan.learners()
            return {name: learner.curr_log_alpha[name].detach().numpy().copy() for name in names}

        (found,) = (each.get() for each in self.algorithm.learner_group.foreach_learner(of))
        return found


def _between_steps(learner: Any) -> Any:
    """The lock that APPO's thread holds while it learns: RLlib locks its own reading only."""
    lock, thread = learner._model_io_lock, learner._learner_thread
    update = thread._update_method

    def alone(**told: Any) -> Any:
        with lock:
            return update(**told)

    thread._update_method = alone
    return lock


def _seed_all(key: list[int]) -> None:
    """RLlib draws from the generators of the process."""
    a, b, c = np.random.SeedSequence(key).generate_state(3)
    torch.manual_seed(int(a))
    np.random.seed(b)
    random.seed(int(c))


def _begin(runner: Any, seed: int, epsilon: float, anew: bool) -> None:
    """What a process that plays has to know before an iteration; anew: leave what is under way,
    which is in no checkpoint."""
    key = [seed, runner.worker_index]
    _seed_all(key)
    runner._needs_initial_reset |= anew
    for place, env in enumerate(runner.env.envs if runner.env else []):
        env.unwrapped.reseed([*key, place])

    def told(name: str, module: Any) -> None:
        if isinstance(module, FixedPolicyModule):
            module.reseed([*key, int(name.rpartition("_")[2]), POLICY_DRAWS])
        if isinstance(module, MaskedDqn):
            module.epsilon_schedule = Scheduler(epsilon, framework="torch")

    if runner.module is not None:
        runner.module.foreach_module(told)
