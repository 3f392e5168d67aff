"""Runner of an RLlib algorithm: trains by iterations and converts its state to arrays."""

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
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.policies.forward_pass import Weights
from overtrick.rllib import algorithm_config as config
from overtrick.rllib import rl_modules
from overtrick.rllib.algorithm_config import MultiAgentSetup
from overtrick.rllib.replay_buffer import LearnerReplayBuffer

LEARNER_METRICS = {"loss": "total_loss", "entropy_nats": "entropy"}
"""RLlib's name of each metric of the learner, by our name; not every algorithm has all metrics."""
POLICY_DRAWS, REPLAY_DRAWS = 1, 2
"""Number for the purpose of a random generator: the last part of the generator's seed.

The parts before are the iteration's seed, the worker's index, and the index of the environment or
opponent. The seeds of deals have no last part, which numpy treats as 0.
"""


def policy_networks(state: Mapping[str, Array], algorithm: str) -> dict[str, Weights]:
    """Return the policy network of each RLModule that is trained, by name.

    `state`: the result of `AlgorithmRunner.state`.
    """
    network = rl_modules.POLICY_NETWORKS[algorithm]
    return {
        name: rl_modules.extract_weights(weights, network)
        for name, weights in _modules(state).items()
        if not name.startswith((config.PAST_SELF, config.OPPONENT))
    }


def _modules(state: Mapping[str, Array]) -> dict[str, Weights]:
    """Return the weights of each RLModule by name.

    `state`: the result of `AlgorithmRunner.state`.
    """
    arrays = unprefixed("module", state)
    return {n: unprefixed(n, arrays) for n in sorted({n.partition(".")[0] for n in arrays})}


class AlgorithmRunner:
    """RLlib algorithm that runs until `close`; its state is saved and restored as arrays."""

    def __init__(self, setup: MultiAgentSetup) -> None:
        self.setup = setup
        _seed_all([setup.seed])  # draws the initial weights
        self.algorithm = config.algorithm_config(setup).build_algo()
        self._paused: Any = nullcontext()  # context in which no weights are updated
        if setup.algorithm == "APPO":
            self._paused = _lock_updates(self.algorithm.learner_group._learner)
        # RLlib creates this folder in the user's home directory and never uses it
        shutil.rmtree(self.algorithm.logdir, ignore_errors=True)
        if setup.has_replay_buffer:
            self.algorithm.local_replay_buffer = LearnerReplayBuffer(setup)
        # games and environment steps: of the run, and of this process as RLlib counts them
        self._total = self._counted = np.zeros(2, np.int64)
        for slot in range(setup.past_selves):
            self.store_past_self(slot)

    def step(self, seed: int, epsilon: float) -> dict[str, float]:
        """Run one iteration of sampling and training; return its metrics by name.

        `seed`: seeds all random generators for this iteration.
        `epsilon`: probability of a random action, used by DQN.
        """
        _seed_all([seed])
        runners = self.algorithm.env_runner_group
        restart = not self.setup.has_replay_buffer
        runners.foreach_env_runner(lambda runner: _prepare(runner, seed, epsilon, restart))
        if self.setup.has_replay_buffer:
            self.algorithm.local_replay_buffer.reseed([seed, 0, 0, REPLAY_DRAWS])
        result = self.algorithm.train()
        sampled, learners = result["env_runners"], result.get("learners", {})
        names = "num_episodes_lifetime", "num_env_steps_sampled_lifetime"
        # RLlib has no counts before a game has ended
        counted = np.array([int(sampled.get(name, 0)) for name in names])
        self._total, self._counted = self._total + counted - self._counted, counted
        metrics = {"games": float(self._total[0]), "turns": float(self._total[1])}
        for ours, theirs in LEARNER_METRICS.items():
            modules = [learners.get(name, {}) for name in self.setup.learners()]
            values = [float(module[theirs]) for module in modules if theirs in module]
            if values:  # with a replay buffer the first iterations take no gradient step
                metrics[ours] = float(np.mean(values))
        return metrics

    def store_past_self(self, slot: int) -> None:
        """Replace past self number `slot` by a frozen copy of the current learners.

        A past self is an earlier version of the learners, kept as an opponent.
        """
        modules = self._learner_state()["rl_module"]
        copies = {
            config.past_self_module(f"{config.PAST_SELF}_{slot}", m): modules[m]
            for m in self.setup.learners()
        }
        self._set_learner({"rl_module": copies})

    def state(self) -> dict[str, Array]:
        """Return weights, target networks, optimisers and replay buffer as arrays by name."""
        learner = self._learner_state()
        out = {"done": self._total}
        for module, weights in learner["rl_module"].items():
            out |= prefixed(f"module.{module}", weights)
        for name, optimizer in learner["optimizer"].items():
            for place, values in optimizer["state"]["state"].items():
                moments = {key: np.asarray(value) for key, value in values.items()}
                out |= prefixed(f"optimizer.{name}.{place}", moments)
        out |= prefixed("temperature", self._temperatures(None))
        if self.setup.has_replay_buffer:
            out["target_age"] = np.array(self._counted[1] - self._target_update_step())
            out |= prefixed("memory", self.algorithm.local_replay_buffer.state())
        return out

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a state that the method `state` of this or another runner returned."""
        learner = self._learner_state()
        for optimizer in learner["optimizer"].values():
            optimizer["state"]["state"] = {}
        for name, value in unprefixed("optimizer", state).items():
            owner, place, key = name.split(".", 2)
            moments = learner["optimizer"][owner]["state"]["state"]
            moments.setdefault(int(place), {})[key] = value
        self._total = state["done"]
        self._set_learner({"rl_module": _modules(state), "optimizer": learner["optimizer"]})
        self._temperatures(unprefixed("temperature", state))
        if self.setup.has_replay_buffer:
            self._load_replay_buffer(unprefixed("memory", state), int(state["target_age"]))

    def _load_replay_buffer(self, games: Mapping[str, Array], age: int) -> None:
        """Restore the replay buffer and the step of the last target update.

        Also set the step at which learning starts: after the rest of the warm-up, if any is left.

        `games`: content of the buffer, as `LearnerReplayBuffer.state` returns it.
        `age`: environment steps since the last update of the target networks.
        """
        buffer = self.algorithm.local_replay_buffer = LearnerReplayBuffer(self.setup)
        if games:
            buffer.load(games)
        now = int(self._counted[1])
        self._target_update_step(now - age)
        changed = self.algorithm.config.copy(copy_frozen=False)
        wait = max(0, self.setup.section["learning_starts"] - int(self._total[1]))
        changed.num_steps_sampled_before_learning_starts = now + wait
        changed.freeze()
        self.algorithm.config = changed

    def _target_update_step(self, new: int | None = None) -> int:
        """Return the environment step at which this process last updated the target networks.

        If `new` is given, set it first.
        """

        def of(learner: Any) -> int:
            if new is not None:
                learner.last_update_ts_by_mid = defaultdict(lambda: new)
            return int(learner.last_update_ts_by_mid[self.setup.learners()[0]])

        (found,) = (each.get() for each in self.algorithm.learner_group.foreach_learner(of))
        return found

    def close(self) -> None:
        self.algorithm.stop()

    def _learner_state(self) -> dict[str, Any]:
        with self._paused:
            return self.algorithm.learner_group.get_state()["learner"]

    def _set_learner(self, learner: dict[str, Any]) -> None:
        """Set entries of the RLlib learner's state, and copy its weights to all env runners."""
        group = self.algorithm.learner_group
        with self._paused:
            group.set_state({"learner": learner})
            self.algorithm.env_runner_group.sync_weights(
                from_worker_or_learner_group=group, inference_only=True
            )

    def _temperatures(self, new: Mapping[str, Array] | None) -> dict[str, Array]:
        """Return the logarithm of SAC's temperature for each learning module.

        RLlib's own state lacks it. Returns {} for other algorithms. `new`: logarithms to set first.
        """
        if self.setup.algorithm != "SAC":
            return {}

        def of(learner: Any) -> dict[str, Array]:
            for name, value in (new or {}).items():
                learner.curr_log_alpha[name].data.copy_(torch.from_numpy(value))
            names = self.setup.learners()
            return {name: learner.curr_log_alpha[name].numpy(force=True).copy() for name in names}

        (found,) = (each.get() for each in self.algorithm.learner_group.foreach_learner(of))
        return found


def _lock_updates(learner: Any) -> Any:
    """Make APPO's learner thread hold a lock while it updates weights; return the lock.

    RLlib itself takes the lock only to read the weights.
    """
    lock, thread = learner._model_io_lock, learner._learner_thread
    update = thread._update_method

    def locked_update(**options: Any) -> Any:
        with lock:
            return update(**options)

    thread._update_method = locked_update
    return lock


def _seed_all(key: list[int]) -> None:
    """Seed the global generators of torch, numpy and Python in this process, which RLlib uses."""
    a, b, c = np.random.SeedSequence(key).generate_state(3)
    torch.manual_seed(int(a))
    np.random.seed(b)
    random.seed(int(c))


def _prepare(runner: Any, seed: int, epsilon: float, restart: bool) -> None:
    """Prepare an env runner for an iteration: set its seeds and DQN's exploration.

    `seed`: the iteration's seed. `epsilon`: probability of a random action.
    `restart`: start new games, because checkpoints do not hold unfinished games.
    """
    key = [seed, runner.worker_index]
    _seed_all(key)
    runner._needs_initial_reset |= restart
    for place, env in enumerate(runner.env.envs if runner.env else []):
        env.unwrapped.reseed([*key, place])

    def prepare_module(name: str, module: Any) -> None:
        if isinstance(module, rl_modules.FixedPolicyModule):
            module.reseed([*key, int(name.rpartition("_")[2]), POLICY_DRAWS])
        if isinstance(module, rl_modules.MaskedDqn):
            module.epsilon_schedule = Scheduler(epsilon, framework="torch")

    if runner.module is not None:
        runner.module.foreach_module(prepare_module)
