"""Law 5: one job gives one result with any number of workers, after failures and after a resume."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from ray import cloudpickle
from ray.exceptions import ActorDiedError, ActorUnavailableError
from safetensors.numpy import save_file
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.distributed import workers
from overtrick.distributed.workers import LocalPool, RayPool, WorkerPool, generator
from overtrick.storage import run_folder
from overtrick.training import registry
from overtrick.training.adaptation import meta
from overtrick.training.cardplay import pimc

# workers cannot import a test module, so its functions are pickled by value
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NFSP: dict[str, Any] = {
    "stop": {"iterations": 4},
    "nfsp": {
        "games": 600,
        "hidden": [8],
        "gradient_steps": 3,
        "batch_size": 16,
        "reservoir_capacity": 100,
    },
    "values": {
        "gradient_steps": 5,
        "batch_size": 16,
        "replay_capacity": 2000,
        "target_update_interval": 4,
    },
    "evaluate": {"opponents": ["random", "call"], "every": 1},
}

DRON: dict[str, Any] = {
    "stop": {"iterations": 4},
    "dron": {
        "hidden": [8],
        "gate_hidden": [8],
        "experts": 2,
        "random_opponents": 7,
        "adaptation_steps": 1,
        "games": 20,
    },
    "values": {
        "gradient_steps": 5,
        "batch_size": 16,
        "replay_capacity": 500,
        "target_update_interval": 4,
    },
    "evaluate": {
        "opponents": ["random", "call"],
        "steps": 2,
        "games": 20,
        "repeats": 2,
        "every": 1,
    },
}

SMALL_ORACLE: dict[str, Any] = {"iterations": 2, "games": 100, "hidden": [8]}
SELF_PLAY: dict[str, Any] = {
    "algorithm": "rnad", "games": 1100, "hidden": [8], "reference_interval": 2,
}  # fmt: skip
LEAGUE: dict[str, Any] = {
    "games": 50,
    "hidden": [8],
    "snapshot_interval": 1,
    "exploiter_iterations": 2,
}
SMALL_MATCHES: dict[str, Any] = {
    "hypotheses": 4, "queries": 3, "hidden": 8, "matches": 50, "stages": 2, "updates": 2,
}  # fmt: skip
IN_CONTEXT: dict[str, Any] = {
    "in_context": SMALL_MATCHES,
    "opponents": {"size": 10},
    "evaluate": {"opponents": ["random", "call"], "repeats": 2, "games": 9, "every": 4},
}

FEW_DEALS = {"evaluate": {"deals": 600, "final_deals": 700}}

Outcome = tuple[list[dict[str, float]], dict[str, np.ndarray]]


def outcome(pool: WorkerPool, changes: dict[str, Any] | None = None) -> Outcome:
    """Train the tiny job; return the metrics of every iteration and the final model."""
    job = job_file.parse({**TINY, **(changes or {})}, registry.JOBS, "tiny")
    trainer = meta.MetaTrainer(job, pool)
    metrics = [trainer.step() for _ in range(job.stop.iterations)]
    state = trainer.state()
    trainer.close()
    return metrics, state


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        np.testing.assert_array_equal(value, other[1][name], err_msg=name)


@pytest.fixture(scope="module")
def in_process() -> Outcome:
    return outcome(LocalPool())


def test_a_job_is_reproducible_to_the_last_bit(in_process: Outcome) -> None:
    assert_same(in_process, outcome(LocalPool()))


def test_another_seed_gives_other_numbers(in_process: Outcome) -> None:
    assert in_process[0] != outcome(LocalPool(), {"seed": 6})[0]


def test_one_ray_worker_gives_the_same_numbers_as_this_process(
    in_process: Outcome, local_ray: None
) -> None:
    assert_same(in_process, outcome(RayPool(1)))


def test_two_ray_workers_give_the_same_numbers_as_this_process(
    in_process: Outcome, two_workers: WorkerPool
) -> None:
    assert_same(in_process, outcome(two_workers))


@pytest.mark.parametrize(
    "section",
    [
        {"trainer": "exploit", "exploit": {"games": 1200, "hidden": [8]}},
        {"trainer": "nfsp", **NFSP},
        {"trainer": "dron", **DRON},
        {"trainer": "psro", "psro": {"form": "sequence"}},
        {"trainer": "psro", "psro": {"oracle": "ppo"}, "ppo": SMALL_ORACLE},
        {
            "trainer": "psro",
            "game": "holdem",
            "psro": {"oracle": "ppo", "payoff_games": 20},
            "ppo": SMALL_ORACLE,
            "evaluate": {"eval_deals": 20, "every": 5},
        },
        {"trainer": "league", "league": LEAGUE},
        {"trainer": "league", "league": {**LEAGUE, "game_shards": 3}},
        {"trainer": "dagger", "dagger": {"teacher": "cfr", "hidden": [8], "gradient_steps": 5}},
        {"trainer": "policy_gradient_self_play", "self_play": SELF_PLAY},
        {"trainer": "in_context", **IN_CONTEXT},
        {
            "trainer": "evolve",
            "evolve": {"size": 12, "games": 5, "hidden": [8]},
            "evaluate": {"opponents": ["random", "call"], "repeats": 2, "every": 1},
        },
        {
            "trainer": "eom",
            "eom": {"hidden": [8], "random_opponents": 12, "games": 5},
            "model": {"epochs": 3},
            "evaluate": {"opponents": ["random", "call"], "repeats": 2, "games": 9, "every": 1},
        },
        {
            "trainer": "coevolve",
            "coevolve": {"population": 12, "generations": 3},
            "inner": {"kind": "evolved", "generations": 2},
        },
        {
            "trainer": "tournament",
            "tournament": {"players": ["random", "call", "cfr"], "boards": 20},
        },
        {
            "trainer": "bridge_card_play",
            "game": "bridge",
            "bridge_card_play": {
                "players": {"careful": {"player": "careful"}, "search": {"worlds": 2}},
                "roles": ["declarer", "defenders"],
                "opponents": "careful",
                "boards": 4,
            },
        },
        {"trainer": "tabular", "game": "minibridge", "tabular": {"games": 1500}, **FEW_DEALS},
        {
            "trainer": "tabular",
            "game": {"name": "minibridge", "strain": "trump"},
            "tabular": {
                "games": 300,
                "epsilon": 0.5,
                "learn_lost_games": True,
                "learners": ["left", "declarer"],
            },
            **FEW_DEALS,
        },
        {
            "trainer": "tabular",
            "game": "minibridge",
            "tabular": {"games": 2500, "merged_tables": 3, "state_abstraction": "known_hands"},
            **FEW_DEALS,
        },
        {
            "trainer": "sampling",
            "game": "minibridge",
            "sampling": {"worlds": 1, "double_dummy": False},
        },
        {
            "trainer": "dqn",
            "game": "minibridge",
            "dqn": {"games": 300, "hidden": [8]},
            "values": {
                "gradient_steps": 3,
                "batch_size": 16,
                "replay_capacity": 500,
                "monte_carlo": True,
            },
            **FEW_DEALS,
        },
        {
            "trainer": "meta",
            "game": {"name": "sumo", "options": {"integrator": "euler"}},
            "meta": {"hidden": [8], "tasks": 6, "games": 2, "inner_lr": 1e-5},
            "population": {"size": 3, "fitness_games": 2, "immigrants": 3},
            "evaluate": {
                "opponents": ["random"],
                "steps": 1,
                "games": 2,
                "repeats": 2,
                "eval_deals": 2,
                "every": 1,
                "learning_rate": 1e-5,
            },
        },
    ],
)
def test_other_trainers_give_the_same_numbers_on_ray_workers(
    section: dict[str, Any], two_workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pimc, "EVALUATION_SHARD", 60)  # deals of an iteration
    job = job_file.parse({"game": "kuhn", **section}, registry.JOBS, "this test")
    make = registry.TRAINERS[job.trainer].trainer
    expected, crowded = make(job, LocalPool()), make(job, two_workers)
    assert [expected.step(), expected.step()] == [crowded.step(), crowded.step()]
    crowded.close()


@pytest.mark.parametrize(
    "kind",
    [
        {"objective": "exact", "second_order": True},
        {"gradient_estimator": "privileged_critic", "outer_games": 7},
        {"gradient_estimator": "aivat"},
        {"gradient_estimator": "aivat", "objective": "exact", "second_order": True},
        {"gradient_estimator": "opponent_model"},
        {"normalise": True},
    ],
)
def test_gradient_estimators_do_not_depend_on_the_number_of_workers(
    kind: dict[str, Any], two_workers: WorkerPool
) -> None:
    plan = {**TINY["meta"], **kind, "inner_steps": 2}
    changes = {"meta": plan, "stop": {"iterations": 2}}
    assert_same(outcome(LocalPool(), changes), outcome(two_workers, changes))


@pytest.mark.parametrize(
    "opponents", [{"kind": "random", "size": 7}, {"kind": "selfplay", "size": 3, "immigrants": 1}]
)
def test_every_kind_of_opponents_is_independent_of_workers_and_resumes_from_its_state(
    opponents: dict[str, Any], tmp_path: Path, two_workers: WorkerPool
) -> None:
    changes = {"population": opponents, "stop": {"iterations": 3}}
    whole = outcome(LocalPool(), changes)
    assert_same(whole, outcome(two_workers, changes))
    job = job_file.parse({**TINY, **changes}, registry.JOBS, "tiny")
    first, second = (meta.MetaTrainer(job, LocalPool()) for _ in range(2))
    metrics = [first.step(), first.step()]
    save_file({n: np.array(v) for n, v in first.state().items()}, tmp_path / run_folder.STATE)
    second.load(run_folder.read_state(tmp_path))
    assert_same(whole, ([*metrics, second.step()], second.state()))


def test_a_killed_worker_and_a_killed_remote_object_change_nothing(
    in_process: Outcome, local_ray: None
) -> None:
    pool = RayPool(2)
    job = job_file.parse(TINY, registry.JOBS, "tiny")
    trainer = meta.MetaTrainer(job, pool)
    metrics = []
    for iteration in range(job.stop.iterations):
        if iteration == 1:
            ray.kill(killed := pool._workers[1])
        if iteration == 4:
            ray.kill(trainer.population.remote.actor)
        metrics.append(trainer.step())
    state = trainer.state()
    assert pool._workers[1] is not killed
    trainer.close()
    assert_same(in_process, (metrics, state))


class CallCounter:
    """Object that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def ask(self) -> int:
        self.calls += 1
        return self.calls

    def state(self) -> dict[str, np.ndarray]:
        return {"asked": np.array(self.calls)}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        self.calls = int(state["asked"])


def test_an_unreachable_remote_object_is_killed_when_it_is_replaced(
    local_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = RayPool(0)
    host = pool.host(CallCounter())
    first, get = host.actor, ray.get
    assert host.call("ask") == 1

    def unreachable(answer: Any) -> None:
        monkeypatch.setattr(ray, "get", get)
        get(answer)
        raise ActorUnavailableError("the network is away", None)

    monkeypatch.setattr(ray, "get", unreachable)
    assert host.call("ask") == 2
    with pytest.raises(ActorDiedError):
        ray.get(first.call.remote("ask", ()))
    pool.close()


def _die_twice(rng: np.random.Generator, folder: str, shard: int) -> float:
    """Compute a shard that kills its worker the first two times."""
    deaths = list(Path(folder).iterdir())
    if shard == 1 and len(deaths) < 2:
        (Path(folder) / f"died-{len(deaths)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(rng.random())


def test_a_shard_whose_worker_dies_is_computed_again(tmp_path: Path, local_ray: None) -> None:
    pool = RayPool(2)
    shards = [(k,) for k in range(4)]
    survived = pool.map(_die_twice, str(tmp_path), shards, generator(1))
    assert len(list(tmp_path.iterdir())) == 2
    assert survived == LocalPool().map(_die_twice, str(tmp_path), shards, generator(1))
    pool.close()


class DyingActor:
    """Stands in for a Ray actor: every call of it dies."""

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *_: method)


def test_work_whose_workers_or_host_always_die_fails_after_five_deaths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[DyingActor] = []

    def get(call: str) -> None:
        raise ActorUnavailableError("its process was killed", None)

    fake = {"put": str, "wait": lambda calls, num_returns: (calls, []), "get": get}
    for name, function in {**fake, "kill": killed.append}.items():
        monkeypatch.setattr(ray, name, function)
    monkeypatch.setattr(workers, "_new_worker", lambda cpus: DyingActor())
    monkeypatch.setattr(workers, "_new_host", lambda thing: DyingActor())
    pool = RayPool(1)
    with pytest.raises(RunError, match=r"^shard 0 lost 5 workers: .*its process was killed"):
        pool.map(_worker_pid, None, [(0,)], generator(1))
    assert len(killed) == 4  # each was replaced except the last
    with pytest.raises(RunError, match=r"^ask: the host died 5 times$"):
        pool.host(CallCounter()).call("ask")
    assert len(set(killed)) == 9


def _worker_pid(rng: np.random.Generator, common: None, shard: int) -> int:
    time.sleep(0.15)
    return os.getpid()


@pytest.mark.parametrize("shards", [4, 10])
def test_workers_of_the_same_speed_get_the_same_share(two_workers: WorkerPool, shards: int) -> None:
    two_workers.map(_worker_pid, None, [(0,), (1,)], generator(0))  # both workers are running
    counts = Counter(
        two_workers.map(_worker_pid, None, [(k,) for k in range(shards)], generator(0))
    )
    assert sorted(counts.values()) == [shards // 2, shards // 2]


def _fail(rng: np.random.Generator, kind: type[Exception], shard: int) -> None:
    raise kind(f"shard {shard} cannot be")


def test_an_exception_in_a_shard_is_raised_as_itself(two_workers: WorkerPool) -> None:
    """An error that is none of ours also keeps the worker's traceback in its text."""
    with pytest.raises(ArithmeticError, match=r"(?s)in _fail.*shard 0 cannot be"):
        two_workers.map(_fail, ArithmeticError, [(0,)], generator(1))
    for kind in (UserError, RunError):
        with pytest.raises(kind) as raised:
            two_workers.map(_fail, kind, [(0,)], generator(1))
        assert str(raised.value) == "shard 0 cannot be"


ANTS: dict[str, Any] = {
    "game": {"name": "sumo", "integrator": "euler", "reward": "result"},
    "evaluate": {"opponents": ["random"], "repeats": 2, "learning_rate": 1e-5},
}
SUMO: dict[str, dict[str, Any]] = {
    "meta": {
        **ANTS,
        "meta": {
            "hidden": [4], "tasks": 2, "games": 1, "outer_games": 2, "solver": "ppo",
            "minibatches": 2, "inner_lr": 1e-5,  # a match is worth thousands of points
        },
        "population": {"size": 3, "fitness_games": 1, "every": 2, "action_std_scale": 0.5},
    },
    "evolve": {**ANTS, "evolve": {"hidden": [4], "size": 4, "games": 1, "mutation_rate": 1.0}},
}  # fmt: skip
"""Weights for real actions have one more name, whose place in the order must not matter."""


@pytest.mark.parametrize("kind", SUMO)
def test_ants_resume_from_a_state_with_identical_results(kind: str, tmp_path: Path) -> None:
    assert_resumes(kind, SUMO[kind], tmp_path)


@pytest.mark.parametrize(
    "kind",
    [
        "meta",
        "exploit",
        "evolve",
        "nfsp",
        "dron",
        "eom",
        "tabular",
        "dqn",
        "psro",
        "league",
        "dagger",
        "policy_gradient_self_play",
        "in_context",
    ],
)
def test_a_trainer_resumes_from_its_state_with_identical_results(kind: str, tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "meta": {**TINY, "meta": {**TINY["meta"], "normalise": True}},
        "exploit": {"exploit": {"games": 30, "hidden": [8]}},
        "evolve": {
            "evolve": {"games": 9, "hidden": [8]},
            "evaluate": {"opponents": ["random"], "repeats": 2, "every": 3},
        },
        "nfsp": NFSP,
        "dron": DRON,
        "psro": {"psro": {"oracle": "ppo"}, "ppo": SMALL_ORACLE},
        "league": {"league": LEAGUE},
        "dagger": {"dagger": {"teacher": "cfr", "hidden": [8], "gradient_steps": 5}},
        "policy_gradient_self_play": {"self_play": SELF_PLAY},
        "in_context": {**IN_CONTEXT, "in_context": {**SMALL_MATCHES, "gradient": "ppo"}},
        "eom": {
            "model": {"response": "ppo", "ppo_iterations": 2},
            "evaluate": {"opponents": ["random"], "repeats": 2, "games": 9, "every": 4},
        },
        "tabular": {
            "game": "minibridge",
            "tabular": {
                "games": 200, "learners": ["declarer", "right"], "epsilon": 0.4,
                "learn_lost_games": True,
            },
            **FEW_DEALS,
        },
        "dqn": {
            "game": "minibridge",
            "dqn": {"games": 50, "hidden": [8]},
            "values": {"gradient_steps": 3, "batch_size": 16, "replay_capacity": 500},
            **FEW_DEALS,
        },
    }[kind]  # fmt: skip
    assert_resumes(kind, {"game": "kuhn", **plain}, tmp_path)


def assert_resumes(kind: str, plain: dict[str, Any], tmp_path: Path) -> None:
    """Assert that two iterations, a state on disk and two more iterations equal four iterations."""
    page = registry.TRAINERS[kind]
    job = job_file.parse({"trainer": kind, **plain}, registry.JOBS, kind)
    whole, first = page.trainer(job, LocalPool()), page.trainer(job, LocalPool())
    for _ in range(4):
        expected = whole.step()
    for _ in range(2):
        first.step()
    save_file({n: np.array(v) for n, v in first.state().items()}, tmp_path / run_folder.STATE)
    second = page.trainer(job, LocalPool())
    second.load(run_folder.read_state(tmp_path))
    second.step()
    assert second.step() == expected
    ours, theirs = whole.state(), second.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_game_without_a_tree_is_trained_and_evaluated_on_sampled_games(
    two_workers: WorkerPool,
) -> None:
    changes = {
        "game": {"name": "holdem"},
        "meta": {**TINY["meta"], "gradient_estimator": "privileged_critic"},
        "stop": {"iterations": 1},
    }
    metrics, state = outcome(LocalPool(), changes)
    assert_same((metrics, state), outcome(two_workers, changes))
    assert {"random/after_2_big_blind", "call/after_0_big_blind"} <= metrics[-1].keys()
