"""Command line: parse the arguments, call one function of the package, print its result.

Each module of this folder registers its commands:

- `runs`: train, evaluate and register models
- `dashboard`: open MLflow
- `games`: solve games, list games
- `matches`: play matches between two players
- `interactive`: play against a model
- `html_report`: write an HTML page about a run or recorded games
- `bridge`, `cluster`, `generate`: the command groups of these names
- `bridge_table`: matches of bridge programs over TCP
"""

from __future__ import annotations

import errno
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.table import Table
from typer.exceptions import TyperException

from overtrick.core import RayDiedError, RunError, UserError, structured_log, tracing

TRAIN, PLAY = "Train and evaluate", "Solve and play"
"""Panels of `overtrick --help`; each command group has a panel of its own."""

app = typer.Typer(pretty_exceptions_enable=False)
WIDEST = 10_000  # characters of a table in a file
INTERRUPTED = 130  # exit code after Ctrl-C
console = Console(stderr=True, markup=False)
"""Prints progress and notes on standard error. Names may have brackets, which Rich would read as
markup."""


def main() -> None:
    """Parse the command line and run the command.

    An error is printed as one line. The exit code is 2 for invalid input, 1 for a failed run.
    """
    command = next(iter(sys.argv[1:]), "")
    table = any(word == "--resume" or word.endswith((".yaml", ".yml")) for word in sys.argv)
    always = ("train", "sweep", "resume", "board")
    resumable = command in always or (command == "evaluate" and table)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a sign such as ±
    if "--json" in sys.argv:
        _script_output()  # now: Ray's threads print before the result and after it
    exit_code = 1
    leave: Callable[[int], NoReturn] = sys.exit
    try:
        _check_words(sys.argv[1:])
        structured_log.configure()
        with tracing.span("command", command=command):
            returned = app(standalone_mode=False)
        if returned == INTERRUPTED:  # Typer returns it after Ctrl-C
            say(f"stopped{'; `overtrick resume RUN` continues it' if resumable else ''}")
        sys.exit(returned if isinstance(returned, int) else 0)
    except UserError as error:
        exit_code, line = 2, str(error)
    except TyperException as error:
        exit_code, line = 2, error.format_message()
    except RayDiedError as error:
        again = "`overtrick resume RUN` continues the run" if resumable else "run the command again"
        line, leave = f"{error}: {again}", os._exit  # Ray's end would wait for what has died
    except RunError as error:
        line = str(error)
    except MemoryError as error:
        line = f"not enough memory: {error}"
    except OSError as error:  # a full disk, a folder that was deleted
        line = str(error)
        if error.errno == errno.ENAMETOOLONG:
            name = max(str(error.filename).split("/"), key=len)
            exit_code, line = 2, f"{name[:40]}... is too long for the name of a file"
        elif resumable:
            line += "; files written before are intact: `overtrick resume RUN` continues the run"
    line = " ".join(line.split())
    print(f"error: {line}", file=sys.stderr, flush=True)
    with suppress(OSError):  # nobody reads standard output any more
        print_result("--json" in sys.argv, error=line)
    leave(exit_code)


def _check_words(words: Sequence[str]) -> None:
    """Raise UserError unless all words of the command line are text in UTF-8.

    Python replaces other bytes by surrogates, which no job file and no JSON result can hold.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode(errors="backslashreplace").decode()
            raise UserError(f"'{shown}' is not text in UTF-8: rename the file") from None


def _print_version(wanted: bool) -> None:
    """Print the version and end the command, if the option --version is given."""
    if wanted:
        print(version("overtrick"))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train players of imperfect-information games, on a laptop or on a Ray cluster."""
    print_help_without_command(context)


def print_help_without_command(context: typer.Context) -> None:
    """Print the help of `overtrick` or of a command group that is called without a command."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def say(text: str) -> None:
    """Print a note for people on standard error, without rich markup and without line wrapping."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def show(result: Table | str) -> None:
    """Print a result for people, a table or text, on standard output.

    With --json, standard output is for the JSON object and the result goes to standard error. A
    terminal shows long lines folded between words; in a file or a pipe they are not folded.
    """
    if sys.stdout is None:  # closed
        return
    width = None if sys.stdout.isatty() else WIDEST
    output = Console(file=sys.stdout, width=width, markup=False)
    output.print(result, highlight=False, soft_wrap=width is not None and isinstance(result, str))


def print_result(as_json: bool, **values: Any) -> None:
    """Print a command's result as one line of JSON on standard output if `as_json` is true.

    `values`: the keys and values of the JSON object. Numbers that are not finite become null.
    """
    if as_json:
        line = json.dumps(_finite(values), allow_nan=False)
        print(line, file=_script_output(), flush=True)


def _finite(value: Any) -> Any:
    """Return plain data with None in place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _script_output() -> TextIO:
    """Return the stream for JSON results: the original standard output.

    If a test has replaced sys.stdout, the stream is that replacement.
    """
    return _original_stdout() if sys.stdout is sys.__stdout__ else sys.stdout


@functools.cache
def _original_stdout() -> TextIO:
    """Return a copy of standard output, and redirect file descriptor 1 to standard error.

    A thread of Ray writes messages about dead nodes to file descriptor 1 until the process ends.
    Without the redirection they would mix with the JSON result. If standard output is closed, the
    result is written nowhere.
    """
    try:
        original = os.fdopen(os.dup(1), "w")
    except OSError:
        return open(os.devnull, "w")
    os.dup2(2, 1)
    return original


def command_group(name: str, panel: str, help: str) -> typer.Typer:
    """Add a group of commands `overtrick NAME ...` to the command line and return the group.

    `panel`: the heading in `overtrick --help` under which the group is listed. `help`: one line
    about the group.
    """
    group = typer.Typer(
        name=name, invoke_without_command=True, callback=print_help_without_command, help=help
    )
    app.add_typer(group, rich_help_panel=panel)
    return group


def command_moved_to(group: typer.Typer) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command that moved into a group; its old spelling continues to work.

    The old spelling `overtrick COMMAND` is hidden from `--help`. It prints a note on standard
    error, then runs `overtrick GROUP COMMAND`.
    """

    def register(command: Callable[..., None]) -> Callable[..., None]:
        name = command.__name__

        @functools.wraps(command)
        def at_top_level(**arguments: Any) -> None:
            say(f"note: `overtrick {name}` is now `overtrick {group.info.name} {name}`")
            command(**arguments)

        app.command(name, hidden=True)(at_top_level)
        return group.command(name)(command)

    return register


# each module registers its commands in app, in the order in which `--help` lists them
from overtrick.cli import runs, board, dashboard, games, bridge, matches, bridge_table  # isort: skip
from overtrick.cli import interactive, html_report, cluster, generate  # isort: skip
