"""Pytest plugin for runs in a copy of the tree. Environment variables say what it does.

OVERTRICK_TESTS    file that lists the tests to run, in their order; others are left out
OVERTRICK_REPORT   file for the report: the last test that began, the failed test, the number passed
OVERTRICK_SECONDS  a test that runs longer fails
OVERTRICK_TOTAL    after so many seconds no further test begins
OVERTRICK_MEASURE  folder for the measurements: which test runs which line of the package, and the
                   time, in seconds of the processor, and the outcome of each test
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import FrameType

import pytest
from coverage import Coverage
from tests.mutants import digest

FOLDER = os.environ.get("OVERTRICK_MEASURE")
SECONDS = float(os.environ.get("OVERTRICK_SECONDS", "0"))
TOTAL = float(os.environ.get("OVERTRICK_TOTAL", "inf"))
AGAIN = 0.01  # seconds after which a test is interrupted that could not be before
WRONG_PACKAGE = 99  # exit code: the tests import another package than the copy's

# started before the package is imported, so that lines at the top of a module count as covered
coverage = Coverage(data_file=None, config_file=False, source=["overtrick"]) if FOLDER else None
if coverage:
    coverage.start()
began = time.monotonic()
tests: dict[str, dict] = defaultdict(dict)  # by test file: the seconds of each test and its outcome
report = {"last": "", "failed": "", "out_of_time": False, "passed": 0}


def write_report() -> None:
    if path := os.environ.get("OVERTRICK_REPORT"):
        Path(path).write_text(json.dumps(report))


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Choose the tests; stop if the package is not that of the tree whose tests run."""
    import overtrick

    package = session.config.rootpath / "platform" / "overtrick" / "__init__.py"
    if Path(overtrick.__file__).resolve() != package.resolve():
        pytest.exit(f"the tests import {overtrick.__file__}, not {package}", WRONG_PACKAGE)
    if path := os.environ.get("OVERTRICK_TESTS"):
        place = {name: k for k, name in enumerate(Path(path).read_text().splitlines())}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Measure the lines and the time of a test with its fixtures."""
    report["last"] = item.nodeid
    write_report()
    if coverage:
        coverage.switch_context(item.nodeid)
    start = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        entry = tests[item.nodeid.partition("::")[0]].setdefault(item.nodeid, {})
        entry["seconds"] = sum(os.times()[:4]) - start
        if time.monotonic() - began > TOTAL:
            item.session.shouldstop = "the time of all tests is up"


def above(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and the frames that have called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def time_limited():
    """Fail a test if a part of it takes longer than OVERTRICK_SECONDS.

    The failure is a BaseException, so that no `except Exception` catches it. Pytest must not print
    its traceback: where a signal interrupts Python, an entry may have no line. While coverage holds
    its lock, it is not interrupted: the lock would never be released.
    """

    def stop(_: int, frame: FrameType | None) -> None:
        files = [PurePath(each.f_code.co_filename) for each in above(frame)]
        if any(file.parent.name == "coverage" for file in files):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        report["out_of_time"] = True
        raise pytest.fail.Exception("out of time", pytrace=False)

    if SECONDS:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from time_limited())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from time_limited())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a test: passed only if no part of it failed or was skipped."""
    entry = tests[report.nodeid.partition("::")[0]].setdefault(report.nodeid, {})
    entry["passed"] = entry.get("passed", True) and report.passed
    note_failure(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a test file that cannot be imported."""
    note_failure(report)


def note_failure(found: pytest.TestReport | pytest.CollectReport) -> None:
    if found.failed and not report["failed"]:
        report["failed"] = found.nodeid


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report, and the measurements of each test file if they were asked for."""
    report["passed"] = sum(
        test.get("passed", False) for file in tests.values() for test in file.values()
    )
    write_report()
    if coverage:
        coverage.stop()
        write_measurements(session.config.rootpath)


def write_measurements(root: Path) -> None:
    """Write a file for each test file: its digest, its tests, and the lines that each test ran."""
    data = coverage.get_data()
    lines: dict[str, dict] = {file: {} for file in tests}  # test file: package file: line: tests
    for source in data.measured_files():
        path = Path(source).relative_to(root).as_posix()
        for line, names in data.contexts_by_lineno(source).items():
            for name in names:
                file = name.partition("::")[0]
                if file in lines:  # code that is run on import belongs to no test
                    lines[file].setdefault(path, {}).setdefault(line, []).append(name)
    for file, found in lines.items():
        record = {
            "digest": digest((root / file).read_bytes()),
            "tests": tests[file],
            "lines": found,
            "sources": {path: keep_source(root / path) for path in found},
        }
        target = Path(FOLDER) / f"{file.replace('/', '.')}.json"
        target.write_text(json.dumps(record))


def keep_source(path: Path) -> str:
    """Copy a measured source file to a file named after its digest; return the digest.

    `measured_line_numbers` compares the copy with a later version, whose line numbers differ.
    """
    name = digest(path.read_bytes())
    (Path(FOLDER) / name).write_bytes(path.read_bytes())
    return name
