"""Bidding systems as data, ready to bid and to explain."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from overtrick.core import Array, UserError, nearest
from overtrick.games.bridge.system import parser
from overtrick.games.bridge.system.compiler import RULE, TYPE_OF, Tables, blocks_of, compiled
from overtrick.games.bridge.system.linter import check
from overtrick.games.bridge.system.parser import FOLDER, SUFFIX, Place, Rule, system_names

__all__ = ["SUFFIX", "System", "fingerprint", "load", "rule_types", "system_names"]


@dataclass(frozen=True)
class System:
    """A bidding system, ready to bid and to explain."""

    name: str
    title: str
    places: tuple[Place, ...]
    rules: tuple[Rule, ...]
    tables: Tables


def rule_types(system: System) -> Array:
    """(rules + 1,) the type of each rule as known.TYPES numbers them; the last one is none."""
    found = np.zeros(len(system.rules) + 1, np.int64)
    found[system.tables.rule[:, RULE]] = system.tables.rule[:, TYPE_OF]
    return found


def fingerprint(rules: System) -> str:
    """Of what a system's rules say, those of the files that it is based on too; words are free."""
    digest = hashlib.sha256(rules.name.encode())
    for table in rules.tables:
        digest.update(np.ascontiguousarray(table).data)
    return digest.hexdigest()[:16]


def load(name: str | Path) -> System:
    """Load a system by name or from a file. Raises UserError naming file, line and rule."""
    path = Path(name)
    if path.suffix != SUFFIX:
        if str(name) not in system_names():
            near = nearest(str(name), system_names())
            raise UserError(
                f"unknown bidding system '{name}': did you mean '{near}'? "
                f"A file of your own ends in {SUFFIX}"
            )
        path = FOLDER / f"{name}{SUFFIX}"
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return _loaded(path.resolve(), stamp)


@cache
def _loaded(path: Path, stamp: int) -> System:
    head, read = parser.parse_file(path)
    found = tuple(sorted(read, key=lambda place: place.level))
    rules = tuple(rule for place in found for rule in place.rules)
    blocks = blocks_of(found, rules)
    tables = compiled(found, blocks)
    check(found, rules, blocks, tables)
    return System(head["system"], head.get("title", ""), found, rules, tables)
