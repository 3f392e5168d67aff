"""Measure which lines of the package each test runs; store them in build/mutants/coverage."""

from __future__ import annotations

import ast
import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from tests.by_folder import files_by_folder
from tests.mutants import ROOT, Mutation, digest
from tests.mutants.copies import BUILD, copied_tree, files_with_kernels, run_tests, save_kernels

COMPILED, INTERPRETED = BUILD / "coverage" / "compiled", BUILD / "coverage" / "interpreted"
FILES_AT_ONCE = 6  # test files measured by one process
LONGEST = 3600.0  # seconds for them
INTERPRETED_SECONDS = 4.0  # per test, where kernels run as Python
MOST_SECONDS = 120.0  # of the tests chosen for a mutation, by their measured time


def test_files() -> list[str]:
    """List the test files, except that of the mutations: it would fail in every changed copy."""
    paths = sorted(ROOT.glob("tests/*/test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in paths if path.stem != "test_mutants"]


def measurements_path(folder: Path, file: str) -> Path:
    """Return the path of the file with the measurements of a test file."""
    return folder / f"{file.replace('/', '.')}.json"


def measure(jobs: int, wanted: Sequence[str]) -> None:
    """Measure the test files that have changed since they were measured.

    Coverage sees no line of a compiled kernel. The test files of a folder with kernels are
    therefore measured a second time without compilation, each test for a few seconds at most.

    `wanted`: files of the package. Only the test files of their folders are measured; if it is
    empty, all test files are.
    """
    table = files_by_folder()
    folders = {file.split("/")[2] for file in wanted} & table.keys() or table.keys()
    chosen = {file for name in folders for file in table[name]}
    with_kernels = {file.split("/")[2] for file in files_with_kernels()} & folders
    again = {file for name in with_kernels for file in table[name]}
    interpreted = {"NUMBA_DISABLE_JIT": "1", "OVERTRICK_SECONDS": str(INTERPRETED_SECONDS)}
    for folder, files, environment in (
        (COMPILED, chosen, {}),
        (INTERPRETED, again, interpreted),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        stale = [each for each in test_files() if each in files and not is_measured(folder, each)]
        groups = [stale[k : k + FILES_AT_ONCE] for k in range(0, len(stale), FILES_AT_ONCE)]
        settings = {"OVERTRICK_MEASURE": str(folder), **environment}
        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(_measure_group, groups, [settings] * len(groups)):
                pass


def _measure_group(files: list[str], settings: Mapping[str, str]) -> None:
    print("measuring", *files, flush=True)
    with copied_tree({}) as copy:
        outcome = run_tests(copy, files, LONGEST, settings)
        save_kernels(copy)
    for file in files:
        if not is_measured(Path(settings["OVERTRICK_MEASURE"]), file):
            print(f"{file} was not measured:\n{outcome.output[-2000:]}", flush=True)


def is_measured(folder: Path, file: str) -> bool:
    """Return whether a test file has been measured and is unchanged since then."""
    path = measurements_path(folder, file)
    if not path.exists():
        return False
    return json.loads(path.read_text())["digest"] == digest((ROOT / file).read_bytes())


class CoverageMap:
    """The measurements of all test files."""

    def __init__(self) -> None:
        self.compiled, self.interpreted = _records(COMPILED), _records(INTERPRETED)
        self.seconds: dict[str, float] = {}  # of each test that passes
        for record in self.compiled.values():
            for name, test in record["tests"].items():
                if test.get("passed"):
                    self.seconds[name] = test.get("seconds", 0.0)
        self.breadth = Counter[str]()  # lines of the package that a test runs
        for record in self.compiled.values():
            for lines in record["lines"].values():
                for names in lines.values():
                    self.breadth.update(names)

    def tests_of(self, mutation: Mutation) -> list[str]:
        """Return the tests that may detect a mutation, the most promising first.

        First come the tests that run the changed line. If there are none, as for a constant that is
        read on import, the tests that run any line of the file come first. The other tests of the
        folder follow (table in tests/README.md), because lines that run in other processes are not
        measured. Within both groups, tests that run few lines in little time come first. Tests that
        do not pass without the mutation are left out, and those beyond MOST_SECONDS in total.
        """
        file = mutation.file
        source = (ROOT / file).read_text()
        lines = statement_lines(source, mutation.line(source))
        direct = self.tests_that_run(file, lines) or self.tests_that_run(file, None)
        table = set(files_by_folder().get(file.split("/")[2], ()))
        others = {name for name in self.seconds if name.partition("::")[0] in table} - direct
        chosen, total = [], 0.0
        for names in (direct, others):
            for name in sorted(names, key=lambda n: (self.seconds[n] + 0.01) * self.breadth[n]):
                if not chosen or total + self.seconds[name] <= MOST_SECONDS:
                    chosen.append(name)
                    total += self.seconds[name]
        return chosen

    def tests_that_run(self, file: str, lines: Iterable[int] | None) -> set[str]:
        """Return the passing tests that run one of `lines` of a file; None means any line."""
        records = [(COMPILED, record) for record in self.compiled.values()]
        records += [(INTERPRETED, record) for record in self.interpreted.values()]
        found = set[str]()
        for folder, record in records:
            by_line = record["lines"].get(file, {})
            if lines is None:
                measured = set(by_line)
            else:
                source = folder / record["sources"].get(file, "")
                numbers = measured_line_numbers(ROOT / file, source)
                measured = {str(numbers.get(line)) for line in lines} & set(by_line)
            for line in measured:
                found.update(by_line[line])
        return found & self.seconds.keys()


def _records(folder: Path) -> dict[str, Any]:
    return {
        file: json.loads(measurements_path(folder, file).read_text())
        for file in test_files()
        if measurements_path(folder, file).exists()
    }


@cache
def measured_line_numbers(path: Path, measured: Path) -> dict[int, int]:
    """Map the line numbers of a file to those in its measured version; omit changed lines."""
    if not measured.is_file():
        return {}
    new, old = path.read_text().splitlines(), measured.read_text().splitlines()
    blocks = difflib.SequenceMatcher(None, new, old, autojunk=False).get_matching_blocks()
    return {a + k + 1: b + k + 1 for a, b, size in blocks for k in range(size)}


def statement_lines(source: str, line: int) -> range:
    """Return the lines of the innermost statement at a line; only the header of `if`, `def`, ..."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            last = node.end_lineno or node.lineno
            if body := getattr(node, "body", None):
                last = max(node.lineno, body[0].lineno - 1)
            if node.lineno <= line <= last:
                best = range(node.lineno, last + 1)  # inner statements are walked later
    return best
