"""CFR by walks over games: equality with CFR on a tree, stored strategies, resumed runs."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from tests.walks import random_strategy, walk_over

import overtrick
from overtrick import make
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.games.goofspiel import Goofspiel
from overtrick.games.phantom import PhantomBoard, hex_wins, tic_tac_toe_wins
from overtrick.solvers import cfr, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree, build
from overtrick.solvers.walks import exact_evaluation, view_policy
from overtrick.solvers.walks.cfr_by_walks import WalkCfrSolver, by_seat
from overtrick.solvers.walks.make_walk import make_walk
from overtrick.solvers.walks.view_policy import ViewPolicy, check_strategy
from overtrick.storage import model_files
from overtrick.studies import exact_solutions
from overtrick.training.registry import JOBS, TRAINERS

SIDE = 2


def solver(abrupt: bool, variant: str) -> WalkCfrSolver:
    game = PhantomBoard("dark_hex_2", hex_wins(SIDE), abrupt)
    return WalkCfrSolver(walk_over(game), cfr.VARIANTS[variant])


def evaluated(one: WalkCfrSolver) -> exact_evaluation.Evaluation:
    return exact_evaluation.evaluate(one.walk, by_seat(one.walk, one.average()))


def openspiel_tree(abrupt: bool) -> Tree:
    version = "adh" if abrupt else "cdh"
    options = f"num_rows={SIDE},num_cols={SIDE},gameversion={version}"
    return build(make(f"openspiel/dark_hex({options})"))


@pytest.mark.parametrize("variant", cfr.VARIANTS)
def test_it_equals_cfr_on_the_tree(variant: str) -> None:
    tree = openspiel_tree(False)
    by_tree, by_walks = cfr.CfrSolver(tree, cfr.VARIANTS[variant]), solver(False, variant)
    for _ in range(8):
        by_tree.run(2)
        by_walks.run(2)
        found, sigma = evaluated(by_walks), by_tree.average()
        assert found.values == pytest.approx(best_response.expected(tree, sigma), abs=1e-9)
        assert found.nash_conv == pytest.approx(best_response.nash_conv(tree, sigma), abs=1e-9)


@pytest.mark.parametrize("variant", ["cfr-simultaneous", "dcfr-simultaneous"])
def test_first_regrets_of_the_abrupt_game_are_those_of_the_tree(variant: str) -> None:
    """Later ones differ: the tree's first regrets that should be 0 are of the order of 1e-17."""
    by_tree = cfr.CfrSolver(openspiel_tree(True), cfr.VARIANTS[variant])
    by_walks = solver(True, variant)
    by_tree.run(1)
    by_walks.run(1)
    assert np.sort(by_walks.regret) == pytest.approx(np.sort(by_tree.regret), abs=1e-12)


@pytest.mark.parametrize("variant", ["cfr+", "dcfr", "cfr"])
def test_it_converges_to_the_value_of_the_abrupt_game(variant: str) -> None:
    value, _ = sequence_form.equilibrium(openspiel_tree(True))
    one = solver(True, variant)
    one.run(2000)
    found = evaluated(one)
    assert found.values[0] == pytest.approx(value, abs=0.01)
    assert found.nash_conv < 0.01


@pytest.mark.parametrize("variant", ["cfr+", "dcfr-simultaneous"])
def test_a_resumed_run_has_equal_bits(variant: str) -> None:
    whole, first, second = (solver(False, variant) for _ in range(3))
    whole.run(10)
    first.run(4)
    second.load(first.state())
    second.run(6)
    ours, theirs = second.state(), whole.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert second.iteration == 10


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_policy_finds_the_probabilities_of_every_view(abrupt: bool, rng: Generator) -> None:
    game = PhantomBoard("small", tic_tac_toe_wins(2), abrupt)
    walk = walk_over(game)
    parts = [random_strategy(views, rng) for views in walk.views]
    policy = ViewPolicy(walk, np.concatenate(parts))
    for table, part in zip(exact_evaluation.tabulate(walk, [policy] * 2), parts, strict=True):
        assert np.array_equal(table, part)


def test_arrays_that_are_no_strategies_are_refused() -> None:
    one = solver(False, "cfr+")
    strategy = one.average()
    check_strategy(one.walk, strategy)
    with pytest.raises(UserError, match="the strategy has shape"):
        check_strategy(one.walk, strategy[:-1])
    for wrong in (0.9 * strategy, -strategy, np.nan * strategy):
        with pytest.raises(UserError, match="not a strategy: information set"):
            check_strategy(one.walk, wrong)


def test_a_solved_phantom_game_is_stored_evaluated_and_played(tmp_path: Any) -> None:
    folder = tmp_path / "solved"
    found = exact_solutions.solve_game("dark_hex_3", "cfr+-simultaneous", 2, save=folder)
    assert found["nash_conv"] < 1.2  # uniform play has 1.83
    best = exact_solutions.best_response_to("dark_hex_3", str(folder))
    assert sum(best["values"]) == pytest.approx(found["nash_conv"], abs=1e-9)
    with pytest.raises(UserError, match="plan lp: dark_hex_3 can be solved by cfr, cfr"):
        exact_solutions.solve_game("dark_hex_3", "lp", 1)
    model = model_files.load(folder)
    broken = {name: value * 2 for name, value in model.weights.items()}
    model_files.save(model_files.Model(broken, model.game, model.job), tmp_path / "broken")
    with pytest.raises(UserError, match=r"cannot use .*: not a strategy"):
        model_files.policy(tmp_path / "broken", make("dark_hex_3"))
    with pytest.raises(UserError, match="dark_hex_3"):
        model_files.policy(folder, make("phantom_ttt"))


def test_the_trainer_solves_a_phantom_game(rng: Generator) -> None:
    content = {
        "trainer": "solve", "game": "dark_hex_3",
        "solve": {"variants": ["cfr+-simultaneous"]}, "stop": {"iterations": 1},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    TRAINERS["solve"].validate(job)
    trainer = TRAINERS["solve"].trainer(job, LocalPool())
    metrics = trainer.step()
    (row,) = TRAINERS["solve"].evaluate_model(job, trainer.model(), LocalPool(), rng)
    assert row["exploitability"] == metrics["exploitability_game/cfr_plus-simultaneous"]
    assert row["exploitability"] < 0.6  # uniform play has 0.916
    policy = model_files.model_kinds.load_policy(
        model_files.StoredWeights(trainer.model(), {}, "this test"), trainer.evaluator.game
    )
    assert isinstance(policy, ViewPolicy)
    assert np.array_equal(policy.strategy, trainer.solvers["cfr+-simultaneous"].average())


def test_a_game_that_is_too_large_for_walks_is_refused_before_training() -> None:
    content = {"trainer": "solve", "game": {"name": "goofspiel", "cards": 8}}
    with pytest.raises(UserError, match="goofspiel with 8 cards: exact evaluation allows at most"):
        TRAINERS["solve"].validate(job_file.parse(content, JOBS, "this test"))


@pytest.mark.parametrize("points_order", ["random", "descending"])
def test_a_strategy_of_goofspiel_wins_what_its_exact_evaluation_says(points_order: str) -> None:
    game = Goofspiel(4, points_order)
    solved = overtrick.solve(game, "cfr+", 20)
    assert solved.exploitability < 0.2  # uniform play has 0.71
    assert overtrick.exploitability(game, solved) == pytest.approx(solved.exploitability)
    assert overtrick.exploitability(game, solved.strategy) == pytest.approx(solved.exploitability)
    best = overtrick.best_response(game, solved)
    assert best.mean == pytest.approx(solved.exploitability)
    response = view_policy.of_array(game, best.strategies[0])
    payoff = overtrick.play(game, [response, solved], 4000).payoff[:, 0]
    error = 4 * payoff.std() / 4000**0.5
    assert payoff.mean() == pytest.approx(best.values[0], abs=error)


def test_a_solver_that_needs_a_tree_is_refused_before_the_information_sets_are_numbered() -> None:
    content = {"trainer": "solve", "game": "abrupt_phantom_ttt", "solve": {"variants": ["pcfr+"]}}
    with pytest.raises(UserError, match="can be solved by cfr, cfr"):
        TRAINERS["solve"].validate(job_file.parse(content, JOBS, "this test"))


def test_work_beyond_a_limit_of_time_is_refused_with_an_estimate() -> None:
    message = (
        r"dark_hex_3: 100,000 iterations of cfr\+ would take about [\d,.]+ minutes on this "
        r"machine, more than --max-minutes 5"
    )
    with pytest.raises(UserError, match=message):
        exact_solutions.solve_game("dark_hex_3", "cfr+", 100_000, max_minutes=5)
    with pytest.raises(UserError, match="--max-minutes has an effect only in games evaluated"):
        exact_solutions.solve_game("kuhn", "cfr+", 10, max_minutes=5)
    content = {
        "trainer": "solve", "game": "dark_hex_3",
        "solve": {"variants": ["cfr+", "cfr"], "max_minutes": 1}, "stop": {"iterations": 40},
    }  # fmt: skip
    message = r"of cfr\+, cfr would take .* more than solve\.max_minutes"
    with pytest.raises(UserError, match=message):
        TRAINERS["solve"].validate(job_file.parse(content, JOBS, "this test"))


def test_the_estimate_is_near_the_time_that_a_walk_takes() -> None:
    one = WalkCfrSolver(make_walk(make("dark_hex_3")), cfr.VARIANTS["cfr-simultaneous"])
    one.run(1)
    began = perf_counter()
    one.run(2)
    taken = (perf_counter() - began) / 2
    assert taken / 10 < one.walk_seconds() < 10 * taken  # other work may disturb either


@pytest.mark.parametrize("abrupt", [False, True])
def test_best_responses_of_the_python_interface_win_what_they_say(abrupt: bool) -> None:
    game = PhantomBoard("dark_hex_2", hex_wins(SIDE), abrupt)
    best = overtrick.best_response(game, "random")
    gap = overtrick.exploitability(game, "random")
    assert best.mean == pytest.approx(gap)  # the values of both seats sum to 0
    walk = walk_over(game)
    for seat, strategy in enumerate(best.strategies):
        parts = by_seat(walk, strategy)
        assert set(parts[seat]) == {0, 1}
        other = exact_evaluation.uniform(walk.views[1 - seat])
        assert np.array_equal(parts[1 - seat], other)
        found = exact_evaluation.evaluate(walk, parts)
        assert found.values[seat] == pytest.approx(best.values[seat])
    solved = overtrick.solve(game, "dcfr", 300)
    assert solved.exploitability < 0.01
    assert overtrick.exploitability(game, solved) == pytest.approx(solved.exploitability)
    assert overtrick.exploitability(game, solved.strategy) == pytest.approx(solved.exploitability)
    with pytest.raises(UserError, match="the strategy has shape"):
        overtrick.exploitability(game, solved.strategy[1:])
