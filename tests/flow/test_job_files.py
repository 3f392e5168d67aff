"""The job files in jobs/ are valid."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel
from tests.flow import job_settings

from overtrick.comparison import (
    board,
    board_job,
    comparison_job,
    equilibrium_job,
    rps_board,
    rps_board_job,
    schedule,
)
from overtrick.config import job_file, job_keys, packaged_jobs
from overtrick.config.overrides import apply_overrides
from overtrick.core import UserError
from overtrick.sweeps import sweep
from overtrick.training.registry import JOBS, TRAINERS

FILES = sorted((Path(__file__).parents[2] / "jobs").glob("*.yaml"))


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_job_file_is_valid_and_begins_with_a_comment(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OVERTRICK_ZOO", raising=False)
    text = path.read_text()
    assert text.startswith("# ")
    content = yaml.safe_load(text)
    if content["trainer"] == "table":
        table = comparison_job.load(path, [])
        if "zoo:" in text:
            with pytest.raises(UserError, match="needs AgentZoo's parameter files"):
                schedule.check(table)
            table = table.model_copy(update={"opponents": {"still": "motionless"}})
        assert schedule.check(table) > 0
        return
    if content["trainer"] == "equilibrium_table":
        assert equilibrium_job.check(equilibrium_job.load(path, [])) > 0
        return
    if content["trainer"] == "board":
        assert board.check(board_job.load(path, [])) > 0
        return
    if content["trainer"] == "rps_board":
        assert rps_board.check(rps_board_job.load(path, [])) == 45
        return
    job = job_file.load(path, [], JOBS)
    if job.search.spaces:
        assert sweep.trials_of(job, path.name)
    if "zoo:" in text:
        with pytest.raises(UserError, match="needs AgentZoo's parameter files"):
            TRAINERS[job.trainer].validate(job)
    elif job.trainer in (
        "bidding",
        "bidder",
        "selfplay_bidding",
    ):  # their examples are generated first
        with pytest.raises(UserError, match=r"no (examples|model) in "):
            TRAINERS[job.trainer].validate(job)
    else:
        TRAINERS[job.trainer].validate(job)


@pytest.mark.parametrize("trainer", JOBS)
def test_every_key_of_a_job_is_described(trainer):
    sections = [(trainer, JOBS[trainer])]
    for place, section in sections:  # the loop appends to the list
        for name, field in section.model_fields.items():
            inner = [
                kind
                for kind in (field.annotation, *typing.get_args(field.annotation))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ]
            sections += [(f"{place}.{name}", kind) for kind in inner]
            assert field.description or inner or name == "trainer", f"{place}.{name}"


def test_overrides_change_a_copy():
    content = {"game": "kuhn", "stop": {"iterations": 3}}
    changed = apply_overrides(content, ["stop.iterations=4", "game=leduc"])
    assert changed == {"game": "leduc", "stop": {"iterations": 4}}
    assert content == {"game": "kuhn", "stop": {"iterations": 3}}


def test_overrides_name_the_keys_of_a_search_by_their_dotted_paths():
    words = ["search.meta.inner_lr={grid: [0.1]}", "search.seed.grid=[1]", "search.method=random"]
    changed = apply_overrides({"search": {"seed": {"grid": [0]}}}, words)
    spaces = {"seed": {"grid": [1]}, "method": "random", "meta.inner_lr": {"grid": [0.1]}}
    assert changed == {"search": spaces}
    again = apply_overrides(changed, ["search.meta.inner_lr.grid=[0.2, 0.3]"])
    assert again["search"]["meta.inner_lr"] == {"grid": [0.2, 0.3]}


def test_no_default_or_bound_of_a_setting_changes_unnoticed():
    """Jobs leave most settings out, also those of stored runs: a new default changes what they
    mean. job_settings.py says how to record a wanted change."""
    kept = Path(__file__).parents[1] / "fixtures" / "job_settings.txt"
    assert job_settings.settings() == kept.read_text().splitlines()


def test_no_packaged_job_changes_with_a_default():
    """A job that relied on an earlier default states it. job_settings.py says how to record a
    wanted change, and how to see which value has changed."""
    kept = Path(__file__).parents[1] / "fixtures" / "job_hashes.txt"
    assert job_settings.job_hashes() == kept.read_text().splitlines()


def test_a_stored_job_may_have_old_defaults_of_keys_without_effect():
    job = job_file.parse({"trainer": "meta", "game": "kuhn"}, JOBS, "this test")
    stored = job.model_dump(mode="json")
    stored["meta"] |= {"outer_lr": 0.01, "discount": 0.9}  # unused by TRPO, and by AIVAT
    with pytest.raises(UserError, match=r"meta.outer_lr has no effect with meta.solver trpo"):
        job_file.parse(stored, JOBS, "this test")
    assert job_file.parse_stored(stored, JOBS, "this test").meta.outer_lr == 0.01
    for key in ("meta.discount", "meta.critic_learning_rate"):
        stored["meta"] |= {"critic_learning_rate": 0.5}
        with pytest.raises(UserError, match=rf"this test: {key} has no effect with"):
            job_file.parse_stored(stored, JOBS, "this test", {key})


def test_defaults_of_the_meta_learner_depend_on_the_game_and_on_other_keys():
    def parsed(game, **sections):
        return job_file.parse({"trainer": "meta", "game": game, **sections}, JOBS, "this test")

    names = "kuhn", "holdem", "goofspiel", "sumo"
    kuhn, holdem, goofspiel, sumo = map(parsed, names)
    found = [
        (job.meta.gradient_estimator, job.meta.objective, job.test_estimator,
         job.test_gradient_steps)
        for job in (kuhn, holdem, goofspiel, sumo)
    ]  # fmt: skip
    assert found == [
        ("aivat", "exact", "opponent_model", 20),
        ("privileged_critic", "sampled", "opponent_model", 20),
        ("critic", "sampled", "opponent_model", 20),  # it has no privileged features
        ("critic", "sampled", "critic", 1),
    ]
    assert parsed("kuhn", adaptation={"gradient_estimator": "aivat"}).test_gradient_steps == 1
    own_view = parsed("holdem", adaptation={"gradient_estimator": "critic"})
    assert own_view.meta.gradient_estimator == "critic"
    assert parsed("kuhn").population.immigrants_among(9) == 6
    assert parsed("kuhn", population={"kind": "selfplay"}).population.immigrants_among(9) == 0
    assert parsed("kuhn", population={"immigrants": 2}).population.immigrants_among(9) == 2


def test_a_job_of_the_package_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert packaged_jobs.packaged_jobs() == {path.stem: path for path in FILES}
    job = job_file.load("leduc_meta", ["seed=4"], JOBS)
    assert (job.trainer, job.seed) == ("meta", 4)
    assert comparison_job.load("table2", []).methods
    Path("leduc_meta").write_text("trainer: solve\ngame: kuhn\n")  # a file of the folder is first
    assert job_file.load("leduc_meta", [], JOBS).trainer == "solve"
    with pytest.raises(UserError, match="no job file 'leduc_mta': did you mean 'leduc_meta'"):
        job_file.load("leduc_mta", [], JOBS)
    with pytest.raises(UserError, match=r"cannot read job file absent\.yaml"):
        job_file.load("absent.yaml", [], JOBS)


@pytest.mark.parametrize(
    ("key", "values", "default"),
    [
        ("trainer", "meta", "required"),
        ("seed", "integer, at least 0", "0"),
        ("meta.solver", "trpo, ppo", "trpo"),
        ("meta.hidden", "list of (integer, at least 1)", "[64, 64]"),
        ("meta.second_order", "true, false", "true"),
        ("meta.discount", "number, at least 0, at most 1", "0.99"),
        ("evaluate.exploitability_bound", "null or number, at least 0", "null"),
        ("track.experiment", "text", "overtrick"),
    ],
)
def test_the_values_of_a_key_are_told_in_words(key, values, default):
    (found,) = [each for each in job_keys.list_keys(JOBS["meta"]) if each.key == key]
    assert (found.values, found.default) == (values, default)


def test_only_keys_that_can_have_an_effect_are_listed():
    adapts, fixed = ({k.key for k in job_keys.list_keys(JOBS[each])} for each in ("meta", "league"))
    assert "evaluate.steps" in adapts - fixed
    assert "evaluate.opponents" in adapts & fixed


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_key_has_values_in_words(trainer):
    for each in job_keys.list_keys(JOBS[trainer]):
        assert each.values, each
        assert not any(sign in each.values for sign in "{}$"), each
