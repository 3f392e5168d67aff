"""Translation of job keys and values from before version 0.2 to their present names.

A job file with an old key is refused with the new name in the error; the job of a stored run or
model is translated. No other module contains an old name.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

_EVERY_TRAINER = {
    "films": "videos",
    "films.every": "videos.every",
    "films.against": "videos.opponent",
    "resources.together": "resources.single_node",
    "resources.readers": "resources.data_readers",
    "search.grace": "search.grace_period",
    "search.factor": "search.reduction_factor",
    "search.every": "search.perturbation_interval",
    "search.share": "search.quantile_fraction",
}

_BUDGET = {
    "evaluate.draws": "evaluate.repeats",
    "evaluate.judged": "evaluate.eval_deals",
}

_HELD_OUT_EVALUATION = {
    **_BUDGET,
    "evaluate.strangers": "evaluate.opponents",
    "evaluate.safe": "evaluate.exploitability_bound",
    "evaluate.safe_by": "evaluate.bound_method",
}

_GRADIENT_EVALUATION = {**_HELD_OUT_EVALUATION, "evaluate.step": "evaluate.learning_rate"}

_CARD_PLAY_EVALUATION = {
    "evaluate.final": "evaluate.final_deals",
    "evaluate.solved": "evaluate.solutions",
}

_Q_LEARNING = {
    "values.rate": "values.learning_rate",
    "values.steps": "values.gradient_steps",
    "values.rows": "values.batch_size",
    "values.room": "values.replay_capacity",
    "values.refresh": "values.target_update_interval",
    "values.double": "values.double_q",
    "values.whole": "values.monte_carlo",
}

_BIDDING_NETWORK = {
    "network.rate": "network.learning_rate",
    "network.batch": "network.batch_size",
    "network.half": "network.bfloat16",
}

_BIDDING_PAIR = {
    **_BIDDING_NETWORK,
    "rules": "system_version",
    "calls": "call_model",
    "imps": "value_model",
    "evaluate.final": "evaluate.final_boards",
    "evaluate.against": "evaluate.opponents",
}

KEYS: dict[str, dict[str, str]] = {
    "bidder": {
        **_EVERY_TRAINER,
        **_BIDDING_PAIR,
        "bidder.room": "bidder.replay_capacity",
        "bidder.steps": "bidder.gradient_steps",
        "bidder.refresh": "bidder.target_update_interval",
        "bidder.deals": "bidder.max_deals",
    },
    "bidding": {
        **_EVERY_TRAINER,
        **_BIDDING_NETWORK,
        "rules": "system_version",
        "learn": "target",
        "network.auction": "network.raw_auction",
    },
    "coevolve": {
        **_EVERY_TRAINER,
        "coevolve.step": "coevolve.step_size",
        "inner.step": "inner.step_size",
        "inner.growth": "inner.generations_growth",
    },
    "dqn": {
        **_EVERY_TRAINER,
        **_CARD_PLAY_EVALUATION,
        **_Q_LEARNING,
    },
    "dron": {
        **_EVERY_TRAINER,
        **_HELD_OUT_EVALUATION,
        **_Q_LEARNING,
        "dron.gate": "dron.gate_hidden",
        "dron.opponents": "dron.random_opponents",
        "dron.steps": "dron.adaptation_steps",
        "dron.style": "dron.head_init_scale",
        "dron.lean": "dron.logit_bias_std",
    },
    "eom": {
        **_EVERY_TRAINER,
        **_HELD_OUT_EVALUATION,
        "eom.newcomers": "eom.random_opponents",
        "eom.style": "eom.head_init_scale",
        "eom.lean": "eom.logit_bias_std",
        "eom.step": "eom.learning_rate",
        "eom.entropy": "eom.entropy_coef",
        "eom.gae": "eom.gae_lambda",
        "eom.critic_rate": "eom.critic_learning_rate",
        "eom.prior_rate": "eom.prior_learning_rate",
        "model.rate": "model.learning_rate",
        "model.held": "model.holdout_share",
        "model.trust": "model.prior_count",
        "model.reply": "model.response",
        "model.iterations": "model.ppo_iterations",
        "model.games": "model.ppo_games",
        "model.step": "model.ppo_learning_rate",
        "model.entropy": "model.ppo_entropy_coef",
    },
    "evolve": {
        **_EVERY_TRAINER,
        **_GRADIENT_EVALUATION,
        "evolve.style": "evolve.head_init_scale",
        "evolve.lean": "evolve.logit_bias_std",
        "evolve.spread": "evolve.action_std_scale",
        "evolve.credit": "evolve.gradient_estimator",
    },
    "exploit": {
        **_EVERY_TRAINER,
        "exploit.parts": "exploit.minibatches",
        "exploit.gae": "exploit.gae_lambda",
        "exploit.credit": "exploit.gradient_estimator",
        "exploit.entropy": "exploit.entropy_coef",
        "exploit.critic_rate": "exploit.critic_learning_rate",
        "exploit.judged": "exploit.eval_deals",
        "exploit.every": "exploit.eval_interval",
    },
    "meta": {
        **_EVERY_TRAINER,
        **_GRADIENT_EVALUATION,
        "meta.inner_step": "meta.inner_lr",
        "meta.average": "meta.weight_ema",
        "meta.thinned": "meta.fisher_subsample",
        "meta.parts": "meta.minibatches",
        "meta.gae": "meta.gae_lambda",
        "meta.entropy": "meta.entropy_coef",
        "meta.critic_rate": "meta.critic_learning_rate",
        "meta.credit": "meta.gradient_estimator",
        "meta.values": "meta.objective",
        "meta.test_credit": "adaptation.gradient_estimator",
        "meta.test_updates": "adaptation.gradient_steps",
        "meta.test_play": "adaptation.policy",
        "population.style": "population.head_init_scale",
        "population.lean": "population.logit_bias_std",
        "population.spread": "population.action_std_scale",
    },
    "nfsp": {
        **_EVERY_TRAINER,
        **_HELD_OUT_EVALUATION,
        **_Q_LEARNING,
        "nfsp.rate": "nfsp.learning_rate",
        "nfsp.steps": "nfsp.gradient_steps",
        "nfsp.rows": "nfsp.batch_size",
        "nfsp.room": "nfsp.reservoir_capacity",
    },
    "rllib": {
        **_EVERY_TRAINER,
        **_HELD_OUT_EVALUATION,
        "rllib.turns": "rllib.env_steps",
        "rllib.rate": "rllib.learning_rate",
        "ppo.rows": "ppo.minibatch_size",
        "ppo.gae": "ppo.gae_lambda",
        "ppo.clip": "ppo.clip_param",
        "ppo.entropy": "ppo.entropy_coef",
        "ppo.critic": "ppo.vf_loss_coef",
        "dqn.steps": "dqn.gradient_steps",
        "dqn.rows": "dqn.batch_size",
        "dqn.room": "dqn.replay_capacity",
        "dqn.first": "dqn.learning_starts",
        "dqn.refresh": "dqn.target_update_interval",
        "dqn.double": "dqn.double_q",
        "sac.steps": "sac.gradient_steps",
        "sac.rows": "sac.batch_size",
        "sac.room": "sac.replay_capacity",
        "sac.first": "sac.learning_starts",
        "sac.temperature": "sac.initial_alpha",
        "population.past": "population.past_selves",
        "population.every": "population.snapshot_interval",
        "population.strangers": "population.opponents",
        "population.share": "population.opponent_share",
    },
    "sampling": {
        **_EVERY_TRAINER,
        "sampling.guide": "sampling.rollout_policy",
        "sampling.expects": "sampling.assumed_defenders",
        "sampling.solved": "sampling.solutions",
    },
    "selfplay_bidding": {
        **_EVERY_TRAINER,
        **_BIDDING_PAIR,
        "play.deals": "play.max_deals",
        "play.gae": "play.gae_lambda",
        "play.rate": "play.learning_rate",
        "play.clip": "play.clip_range",
        "play.passes": "play.epochs",
        "play.parts": "play.minibatches",
        "play.kl_stop": "play.target_kl",
        "play.entropy": "play.entropy_coef",
        "play.pull": "play.teacher_kl_coef",
        "play.wait": "play.value_warmup_iterations",
        "play.decides": "play.final_policy",
        "play.past": "play.past_selves",
        "play.every": "play.snapshot_interval",
        "play.others": "play.opponents",
        "values.room": "values.replay_capacity",
        "values.steps": "values.gradient_steps",
        "values.refresh": "values.target_update_interval",
    },
    "solve": {
        **_EVERY_TRAINER,
        "solve.plans": "solve.variants",
        "solve.looks": "solve.measurements_per_decade",
        "solve.memory": "solve.memory_gib",
    },
    "table": {
        **_EVERY_TRAINER,
        **_BUDGET,
        "strangers": "opponents",
    },
    "tabular": {
        **_EVERY_TRAINER,
        **_CARD_PLAY_EVALUATION,
        "tabular.representation": "tabular.state_abstraction",
        "tabular.rule": "tabular.update",
        "tabular.alpha": "tabular.learning_rate",
        "tabular.gamma": "tabular.discount",
        "tabular.spread": "tabular.neighbour_share",
        "tabular.lost": "tabular.learn_lost_games",
        "tabular.explore": "tabular.epsilon",
        "tabular.shards": "tabular.merged_tables",
    },
}
"""New dotted key by old dotted key, by trainer; see `_SOLVER_KEYS` for keys that need `solver`."""

_SOLVER_KEYS = {
    "meta.outer_step": {"trpo": "meta.outer_kl", "ppo": "meta.outer_lr"},
    "meta.outer_step_end": {"trpo": "meta.outer_kl_end", "ppo": "meta.outer_lr_end"},
    "exploit.step": {"trpo": "exploit.max_kl", "ppo": "exploit.learning_rate"},
}
_DEFAULT_SOLVER = {"meta": "trpo", "exploit": "ppo"}

_VALUES = {
    "gradient_estimator": {"hindsight": "privileged_critic", "model": "opponent_model"},
    "policy": {"response": "best_response"},
}
"""New value by old value, by the last part of the new key."""


def new_key(trainer: Any, key: str, job: Mapping[str, Any]) -> str | None:
    """Return the present name of an old dotted key of a trainer's job; None if it is no old key.

    job: plain data of the job file, because some new names depend on its `solver`.
    """
    if key in _SOLVER_KEYS:
        section = key.partition(".")[0]
        given = job.get(section)
        solver = given.get("solver") if isinstance(given, Mapping) else None
        names = _SOLVER_KEYS[key]
        return names.get(str(solver), names[_DEFAULT_SOLVER[section]])
    return KEYS.get(str(trainer), _EVERY_TRAINER).get(key)


def translate_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a stored job's plain data, with old keys and values replaced by the present ones."""
    new = deepcopy(dict(job))
    trainer = new.get("trainer")
    for key, value in list(job.items()):
        if isinstance(value, Mapping) and key != "search":
            for inner in value:
                _move(new, f"{key}.{inner}", new_key(trainer, f"{key}.{inner}", job))
        if key in new:
            _move(new, key, new_key(trainer, key, job))
    if isinstance(search := new.get("search"), Mapping):
        new["search"] = {_new_search_key(trainer, key, job): v for key, v in search.items()}
    if trainer == "table" and isinstance(methods := new.get("methods"), Mapping):
        new["methods"] = {name: _translate_method(each) for name, each in methods.items()}
    return new


def _move(job: dict[str, Any], old: str, new: str | None) -> None:
    """Move the value at an old dotted key of a job to the new key; nothing if `new` is None."""
    if new is None:
        return
    section, _, leaf = old.rpartition(".")
    value = (job[section] if section else job).pop(leaf)
    section, _, leaf = new.rpartition(".")
    (job.setdefault(section, {}) if section else job)[leaf] = _new_value(leaf, value)
    emptied = old.partition(".")[0]
    if "." in old and not job.get(emptied, True):
        del job[emptied]


def _new_value(leaf: str, value: Any) -> Any:
    return _VALUES.get(leaf, {}).get(value, value) if isinstance(value, str) else value


def _new_search_key(trainer: Any, key: str, job: Mapping[str, Any]) -> str:
    """Return the new name of a search option, or of a dotted job key that is searched."""
    dotted = key if "." in key else f"search.{key}"
    new = new_key(trainer, dotted, job) or dotted
    return new if "." in key else new.removeprefix("search.")


def _translate_method(method: Any) -> Any:
    """Translate the jobs and dotted keys inside a method of a comparison table."""
    if not isinstance(method, Mapping):
        return method
    new = dict(method)
    for name in ("job", "oracle"):
        if isinstance(new.get(name), Mapping):
            new[name] = translate_job(new[name])
    changes = dict(new.get("set") or {})
    solvers: dict[str, Any] = {}
    for key, value in changes.items():
        section, _, leaf = key.partition(".")
        if leaf == "solver":
            solvers[section] = {"solver": value}
    if changes:
        named = {key: _any_new_key(key, solvers) for key in changes}
        new["set"] = {k: _new_value(k.rpartition(".")[2], changes[old]) for old, k in named.items()}
    if new.get("without"):
        new["without"] = [_any_new_key(key, solvers) for key in new["without"]]
    return new


def _any_new_key(key: str, job: Mapping[str, Any]) -> str:
    """Return the new name of a dotted key whose trainer is not known, or the key itself."""
    found = (new_key(trainer, key, job) for trainer in KEYS)
    return next((new for new in found if new is not None), key)
