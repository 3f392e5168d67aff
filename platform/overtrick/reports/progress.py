"""Progress of a running command: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich import progress
from rich.console import Console
from rich.progress import Progress, TextColumn

from overtrick.reports.metric_names import last_steps

STARTING = "starting Ray (a first run also compiles)"
LINE_SECONDS = 10.0  # between lines where there is no terminal
OnProgress = Callable[[int], None]
"""Receives how much of the work is done, in iterations or other units of the work."""


def _columns() -> list[progress.ProgressColumn]:
    """Return the columns of a progress bar: description, bar, count, time elapsed and time left."""
    name, left = TextColumn("{task.description}", markup=False), TextColumn("left")
    elapsed, remaining = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    return [name, progress.BarColumn(), progress.MofNCompleteColumn(), elapsed, left, remaining]


class IterationBar:
    """Progress display of training: finished iterations, with the latest metrics."""

    def __init__(self, console: Console, name: str, iterations: int) -> None:
        self._console = console
        self._name = name
        self._iterations = iterations
        self._began = self._line = time.monotonic()
        self._first: int | None = None
        metrics = TextColumn("{task.fields[metrics]}", markup=False)
        self._bar = Progress(*_columns(), metrics, console=console)
        self._task = self._bar.add_task(name, total=iterations, metrics=STARTING)

    def show(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Show that an iteration is finished, with the iteration's metrics."""
        if self._first is None:
            self._first, self._began = iteration, time.monotonic()
        summary = _summary(metrics)
        if self._console.is_terminal:
            changed = {"metrics": summary} if summary or self._first == iteration else {}
            self._bar.update(self._task, completed=iteration, **changed)  # type: ignore[arg-type]
            return
        now = time.monotonic()
        if now - self._line > LINE_SECONDS or iteration == self._iterations:
            self._line = now
            each = (now - self._began) / max(iteration - self._first, 1)
            seconds = each * (self._iterations - iteration)
            left = f", {seconds:.0f} s left" if iteration > self._first else ""
            line = f"{self._name}: {iteration}/{self._iterations}{left} {summary}"
            self._console.print(line.rstrip(), highlight=False, soft_wrap=True)

    def __enter__(self) -> IterationBar:
        if self._console.is_terminal:
            self._bar.start()
        else:
            self._console.print(f"{self._name}: {STARTING}", highlight=False)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


@contextmanager
def counting(console: Console, name: str, total: int) -> Iterator[OnProgress]:
    """Context manager that shows the progress of work with a known total.

    `total`: the amount of work, such as a number of games. Yields a function to call with the
    amount of finished work. Until the function is first called, the bar says that the work is being
    prepared. Without a terminal, only one line is printed, at the start.
    """
    ready = f"{name}: getting ready (a first run compiles)"
    terminal = console.is_terminal
    if not terminal:
        console.print(ready, highlight=False, soft_wrap=True)
    with Progress(*_columns(), console=console, transient=True, disable=not terminal) as bar:
        task = bar.add_task(ready, total=total)
        yield lambda done: bar.update(task, completed=done, description=name)


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Context manager that shows the progress of work that is done in several stages.

    Yields a function to call with the name of the stage, the number of finished shards of the
    stage, and the number of all its shards.
    """
    began = last = time.monotonic()
    with Progress(*_columns(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(stage: str, done: int, total: int) -> None:
            nonlocal last
            bar.update(task, description=stage, completed=done, total=total)
            now = time.monotonic()
            if not console.is_terminal and now - last > LINE_SECONDS:
                last = now
                console.print(f"{stage}: {done}/{total} parts, {now - began:.0f} s")

        yield show


def _summary(metrics: Mapping[str, float]) -> str:
    """Format the exploitabilities in `metrics` as a line of text.

    If `metrics` has no exploitability, the line has the payoffs after the last adaptation step.
    """
    gaps = [(n.rpartition("/")[2], g) for n, g in metrics.items() if n.startswith("exploitability")]
    if gaps:
        return " ".join(f"{policy} {gap:.2g}" for policy, gap in gaps)
    last = last_steps([(0, metrics)])
    return " ".join(
        f"{opponent} {number:.2f}"
        for name, number in metrics.items()
        for opponent, step in last.items()
        if name.startswith(f"{opponent}/after_{step}_")
    )
