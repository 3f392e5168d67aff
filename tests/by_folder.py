"""Print the test files of one folder of the package, by the table in tests/README.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def files_by_folder() -> dict[str, list[str]]:
    """Read the test files, relative to the repository, by folder of the package."""
    table = (HERE / "README.md").read_text().partition("## From a folder")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE)
    return {folder: [f"tests/{name}.py" for name in names.split()] for folder, names in rows}


if __name__ == "__main__":
    folders = files_by_folder()
    if sys.argv[1] not in folders:
        sys.exit(f"no folder '{sys.argv[1]}' of the package: one of {', '.join(folders)}")
    print(*folders[sys.argv[1]])
