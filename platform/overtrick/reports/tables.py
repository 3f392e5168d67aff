"""Format results as tables of the Rich library, for command output and reports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from overtrick.reports.metric_names import opponent_label

Rows = Sequence[Mapping[str, Any]]
IN_THE_UNIT = {"mean", "exploitability", "nash_conv"}  # columns in the unit of payoffs


def foldable(*names: str, title: str = "") -> Table:
    """Return an empty table whose entries, on a narrow terminal, are folded and never cut."""
    return Table(*(Column(name, overflow="fold") for name in names), title=title)


def evaluation(rows: Rows, unit: str) -> Table:
    """Return the results table of an evaluation, or of a sweep.

    `rows`: one for each held-out opponent or policy, or for each trial. `unit`: of the payoffs. If
    the model adapts, the table has a column for the payoff after each adaptation step. Otherwise
    its columns are the keys of the rows, and the title names the unit if one of them is in it.
    """
    if rows and "steps" in rows[0]:
        return _adaptation(rows, unit)
    if rows and "trial" in rows[0]:
        return trials(rows)
    in_unit = rows and IN_THE_UNIT & set(rows[0])
    return plain(rows, f"in {unit}s a game" if in_unit else "")


def trials(rows: Rows) -> Table:
    """Return the results table of a sweep, a row for each trial, without schedules of values."""
    shown = [{key: row[key] for key in row if key != "schedule"} for row in rows]
    return plain(shown, "score: larger is better")


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the column names of a table, and its rows as text."""
    columns = [list(map(str, column.cells)) for column in table.columns]
    rows = zip(*columns, strict=True)
    return [str(column.header) for column in table.columns], list(map(list, rows))


def markdown(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table as Markdown, with `|` escaped in cells and line breaks replaced by spaces."""
    lines = [names, ["---"] * len(names), *rows]
    cells = ((" ".join(cell.replace("|", "\\|").split()) for cell in line) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def markdown_of_rows(rows: Rows) -> str:
    """Return rows, which have the same keys, as a table in Markdown."""
    return markdown(list(rows[0]), [list(map(str, row.values())) for row in rows])


def csv_text(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Write a table as CSV; an entry of None is left empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()


def plain(rows: Rows, title: str = "") -> Table:
    """Return rows as a table with a column for each key. All rows have the keys of the first."""
    table = foldable(*(rows[0] if rows else ()), title=title)
    for row in rows:
        table.add_row(*map(short, row.values()))
    return table


def short(entry: Any) -> str:
    """Format a table entry as text: floats with four significant digits, None as a dash."""
    if entry is None:
        return "-"
    if isinstance(entry, list):
        return " ".join(map(short, entry))
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)


def _adaptation(rows: Rows, unit: str) -> Table:
    """Return a table of payoffs after each adaptation step, a row for each held-out opponent.

    The last columns are the best-response value, and the last payoff as a share of that value.
    """
    steps = len(rows[0]["steps"])
    after = [f"after {k}" for k in range(1, steps)]
    first = "before" if after else "payoff"
    columns = ("opponent", first, *after, "best response", "share")
    table = foldable(*columns, title=f"{unit} a game")
    for row in rows:
        payoffs = [
            f"{p:.3f} ± {e:.3f}" if e > 1e-9 else f"{p:.3f}"
            for p, e in zip(row["steps"], row["standard_error"], strict=True)
        ]
        share = "" if row["share"] is None else f"{row['share']:.0%}"
        best = "-" if row["best_response"] is None else f"{row['best_response']:.3f}"
        table.add_row(opponent_label(row["stranger"]), *payoffs, best, share)
    return table


def safety(rows: Rows, unit: str) -> Table:
    """Return a table of an adapting model's payoff and exploitability.

    The model adapts to each held-out opponent under several upper bounds on its exploitability. The
    table has a row for each opponent and bound. For comparison, the last column shows the maximum
    payoff against this opponent of any strategy that is no more exploitable than the model.

    `rows`: a dictionary for each opponent. The value of `stranger` is the opponent's name. The
    value of `adapted` is the list of results, one for each bound.
    """
    title = f"{unit} a game"
    columns = ("opponent", "bound", "payoff", "exploitability", "most of all")
    table = foldable(*columns, title=title)
    for row in rows:
        for k, point in enumerate(row["adapted"]):
            table.add_row(
                "" if k else opponent_label(row["stranger"]),
                "free" if point["bound"] is None else f"{point['bound']:g}",
                f"{point['payoff']:.3f} ± {point['standard_error']:.3f}",
                f"{point['exploitability']:.4f}",
                f"{point['most']:.3f}",
            )
    return table
