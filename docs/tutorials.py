"""Run the tutorials, which are notebooks, and store their outputs in them: `make tutorials`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "tutorials"


def run_tutorial(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of running all its cells, in a new temporary folder.

    Raises CellExecutionError if a cell fails.
    """
    notebook = nbformat.read(path, 4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ in each run
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if is_result(each)]
    return notebook


def is_result(output: nbformat.NotebookNode) -> bool:
    """Return True for printed text and figures, False for log lines and progress widgets."""
    return output.get("name") == "stdout" or "image/png" in output.get("data", {})


def main() -> None:
    """Run all tutorials and write their outputs into their files."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        written = path.with_suffix(".new")
        nbformat.write(run_tutorial(path), written)
        os.replace(written, path)
        print(path.name)


if __name__ == "__main__":
    main()
