"""`overtrick solve` and the trainer solve: strategies are found, stored, used as opponents and
validated."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from overtrick import cli
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import reference_opponents
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.reports import figures
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.studies import exact_solutions
from overtrick.training.equilibrium import solve
from overtrick.training.registry import JOBS, TRAINERS

KEYS = {
    "game", "plan", "iterations", "seconds", "iterations_per_second", "exploitability",
    "nash_conv", "values",
}  # fmt: skip

ALONE = "openspiel/cliff_walking(height=3,width=3,horizon=3)"


def trainer(**section):
    content = {"trainer": "solve", "game": "kuhn", "solve": section}
    return TRAINERS["solve"].trainer(job_file.parse(content, JOBS, "this test"), LocalPool())


@pytest.mark.parametrize("plan", solve.TREE_SOLVERS)
def test_every_solver_solves_kuhn_from_the_command_line(plan):
    done = CliRunner().invoke(
        cli.app, ["solve", "kuhn", "--plan", plan, "--iterations", "3000", "--json"]
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    more = {"auto": {"choice"}, "mmd-qre": {"qre_gap"}}
    assert set(answer) == KEYS | more.get(plan, set())
    assert answer["exploitability"] < (0.11 if plan == "mmd-qre" else 0.06)
    assert abs(answer["values"][0] + 1 / 18) < 0.05


def test_a_quantal_response_equilibrium_has_a_temperature_and_a_gap(tmp_path):
    one = trainer(variants=["mmd-qre", "cfr+"], temperature=0.5)
    for _ in range(16):
        metrics = one.step()
    assert metrics["qre_gap_chip"] < 1e-8 < metrics["exploitability_chip/mmd-qre"]
    hot = exact_solutions.solve_game("kuhn", "mmd-qre", 100, temperature=0.5, save=tmp_path / "hot")
    assert hot["qre_gap"] < 1e-8
    assert hot["exploitability"] == pytest.approx(metrics["exploitability_chip/mmd-qre"], abs=1e-9)
    card = json.loads((tmp_path / "hot" / model_files.CARD).read_text())
    assert card["job"]["solve"]["temperature"] == 0.5


@pytest.mark.parametrize(
    ("plan", "temperature", "message"),
    [
        ("mmd-qre", 2e6, "plan mmd-qre: the temperature must be"),
        ("mmd-qre", float("nan"), "plan mmd-qre: the temperature must be"),
        ("cfr+", 0.5, "has no temperature: leave it out, or name mmd-qre"),
    ],
)
def test_a_temperature_is_refused_before_solving(tmp_path, plan, temperature, message):
    with pytest.raises(UserError, match=message):
        exact_solutions.solve_game("kuhn", plan, 10, temperature=temperature, save=tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_a_temperature_without_mmd_qre_is_refused():
    content = {"trainer": "solve", "game": "kuhn", "solve": {"temperature": 5.0}}
    with pytest.raises(UserError, match=r"^solve.temperature has no effect without mmd-qre among"):
        TRAINERS["solve"].trainer.validate(job_file.parse(content, JOBS, "this test"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
        ({"iterations": 2.5}, "iterations must be a whole number of at least 1, not 2.5"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_impossible_numbers_are_refused_before_solving(changes, message):
    with pytest.raises(UserError, match=message):
        exact_solutions.solve(GameChoice(name="kuhn"), "auto", **changes)


def test_the_table_of_a_run_says_what_auto_has_chosen():
    content = {"trainer": "solve", "game": "kuhn", "solve": {"variants": ["auto", "cfr"]}}
    job = job_file.parse(content, JOBS, "this test")
    one = TRAINERS["solve"].trainer(job, LocalPool())
    one.step()
    pool, rng = LocalPool(), np.random.default_rng(0)
    rows = TRAINERS["solve"].trainer.evaluate_model(job, one.model(), pool, rng)
    assert [(row["plan"], row["chosen"]) for row in rows] == [("auto", "lp"), ("cfr", "cfr")]


def test_a_strategy_is_stored_and_used_as_an_opponent(tmp_path, game_and_tree):
    game, tree = game_and_tree("leduc")
    answer = exact_solutions.solve_game("leduc", "lp", 1, save=tmp_path / "lp")
    policy = reference_opponents.make_opponent(str(tmp_path / "lp"), game, tree)
    sigma = best_response.sigma_of(tree, [policy] * 2)
    assert best_response.nash_conv(tree, sigma) == pytest.approx(answer["nash_conv"], abs=1e-12)
    best = exact_solutions.best_response_to("leduc", str(tmp_path / "lp"))
    assert best["mean"] == pytest.approx(0, abs=1e-9)


def test_a_solved_strategy_is_an_opponent_in_a_job(tmp_path):
    exact_solutions.solve_game("kuhn", "cfr+", 100, save=tmp_path / "kuhn")
    content = {
        "trainer": "exploit", "game": "kuhn", "exploit": {"opponent": str(tmp_path / "kuhn")},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["exploit"].validate(job)
    metrics = TRAINERS["exploit"].trainer(job, LocalPool()).step()
    assert any(name.endswith("after_0_chip") for name in metrics)


def test_measurement_k_comes_after_10_to_the_k_over_measurements_per_decade_iterations():
    one = trainer(variants=["cfr", "external"], measurements_per_decade=2)
    reached = [one.step()["solver_iterations"] for _ in range(4)]
    assert reached == [4, 10, 32, 100]
    assert {s.iteration for s in one.solvers.values()} == {100}


def test_a_loaded_trainer_continues_with_identical_results():
    plans = ["cfr+", "dcfr-simultaneous", "auto", "mmd", "mmd-qre", "external", "outcome", "lp"]
    first, second, whole_run = (
        trainer(variants=plans),
        trainer(variants=plans),
        trainer(variants=plans),
    )
    for _ in range(5):
        first.step()
        whole_run.step()
    second.load(first.state())
    for _ in range(5):
        assert second.step() == whole_run.step()
    assert (second.model()["sigma"] == whole_run.model()["sigma"]).all()


def test_samples_of_a_solver_depend_only_on_the_seed_and_its_name():
    one_solver, among_others = (
        trainer(variants=["outcome"]),
        trainer(variants=["external", "cfr", "outcome"]),
    )
    name = "exploitability_chip/outcome"
    assert [one_solver.step()[name] for _ in range(8)] == [
        among_others.step()[name] for _ in range(8)
    ]
    answer = exact_solutions.solve_game("kuhn", "outcome", 10)
    assert answer["iterations_per_second"] == pytest.approx(10 / answer["seconds"])
    assert answer["exploitability"] == best_response.exploitability(
        one_solver.evaluator.tree, one_solver.model()["sigma"]
    )
    draws = [
        solve.make_solver(plan, one_solver.evaluator, 0, 10).rng.random()
        for plan in ("outcome", "external")
    ]
    assert draws[0] != draws[1]


@pytest.mark.parametrize("plan", ["external", "outcome"])
def test_the_seed_of_the_command_fixes_its_samples(plan):
    def values(seed):
        command = ["solve", "kuhn", "--plan", plan, "--iterations", "50", "--seed", seed, "--json"]
        done = CliRunner().invoke(cli.app, command)
        return json.loads(done.stdout.splitlines()[-1])["values"]

    assert values("1") == values("1")
    assert values("1") != values("2")


@pytest.mark.parametrize(
    ("game", "plan", "message"),
    [
        ("kuhn_three", "lp", "plan lp: the linear program needs 2 seats: this game has 3"),
        ("openspiel/tiny_hanabi", "lp", "plan lp: the linear program needs a zero-sum game"),
        (ALONE, "external", "plan external: external sampling needs two seats"),
    ],
)
def test_a_solver_that_cannot_solve_the_game_is_refused_at_once(game, plan, message):
    content = {"trainer": "solve", "game": game, "solve": {"variants": ["outcome", plan]}}
    job = job_file.parse(content, JOBS, "this test")
    with pytest.raises(UserError, match=message):
        TRAINERS["solve"].validate(job)
    with pytest.raises(UserError, match=message):
        exact_solutions.solve_game(game, plan, 1)


def test_a_job_that_all_solvers_can_solve_is_accepted():
    content = {"trainer": "solve", "game": "kuhn", "solve": {"variants": solve.TREE_SOLVERS}}
    TRAINERS["solve"].validate(job_file.parse(content, JOBS, "this test"))


def test_both_solvers_of_abstract_holdem_are_jobs(abstraction, monkeypatch):
    game = {"name": "abstract_holdem", "abstraction": str(abstraction)}
    monkeypatch.chdir(abstraction.parent)
    content = {"trainer": "solve", "game": {**game, "abstraction": abstraction.name}}
    job = job_file.parse(
        {**content, "solve": {"variants": list(solve.BUCKETED_SOLVERS)}}, JOBS, "this test"
    )
    monkeypatch.chdir("/")  # as a trial does, which runs in its own folder
    TRAINERS["solve"].validate(job)
    limited = job.model_copy(update={"solve": job.solve.model_copy(update={"memory_gib": 1.0})})
    with pytest.raises(UserError, match="abstract_holdem is solved without a tree: leave the lim"):
        TRAINERS["solve"].validate(limited)
    one = TRAINERS["solve"].trainer(job, LocalPool())
    first = one.step()
    for _ in range(9):
        last = one.step()
    assert last["exploitability_bet/descent"] < first["exploitability_bet/descent"] / 2
    row = one.report([(1, first), (2, last)]).rows[1]
    assert row["nash_conv"] == 2 * row["exploitability"] == 2 * last["exploitability_bet/descent"]
    public = {**content, "game": {**game, "index": "public"}, "solve": {"variants": ["cfr+"]}}
    best = TRAINERS["solve"].trainer(job_file.parse(public, JOBS, "this test"), LocalPool())
    for _ in range(16):
        found = best.step()
    assert found["exploitability_bet/cfr_plus"] < 0.1
    with pytest.raises(
        UserError, match=r"plan dcfr: abstract_holdem can be solved by cfr\+, descent"
    ):
        TRAINERS["solve"].validate(
            job_file.parse({**content, "game": game, "solve": {"variants": ["dcfr"]}}, JOBS, "x")
        )


def test_a_job_stops_after_40_measurements_and_records_each():
    job = job_file.parse({"trainer": "solve", "game": "kuhn"}, JOBS, "this test")
    assert (job.stop.iterations, job.checkpoints.every, job.solve.measurements_per_decade) == (
        40,
        1,
        8,
    )
    assert job.checkpoints.keep == job_file.Checkpoints().keep


def test_the_report_has_a_row_for_every_solver_and_the_curves():
    one = trainer(variants=["cfr", "cfr+"])
    history = [(k, one.step()) for k in range(1, 9)]
    report = one.report(history)
    assert [row["plan"] for row in report.rows] == ["cfr", "cfr+"]
    assert report.rows[1]["exploitability"] == history[-1][1]["exploitability_chip/cfr_plus"]
    assert set(report.figures) == {"convergence"}
    curves = {line.get_label(): line for line in report.figures["convergence"].axes[0].lines}
    assert set(curves) == {"cfr", "cfr_plus", "slope -0.5", "slope -1"}
    for plan in ("cfr", "cfr_plus"):
        gaps = [metrics[f"exploitability_chip/{plan}"] for _, metrics in history]
        assert curves[plan].get_xdata().tolist() == [2, 2, 3, 4, 5, 6, 8, 10]
        assert curves[plan].get_ydata().tolist() == gaps


@pytest.mark.filterwarnings("error")
def test_the_curve_of_an_exact_solution_can_be_drawn(tmp_path):
    one = trainer(variants=["lp"])
    assert abs(one.step()["exploitability_chip/lp"]) < 1e-15
    history = [
        (k, one.step() | {"exploitability_chip/lp": gap}) for k, gap in ((1, 0), (2, -1e-18))
    ]
    figures.save(one.report(history).figures, tmp_path)


def save_strategy(folder, sigma, game="kuhn"):
    model_files.save(model_files.Model({"sigma": sigma}, game, {}), folder)
    return folder


def test_a_row_that_does_not_sum_to_1_is_refused(tmp_path, game_and_tree):
    game, tree = game_and_tree("kuhn")
    sigma = tree.uniform()
    sigma[3, 0] += 0.2
    with pytest.raises(UserError, match=r"row 3 .* sums to 1\.2"):
        model_files.policy(save_strategy(tmp_path / "bad", sigma), game)
    for evaluate in (best_response.nash_conv, best_response.exploitability):
        with pytest.raises(UserError, match="row 3"):
            evaluate(tree, sigma)
    with pytest.raises(UserError, match="row 3"):
        best_response.best_response(tree, sigma, 0)


def test_a_row_with_nan_or_negative_numbers_is_refused(game_and_tree):
    _, tree = game_and_tree("kuhn")
    for row in ([np.nan, 1], [-0.5, 1.5]):
        sigma = tree.uniform()
        sigma[0] = row
        with pytest.raises(UserError, match="row 0"):
            best_response.check_strategy(tree, sigma)


def test_probability_of_an_illegal_action_is_refused(game_and_tree):
    _, tree = game_and_tree("leduc_textbook")
    sigma = tree.uniform()
    row = np.flatnonzero(~tree.legal.all(axis=1))[0]
    sigma[row] = 1 / sigma.shape[1]
    with pytest.raises(UserError, match=f"row {row}"):
        best_response.check_strategy(tree, sigma)


def test_a_strategy_for_another_game_is_refused(tmp_path, game_and_tree):
    game, tree = game_and_tree("kuhn")
    other = game_and_tree("leduc_textbook")[1].uniform()
    with pytest.raises(UserError, match="other options"):
        model_files.policy(save_strategy(tmp_path / "other", other), game)
    with pytest.raises(UserError, match="plays leduc_textbook, not kuhn"):
        model_files.policy(save_strategy(tmp_path / "name", other, "leduc_textbook"), game)
    with pytest.raises(UserError, match="another game"):
        best_response.exploitability(tree, other)
    with pytest.raises(UserError):
        best_response.sigma_of(tree, [TabularPolicy(tree.uniform() * 0.9), UniformPolicy()])


def test_a_tree_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match="fit in memory"):
        exact_solutions.solve_game("openspiel/leduc_poker", "cfr", 1, memory=0.001)


def test_an_unknown_solver_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match=r"'cfrr'.*'cfr'"):
        exact_solutions.solve_game("kuhn", "cfrr", 1)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("openspiel/kuhn_poker", "can be solved, but not played"),
        ("kuhn_three", "not a two-seat game"),
    ],
)
@pytest.mark.parametrize("trainer_name", ["meta", "exploit"])
def test_a_job_for_two_seats_refuses_other_games(name, why, trainer_name):
    job = job_file.parse({"trainer": trainer_name, "game": name}, JOBS, "this test")
    with pytest.raises(UserError, match=why):
        TRAINERS[trainer_name].validate(job)


def test_a_best_response_is_exact_or_reported_as_a_lower_bound():
    outputs = []
    for question in ("leduc", "holdem --games 8 --particles 5", "holdem --games 8"):
        words = ["best-response", *question.split(), "--against", "call", "--json"]
        *shown, answer = CliRunner().invoke(cli.app, words).stdout.splitlines()
        outputs.append((json.loads(answer), " ".join(shown)))
    (exactly, message), (bound, bound_said), (abstract, _) = outputs
    assert (bound["response"], abstract["response"]) == ("local", "abstraction")
    assert bound.keys() - abstract.keys() == {"particles"}
    assert exactly["kind"] == "exact"
    assert np.allclose(exactly["values"], 0.7333, atol=5e-5)
    assert "lower bound" not in message
    assert bound["kind"] == "lower bound"
    assert bound.keys() >= exactly.keys() | {"standard_errors", "interval", "games", "particles"}
    assert "at least" in bound_said
    assert "a lower bound" in bound_said


def test_a_job_may_ask_for_more_measurements_than_it_will_reach():
    """10^(3000 / 8) iterations are no float."""
    content = {"trainer": "solve", "game": "kuhn", "stop": {"iterations": 3000}}
    job = job_file.parse({**content, "solve": {"variants": ["hs-pdcfr+"]}}, JOBS, "x")
    solve.SolveTrainer.validate(job)
    assert solve.SolveTrainer(job, LocalPool()).step()
