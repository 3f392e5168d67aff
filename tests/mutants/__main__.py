"""Run tests on a mutated copy of the tree, and list the mutations that no test detects.

`make mutants`; CONTRIBUTING.md describes it. Results are appended to build/mutants/results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.mutants import PACKAGE, ROOT, Mutation, digest, hand_picked
from tests.mutants.copies import BUILD, TIMED_OUT, Outcome, copied_tree, run_tests
from tests.mutants.coverage_map import CoverageMap, measure
from tests.mutants.random_changes import draw

RESULTS = BUILD / "results.jsonl"
TOTAL = 300.0  # seconds in which tests of a mutation may begin
LONGEST_TEST = 150.0  # seconds; tests of the fast suite take less than ten on an idle machine
RAY_IS_LATE = "timed out during startup"  # in the output: a busy machine, and not the mutation
RANDOM = 40  # mutations drawn
TRIES = 3
STOPPED = 2  # pytest's exit code after an interrupt, as when the time of all tests is up
NO_TESTS = 5  # pytest's exit code if no chosen test exists any more
CANNOT_START = 4  # pytest's exit code, as when the package cannot be imported
KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="only mutations of these files")
    parser.add_argument("--seed", type=int, default=1, help="of the random mutations")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at once")
    parser.add_argument("--random", type=int, default=RANDOM, help="number of random mutations")
    options = parser.parse_args()
    wanted = [f"{PACKAGE}/{file.rpartition(f'{PACKAGE}/')[2]}" for file in options.files]
    if missing := [file for file in wanted if not (ROOT / file).is_file()]:
        sys.exit(f"no file {missing[0]}")
    measure(options.jobs, wanted)
    coverage = CoverageMap()
    drawn = draw(
        options.seed, options.random, wanted, lambda f, n: bool(coverage.tests_that_run(f, [n]))
    )
    mutations = [each for each in hand_picked() if not wanted or each.file in wanted] + drawn
    known = valid_results()
    left = [each for each in mutations if not each.equivalent and each.key not in known]
    print(f"{len(mutations)} mutations, {len(left)} to test", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(evaluate_mutation, each, coverage.tests_of(each)) for each in left]
        for number, future in enumerate(as_completed(running), 1):
            result = future.result()
            known[result["key"]] = result
            with RESULTS.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{number}/{len(left)} {format_result(result)}", flush=True)
    summarise(mutations, known)


def valid_results() -> dict[str, dict[str, Any]]:
    """Return the stored results that are still valid, by the key of their mutation.

    A result is valid while the mutated file is unchanged. If a test killed the mutation, the file
    of this test must be unchanged too; otherwise all tests must be.
    """
    if not RESULTS.exists():
        return {}
    results = []
    for line in RESULTS.read_text().splitlines():
        with suppress(json.JSONDecodeError):  # an interrupted run may leave half a line
            results.append(json.loads(line))
    return {
        each["key"]: each for each in results if each["digests"] == digests_of_dependencies(each)
    }


def digests_of_dependencies(result: dict[str, Any]) -> list[str]:
    """Return digests of the files on which a result depends: the mutated file and the tests."""
    path, test = ROOT / result["file"], file_of_test(result["test"])
    if result["status"] == KILLED and (ROOT / test).is_file():
        tests = digest((ROOT / test).read_bytes())
    else:
        tests = digest_of_tests()
    return [digest(path.read_bytes()) if path.is_file() else "", tests]


@cache
def digest_of_tests() -> str:
    """Return the digest of all files in `tests`, except the folders `mutants` and `bench`."""
    files = [path for path in sorted((ROOT / "tests").rglob("*")) if path.is_file()]
    apart = ("mutants", "bench", "__pycache__")
    return digest(b"".join(path.read_bytes() for path in files if not {*apart} & {*path.parts}))


def evaluate_mutation(mutation: Mutation, tests: Sequence[str]) -> dict[str, Any]:
    """Run tests on the mutated copy until one fails, and return the result as plain data.

    The tests of the first two test files run first, because many files take long to collect. A
    test with Ray that also fails without the mutation, as on a busy machine, is left out.
    """
    source = (ROOT / mutation.file).read_text()
    began, passed, ran = time.monotonic(), 0, Outcome(0)
    files = list(dict.fromkeys(map(file_of_test, tests)))
    with copied_tree({mutation.file: mutation.apply(source)}) as copy:
        for part in filter(None, (files[:2], files[2:])):
            left = TOTAL - (time.monotonic() - began)
            if left > 0 and status_of(ran) == SURVIVED:
                ran = run_chosen(copy, part, tests, left)
                passed += ran.passed
    if status_of(ran) == KILLED and is_unreliable(ran.failed):
        return evaluate_mutation(mutation, [test for test in tests if test != ran.failed])
    result = {
        "key": mutation.key, "status": status_of(ran), "file": mutation.file,
        "line": mutation.line(source), "about": mutation.about,
        "old": mutation.old, "new": mutation.new,
        "test": ran.failed or ran.last or "the start of pytest",
        "passed": passed, "chosen": len(tests), "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip
    return {**result, "digests": digests_of_dependencies(result)}


def is_unreliable(test: str) -> bool:
    """Return whether a test that may use Ray fails in an unchanged copy."""
    if not test.startswith("tests/flow/") or "::" not in test:
        return False
    with copied_tree({}) as copy:
        return run_chosen(copy, [file_of_test(test)], [test], TOTAL).code != 0


def file_of_test(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def run_chosen(copy: Path, files: Sequence[str], tests: Sequence[str], seconds: float) -> Outcome:
    """Run the chosen tests of some files in a copy until one fails or the time is up."""
    (copy / "tmp" / "tests").write_text("\n".join(tests))
    settings = {
        "OVERTRICK_TESTS": str(copy / "tmp" / "tests"),
        "OVERTRICK_SECONDS": str(LONGEST_TEST),
        "OVERTRICK_TOTAL": str(seconds),
    }
    for _ in range(TRIES):
        ran = run_tests(copy, files, seconds + 2 * LONGEST_TEST, settings, "-x", "--tb=line")
        if RAY_IS_LATE not in ran.output:
            break
    if ran.code == CANNOT_START and not pytest_starts(files):
        raise RuntimeError(f"pytest cannot start, even without a mutation:\n{ran.output}")
    return ran


def status_of(ran: Outcome) -> str:
    """Return the status of a mutation after its tests: killed, timeout or survived."""
    if ran.code in (0, NO_TESTS) or (ran.code == STOPPED and not ran.failed):
        return SURVIVED  # all tests, or those that fitted into the time, have passed
    return TIMEOUT if ran.out_of_time or ran.code == TIMED_OUT else KILLED


def pytest_starts(files: Sequence[str]) -> bool:
    """Return whether pytest starts in a copy without a mutation."""
    with copied_tree({}) as copy:
        return run_tests(copy, files, TOTAL, {}, "--collect-only").code == 0


def format_result(result: dict[str, Any]) -> str:
    """Return a result as one line of text."""
    place = f"{result['file'].removeprefix(PACKAGE + '/')}:{result['line']}"
    by = f"by {result['test']}" if result["status"] != SURVIVED else f"{result['passed']} tests"
    return f"{result['status']} {place} ({result['about']}) {by}, {result['seconds']} s"


def summarise(mutations: Sequence[Mutation], known: dict[str, dict[str, Any]]) -> None:
    """Print timeouts, survivors and equivalent mutations, and the share that tests detect."""
    results = [known[each.key] for each in mutations if not each.equivalent]
    by_status = {s: [r for r in results if r["status"] == s] for s in (KILLED, TIMEOUT, SURVIVED)}
    for status in (TIMEOUT, SURVIVED):
        print(f"\n{len(by_status[status])} {status}")
        for result in by_status[status]:
            changed = f"- {result['old']}\n+ {result['new']}"
            print(format_result(result), *changed.splitlines(), sep="\n    ")
    alike = [each for each in mutations if each.equivalent]
    print(f"\n{len(alike)} equivalent: no test can detect them")
    for each in alike:
        print(f"{each.file.removeprefix(PACKAGE + '/')} ({each.about}): {each.equivalent}")
    detected = len(by_status[KILLED]) + len(by_status[TIMEOUT])
    print(
        f"\n{len(mutations)} mutations of {len({each.file for each in mutations})} files: "
        f"{len(by_status[KILLED])} killed, {len(by_status[TIMEOUT])} timeouts, "
        f"{len(by_status[SURVIVED])} survived, {len(alike)} equivalent; "
        f"{detected / max(len(results), 1):.1%} of those that are not equivalent are killed"
    )


if __name__ == "__main__":
    main()
