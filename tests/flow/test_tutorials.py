"""The tutorials of docs/tutorials run as they stand, and show the outputs of a run."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
PRINTS = {
    "solve": "a best response wins +0.733 big blinds a game against it",
    "bridge": "par: 3S by N, +140 to North-South",
    "train": "step 3: ",
}
"""Words that each tutorial prints."""


def code_of(name: str) -> list[str]:
    """Return the code of a tutorial's cells."""
    cells = nbformat.read(FOLDER / f"{name}.ipynb", 4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the code of a tutorial in an empty folder, one cell after the other."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict[str, object] = {"__name__": name}
    for source in code_of(name):
        exec(compile(source, name, "exec"), names)
    plt.close("all")


def test_every_tutorial_is_known_and_has_the_outputs_of_a_run():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(PRINTS)
    for name, words in PRINTS.items():
        notebook = nbformat.read(FOLDER / f"{name}.ipynb", 4)
        nbformat.validate(notebook)
        outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
        assert words in "".join(each.get("text", "") for each in outputs)
        counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
        assert counts == list(range(1, 1 + len(counts)))


@pytest.mark.parametrize("name", ["solve", "bridge"])
def test_a_quick_tutorial_runs(name, tmp_path, monkeypatch, capsys):
    run(name, tmp_path, monkeypatch)
    assert PRINTS[name] in capsys.readouterr().out


@pytest.mark.slow
def test_the_tutorial_that_trains_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))
    run("train", tmp_path, monkeypatch)
    assert PRINTS["train"] in capsys.readouterr().out
