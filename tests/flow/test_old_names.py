"""Job keys before version 0.2: job files with them are refused with the new name, stored jobs are
translated."""

from __future__ import annotations

import json

import pytest

from overtrick.comparison.table_kinds import TABLE_JOBS
from overtrick.config import job_file
from overtrick.config.job_keys import list_keys
from overtrick.core import UserError
from overtrick.storage.old_names import _SOLVER_KEYS, KEYS, new_key, translate_job
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import JOBS

ALL_JOBS = {**JOBS, **TABLE_JOBS}


@pytest.mark.parametrize("trainer", sorted(KEYS))
def test_every_new_name_is_a_key_and_no_old_name_is(trainer):
    valid = {each.key for each in list_keys(ALL_JOBS[trainer])}
    valid |= {f"search.{name}" for name in job_file.Search.model_fields}
    valid.add("videos")
    if "evaluate" in ALL_JOBS[trainer].model_fields:  # refused by a later check, with a reason
        evaluation = ALL_JOBS[trainer].model_fields["evaluate"].annotation
        valid |= {f"evaluate.{name}" for name in evaluation.never_used_keys()}
    for old, new in KEYS[trainer].items():
        assert old not in valid, old
        # a table has no sections resources, search or videos
        if trainer != "table" or new.startswith(("evaluate.", "opponents")):
            assert new in valid, (old, new)


def test_keys_that_depend_on_the_solver_become_keys_of_that_solver():
    for old, by_solver in _SOLVER_KEYS.items():
        trainer = old.partition(".")[0]
        valid = {each.key for each in list_keys(JOBS[trainer])}
        assert set(by_solver.values()) <= valid
        for solver, new in by_solver.items():
            assert new_key(trainer, old, {trainer: {"solver": solver}}) == new


@pytest.mark.parametrize(
    ("job", "old", "new"),
    [
        ({"trainer": "meta", "meta": {"gae": 0.9}}, "meta.gae", "meta.gae_lambda"),
        ({"trainer": "meta", "meta": {"outer_step": 0.1}}, "meta.outer_step", "meta.outer_kl"),
        ({"trainer": "exploit", "exploit": {"step": 0.1}}, "exploit.step", "exploit.learning_rate"),
        (
            {"trainer": "nfsp", "evaluate": {"strangers": ["call"]}},
            "evaluate.strangers",
            "evaluate.opponents",
        ),
        ({"trainer": "meta", "films": {"every": 3}}, "films", "videos"),
    ],
)
def test_a_job_file_with_an_old_key_is_refused_with_the_new_name(job, old, new):
    with pytest.raises(UserError, match=f"key '{old}' in a file is now called '{new}'"):
        job_file.parse({"game": "leduc", **job}, JOBS, "a file")


OLD_META = {
    "trainer": "meta",
    "game": {"name": "kuhn", "options": {}},
    "meta": {
        "solver": "ppo",
        "outer_step": 0.02,
        "inner_step": 0.3,
        "credit": "aivat",
        "test_credit": "model",
        "test_play": "response",
        "parts": 2,
    },
    "population": {"style": 2.0},
    "films": {"every": None, "against": "call"},
    "evaluate": {"strangers": ["random"], "judged": 50, "safe": 0.1, "step": 0.2},
    "search": {"method": "asha", "trials": 4, "grace": 2, "meta.inner_step": {"uniform": [0, 1]}},
}
NEW_META = {
    "trainer": "meta",
    "game": {"name": "kuhn", "options": {}},
    "meta": {
        "solver": "ppo",
        "outer_lr": 0.02,
        "inner_lr": 0.3,
        "gradient_estimator": "aivat",
        "minibatches": 2,
    },
    "adaptation": {"gradient_estimator": "opponent_model", "policy": "best_response"},
    "population": {"head_init_scale": 2.0},
    "videos": {"every": None, "opponent": "call"},
    "evaluate": {
        "opponents": ["random"],
        "eval_deals": 50,
        "exploitability_bound": 0.1,
        "learning_rate": 0.2,
    },
    "search": {
        "method": "asha",
        "trials": 4,
        "grace_period": 2,
        "meta.inner_lr": {"uniform": [0, 1]},
    },
}


def test_an_old_stored_job_is_translated_and_a_present_one_is_unchanged():
    assert translate_job(OLD_META) == NEW_META
    assert translate_job(NEW_META) == NEW_META


def test_an_old_stored_table_is_translated_with_its_methods():
    old = {
        "trainer": "table",
        "strangers": {"call": "call"},
        "evaluate": {"draws": 5},
        "methods": {
            "a": {"job": "x.yaml", "set": {"meta.solver": "ppo", "meta.outer_step": 0.1}},
            "b": {"job": OLD_META, "without": ["meta.thinned"]},
        },
    }
    new = {
        "trainer": "table",
        "opponents": {"call": "call"},
        "evaluate": {"repeats": 5},
        "methods": {
            "a": {"job": "x.yaml", "set": {"meta.solver": "ppo", "meta.outer_lr": 0.1}},
            "b": {"job": NEW_META, "without": ["meta.fisher_subsample"]},
        },
    }
    assert translate_job(old) == new


@pytest.mark.parametrize(
    "change",
    [
        {"films": {"every": 3}, "videos": None},
        {"films.every": 3},
        {"meta": {"test_credit": "model"}, "adaptation": 0},
        {"trainer": "table", "methods": {"a": {"set": 3}}},
        {"trainer": "table", "methods": {"a": {"set": "abc"}}},
        {"trainer": "table", "methods": {"a": {"without": 3}}},
        {"trainer": "table", "methods": {"a": {"without": [[1]]}}},
    ],
)
def test_a_damaged_old_job_is_refused(change):
    old = {"trainer": "meta", "game": "kuhn", **change}
    with pytest.raises(UserError):
        job_file.parse(translate_job(old), ALL_JOBS, "job.json")


def test_an_old_folder_is_read(tmp_path):
    uri = "sqlite:////\N{PLAYING CARD ACE OF SPADES}/m.db"  # json.dumps escapes it as two
    old = {**OLD_META, "films": {"every": None, "against": "random"}, "track": {"uri": uri}}
    (tmp_path / "job.json").write_text(json.dumps({**old, "search": {}}))
    job = job_file.load_stored(RunFolder(tmp_path), JOBS)
    assert job.track.uri == uri
    assert job.meta.outer_lr == 0.02
    assert job.test_estimator == "opponent_model"


def test_the_old_switch_for_the_last_bid_becomes_inputs():
    old = {
        "trainer": "bidding",
        "network": {"raw_auction": True},
        "search": {"network.raw_auction": {"grid": [True, False]}, "method": "grid"},
    }
    assert translate_job(old) == {
        "trainer": "bidding",
        "network": {"inputs": "last_bid"},
        "search": {"network.inputs": {"grid": ["last_bid", "features"]}, "method": "grid"},
    }
