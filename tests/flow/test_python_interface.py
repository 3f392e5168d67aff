"""The functions of `import overtrick as ot`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import overtrick as ot
from overtrick import api
from overtrick.core.lazy_modules import LazyModule
from overtrick.games import spec
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.studies.exact_solutions import solve_game

SMALL = {
    "trainer": "meta",
    "game": "kuhn",
    "meta": {"hidden": [8], "tasks": 2, "games": 20},
    "population": {"size": 2},
    "evaluate": {"opponents": ["random"], "games": 20, "repeats": 2, "every": 1},
}


def test_the_package_offers_what_its_interface_has():
    assert ot.__all__ == api.__all__
    assert all(getattr(ot, name) is getattr(api, name) for name in ot.__all__)
    with pytest.raises(AttributeError, match="no attribute 'slove'"):
        ot.slove  # noqa: B018


def test_the_import_prepares_ray_and_imports_no_library():
    program = (
        "import sys, os, overtrick; "
        "print({'numpy', 'torch', 'ray'} & set(sys.modules), os.environ['RAY_AUTH_MODE'])"
    )
    clean = {"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set() token\n"


def test_solving_measures_the_exploitability_on_the_way():
    solution = ot.solve("kuhn", "cfr+", 1000, measure_at=[10, 5000])
    assert solution.values == pytest.approx((-1 / 18, 1 / 18), abs=1e-3)  # Kuhn 1950
    assert list(solution.history) == [10, 1000]
    assert solution.history[10] > 10 * solution.history[1000] == 10 * solution.exploitability
    assert solution.nash_conv == pytest.approx(2 * solution.exploitability)
    assert ot.exploitability("kuhn", solution) == pytest.approx(solution.exploitability)
    same = ot.solve(ot.make("kuhn"), "cfr+", 1000)
    assert np.array_equal(same.strategy, solution.strategy)
    smaller = ot.solve("leduc", "cfr", 1, ranks=2)
    assert len(smaller.strategy) < ot.tree("leduc").infosets


def test_a_player_may_be_a_name_a_policy_or_a_strategy(game_and_tree):
    _, tree = game_and_tree("kuhn")
    players = ("random", UniformPolicy(), tree.uniform())
    exact = best_response.exploitability(tree, tree.uniform())
    assert [ot.exploitability("kuhn", each) for each in players] == [pytest.approx(exact)] * 3
    for player in players:
        found = ot.best_response("kuhn", player)
        assert found.values == pytest.approx((0.5, 5 / 12))
        assert found.mean == pytest.approx((0.5 + 5 / 12) / 2)
    assert repr(ot.tree("kuhn")) == "Tree(58 nodes, 12 information sets, 2 seats)"


def test_games_and_matches_are_reproducible():
    first, again = (ot.play("leduc", ["random", "call"], 300, seed=3).payoff for _ in range(2))
    assert np.array_equal(first, again)
    assert first.sum(axis=1) == pytest.approx(0)
    same = ot.FunctionPolicy(lambda rows: rows.legal / rows.legal.sum(axis=1, keepdims=True))
    assert np.array_equal(ot.play("leduc", [same, "call"], 300, seed=3).payoff, first)
    won, lost = ot.match("leduc", "call", "random", 200), ot.match("leduc", "random", "call", 200)
    assert won.mean > 0 > lost.mean


def test_a_model_is_loaded_from_its_folder(tmp_path):
    solve_game("kuhn", "cfr+", 100, save=tmp_path / "solved")
    model = ot.load(tmp_path / "solved")
    assert (model.game.name, model.job.trainer) == ("kuhn", "solve")
    assert ot.exploitability("kuhn", model) == model.evaluate()[0]["exploitability"]
    assert ot.play("kuhn", [model, str(tmp_path / "solved")], 5).payoff.shape == (5, 2)
    with pytest.raises(ot.UserError, match="a model of trainer solve does not adapt"):
        model.adapt("call")


@pytest.mark.slow
def test_a_model_is_trained_loaded_and_adapts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    run = ot.train(SMALL, "stop.iterations=2", progress=lambda k, metrics: seen.append(k))
    assert seen == [1, 2]
    assert run.folder.name.startswith("meta-")
    model = ot.load(run.folder.name)
    assert (model.game.name, model.job.trainer) == ("kuhn", "meta")
    assert model.evaluate() == run.rows
    policies = model.adapt("call", steps=2, games=20)
    assert len(policies) == 3
    before, *after = (ot.match("kuhn", each, "call", 500).mean for each in policies)
    assert max(after) > before
    assert ot.play("kuhn", [model, model], 5).payoff.shape == (5, 2)


def function(probabilities):
    """Return a policy of a function from legal actions (R, A)."""
    return ot.FunctionPolicy(lambda rows: probabilities(rows.legal.astype(float)))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: ot.solve("kunh"), "unknown game 'kunh': did you mean 'kuhn'"),
        (lambda: ot.solve("kuhn", "cfrr"), "unknown plan 'cfrr': did you mean 'cfr'"),
        (lambda: ot.tree("holdem"), "is too large for a tree"),
        (lambda: ot.tree(ot.make("kuhn"), fold=False), "options are for a game given by"),
        (
            lambda: ot.play("kuhn", ["nobody", "random"]),
            "unknown opponent 'nobody' in kuhn: known:",
        ),
        (lambda: ot.exploitability("kuhn", np.ones((12, 2))), "strategy"),
        (lambda: ot.play("kuhn", ["random"]), "kuhn needs 2 players and at least one game"),
        (lambda: ot.match("kuhn", "call", "random", 1), "at least two boards"),
        (lambda: ot.match("kuhn_three", "call", "random"), "a game of two seats"),
        (lambda: ot.play("leduc", [ot.solve("kuhn", iterations=1)] * 2), "is for kuhn, not for"),
        (lambda: ot.play("one_card", [np.ones((52, 2)) / 2] * 2, ranks=4), "52 information sets"),
        (lambda: ot.play("kuhn", [3, "random"]), "not a player: 3: give a name"),
        (lambda: ot.play("leduc", [function(np.ones_like)] * 2), "0 for illegal actions"),
        (lambda: ot.play("leduc", [function(lambda legal: legal * np.nan)] * 2), "at least 0"),
        (lambda: ot.play("kuhn", [function(lambda legal: legal[0])] * 2), r"not \(2,\)"),
        (lambda: ot.train(SMALL, name="../up"), r"name '../up': must be a folder name"),
        (lambda: ot.sweep(SMALL, name="a/b"), "name 'a/b': must be a folder name"),
        (lambda: ot.load("no-run"), "no run 'no-run'"),
        (lambda: ot.train("leduc_mata"), "no job file 'leduc_mata': did you mean 'leduc_meta'"),
        (lambda: ot.train({**SMALL, "trainer": "mata"}), "unknown trainer 'mata' in the job"),
        (lambda: LazyModule("no_such", "sumo").x, r"no_such is not .*'overtrick\[sumo\]'"),
    ],
)
def test_wrong_input_is_refused_in_one_line(ask, message):
    with pytest.raises(ot.UserError, match=message):
        ask()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ot.train("sumo_meta_small"),
        lambda: ot.play("sumo", ["random", "random"]),
        lambda: ot.match("sumo", "random", "motionless"),
    ],
)
def test_a_game_without_its_library_is_refused_at_once(monkeypatch, tmp_path, ask):
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    monkeypatch.setattr(spec, "find_spec", lambda name: None)
    with pytest.raises(ot.UserError, match=r"mujoco is not installed: pip install .*sumo"):
        ask()
    assert not list(tmp_path.iterdir())
    assert "sumo" in ot.names()
