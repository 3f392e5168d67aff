"""The trials of a sweep follow from its job: the same seed gives the same trials, within their
bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from overtrick.config import job_file
from overtrick.config.search_space import ParameterSpace
from overtrick.core import UserError
from overtrick.sweeps import sweep
from overtrick.training import scores
from overtrick.training.registry import JOBS
from overtrick.training.scores import contracts_made, named, negative_exploitability, payoff

JOB: dict[str, Any] = {"trainer": "coevolve", "game": "kuhn"}
STEP = {"coevolve.step_size": {"loguniform": [0.01, 1.0]}}
BOTH = STEP | {"coevolve.population": {"randint": [4, 9]}}


def job_of(search: dict[str, Any], **more: Any) -> job_file.Job:
    return job_file.parse({**JOB, **more, "search": search}, JOBS, "job.yaml")


def trials_for(search: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [chosen for chosen, _ in sweep.trials_of(job_of(search, **more), "job.yaml")]


def test_the_same_seed_draws_the_same_trials_and_more_trials_begin_with_the_fewer() -> None:
    five = trials_for({"method": "random", "trials": 5, **BOTH}, seed=3)
    assert five == trials_for({"method": "asha", "trials": 5, **BOTH}, seed=3)
    assert trials_for({"method": "random", "trials": 9, **BOTH}, seed=3)[:5] == five
    assert five != trials_for({"method": "random", "trials": 5, **BOTH}, seed=4)


def test_draws_contain_every_value_of_a_grid() -> None:
    search = {"method": "random", "trials": 3, **STEP, "seed": {"grid": [0, 1]}}
    chosen = trials_for(search)
    assert [each["seed"] for each in chosen] == [0, 1] * 3
    steps = [each["coevolve.step_size"] for each in chosen]
    assert steps[::2] == steps[1::2]
    assert len(set(steps)) == 3


def test_draws_have_the_given_distribution(rng: np.random.Generator) -> None:
    flat, wide = ParameterSpace(uniform=(-1, 3)), ParameterSpace(loguniform=(1e-4, 1))
    assert kstest([flat.draw(rng) for _ in range(4000)], "uniform", (-1, 4)).pvalue > 1e-3
    logs = [np.log10(wide.draw(rng)) for _ in range(4000)]
    assert kstest(logs, "uniform", (-4, 4)).pvalue > 1e-3
    whole, one = ParameterSpace(randint=(2, 4)), ParameterSpace(choice=("a", "b"))
    assert {whole.draw(rng) for _ in range(100)} == {2, 3, 4}
    assert {one.draw(rng) for _ in range(100)} == {"a", "b"}
    assert ParameterSpace(choice=(7,)).draw(rng) == ParameterSpace(randint=(7, 7)).draw(rng) == 7


def test_perturbed_values_change_and_stay_within_their_bounds(rng: np.random.Generator) -> None:
    for tries, least, most in (
        (ParameterSpace(uniform=(0.5, 2)), 0.5, 2),
        (ParameterSpace(randint=(1, 6)), 1, 6),
    ):
        value, values = tries.draw(rng), set()
        for _ in range(200):
            value = tries.perturb(value, rng)
            assert least <= value <= most
            values.add(value)
        assert len(values) >= 6


def test_a_written_search_is_read_back() -> None:
    for search in (
        {"method": "asha", "trials": 4, "reduction_factor": 2, **BOTH},
        {"seed": {"grid": [1]}},
    ):
        job = job_of(search)
        plain = job.model_dump(mode="json")
        assert job_file.parse(plain, JOBS, "again") == job
        assert search.items() <= plain["search"].items()
    assert job_of({}).model_dump(mode="json")["search"] == {}


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"method": "ahsa", **STEP}, "'search.method' in job.yaml: input should be "),
        ({"trails": 3, **STEP}, "unknown option 'trails' (to search a key of the job, write "
         "trails: {grid: [...]}): did you mean 'trials'?"),
        ({"grace": 3, **STEP}, "'grace' is now called 'grace_period'"),
        ({"every": 3, **STEP}, "'every' is now called 'perturbation_interval'"),
        ({"method": "random", **STEP}, "'coevolve.step_size' is drawn: set search.trials"),
        ({"trials": 3, **STEP}, "method grid does not use trials"),
        (STEP, "'coevolve.step_size' is drawn: set search.method to random, asha, pbt, "
         "tpe or cmaes"),
        ({"method": "random", "trials": 3, "grace_period": 1, **STEP}, "random does not use "
            "grace_period"),
        ({"method": "random", "trials": 3, "seed": {"grid": [1]}}, "every key is a grid, so"),
        ({"method": "pbt", "seed": {"grid": [1]}}, "pbt changes randomly drawn values, but"),
        ({"method": "pbt", "trials": 1, **STEP}, "pbt needs trials to copy from"),
        ({"method": "tpe", "seed": {"grid": [1]}}, "tpe needs a drawn key: for grids only, use"),
        ({"method": "random", "trials": 3, "batch": 2, **STEP}, "random does not use batch"),
        ({"method": "asha", "trials": 3, "metric": ["a", "-b"], **STEP},
         "method asha uses one metric: for several, use method tpe"),
        ({"method": "cmaes", "trials": 3, "metric": ["a", "-b"], **STEP}, "uses one metric"),
        ({"method": "cmaes", "trials": 3, "x": {"choice": [1, 2]}},
         "cmaes draws numbers, but 'x' is a choice: use tpe"),
        ({"seed": {"gird": [1]}}, "'search.seed' in job.yaml: unknown 'gird': did you"),
        ({"seed": {"grid": [1], "choice": [2]}}, "give exactly one of grid, choice"),
        ({"seed": {"uniform": None}}, "give exactly one of grid, choice"),
        ({"x": {"loguniform": [0, 1]}}, "[0, 1] must be [low, high] with 0 < low <= high"),
        ({"x": {"uniform": [2, 1]}}, "[2, 1] must be [low, high] with low <= high"),
        ({"x": {"uniform": [0, ".inf"]}}, "'search.x.uniform.1' in job.yaml: input should be a"),
    ],
)  # fmt: skip
def test_an_invalid_search_is_refused(search: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        job_of(search)
    assert message in str(refused.value)


ASHA = {"method": "asha", "trials": 3}


@pytest.mark.parametrize(
    ("job", "search", "message"),
    [
        ({}, {**ASHA, "stop.iterations": {"randint": [5, 9]}}, "leave out stop.iterations"),
        ({}, {**ASHA, "grace_period": 100, **STEP}, "search.grace_period 100 in job.yaml must be "
            "1"),
        ({}, {"method": "pbt", "trials": 3, "perturbation_interval": 100, **STEP},
         "search.perturbation_interval "
            "100 in"),
        ({"coevolve": {"genome": "network"}},
         {"method": "pbt", "trials": 6, "coevolve.hidden": {"choice": [3, 4, 5]}},
         "search.method pbt in job.yaml: coevolve.hidden make trainers of different shapes"),
        ({"trainer": "meta", "game": "leduc"},
         {**ASHA, "grace_period": 3, "meta.inner_lr": {"uniform": [0, 1]}}, "must be 10 (eval"),
        ({"trainer": "tournament", "tournament": {"players": ["random", "call"]}},
         {**ASHA, "seed": {"randint": [0, 9]}}, "tournament measures no score during training"),
        ({}, {"method": "tpe", "trials": 3, "stop.iterations": {"randint": [5, 9]}},
         "search.method tpe in job.yaml compares trials at equal iterations: leave out"),
        ({}, {"method": "tpe", "trials": 3, "coevolve.step_size": {"uniform": [-1, 10]}},
         "'coevolve.step_size' in job.yaml with"),
        ({}, {**ASHA, "checkpoints.every": {"randint": [1, 2]}}, "trials of a sweep share it"),
        ({}, {**ASHA, "coevolve.step_size": {"uniform": [-2, -1]}}, "'coevolve.step_size' in "
            "job.yaml with"),
    ],
)  # fmt: skip
def test_a_search_without_possible_decisions_is_refused_before_training(
    job: dict[str, Any], search: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as refused:
        sweep.check(job_of(search, **job), "job.yaml")
    assert message in str(refused.value)


def test_a_sweep_of_an_earlier_version_keeps_its_values_also_of_keys_that_only_some_trials_use():
    content = {"trainer": "meta", "game": "kuhn", "population": {"kind": "selfplay"},
               "search": {"population.kind": {"grid": ["selfplay", "evolving"]}}}  # fmt: skip
    job = job_file.parse(content, JOBS, "job.yaml")
    old = job.model_dump(mode="json")
    old["population"]["fitness_games"] = 50  # a default of then, unused by self-play
    stored = job_file.parse_stored(old, JOBS, "job.json")
    with pytest.raises(UserError, match=r"population.fitness_games has no effect"):
        sweep.trials_of(stored, "job.json")
    trials = [trial for _, trial in sweep.trials_of(stored, "job.json", stored=True)]
    assert [trial.population.fitness_games for trial in trials] == [50, 50]
    new = [trial for _, trial in sweep.trials_of(job, "job.yaml")]
    assert [trial.population.immigrants_among(9) for trial in new] == [0, 6]


def test_the_score_of_an_iteration_equals_that_of_the_table() -> None:
    paid = {"call/after_0_chip": 9.0, "call/after_2_chip": 1.0, "random/after_2_chip": 2.0}
    assert payoff(paid | {"opponents/after_2_chip": 50.0, "kl": 7.0}) == 1.5
    assert negative_exploitability({"step_size": 3.0, "exploitability_chip/direct": 0.25}) == -0.25
    assert contracts_made({"made/rules": 0.5, "made/perfect": 0.7, "games": 8.0}) == pytest.approx(
        0.6
    )
    assert named("-loss")({"loss": 2.0}) == -2.0
    rows = [{"mean": 3.0, "exploitability": 0.5, "steps": [0.0, 9.0, 1.0]}, {"steps": [5.0, 2.0]}]
    assert scores.table_mean(rows) == 3.0
    assert scores.table_payoff(rows) == 1.5
    assert scores.table_negative_exploitability(rows) == -0.5
    assert scores.bidding_accuracy({"error_imps": 2.0, "total_precision": 0.5}) == -2.0
    assert scores.bidding_accuracy({"total_precision": 0.5}) == 0.5
    assert scores.board_imps({"imps_per_board": 0.25}) == 0.25
    for standing in (payoff, negative_exploitability, contracts_made, named("x")):
        assert standing({"kl": 1.0}) is None
