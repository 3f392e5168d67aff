"""Trainers put their tensors on torch's default device: on a fake GPU the results equal those of
the CPU, and runs on a real GPU are repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.bidding_files import write_boards, write_untrained_model
from tests.fake_gpu import FakeGpuTensor, fake_gpu

from overtrick.config import job_file
from overtrick.core import devices
from overtrick.datasets import chunked_build
from overtrick.datasets.bidding_examples_build import ExamplesConfig
from overtrick.distributed.workers import LocalPool
from overtrick.training import registry
from overtrick.training.adaptation import evolve

EVALUATION = {"opponents": ["random", "call"], "steps": 1, "repeats": 2, "games": 9, "every": 1}
VALUES = {"gradient_steps": 3, "batch_size": 16, "replay_capacity": 500}
META = {"hidden": [8], "tasks": 4, "games": 5, "inner_steps": 2}
BIDDING = {"game": "auction", "network": {"batch_size": 32}, "evaluate": {"every": 2}}
MODELS_AND_DEALS = {"call_model": "model", "value_model": "model", "deals": "boards.parquet"}
JOBS: dict[str, dict[str, Any]] = {
    "meta": {
        "trainer": "meta",
        "meta": {**META, "fisher_subsample": 2},
        "population": {"size": 4, "fitness_games": 3, "immigrants": 2},
        "evaluate": EVALUATION,
    },
    "meta by ppo and critic": {
        "trainer": "meta",
        "meta": {
            **META, "solver": "ppo", "minibatches": 2, "gradient_estimator": "critic",
            "objective": "sampled",
        },
        "adaptation": {"gradient_estimator": "critic"},
        "population": {"size": 4, "fitness_games": 3, "immigrants": 2},
        "evaluate": EVALUATION,
    },
    "meta in sumo": {
        "trainer": "meta",
        "game": {"name": "sumo", "options": {"integrator": "euler"}},
        "meta": {"hidden": [8], "tasks": 2, "games": 1, "inner_lr": 1e-5},
        "population": {"size": 2, "fitness_games": 1, "immigrants": 1},
        "evaluate": {**EVALUATION, "opponents": ["random"], "games": 1, "eval_deals": 2,
                     "learning_rate": 1e-5},
    },
    "exploit": {"trainer": "exploit", "exploit": {"games": 100, "hidden": [8]}},
    "dagger": {
        "trainer": "dagger",
        "dagger": {"teacher": "bluff", "hidden": [8], "gradient_steps": 3, "batch_size": 16},
        "evaluate": {"opponents": ["random"], "every": 1},
    },
    "dagger in sumo": {
        "trainer": "dagger",
        "game": {"name": "sumo", "options": {"integrator": "euler"}},
        "dagger": {"teacher": "pusher", "hidden": [8], "games": 2, "gradient_steps": 3},
        "evaluate": {"opponents": ["random"], "eval_deals": 2, "every": 1},
    },
    "nfsp": {
        "trainer": "nfsp",
        "nfsp": {"games": 100, "hidden": [8], "gradient_steps": 3, "batch_size": 16},
        "values": {**VALUES, "target_update_interval": 2},
        "evaluate": {"opponents": ["random"], "every": 1},
    },
    "dron": {
        "trainer": "dron",
        "dron": {
            "hidden": [8], "gate_hidden": [8], "experts": 2, "random_opponents": 4,
            "adaptation_steps": 1, "games": 10,
        },
        "values": VALUES,
        "evaluate": EVALUATION,
    },
    "eom": {
        "trainer": "eom",
        "eom": {"hidden": [8], "random_opponents": 4, "games": 5},
        "model": {"epochs": 3, "response": "ppo", "ppo_iterations": 1, "ppo_games": 10},
        "evaluate": EVALUATION,
    },
    "evolve": {
        "trainer": "evolve",
        "evolve": {"hidden": [8], "size": 4, "games": 20},
        "evaluate": EVALUATION,
    },
    "dqn": {
        "trainer": "dqn",
        "game": "minibridge",
        "dqn": {"games": 50, "hidden": [8]},
        "values": VALUES,
        "evaluate": {"deals": 100, "final_deals": 100},
    },
    "bidding": {
        **BIDDING,
        "trainer": "bidding",
        "examples": "examples",
        "network": {"hidden": [16], "batch_size": 32},
    },
    "bidding in bfloat16": {
        **BIDDING,
        "trainer": "bidding",
        "target": "imps",
        "examples": "examples",
        "network": {
            "hidden": [16], "batch_size": 32, "bfloat16": True, "dropout": 0.2, "optimizer": "sgd",
        },
    },
    "bidder": {
        **BIDDING,
        **MODELS_AND_DEALS,
        "trainer": "bidder",
        "bidder": {
            "games": 100, "gradient_steps": 5, "replay_capacity": 2000,
            "target": "next", "target_update_interval": 3,
        },
    },
    "selfplay_bidding": {
        **BIDDING,
        **MODELS_AND_DEALS,
        "trainer": "selfplay_bidding",
        "play": {
            "boards": 100, "minibatches": 2, "value_warmup_iterations": 0, "past_selves": 2,
            "snapshot_interval": 1,
        },
        "values": {"gradient_steps": 3, "replay_capacity": 3000},
    },
}  # fmt: skip


State = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _back_to_the_cpu() -> Iterator[None]:
    yield
    devices.use_gpu(False)


@pytest.fixture(scope="module")
def bidding_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the boards, examples and untrained model that the bidding jobs name."""
    folder = tmp_path_factory.mktemp("bidding")
    write_boards(folder / "boards.parquet", 200, seed=8)
    write_untrained_model(folder / "model")
    options = ["outcomes=true", "system_ns=natural", "system_ew=natural"]
    config = ExamplesConfig.parse(options, [folder / "boards.parquet"])
    chunked_build.generate(config, folder / "examples", LocalPool(), lambda *_: None)
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder_of_the_files(bidding_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bidding_files)


def new_trainer(name: str) -> Any:
    content = {"game": "kuhn", "stop": {"iterations": 2}, **JOBS[name]}
    job = job_file.parse(content, registry.JOBS, "this test")
    return registry.TRAINERS[job.trainer].trainer(job, LocalPool())


def train(name: str, start: State | None = None) -> tuple[dict[str, float], State]:
    """Train for one iteration, from the start or a checkpoint; return metrics and checkpoint."""
    trainer = new_trainer(name)
    if start is not None:
        trainer.load({key: value.copy() for key, value in start.items()})
    return trainer.step(), {key: value.copy() for key, value in trainer.state().items()}


def assert_equal(one: tuple[dict[str, float], State], other: tuple[dict[str, float], State]):
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for key, value in one[1].items():
        np.testing.assert_array_equal(value, other[1][key], err_msg=key)


@pytest.mark.parametrize("name", JOBS)
def test_a_trainer_has_equal_results_on_a_fake_gpu(name: str) -> None:
    first = train(name)
    second = train(name, first[1])
    with fake_gpu():
        assert_equal(train(name), first)
        assert_equal(train(name, first[1]), second)  # from a checkpoint of the CPU


def test_evolution_plays_its_round_robin_on_the_gpu(monkeypatch) -> None:
    on_workers = train("evolve")
    monkeypatch.setattr(evolve, "gpu_in_use", lambda: True)
    pools = []
    monkeypatch.setattr(evolve, "LocalPool", lambda **how: pools.append(how) or LocalPool(**how))
    with fake_gpu():
        assert_equal(train("evolve"), on_workers)
    assert pools == [{"on_learner_device": True}]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine")
@pytest.mark.parametrize("name", JOBS)
def test_a_trainer_computes_on_a_gpu(name: str) -> None:
    """Two runs on one GPU are bit-identical; checkpoints move from CPU to GPU and back."""
    start = train(name)
    devices.use_gpu(True)
    torch.cuda.reset_peak_memory_stats()
    there = train(name)
    assert torch.cuda.max_memory_allocated() > 0
    assert_equal(train(name), there)
    assert all(map(np.isfinite, train(name, start[1])[0].values()))
    devices.use_gpu(False)
    assert all(map(np.isfinite, train(name, there[1])[0].values()))


def test_the_fake_gpu_refuses_what_a_gpu_refuses() -> None:
    ours = torch.ones(3)
    with fake_gpu():
        theirs = torch.as_tensor(np.ones(3))
        assert isinstance(theirs, FakeGpuTensor)
        with pytest.raises(RuntimeError, match="two devices"):
            ours + theirs
        with pytest.raises(TypeError, match="numpy"):
            theirs.numpy()
        with pytest.raises(TypeError, match="numpy"):
            np.asarray(theirs)
        assert (theirs + 1).numpy(force=True).tolist() == [2, 2, 2]


def device_of_zeros(rng: np.random.Generator, common: None) -> str:
    return torch.zeros(2).device.type


def test_use_gpu_sets_the_default_device_and_on_cpu_overrides_it(monkeypatch) -> None:
    """Torch's device `meta`, which holds no numbers, stands in for a GPU."""
    monkeypatch.setattr(devices, "GPU", "meta")
    before = torch.get_default_device()
    devices.use_gpu(False)
    assert torch.get_default_device() == before
    devices.use_gpu(True)
    assert torch.zeros(2).device.type == "meta"
    with devices.on_cpu():
        assert torch.as_tensor(np.zeros(2)).device.type == "cpu"
    assert torch.zeros(2).device.type == "meta"
    rng = np.random.default_rng(0)
    assert LocalPool().map(device_of_zeros, None, [()], rng) == ["cpu"]
    assert LocalPool(on_learner_device=True).map(device_of_zeros, None, [()], rng) == ["meta"]
    devices.use_gpu(False)
    assert torch.get_default_device() == before
