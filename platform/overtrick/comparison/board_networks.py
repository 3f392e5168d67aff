"""Trained networks among the development opponents of Leduc."""

from __future__ import annotations

from typing import Any

from overtrick.config import job_file
from overtrick.core import Array
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.opponent_files import DEVELOPMENT_SEED
from overtrick.policies import model_kinds
from overtrick.solvers.extensive import best_response
from overtrick.training.registry import JOBS, TRAINERS

NETWORK_JOBS: dict[str, dict[str, Any]] = {
    "ppo_network": {
        "trainer": "policy_gradient_self_play",
        "self_play": {"algorithm": "ppo", "entropy_coef": 5, "entropy_coef_end": 0.5},
        "stop": {"iterations": 60},
    },
    "nfsp_network": {
        "trainer": "nfsp",
        "nfsp": {"anticipatory": 0.3, "games": 500, "gradient_steps": 16, "batch_size": 256},
        "stop": {"iterations": 60},
    },
    "evolved_network": {
        "trainer": "evolve",
        "evolve": {"size": 10, "games": 50, "gradient_estimator": "critic"},
        "stop": {"iterations": 100},
    },
}
"""Jobs of the networks by family, each a training that ends early."""


def train_network(family: str) -> Array:
    """Train a network of NETWORK_JOBS, in about ten seconds; return its strategy (N, A)."""
    content = NETWORK_JOBS[family] | {"game": "leduc", "seed": DEVELOPMENT_SEED}
    job = job_file.parse(content, JOBS, family)
    trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    for _ in range(job.stop.iterations):
        trainer.step()
    here = board_evaluation.setting(job.game, "own_cards")
    stored = model_kinds.StoredWeights(trainer.model(), job.model_dump(mode="json"), family)
    policy = model_kinds.load_policy(stored, here.game)
    return best_response.sigma_of(here.tree, [policy] * here.tree.seats)
