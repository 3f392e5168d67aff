"""What a person sees while a run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from overtrick.reports.metric_names import last_steps

STARTING = "starting Ray (a first run also compiles)"
LINE_SECONDS = 10.0  # between lines where there is no terminal to draw on


class Bar:
    """A bar with the time left; where output is no terminal, a line now and then."""

    def __init__(self, console: Console, name: str, iterations: int) -> None:
        self._console = console
        self._name = name
        self._iterations = iterations
        self._began = self._line = time.monotonic()
        self._first: int | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
        )
        self._task = self._bar.add_task(name, total=iterations, told=STARTING)

    def show(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """One iteration is done."""
        if self._first is None:
            self._first, self._began = iteration, time.monotonic()
        told = _told(metrics)
        if self._console.is_terminal:
            fields = {"told": told} if told else {"told": ""} if self._first == iteration else {}
            self._bar.update(self._task, completed=iteration, **fields)  # type: ignore[arg-type]
            return
        now = time.monotonic()
        if now - self._line > LINE_SECONDS or iteration == self._iterations:
            self._line = now
            each = (now - self._began) / max(iteration - self._first, 1)
            seconds = each * (self._iterations - iteration)
            left = f", {seconds:.0f} s left" if iteration > self._first else ""
            line = f"{self._name}: {iteration}/{self._iterations}{left} {told}"
            self._console.print(line.rstrip(), highlight=False, soft_wrap=True)

    def __enter__(self) -> Bar:
        if self._console.is_terminal:
            self._bar.start()
        else:
            self._console.print(f"{self._name}: {STARTING}", highlight=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


@contextmanager
def counting(console: Console, name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for work that says how much of `total` is done, first 0, when it has got ready.

    Where there is no terminal, one line says what it does until then.
    """
    ready = f"{name}: getting ready (a first run compiles)"
    if not console.is_terminal:
        console.print(ready, highlight=False, soft_wrap=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(ready, total=total)
        yield lambda done: bar.update(task, completed=done, description=name)


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work in stages, told (stage, parts done, parts in all); lines off a terminal."""
    began = last = time.monotonic()
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(stage: str, done: int, total: int) -> None:
            nonlocal last
            bar.update(task, description=stage, completed=done, total=total)
            now = time.monotonic()
            if not console.is_terminal and now - last > LINE_SECONDS:
                last = now
                console.print(f"{stage}: {done}/{total} parts, {now - began:.0f} s")

        yield show


def _told(metrics: Mapping[str, float]) -> str:
    """The payoffs against strangers after the last step, or exploitabilities, shortly."""
    gaps = [(n.rpartition("/")[2], g) for n, g in metrics.items() if n.startswith("exploitability")]
    if gaps:
        return " ".join(f"{plan} {gap:.2g}" for plan, gap in gaps)
    last = last_steps([(0, metrics)])
    return " ".join(
        f"{stranger} {number:.2f}"
        for name, number in metrics.items()
        for stranger, step in last.items()
        if name.startswith(f"{stranger}/after_{step}_")
    )
