"""Match security advisories in OSV's format against the pinned versions of constraints.txt.

`python -m tests.advisories FOLDER` reads every JSON file of a folder, such as a download of PyPI's
advisories from OSV, and prints each pinned package that one of them affects. The exit code is 1 if
there is one, and 2 if a file cannot be read. It needs no network. See
https://ossf.github.io/osv-schema for the format.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
PINS = ROOT / "constraints.txt"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(
            "error: expected one argument, a folder of JSON files in OSV's format", file=sys.stderr
        )
        return 2
    pins, found, files = pinned(PINS.read_text()), [], sorted(Path(arguments[0]).rglob("*.json"))
    if not files:
        print(f"error: {arguments[0]} has no JSON files", file=sys.stderr)
        return 2
    for file in files:
        try:
            found += matches(json.loads(file.read_text(encoding="utf-8")), pins)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            print(f"error: {file} is not an advisory: {error!r}", file=sys.stderr)
            return 2
    print(*found, sep="\n", end="\n" if found else "")
    print(f"findings: {len(found)} ({len(files)} advisories, {len(pins)} packages)")
    return 1 if found else 0


def pinned(text: str) -> dict[str, Version]:
    """Return the version of each package, by normalised name, of lines NAME==VERSION."""
    lines = (line.partition("==") for line in text.splitlines() if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, _, version in lines if version}


def matches(advisory: Mapping[str, Any], pins: Mapping[str, Version]) -> Iterator[str]:
    """Yield a line for each pinned package that an advisory affects; none if it is withdrawn."""
    if advisory.get("withdrawn"):
        return
    for affected in advisory.get("affected", ()):
        package = affected["package"]
        name = canonicalize_name(package["name"])
        if package["ecosystem"] == "PyPI" and name in pins and is_affected(pins[name], affected):
            yield f"{name} {pins[name]}: {advisory['id']} {advisory.get('summary', '')}".rstrip()


def is_affected(version: Version, affected: Mapping[str, Any]) -> bool:
    """Return whether an entry `affected` of an advisory lists a version or has it in a range."""
    if any(_parsed(each) == version for each in affected.get("versions", ())):
        return True
    ranges = (each for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM")
    return any(_in_range(version, each["events"]) for each in ranges)


def _in_range(version: Version, events: list[Mapping[str, str]]) -> bool:
    """Return whether a version lies in a range, given by events such as {introduced: VERSION}."""
    inside = False
    for kind, text in sorted(
        ((kind, text) for event in events for kind, text in event.items()),
        key=lambda event: (_parsed(event[1]), event[0] != "introduced"),
    ):
        if kind == "introduced" and version >= _parsed(text):
            inside = True
        elif (kind == "fixed" and version >= _parsed(text)) or (
            kind == "last_affected" and version > _parsed(text)
        ):
            inside = False
    return inside


def _parsed(text: str) -> Version:
    """Parse a version; an invalid one sorts first: a range that it starts includes all versions."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0.dev0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
