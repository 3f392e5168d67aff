"""Define a small job of every trainer, of seconds each, and make the files that some need.

A job names files relative to the folder of its run, and models as `NAME/model`. Evaluations are due
every second of three iterations, so that the last iteration is not due by the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SEED = 7
DEALS = "data/deals.parquet"
EXAMPLES = "data/examples"
BOARDS = 60

_THREE = {"seed": SEED, "stop": {"iterations": 3}}
_HELD_OUT = {"opponents": ["random", "call"], "every": 2}
_ADAPTED = {**_HELD_OUT, "steps": 2, "games": 20, "repeats": 2}
_VALUES = {
    "gradient_steps": 3, "batch_size": 16, "replay_capacity": 500, "target_update_interval": 4,
}  # fmt: skip
_CARDS = {"deals": 20, "final_deals": 30, "every": 2}
_AUCTION = {**_THREE, "game": "auction"}
_PAIR = {
    **_AUCTION,
    "call_model": "bidding/model",
    "value_model": "bidding_imps/model",
    "deals": DEALS,
    "network": {"batch_size": 32},
    "evaluate": {"every": 2, "boards": 8, "final_boards": 8, "opponents": ["precision"]},
}
_BIDDING = {
    **_AUCTION,
    "trainer": "bidding",
    "examples": EXAMPLES,
    "network": {"hidden": [4], "batch_size": 64, "inputs": "last_bid"},
    "evaluate": {"every": 2, "examples": 100},
}

SMALL_JOBS: dict[str, dict[str, Any]] = {
    "bidding": {**_BIDDING, "target": "calls"},
    "bidding_imps": {**_BIDDING, "target": "imps"},
    "bidder": {
        **_PAIR,
        "trainer": "bidder",
        "bidder": {"games": 40, "gradient_steps": 3, "replay_capacity": 500},
    },
    "selfplay_bidding": {
        **_PAIR,
        "trainer": "selfplay_bidding",
        "play": {
            "boards": 40, "learning_rate": 0.001, "minibatches": 2, "value_warmup_iterations": 1,
            "past_selves": 2, "snapshot_interval": 1, "opponents": ["natural"],
        },
        "values": {"gradient_steps": 3, "replay_capacity": 500},
    },
    "coevolve": {
        **_THREE,
        "trainer": "coevolve",
        "game": "kuhn",
        "coevolve": {"population": 6, "generations": 2},
        "inner": {"kind": "evolved", "generations": 2},
    },
    "dqn": {
        **_THREE,
        "trainer": "dqn",
        "game": "minibridge",
        "dqn": {"games": 20, "hidden": [8]},
        "values": _VALUES,
        "evaluate": _CARDS,
    },
    "dron": {
        **_THREE,
        "trainer": "dron",
        "game": "leduc",
        "dron": {
            "hidden": [8], "gate_hidden": [8], "experts": 2, "random_opponents": 4,
            "adaptation_steps": 1, "games": 20, "opponent_hidden": [8],
        },
        "values": _VALUES,
        "evaluate": _ADAPTED,
    },
    "eom": {
        **_THREE,
        "trainer": "eom",
        "game": "kuhn",
        "eom": {"hidden": [8], "random_opponents": 6, "games": 10},
        "model": {"epochs": 2},
        "evaluate": _ADAPTED,
    },
    "evolve": {
        **_THREE,
        "trainer": "evolve",
        "game": "leduc",
        "evolve": {"size": 6, "games": 10, "hidden": [8]},
        "evaluate": _ADAPTED,
    },
    "exploit": {
        **_THREE,
        "trainer": "exploit",
        "game": "holdem",
        "exploit": {
            "opponent": "call", "games": 60, "hidden": [8], "eval_deals": 40, "eval_interval": 2,
        },
    },
    "in_context": {
        **_THREE,
        "trainer": "in_context",
        "game": "kuhn",
        "in_context": {
            "heads": 1, "hypotheses": 4, "queries": 3, "values": 2, "hidden": 8,
            "matches": 25, "stages": 2, "updates": 2,
        },
        "opponents": {"size": 10},
        "evaluate": _ADAPTED,
    },
    "meta": {
        **_THREE,
        "trainer": "meta",
        "game": "kuhn",
        "meta": {
            "hidden": [8], "tasks": 7, "games": 20, "inner_steps": 1,
            "gradient_estimator": "critic", "objective": "sampled", "second_order": False,
        },
        "adaptation": {"gradient_estimator": None},
        "population": {"size": 6, "fitness_games": 10, "immigrants": 1},
        "evaluate": _ADAPTED,
    },
    "psro": {
        **_THREE,
        "trainer": "psro",
        "game": "kuhn",
        "psro": {"oracle": "ppo"},
        "ppo": {"iterations": 2, "games": 50, "hidden": [4]},
        "evaluate": _HELD_OUT,
    },
    "policy_gradient_self_play": {
        **_THREE,
        "trainer": "policy_gradient_self_play",
        "game": "kuhn",
        "self_play": {"algorithm": "rnad", "games": 50, "hidden": [4], "reference_interval": 2},
        "evaluate": _HELD_OUT,
    },
    "league": {
        **_THREE,
        "trainer": "league",
        "game": "kuhn",
        "league": {"games": 50, "hidden": [4], "snapshot_interval": 1},
        "evaluate": _HELD_OUT,
    },
    "dagger": {
        **_THREE,
        "trainer": "dagger",
        "game": "kuhn",
        "dagger": {"teacher": "cfr", "games": 20, "hidden": [4], "gradient_steps": 3},
        "evaluate": _HELD_OUT,
    },
    "nfsp": {
        **_THREE,
        "trainer": "nfsp",
        "game": "leduc",
        "nfsp": {
            "games": 60, "hidden": [8], "gradient_steps": 3, "batch_size": 16,
            "reservoir_capacity": 100,
        },
        "values": _VALUES,
        "evaluate": _HELD_OUT,
    },
    "rllib": {
        **_THREE,
        "trainer": "rllib",
        "game": "leduc",
        "rllib": {"env_steps": 60, "hidden": [8]},
        "ppo": {"minibatch_size": 30, "epochs": 2},
        "evaluate": _HELD_OUT,
    },
    "sampling": {
        "seed": SEED,
        "stop": {"iterations": 1},
        "trainer": "sampling",
        "game": "minibridge",
        "sampling": {"worlds": 1, "double_dummy": False},
    },
    "solve": {
        "seed": SEED,
        "stop": {"iterations": 12},
        "trainer": "solve",
        "game": "leduc",
        "solve": {"variants": ["cfr+", "external"]},
    },
    "tabular": {
        **_THREE,
        "trainer": "tabular",
        "game": "minibridge",
        "tabular": {"games": 20},
        "evaluate": _CARDS,
    },
    "bridge_card_play": {
        **_THREE,
        "trainer": "bridge_card_play",
        "game": "bridge",
        "bridge_card_play": {
            "players": {
                "careful": {"player": "careful"},
                "search": {"worlds": 2, "proposals": 20},
            },
            "roles": ["declarer", "duplicate"],
            "opponents": "careful",
            "boards": 2,
        },
    },
    "tournament": {
        **_THREE,
        "trainer": "tournament",
        "game": "leduc",
        "tournament": {"players": ["random", "call", "bluff", "cfr"], "boards": 10},
    },
}  # fmt: skip
"""Small jobs by name, ordered so that a job follows those whose models it needs. A name is a
trainer or one of its two targets."""

NEEDED = dict.fromkeys(("bidder", "selfplay_bidding"), ("bidding", "bidding_imps"))
"""The jobs whose models a job needs."""

WITH_FILES = ("bidding", "bidding_imps", *NEEDED)
"""The jobs that need deals and examples."""


def make_files(command: Callable[..., object]) -> None:
    """Generate the deals and the examples in the current folder. command: run a command of the
    package, given as words."""
    command("generate", "deals", f"boards={BOARDS}", f"seed={SEED}", "--out", DEALS)
    outcomes = ("outcomes=true", f"seed={SEED}")
    command("generate", "examples", "--file", DEALS, *outcomes, "--out", EXAMPLES)
