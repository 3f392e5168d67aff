"""Load bidding systems: parse a file, compile it to arrays and check it.

The tests check the package's own systems, so that loading one does not check it again: that would
double its time, and a first command would compile the check for half a minute.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from overtrick.core import Array, UserError, suggestion
from overtrick.games.bridge.cardplay.defence_signals import parse_signals
from overtrick.games.bridge.system import compiler, linter, parser
from overtrick.games.bridge.system.bidding_system import System, build_system
from overtrick.games.bridge.system.parser import FOLDER, SUFFIX, system_names

__all__ = ["SUFFIX", "System", "fingerprint", "load", "rule_types", "system_names"]


def rule_types(system: System) -> Array:
    """Return the kind of call that each rule makes, such as natural, transfer or takeout double.

    Kinds are indices into public_knowledge.TYPES. The result has one entry for each of System.rules
    and a last entry 0, so that index -1 (no rule) has the kind "none".
    """
    found = np.zeros(len(system.rules) + 1, np.int64)
    found[system.tables.rule[:, compiler.RULE]] = system.tables.rule[:, compiler.TYPE_OF]
    return found


def fingerprint(rules: System) -> str:
    """Return a hash of a system's name and compiled rules, independent of comments and titles."""
    digest = hashlib.sha256(rules.name.encode())
    for table in rules.tables:
        digest.update(np.ascontiguousarray(table).data)
    return digest.hexdigest()[:16]


def load(name: str | Path) -> System:
    """Load a bidding system by name or from a file, and check a file that is not the package's.

    Raises UserError for an unknown name, an unreadable file, or a problem in the file, with its
    line and rule.
    """
    path = Path(name)
    if path.suffix != SUFFIX:
        if str(name) not in system_names():
            hint = suggestion(str(name), [*system_names(), f"FILE{SUFFIX}"])
            raise UserError(f"unknown bidding system '{name}': {hint}")
        path = FOLDER / f"{name}{SUFFIX}"
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return _load_version(path.resolve(), modified)


@cache
def _load_version(path: Path, modified: int) -> System:
    """Load a bidding-system file, and check it unless it is in the package.

    Cached by path and modification time `modified` in nanoseconds.
    """
    head, parsed = parser.parse_file(path)
    signals = parse_signals(head.get("signals", "none"))
    system, blocks = build_system(head["system"], head.get("title", ""), parsed, signals)
    if path.parent != FOLDER.resolve():
        for problem in linter.find_problems(system, blocks):
            raise UserError(problem)
    return system
