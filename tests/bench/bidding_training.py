"""Measure supervised training of the call network from packed files beside a bare PyTorch loop."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.bench.measure import Result, in_turns
from tests.bidding_files import write_boards
from torch import nn

from overtrick.config import job_file
from overtrick.datasets import chunked_build
from overtrick.datasets.bidding_examples_build import ExamplesConfig
from overtrick.distributed.workers import LocalPool
from overtrick.training import registry
from overtrick.training.bidding import supervised

BOARDS, BATCH, ROUNDS, CORES = 3000, 512, 5, 2
SHAPES = {"3 x 1024": (1024,) * 3, "4 x 2048": (2048,) * 4}


def run() -> Result:
    """Train on the same examples in turns. The worst of four ratios is the result."""
    found, lines = {}, []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "examples"
        generate_examples(folder, BOARDS)
        for name, hidden in SHAPES.items():
            for half in (True, False):
                ours, peer = _rates(folder, hidden, half)
                kind = f"{name} {'bfloat16' if half else 'float32'}"
                found[kind] = ours, peer
                lines.append(f"{kind} {ours:,.0f} rows per second, bare {peer:,.0f}")
    ours, peer = min(found.values(), key=lambda pair: pair[0] / pair[1])
    return Result(
        name="bidding_training",
        work=f"training examples, batches of {BATCH}, {CORES} threads: {'; '.join(lines)}",
        ours=ours,
        peer=peer,
        peer_name="bare PyTorch loop on tensors in memory",
        unit="rows/s",
        ratio=ours / peer,
        goal=0.9,
    )


def generate_examples(folder: Path, boards: int) -> None:
    """Write examples of random deals that the system natural bids."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "boards.parquet"
        write_boards(file, boards, seed=0)
        config = ExamplesConfig.parse(["system_ns=natural", "system_ew=natural"], [file])
        chunked_build.generate(config, folder, LocalPool(), lambda stage, done, total: None)


def job_content(folder: Path, hidden: tuple[int, ...], half: bool, batch: int) -> dict[str, Any]:
    """Return a job that trains the call network; half: in bfloat16."""
    return {
        "trainer": "bidding", "game": "auction", "examples": str(folder),
        "resources": {"cpus": CORES}, "evaluate": {"every": 10**6},
        "stop": {"iterations": 10**6},
        "network": {"hidden": hidden, "bfloat16": half, "batch_size": batch},
    }  # fmt: skip


def _rates(folder: Path, hidden: tuple[int, ...], half: bool) -> tuple[float, float]:
    """Return the training rates of ours and of the bare loop, in rows per second."""
    job = job_file.parse(job_content(folder, hidden, half, BATCH), registry.JOBS, "the bench")
    trainer = supervised.BiddingTrainer(job, LocalPool())
    rows = list(trainer.examples.batches(BATCH, np.random.default_rng(0)))
    held = [
        tuple(torch.from_numpy(part) for part in (features, possible, label.astype(np.int64)))
        for features, possible, label in (
            supervised.inputs_and_labels(part, "calls", False) for part in rows
        )
    ]
    sizes = (held[0][0].shape[1], *hidden, held[0][1].shape[1])
    layers = [
        layer for k in range(len(hidden)) for layer in (nn.Linear(sizes[k], sizes[k + 1]),
                                                         nn.LeakyReLU())
    ]  # fmt: skip
    network = nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001, fused=True)

    def bare() -> None:
        for features, possible, label in held:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                lines = network(features)
            loss = nn.functional.cross_entropy(lines.float().masked_fill(~possible, -1e9), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    ours, peer = in_turns(trainer.step, bare, ROUNDS)
    return len(trainer.examples) / ours, len(trainer.examples) / peer
