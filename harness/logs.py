"""Log lines: text, or JSON with the names of run, worker and cell, for agents that ship logs."""

from __future__ import annotations

import json
import logging
import os
from contextvars import ContextVar
from datetime import UTC, datetime

from harness.errors import HarnessError

LOG = "DOSIMETER_LOG"  # variable: "json" has every process log, in JSON
CELL: ContextVar[str] = ContextVar("cell", default="")  # that a thread is at: its episode
_names: dict[str, str] = {}  # of what this process works on


def logs_json() -> bool:
    """Return True if logs are to be JSON. Raises HarnessError for an unknown form."""
    form = os.environ.get(LOG, "")
    if form not in ("", "json"):
        raise HarnessError(f"{LOG}={form!r}: the forms of logs are json, and text if it is empty")
    return form == "json"


def name_logs(run: str, worker: str = "") -> None:
    """Have the JSON lines of this process name a run, by its digest, and a worker."""
    _names.update(run=short_run(run), **({"worker": worker} if worker else {}))


def short_run(run: str) -> str:
    """Return the digits of a run's digest that name it in logs and metrics."""
    return run.removeprefix("sha256:")[:12]


def log_formatter(text: str) -> logging.Formatter:
    """Return the formatter of log lines: JSON if that is asked for, else in this ``text`` form.
    Raises HarnessError."""
    return _JsonLines() if logs_json() else logging.Formatter(text)


class _JsonLines(logging.Formatter):
    """An object a line: time, level, logger, message, names, and the text of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_names,
        }
        if cell := getattr(record, "cell", "") or CELL.get():
            line["cell"] = cell
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
