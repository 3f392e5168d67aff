"""Run tests in copies of the tree, never in the checkout."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
from tests.data import DATA
from tests.mutants import PACKAGE, ROOT, digest
from tests.mutants.pytest_plugin import WRONG_PACKAGE

BUILD = ROOT / "build" / "mutants"
KERNELS = BUILD / "kernels"  # compiled by numba from the unchanged tree
TIME = 1_000_000_000  # of every file of a copy: numba compares times to recognise its kernels
MARK = "OVERTRICK_COPY"  # environment variable of all processes of a copy: its folder
TIMED_OUT = -signal.SIGALRM  # exit code of tests that had to be ended
PLUGIN = "tests.mutants.pytest_plugin"


@dataclass(frozen=True)
class Outcome:
    """Result of running the tests of a mutated copy."""

    code: int  # pytest's exit code; negative: the signal that ended it
    last: str = ""  # the last test that began
    failed: str = ""  # the first failed test, or test file that cannot be imported
    out_of_time: bool = False  # a test exceeded its time
    passed: int = 0  # number of tests
    output: str = ""


def git_files() -> tuple[str, ...]:
    """List the files of the checkout that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(file for file in listed.split("\0") if file and (ROOT / file).is_file())


@cache
def files_with_kernels() -> tuple[str, ...]:
    """List the files of the package that have compiled kernels."""
    return tuple(
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
        if "njit" in path.read_text()
    )


@contextmanager
def copied_tree(changed: Mapping[str, str]) -> Iterator[Path]:
    """Copy the tree, with other texts for the files in `changed`, and remove the copy at the end.

    The copy has no compiled kernels, except those that cannot depend on a changed file. Processes
    that tests have left running are ended with the copy.
    """
    folder = Path(tempfile.mkdtemp(prefix="mut-"))
    try:
        for file in git_files():
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if file in changed:
                target.write_text(changed[file])
            else:
                shutil.copy(ROOT / file, target)
            os.utime(target, (TIME, TIME))
        (folder / "tmp").mkdir()
        for file in files_with_kernels():
            beside = (folder / file).parent / "__pycache__"
            beside.mkdir(exist_ok=True)
            for kernel in kernel_folder(file, changed).glob("*"):
                shutil.copy2(kernel, beside)
        yield folder
    finally:
        end_processes(folder)
        shutil.rmtree(folder, ignore_errors=True)


def run_tests(
    copy: Path, files: Sequence[str], seconds: float, environment: Mapping[str, str], *options: str
) -> Outcome:
    """Run the tests of some files of a copy for at most so many seconds."""
    report = copy / "tmp" / "report.json"
    report.unlink(missing_ok=True)
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OVERTRICK_")},
        "PYTHONPATH": f"{copy / 'platform'}:{copy}",
        "OVERTRICK_DATA": str(DATA),
        "OVERTRICK_REPORT": str(report),
        "TMPDIR": str(copy / "tmp"),  # of Ray too
        MARK: str(copy),
        **environment,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"]
    with (copy / "tmp" / "output").open("w+") as output:
        process = subprocess.Popen(
            [*command, *options, *files], cwd=copy, env=settings, stdout=output, stderr=output,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        finally:
            with suppress(ProcessLookupError):  # it and all its children have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read()
    if code == WRONG_PACKAGE:
        raise RuntimeError(text)
    found = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(code, **found, output=text)


def end_processes(copy: Path) -> None:
    """Kill all processes, such as those of Ray, whose environment variable MARK names the copy."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(copy):
                process.kill()
        except psutil.Error:  # it has ended, or belongs to another user
            continue


def save_kernels(copy: Path) -> None:
    """Store the compiled Numba kernels of a copy without mutation, for use in later copies."""
    for kernel in (copy / PACKAGE).rglob("*.nb?"):
        target = kernel_folder(source_of(kernel.relative_to(copy)), {}) / kernel.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kernel, target)


def kernel_folder(file: str, changed: Mapping[str, str]) -> Path:
    """Return the folder of the stored kernels of a file, given the new texts of changed files.

    Numba compiles into a kernel what it calls and the constants that it reads, so the folder is
    named after the content of the file and of all files that it imports, directly or indirectly. A
    changed file therefore has another folder, in which there is no kernel.
    """
    texts = [changed.get(each, (ROOT / each).read_text()) for each in sorted(all_imports(file))]
    return KERNELS / digest("".join([file, *texts]).encode())


def source_of(kernel: Path) -> str:
    """Return the source file of a kernel's file, which lies in a folder __pycache__ beside it."""
    return (kernel.parent.parent / f"{kernel.name.partition('.')[0]}.py").as_posix()


@cache
def all_imports(file: str) -> frozenset[str]:
    """Return a file of the package and all files that it imports, directly or indirectly."""
    found, left = {file}, [file]
    while left:
        for other in direct_imports(left.pop()) - found:
            found.add(other)
            left.append(other)
    return frozenset(found)


@cache
def direct_imports(file: str) -> frozenset[str]:
    """Return the files of the package that one of its files imports."""
    names = set[str]()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = [f"platform/{name.replace('.', '/')}" for name in names]
    each = [candidate for path in paths for candidate in (f"{path}.py", f"{path}/__init__.py")]
    return frozenset(path for path in each if (ROOT / path).is_file())
