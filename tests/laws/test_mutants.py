"""Laws of the mutations of `make mutants`: what they change, and how their results are decided."""

from __future__ import annotations

import pytest
from tests.mutants import PACKAGE, ROOT, Mutation, hand_picked, parse
from tests.mutants.copies import kernel_folder
from tests.mutants.coverage_map import measured_line_numbers, statement_lines
from tests.mutants.random_changes import EQUIVALENTS, compiles, mutation_at, sites


def test_each_hand_picked_mutation_has_its_text_once_and_compiles():
    mutations = hand_picked()
    assert len(mutations) >= 200
    assert len({each.file for each in mutations}) >= 40
    assert len({each.key for each in mutations}) == len(mutations)
    for each in [*mutations, *parse(EQUIVALENTS.read_text())]:
        source = (ROOT / each.file).read_text()
        changed = each.apply(source)
        assert changed != source, each
        assert compiles(changed), each


def test_a_list_of_mutations_is_parsed_with_texts_of_several_lines_and_reasons():
    text = "a/b.py\n# one thing\n- x\n-     y\n+ z\n# another\n- p\n+ q\n= no\n= matter\n"
    text += "\nc.py\n# d\n- e\n+\n"
    assert parse(text) == [
        Mutation(f"{PACKAGE}/a/b.py", "x\n    y", "z", "one thing"),
        Mutation(f"{PACKAGE}/a/b.py", "p", "q", "another", "no matter"),
        Mutation(f"{PACKAGE}/c.py", "e", "", "d"),
    ]


def test_a_mutation_starts_at_the_first_line_that_differs():
    mutation = Mutation("f", "a\nb = 1\nc", "a\nb = 2\nc", "")
    assert mutation.line("0\na\nb = 1\nc\n") == 3


def test_a_mutation_whose_text_occurs_twice_is_refused():
    with pytest.raises(ValueError, match="occurs 2 times"):
        Mutation("f", "x", "y", "").apply("x = x")


SOURCE = '''\
"""Text 1 < 2."""
@compiled(cache=True)
def f(a, b=1):
    if not a <= b and min(a, 2):
        raise ValueError(f"{a} < 1")
    log.info("%d", a + b)
    return b.copy().sum(axis=1) * True
'''


def test_random_changes_are_in_code_that_runs_and_not_in_texts():
    changed = [mutation_at("f", SOURCE, site).new.strip() for site in sites(SOURCE)]
    assert changed == [
        "def f(a, b=2):",
        "if a <= b and min(a, 2):",
        "if not a < b and min(a, 2):",
        "if not a <= b or min(a, 2):",
        "if not a <= b and max(a, 2):",
        "if not a <= b and min(a, 3):",
        "return b.sum(axis=1) * True",
        "return b.copy().sum(axis=0) * True",
        "return b.copy().sum(axis=1) / True",
        "return b.copy().sum(axis=1) * False",
    ]


def test_a_random_change_of_a_repeated_line_is_told_apart_by_the_lines_before_it():
    source = "a = 1\nb = 2\nc = 0\nb = 2\n"
    last = mutation_at("f", source, sites(source)[-1])
    assert last.old == "c = 0\nb = 2"
    assert last.apply(source) == "a = 1\nb = 2\nc = 0\nb = 3\n"


def test_a_kernel_is_compiled_anew_if_a_file_that_it_imports_changes():
    file, imported = (f"{PACKAGE}/games/poker/{name}.py" for name in ("showdown", "hand_ranking"))
    apart = f"{PACKAGE}/games/matrix.py"
    assert kernel_folder(file, {imported: ""}) != kernel_folder(file, {})
    assert kernel_folder(file, {apart: ""}) == kernel_folder(file, {})


def test_the_tests_of_a_line_are_those_of_its_whole_statement():
    source = "if a:\n    b = (\n        1,\n    )\nelse:\n    c = 2\n"
    assert [list(statement_lines(source, line)) for line in (1, 3, 6)] == [[1], [2, 3, 4], [6]]


def test_lines_keep_the_number_under_which_they_were_measured(tmp_path):
    today, measured = tmp_path / "today", tmp_path / "measured"
    today.write_text("a\nnew\nb\nd\n")
    measured.write_text("a\nb\nc\nd\n")
    assert measured_line_numbers(today, measured) == {1: 1, 3: 2, 4: 4}


@pytest.mark.slow
def test_a_wrong_change_is_killed_and_a_harmless_one_survives():
    from tests.mutants.__main__ import evaluate_mutation

    file = f"{PACKAGE}/games/bridge/auction_rules.py"
    tests = ["tests/laws/test_auction.py::test_the_longest_auction_has_319_calls"]
    wrong = Mutation(file, "(4 if state[LAST_BID] < 0 else 3)\n\n", "3\n\n", "a bound")
    harmless = Mutation(file, "said = word.upper()", "said = word.upper().upper()", "twice")
    results = [evaluate_mutation(each, tests) for each in (wrong, harmless)]
    assert [each["status"] for each in results] == ["killed", "survived"]
