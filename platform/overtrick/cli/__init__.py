"""The command line: read what is asked for, call one room, print what came of it.

`runs.py` has the commands that train and judge, `dashboard.py` the one that shows them,
`cluster.py` those that have a cluster do it, `games.py` those that ask about games, `bridge.py`
those about bridge.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Annotated, Any, TextIO

from overtrick import startup

startup.prepare()  # before numpy and Ray are imported

import typer
from rich.console import Console
from typer.exceptions import TyperException

from overtrick.core import RunError, UserError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train players of imperfect-information games, on a laptop or on a Ray cluster.",
)
INTERRUPTED = 130  # exit code
people = Console(stderr=True)  # progress and tables; results for scripts go to standard output
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last output line.")]


def main() -> None:
    """Run a command; an error is one line: exit code 2 for bad input, 1 for work that failed."""
    wrong = 2
    command = next(iter(sys.argv[1:]), "")
    table = any(word == "--resume" or word.endswith((".yaml", ".yml")) for word in sys.argv)
    resumes = command in ("train", "sweep", "resume") or (command == "evaluate" and table)
    if "--json" in sys.argv:
        _answers()  # from the start: Ray speaks before the answer too, and after it
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # how Typer tells of Ctrl-C
            more = "; `overtrick resume RUN` goes on from the last checkpoint"
            people.print(f"stopped{more if resumes else ''}", soft_wrap=True)
        sys.exit(code if isinstance(code, int) else 0)
    except UserError as error:
        line = " ".join(str(error).split())
    except TyperException as error:
        line = error.format_message()
    except RunError as error:
        wrong, line = 1, " ".join(str(error).split())
    except OSError as error:  # a full disk, a folder that went away
        wrong, line = 1, str(error)
        if resumes:
            line += "; what was written before is whole, so `overtrick resume RUN` goes on"
    print(f"error: {line}", file=sys.stderr)
    result("--json" in sys.argv, error=line)
    sys.exit(wrong)


def result(as_json: bool, **values: Any) -> None:
    """The answer for scripts, if they ask."""
    if as_json:
        print(json.dumps(values), file=_answers(), flush=True)


def _answers() -> TextIO:
    """Standard output, where only answers go."""
    return _kept() if sys.stdout is sys.__stdout__ else sys.stdout  # a test may stand in for it


@functools.cache
def _kept() -> TextIO:
    """What standard output was. Whatever else is written there goes to standard error from now on:
    a thread of Ray's prints there that a node has died, to the last moment of the process."""
    kept = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return kept


from overtrick.cli import runs, dashboard, cluster, games, bridge, interactive, html_report  # isort: skip  # each adds its commands to app, in order

__all__ = [
    "Json", "app", "bridge", "cluster", "dashboard", "games", "html_report", "interactive", "main",
    "people", "result", "runs",
]  # fmt: skip
