"""Run the benches, print a table, and write build/bench.json: `python -m tests.bench [NAME]`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.bench import NAMES

from overtrick import startup
from overtrick.core import UserError, suggestion

FILE = Path("build/bench.json")
Entry = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run every bench, or the named one. Return 2 if the name is unknown."""
    if len(arguments) > 1:
        return _refuse("name one bench, or none to run them all")
    if arguments and arguments[0] not in NAMES:
        return _refuse(f"unknown bench '{arguments[0]}': {suggestion(arguments[0], NAMES)}")
    startup.prepare()  # before a bench imports numpy and Ray
    console = Console(stderr=True)
    entries = _read() if arguments else {}
    ran = []
    for name in arguments or NAMES:
        console.print(f"{name} ...", highlight=False)
        try:
            entries[name] = dataclasses.asdict(import_module(f"tests.bench.{name}").run())
        except UserError as error:  # this machine lacks something that the bench needs
            if arguments:
                return _refuse(str(error))
            console.print(f"{name} skipped: {error}", highlight=False)
            continue
        ran.append(name)
        _write(entries)  # after each bench, so that a failure loses no result
    _show([entries[name] for name in ran])
    return 0


def _refuse(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)
    return 2


def _read() -> dict[str, Entry]:
    if not FILE.exists():
        return {}
    return {entry["name"]: entry for entry in json.loads(FILE.read_text())}


def _write(entries: dict[str, Entry]) -> None:
    """Write all entries in the order of NAMES, atomically."""
    ordered = sorted(entries.values(), key=lambda e: [*NAMES, e["name"]].index(e["name"]))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    beside = FILE.with_suffix(".json.new")
    beside.write_text(json.dumps(ordered, indent=1) + "\n")
    os.replace(beside, FILE)


def _show(entries: list[Entry]) -> None:
    """Print the table, and below it the work of each bench."""
    console, table = Console(), Table("bench")
    for column in ("ours", "peer", "unit", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "unit" else "right")
    for entry in entries:
        numbers = (_short(entry[column]) for column in ("ours", "peer"))
        ratios = (_short(entry[column]) for column in ("ratio", "goal"))
        table.add_row(entry["name"], *numbers, entry["unit"], *ratios)
    console.print(table)
    for entry in entries:
        peer = f"; peer: {entry['peer_name']}" if entry["peer_name"] else ""
        console.print(f"{entry['name']}: {entry['work']}{peer}", highlight=False, soft_wrap=True)


def _short(number: float | None) -> str:
    """Format a number: whole above 100, else with three digits; empty for None."""
    if number is None:
        return ""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
