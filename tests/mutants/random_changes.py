"""Mutations drawn at random: an operator, a constant or a call of a line that tests run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.mutants import PACKAGE, ROOT, Mutation, parse

EQUIVALENTS = Path(__file__).parent / "random_equivalents.txt"  # drawn ones that change nothing
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
NOT_RUN = ("decorator_list", "returns", "annotation")  # parts of a node
TEXTS = (ast.JoinedStr, ast.Raise, ast.Assert, ast.arg)
"""Parts of the code with text for people or for type checkers, in which nothing is changed."""
MOST_OF_A_FILE = 3
LOGGERS = {"log", "logging", "warnings"}


class Site(NamedTuple):
    """A piece of one line that a mutation can replace, and the text that replaces it."""

    line: int
    start: int  # column
    end: int
    new: str


def sites(source: str) -> list[Site]:
    """List the sites in a source file that a mutation may change, in order."""
    lines = source.splitlines()
    found = {site for site in _sites(ast.parse(source), lines) if lines[site.line - 1].isascii()}
    return sorted(found)


def _sites(node: ast.AST, lines: list[str]) -> Iterator[Site]:
    """Yield the sites, at or below a node of the syntax tree, that a mutation may change."""
    if isinstance(node, TEXTS) or _is_log(node):
        return
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
        yield from _operator_sites(node, lines)
    elif isinstance(node, ast.Constant):
        yield from _site_of_node(node, _other_constant(node.value))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _site_of_node(node, "", end=node.operand.col_offset)
    elif isinstance(node, ast.Call):
        yield from _call_sites(node)
    if isinstance(node, ast.keyword) and node.arg == "axis":
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        yield from _site_of_node(node.value, {0: "1", 1: "0"}.get(value))
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in NOT_RUN:
                yield from _sites(child, lines)


def _site_of_node(
    node: ast.expr, new: str | None, start: int | None = None, end: int | None = None
) -> Iterator[Site]:
    """Yield the site of a node of the syntax tree; nothing if it has several lines, or no new text.

    `new`: the text that replaces it. `start`, `end`: columns of the site if not the whole node is
    replaced.
    """
    if new is not None and node.lineno == node.end_lineno:
        last = end or node.end_col_offset or 0
        yield Site(node.lineno, node.col_offset if start is None else start, last, new)


def _other_constant(value: object) -> str | None:
    """Return the text of another constant: one more, or the other truth value."""
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1) if isinstance(value, int) else None


def _operator_sites(node: ast.Compare | ast.BoolOp | ast.BinOp, lines: list[str]) -> Iterator[Site]:
    """Yield the sites of operators whose operands share a line."""
    if isinstance(node, ast.Compare):
        operands, operators = [node.left, *node.comparators], node.ops
    elif isinstance(node, ast.BoolOp):
        operands, operators = node.values, [node.op] * len(node.values)
    else:
        operands, operators = [node.left, node.right], [node.op]
    for left, right, operator in zip(operands, operands[1:], operators, strict=False):
        if left.end_lineno == right.lineno and type(operator) in OPERATORS:
            old, new = OPERATORS[type(operator)]
            start = left.end_col_offset or 0
            between = lines[right.lineno - 1][start : right.col_offset]
            if match := re.search(rf"(?<!\w){re.escape(old)}(?!\w)", between):
                yield Site(right.lineno, start + match.start(), start + match.end(), new)


def _call_sites(node: ast.Call) -> Iterator[Site]:
    """Yield the sites in a call where `min` and `max` can be swapped, or `.copy()` dropped."""
    called = node.func
    if isinstance(called, ast.Name):
        yield from _site_of_node(called, CALLS.get(called.id))
    elif isinstance(called, ast.Attribute):
        end = called.value.end_col_offset or 0
        if called.attr == "copy" and not node.args:
            yield from _site_of_node(node, "", start=end)
        yield from _site_of_node(called, CALLS.get(called.attr), start=end + 1)


def _is_log(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    root = called.value if isinstance(called, ast.Attribute) else None
    return isinstance(root, ast.Name) and root.id in LOGGERS


def mutation_at(file: str, source: str, site: Site) -> Mutation:
    """Build the mutation of a site; its old text has enough lines to be unique in the file."""
    lines = source.splitlines()
    line = lines[site.line - 1]
    changed = line[: site.start] + site.new + line[site.end :]
    first = site.line - 1
    while source.count("\n".join(lines[first : site.line])) > 1 and first > 0:
        first -= 1
    before = lines[first : site.line - 1]
    old, new = "\n".join([*before, line]), "\n".join([*before, changed])
    what = line[site.start : site.end].strip() or "nothing"
    return Mutation(file, old, new, f"{what} becomes {site.new or 'nothing'}")


def draw(
    seed: int, count: int, wanted: Sequence[str], covered: Callable[[str, int], bool]
) -> list[Mutation]:
    """Draw mutations of lines that tests run, at most MOST_OF_A_FILE of one file.

    `wanted`: the files, relative to the repository; if empty, all files of the package.
    `covered(file, line)`: whether tests run a line.
    """
    every = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / PACKAGE).rglob("*.py"))]
    files = wanted or every
    sources = {file: (ROOT / file).read_text() for file in files}
    found = [(file, site) for file in files for site in sites(sources[file])]
    reasons = {known.key: known for known in parse(EQUIVALENTS.read_text())}
    drawn: list[Mutation] = []
    for k in np.random.default_rng(seed).permutation(len(found)):
        file, site = found[k]
        if len(drawn) == count:
            break
        if sum(each.file == file for each in drawn) < MOST_OF_A_FILE and covered(file, site.line):
            mutation = mutation_at(file, sources[file], site)
            if compiles(mutation.apply(sources[file])):
                drawn.append(reasons.get(mutation.key, mutation))
    return drawn


def compiles(source: str) -> bool:
    """Return whether a source is valid Python."""
    try:
        compile(source, "changed", "exec")
    except SyntaxError:
        return False
    return True
