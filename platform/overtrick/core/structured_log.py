"""Log as JSON lines, with the run and the trial that each line belongs to.

With the environment variable OVERTRICK_LOG=json, each message of this package is one JSON object on
standard error. Its keys are time, level, logger, message, run, and trial (the number in a sweep).
The message of an iteration also has its number and its metrics. Without the variable warnings are
printed as plain lines.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from datetime import UTC, datetime
from typing import Any

from overtrick.core.errors import check_choice

VARIABLE = "OVERTRICK_LOG"
PACKAGE = "overtrick"
EXTRA = ("run", "trial", "iteration", "metrics")  # keys that a message may bring with it

_labels: dict[str, Any] = {"run": None, "trial": None}


class JsonFormatter(logging.Formatter):
    """Format a message as one JSON object, with the run and trial of this process."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON object as one line."""
        content: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_labels,
        }
        content |= {key: getattr(record, key) for key in EXTRA if hasattr(record, key)}
        if record.exc_info:
            content["error"] = self.formatException(record.exc_info)
        if metrics := content.get("metrics"):  # JSON has no infinite numbers
            content["metrics"] = {k: v if math.isfinite(v) else str(v) for k, v in metrics.items()}
        return json.dumps(content, default=str)


class _Printer(logging.Handler):
    """Print messages on the present standard error, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def configure() -> None:
    """Log this process's messages as JSON lines if OVERTRICK_LOG asks for it.

    Raises UserError for a value other than json and plain.
    """
    form = os.environ.get(VARIABLE) or "plain"
    check_choice(VARIABLE, form, ("plain", "json"))
    logger = logging.getLogger(PACKAGE)
    if form == "plain" or any(isinstance(handler, _Printer) for handler in logger.handlers):
        return
    handler = _Printer()
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def label(run: str, trial: int | None = None) -> None:
    """Name the run, and the number of the trial, to which later messages of this process belong."""
    _labels.update(run=run, trial=trial)
