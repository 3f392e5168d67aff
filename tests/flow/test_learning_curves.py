"""Learning curves over seeds and the figures of a sweep over seeds."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from overtrick.config import job_file
from overtrick.reports import figures, learning_curves
from overtrick.runs import lifecycle
from overtrick.sweeps import sweep
from overtrick.training.cardplay.declarer_trainer import cardplay_curves
from overtrick.training.registry import JOBS


def test_a_band_uses_students_t() -> None:
    values = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    mean, half = learning_curves.confidence_band(values)
    assert mean.tolist() == [2, 5]
    # t table, 2 degrees of freedom: 4.303
    assert half == pytest.approx([4.302652729911275 / np.sqrt(3), 0])


def test_one_seed_has_no_band() -> None:
    mean, half = learning_curves.confidence_band(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1, 2]
    assert np.isnan(half).all()


def test_a_curve_shows_the_last_adaptation_step_of_every_seed() -> None:
    def history(*measured: int, shift: float) -> learning_curves.History:
        return [
            (i, {"call/after_0_chip": 9.0, "call/after_1_chip": i + shift} if i in measured else {})
            for i in range(1, 6)
        ]

    groups = {
        "a": [history(2, 4, 5, shift=0), history(2, 3, 4, shift=1)],
        "b": [history(1, shift=0)],
        "never measured": [history(shift=0)],
    }
    found = learning_curves.payoff_curves(groups, "chip")
    assert found.keys() == {"call"}
    assert found["call"].keys() == {"a", "b"}
    iterations, mean, half = found["call"]["a"]
    assert iterations.tolist() == [2, 4]
    assert mean.tolist() == [2.5, 4.5]
    assert (half > 0).all()
    figure = learning_curves.payoff_by_iteration(groups, "chip")
    (panel,) = figure.axes
    assert panel.get_title() == "call"
    assert [line.get_xdata().tolist() for line in panel.get_lines()] == [[2, 4], [1]]


def test_methods_that_never_adapt_and_seeds_that_failed_are_drawn_with_the_others() -> None:
    adapted = [(1, {"call/after_0_chip": 1.0, "call/after_3_chip": 2.0})]
    fixed = [(1, {"call/after_0_chip": 0.5})]
    found = learning_curves.payoff_curves(
        {"adapts": [adapted, adapted, []], "never adapts": [fixed]}, "chip"
    )["call"]
    assert {label: mean.tolist() for label, (_, mean, _) in found.items()} == {
        "adapts": [2.0], "never adapts": [0.5],
    }  # fmt: skip


def test_a_figure_that_cannot_be_written_leaves_the_file_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "curve.PNG"
    figures.save_png(Figure(), file)
    before = file.read_bytes()

    def torn(self: Figure, path: Path, **_: Any) -> None:
        path.write_bytes(before[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", torn)
    with pytest.raises(OSError, match="No space left"):
        figures.save_png(Figure(), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_payoffs_are_drawn_by_the_value_of_a_key() -> None:
    figure = learning_curves.payoff_by_value(
        {"call": {100: [1.0, 3.0], 5: [0.0, 0.0]}}, "evaluate.games", "chip"
    )
    (panel,) = figure.axes
    (line,) = panel.get_lines()
    assert line.get_xdata().tolist() == [5, 100]
    assert line.get_ydata().tolist() == [0, 2]
    assert panel.get_xscale() == "log"


MEASURED = {"solver_iterations": 10.0, "evaluations": 10.0, "games": 10.0, "step_size": 0.5,
            "exploitability_chip/x": 0.1, "made/rules": 0.5}  # fmt: skip


@pytest.mark.parametrize("damaged", [{}, {"solver_iteration": 1.0, "made/rules": 0.5}])
def test_figures_show_what_a_damaged_record_still_has(damaged: dict[str, float]) -> None:
    for draw, lines in (
        (lambda h: figures.convergence(h, "chip"), 3),
        (lambda h: figures.evolution_progress(h, "chip"), 2),
        (lambda h: cardplay_curves({"": [h]}, 30), 1),
    ):
        draw([])
        draw([(1, damaged)])
        drawn = draw([(1, damaged), (2, MEASURED)])
        shown = [line for panel in drawn.axes for line in panel.get_lines()]
        assert [list(line.get_xdata()) for line in shown] == [[10.0]] * lines


@pytest.mark.slow
def test_a_sweep_over_seeds_draws_bands(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    content = {
        "trainer": "exploit",
        "game": "kuhn",
        "stop": {"iterations": 2},
        "exploit": {"opponent": "call", "hidden": [4]},
        "track": {"uri": f"sqlite:///{tmp_path}/mlflow.db"},
        "search": {"exploit.games": {"grid": [10, 20]}, "seed": {"grid": [0, 1]}},
    }
    drawn: dict[str, dict[str, list[float]]] = {}

    def recorded(groups: dict[str, list[learning_curves.History]], unit: str) -> object:
        for label, histories in groups.items():
            drawn[label] = {"seeds": [dict(each)[2]["call/after_0_chip"] for each in histories]}
        return original(groups, unit)

    original = learning_curves.payoff_by_iteration
    monkeypatch.setattr(learning_curves, "payoff_by_iteration", recorded)
    done = sweep.run(
        lifecycle.open_folder(job_file.parse(content, JOBS, "this test"), "seeds", children=True),
        lambda iterations: None,
    )
    assert not done.failed
    scores = {(row["exploit.games"], row["seed"]): row["score"] for row in done.rows}
    assert drawn == {
        f"games {games}": {"seeds": [scores[games, 0], scores[games, 1]]} for games in (10, 20)
    }
    figure_names = {path.name for path in done.folder.figures.iterdir()}
    assert figure_names == {"parallel.png", "bands.png", "by_value.png"}
    assert done.folder.child(3).path.exists()
