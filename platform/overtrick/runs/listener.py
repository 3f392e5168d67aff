"""Listeners of a run: functions that receive the metrics of every iteration while it trains."""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[int, dict[str, float]], None]
"""Receives each iteration, counted from 1, and its metrics; in order, also across restarts."""


def combined(*listeners: Listener) -> Listener:
    """Return a listener that calls several listeners in turn with each iteration."""

    def listen(iteration: int, metrics: dict[str, float]) -> None:
        for each in listeners:
            each(iteration, metrics)

    return listen
