"""Trained networks among the development opponents of boards."""

from __future__ import annotations

from typing import Any

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.board.opponent_files import DEVELOPMENT_SEED
from overtrick.games import registry
from overtrick.policies import model_kinds
from overtrick.policies.network import NetworkPolicy
from overtrick.training.registry import JOBS, TRAINERS

STRENGTH = {"name": "holdem", "view": "strength"}

NETWORK_JOBS: dict[str, dict[str, dict[str, Any]]] = {
    "leduc": {
        "ppo_network": {
            "trainer": "policy_gradient_self_play",
            "game": "leduc",
            "self_play": {"algorithm": "ppo", "entropy_coef": 5, "entropy_coef_end": 0.5},
            "stop": {"iterations": 60},
        },
        "nfsp_network": {
            "trainer": "nfsp",
            "game": "leduc",
            "nfsp": {"anticipatory": 0.3, "games": 500, "gradient_steps": 16, "batch_size": 256},
            "stop": {"iterations": 60},
        },
        "evolved_network": {
            "trainer": "evolve",
            "game": "leduc",
            "evolve": {"size": 10, "games": 50, "gradient_estimator": "critic"},
            "stop": {"iterations": 100},
        },
    },
    "holdem": {
        "nfsp_network": {
            "trainer": "nfsp",
            "game": STRENGTH,
            "nfsp": {"anticipatory": 0.2, "games": 1000},
            "evaluate": {"opponents": ["random"]},
            "stop": {"iterations": 200},
        },
        "evolved_network": {
            "trainer": "evolve",
            "game": STRENGTH,
            "evaluate": {"opponents": ["random"]},
            "evolve": {"elite_share": 0.4, "mutation_rate": 0.1, "games": 100, "discount": 0.995},
            "stop": {"iterations": 200},
        },
    },
}
"""Jobs of the networks by game and family, each a training that ends early."""


def train_network(game: str, family: str) -> NetworkPolicy:
    """Train a network of NETWORK_JOBS, in about a minute; return its policy."""
    content = NETWORK_JOBS[game][family] | {"seed": DEVELOPMENT_SEED}
    job = job_file.parse(content, JOBS, family)
    trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    for _ in range(job.stop.iterations):
        trainer.step()
    made = registry.make(job.game.name, **job.game.options)
    stored = model_kinds.StoredWeights(trainer.model(), job.model_dump(mode="json"), family)
    policy: NetworkPolicy = model_kinds.load_policy(stored, made)
    return policy
