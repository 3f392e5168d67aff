"""Translate job keys and values from before version 0.2 to their present names.

A job file with an old key is rejected, and the error names the new key. The job of a stored run or
model is translated. No other module contains an old name.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Sections = Mapping[str, Mapping[str, str]]
"""For each section ("" for top-level keys): new key by old key. A new key that contains a dot is a
full path; any other new key stays in its section."""


def _dotted(*groups: Sections) -> dict[str, str]:
    """Merge several groups of renamed job keys into one map from old to new dotted keys."""
    found: dict[str, str] = {}
    for sections in groups:
        for section, names in sections.items():
            start = f"{section}." if section else ""
            found |= {f"{start}{o}": n if "." in n else f"{start}{n}" for o, n in names.items()}
    return found


_ALL: Sections = {
    "": {"films": "videos"},
    "films": {"every": "videos.every", "against": "videos.opponent"},
    "resources": {"together": "single_node", "readers": "data_readers"},
    "search": {
        "grace": "grace_period",
        "factor": "reduction_factor",
        "every": "perturbation_interval",
        "share": "quantile_fraction",
    },
}
_EVERY_TRAINER = _dotted(_ALL)
_BUDGET = {"draws": "repeats", "judged": "eval_deals"}
_HELD_OUT_EVALUATION = {
    **_BUDGET,
    "strangers": "opponents",
    "safe": "exploitability_bound",
    "safe_by": "bound_method",
}
_GRADIENT_EVALUATION = {**_HELD_OUT_EVALUATION, "step": "learning_rate"}
_CARD_PLAY_EVALUATION = {"final": "final_deals", "solved": "solutions"}
_GRADIENT_STEPS = {"steps": "gradient_steps", "rows": "batch_size"}
_REPLAY = {
    "room": "replay_capacity",
    "steps": "gradient_steps",
    "refresh": "target_update_interval",
}
_Q_LEARNING = {
    **_GRADIENT_STEPS,
    **_REPLAY,
    "rate": "learning_rate",
    "double": "double_q",
    "whole": "monte_carlo",
}
_OFF_POLICY = {**_GRADIENT_STEPS, "room": "replay_capacity", "first": "learning_starts"}
_POLICY_GRADIENT = {"gae": "gae_lambda", "entropy": "entropy_coef"}
_ACTOR_CRITIC = {**_POLICY_GRADIENT, "critic_rate": "critic_learning_rate"}
_RANDOM_NETWORKS = {"style": "head_init_scale", "lean": "logit_bias_std"}
_RANDOM_POLICIES = {**_RANDOM_NETWORKS, "spread": "action_std_scale"}
_PAST_SELVES = {"past": "past_selves", "every": "snapshot_interval"}
_BIDDING_NETWORK = {"rate": "learning_rate", "batch": "batch_size", "half": "bfloat16"}
_BIDDING_PAIR: Sections = {
    "": {"rules": "system_version", "calls": "call_model", "imps": "value_model"},
    "network": _BIDDING_NETWORK,
    "evaluate": {"final": "final_boards", "against": "opponents"},
}

_SECTIONS: dict[str, Sections] = {
    "bidder": {**_BIDDING_PAIR, "bidder": {**_REPLAY, "deals": "max_deals"}},
    "bidding": {
        "": {"rules": "system_version", "learn": "target"},
        "network": {**_BIDDING_NETWORK, "auction": "inputs", "raw_auction": "inputs"},
    },
    "coevolve": {
        "coevolve": {"step": "step_size"},
        "inner": {"step": "step_size", "growth": "generations_growth"},
    },
    "dqn": {"evaluate": _CARD_PLAY_EVALUATION, "values": _Q_LEARNING},
    "dron": {
        "evaluate": _HELD_OUT_EVALUATION,
        "values": _Q_LEARNING,
        "dron": {
            **_RANDOM_NETWORKS,
            "gate": "gate_hidden",
            "opponents": "random_opponents",
            "steps": "adaptation_steps",
        },
    },
    "eom": {
        "evaluate": _HELD_OUT_EVALUATION,
        "eom": {
            **_RANDOM_NETWORKS,
            **_ACTOR_CRITIC,
            "newcomers": "random_opponents",
            "step": "learning_rate",
            "prior_rate": "prior_learning_rate",
        },
        "model": {
            "rate": "learning_rate",
            "held": "holdout_share",
            "trust": "prior_count",
            "reply": "response",
            "iterations": "ppo_iterations",
            "games": "ppo_games",
            "step": "ppo_learning_rate",
            "entropy": "ppo_entropy_coef",
        },
    },
    "evolve": {
        "evaluate": _GRADIENT_EVALUATION,
        "evolve": {**_RANDOM_POLICIES, "credit": "gradient_estimator"},
    },
    "exploit": {
        "exploit": {
            **_ACTOR_CRITIC,
            "parts": "minibatches",
            "credit": "gradient_estimator",
            "judged": "eval_deals",
            "every": "eval_interval",
        },
    },
    "meta": {
        "evaluate": _GRADIENT_EVALUATION,
        "meta": {
            **_ACTOR_CRITIC,
            "inner_step": "inner_lr",
            "average": "weight_ema",
            "thinned": "fisher_subsample",
            "parts": "minibatches",
            "credit": "gradient_estimator",
            "values": "objective",
            "test_credit": "adaptation.gradient_estimator",
            "test_updates": "adaptation.gradient_steps",
            "test_play": "adaptation.policy",
        },
        "population": _RANDOM_POLICIES,
    },
    "nfsp": {
        "evaluate": _HELD_OUT_EVALUATION,
        "values": _Q_LEARNING,
        "nfsp": {**_GRADIENT_STEPS, "rate": "learning_rate", "room": "reservoir_capacity"},
    },
    "rllib": {
        "evaluate": _HELD_OUT_EVALUATION,
        "rllib": {"turns": "env_steps", "rate": "learning_rate"},
        "ppo": {
            **_POLICY_GRADIENT,
            "rows": "minibatch_size",
            "clip": "clip_param",
            "critic": "vf_loss_coef",
        },
        "dqn": {**_OFF_POLICY, "refresh": "target_update_interval", "double": "double_q"},
        "sac": {**_OFF_POLICY, "temperature": "initial_alpha"},
        "population": {**_PAST_SELVES, "strangers": "opponents", "share": "opponent_share"},
    },
    "sampling": {
        "sampling": {
            "guide": "rollout_policy",
            "expects": "assumed_defenders",
            "solved": "solutions",
        },
    },
    "selfplay_bidding": {
        **_BIDDING_PAIR,
        "play": {
            **_POLICY_GRADIENT,
            **_PAST_SELVES,
            "deals": "max_deals",
            "rate": "learning_rate",
            "clip": "clip_range",
            "passes": "epochs",
            "parts": "minibatches",
            "kl_stop": "target_kl",
            "pull": "teacher_kl_coef",
            "wait": "value_warmup_iterations",
            "decides": "final_policy",
            "others": "opponents",
        },
        "values": _REPLAY,
    },
    "solve": {
        "solve": {
            "plans": "variants",
            "looks": "measurements_per_decade",
            "memory": "memory_gib",
        },
    },
    "table": {"": {"strangers": "opponents"}, "evaluate": _BUDGET},
    "tabular": {
        "evaluate": _CARD_PLAY_EVALUATION,
        "tabular": {
            "representation": "state_abstraction",
            "rule": "update",
            "alpha": "learning_rate",
            "gamma": "discount",
            "spread": "neighbour_share",
            "lost": "learn_lost_games",
            "explore": "epsilon",
            "shards": "merged_tables",
        },
    },
}

KEYS = {trainer: _dotted(_ALL, sections) for trainer, sections in _SECTIONS.items()}
"""New dotted key by old dotted key, by trainer; see `_SOLVER_KEYS` for keys that need `solver`."""

_SOLVER_KEYS = {
    "meta.outer_step": {"trpo": "meta.outer_kl", "ppo": "meta.outer_lr"},
    "meta.outer_step_end": {"trpo": "meta.outer_kl_end", "ppo": "meta.outer_lr_end"},
    "exploit.step": {"trpo": "exploit.max_kl", "ppo": "exploit.learning_rate"},
}
_DEFAULT_SOLVER = {"meta": "trpo", "exploit": "ppo"}

_VALUES: dict[str, dict[str | bool, str]] = {
    "gradient_estimator": {"hindsight": "privileged_critic", "model": "opponent_model"},
    "policy": {"response": "best_response"},
    "inputs": {True: "last_bid", False: "features"},
}
"""New value by old value, by the last part of the new key."""


def new_key(trainer: Any, key: str, job: Mapping[str, Any]) -> str | None:
    """Return the present name of an old dotted job key; None if the key is not an old one.

    `trainer`: the name of the job's trainer. `job`: plain data of the job, because some new names
    depend on the key `solver` of a section.
    """
    if key in _SOLVER_KEYS:
        section = key.partition(".")[0]
        given = job.get(section)
        solver = given.get("solver") if isinstance(given, Mapping) else None
        names = _SOLVER_KEYS[key]
        return names.get(str(solver), names[_DEFAULT_SOLVER[section]])
    return KEYS.get(str(trainer), _EVERY_TRAINER).get(key)


def translate_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored job's plain data with the present names of all keys and values."""
    new = deepcopy(dict(job))
    trainer = new.get("trainer")
    for key, value in list(job.items()):
        if isinstance(value, Mapping) and key != "search":
            for inner in value:
                _move(new, f"{key}.{inner}", new_key(trainer, f"{key}.{inner}", job))
        if key in new:
            _move(new, key, new_key(trainer, key, job))
    if isinstance(search := new.get("search"), Mapping):
        new["search"] = {
            (name := _new_search_key(trainer, key, job)): _new_choices(name, value)
            for key, value in search.items()
        }
    if trainer == "table" and isinstance(methods := new.get("methods"), Mapping):
        new["methods"] = {name: _translate_method(each) for name, each in methods.items()}
    return new


def _move(job: dict[str, Any], old: str, new: str | None) -> None:
    """Rename a dotted key of a job, and translate its value if the value was renamed too.

    `job`: plain data, changed in place. It stays as it is, to be refused by validation, if a
    section of the key is not a mapping, or already has the present name. `new`: the present name of
    the key; None: do nothing.
    """
    if new is None:
        return
    section, _, leaf = old.rpartition(".")
    new_section, _, new_leaf = new.rpartition(".")
    source = job.get(section) if section else job
    target = job.get(new_section, {}) if new_section else job
    if not isinstance(source, dict) or not isinstance(target, dict):
        return
    if leaf not in source or new_leaf in target:
        return
    target[new_leaf] = _new_value(new_leaf, source.pop(leaf))
    if new_section:
        job[new_section] = target
    if section and not source:
        del job[section]


def _new_value(leaf: str, value: Any) -> Any:
    return _VALUES.get(leaf, {}).get(value, value) if isinstance(value, str | bool) else value


def _new_choices(key: str, value: Any) -> Any:
    """Translate the values that a search tries for a job key, if they are listed."""
    if not isinstance(value, Mapping):
        return value
    leaf = key.rpartition(".")[2]
    return {
        how: [_new_value(leaf, each) for each in tried] if isinstance(tried, list) else tried
        for how, tried in value.items()
    }


def _new_search_key(trainer: Any, key: str, job: Mapping[str, Any]) -> str:
    """Migrate a key in the section `search` of a sweep's job to its present name.

    `key`: either an option of the search, or a dotted job key that the search varies. `trainer`,
    `job`: as in `new_key`. Returns a key that was never renamed unchanged.
    """
    dotted = key if "." in key else f"search.{key}"
    new = new_key(trainer, dotted, job) or dotted
    return new if "." in key else new.removeprefix("search.")


def _translate_method(method: Any) -> Any:
    """Return one method of a comparison with the new names of its job keys and values.

    `method`: plain data of an entry in the section `methods`. Values of a wrong type stay
    unchanged; validation refuses them.
    """
    if not isinstance(method, Mapping):
        return method
    new = dict(method)
    for name in ("job", "oracle"):
        if isinstance(new.get(name), Mapping):
            new[name] = translate_job(new[name])
    given = new.get("set")
    changes = given if isinstance(given, Mapping) else {}
    solvers: dict[str, Any] = {}
    for key, value in changes.items():
        section, _, leaf = key.partition(".")
        if leaf == "solver":
            solvers[section] = {"solver": value}
    if changes:
        named = {key: _any_new_key(key, solvers) for key in changes}
        new["set"] = {k: _new_value(k.rpartition(".")[2], changes[old]) for old, k in named.items()}
    if isinstance(without := new.get("without"), list):
        new["without"] = [
            _any_new_key(key, solvers) if isinstance(key, str) else key for key in without
        ]
    return new


def _any_new_key(key: str, job: Mapping[str, Any]) -> str:
    """Return the present name of a dotted job key whose trainer is unknown.

    Tries the renamed keys of each trainer in turn, and returns the first match. Returns a key that
    was never renamed unchanged. `job`: plain data, because some present names depend on the key
    `solver` of a section.
    """
    found = (new_key(trainer, key, job) for trainer in KEYS)
    return next((new for new in found if new is not None), key)
