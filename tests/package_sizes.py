"""Print how much disk space an installation takes, by extra and by required package.

    python -m tests.package_sizes

It measures the packages that are installed beside this one. The size of an extra counts the
packages that neither the core nor an extra above it needs. The size of a required package counts
the package and all packages that nothing else needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

PACKAGE = "overtrick"
EXTRAS = ("", "sumo", "environments", "docs")
LEAST = 30  # MB of a required package that is listed


def normal(name: str) -> str:
    """Return a package's name in lower case, with hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(name: str, extras: Iterable[str]) -> list[Requirement]:
    """Return the requirements of an installed package with some extras; "" stands for none.

    A package that is not installed, such as one for another platform, has no requirements.
    """
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return []
    return [
        each
        for each in map(Requirement, lines)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def needed(extra: str, without: str = "") -> set[str]:
    """Return the names of all packages that this package with an extra needs.

    `extra`: "" for the core. `without`: a package that is left out, with all that only it needs.
    """
    found: set[str] = set()
    left = [(PACKAGE, frozenset({extra}))]
    while left:
        name, extras = left.pop()
        for requirement in requirements(name, extras or {""}):
            required = normal(requirement.name)
            if required not in found | {without}:
                found.add(required)
                left.append((required, frozenset(requirement.extras)))
    return found


def megabytes(names: Iterable[str]) -> float:
    """Return the size of the files of installed packages."""
    total = 0
    for name in names:
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        paths = (file.locate() for file in files)
        total += sum(path.stat().st_size for path in paths if path.is_file())  # type: ignore[attr-defined]
    return total / 1e6


def main() -> None:
    """Print the sizes of the extras, then those of the core's required packages."""
    counted: set[str] = set()
    for extra in EXTRAS:
        new = needed(extra) - counted
        counted |= new
        print(f"{extra or 'core':>16} {megabytes(new):6.0f} MB, {len(new)} packages")
    core = needed("")
    print("\nof the core, with all that nothing else needs:")
    sizes = []
    for requirement in requirements(PACKAGE, {""}):
        name = normal(requirement.name)
        only = core - needed("", without=name)
        sizes.append((megabytes(only), len(only), name))
    for size, count, name in sorted(sizes, reverse=True):
        if size >= LEAST:
            print(f"{name:>16} {size:6.0f} MB, {count} packages")


if __name__ == "__main__":
    main()
