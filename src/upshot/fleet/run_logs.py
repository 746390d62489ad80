"""Log records with the run that they are about, and records as lines of JSON.

Only standard logging is used, so a program with a logging of its own adds ``RunFilter`` to its
handlers, and uses any formatter.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from datetime import UTC, datetime
from typing import TextIO

from upshot.runs.run_context import current_run

_FIELDS = ("run_id", "agent", "worker")


class RunFilter(logging.Filter):
    """Adds ``run_id``, ``agent`` and ``worker`` to each record; it drops none.

    The run is the one whose code logs, as a tool or a hook does, also through loggers of other
    packages. A record that names a run by ``extra={"run_id": ...}`` keeps that one. Outside a run
    the fields are "". The worker is the host and the process, ``web-1:4711``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._worker = f"{socket.gethostname()}:{os.getpid()}"

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; always returns True."""
        link = current_run.get()
        plan = None if link is None else link.context.plan
        found = {
            "run_id": "" if plan is None else plan.run_id,
            "agent": "" if plan is None else plan.agent.id,
            "worker": self._worker,
        }
        for name, value in found.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON.

    Its fields are ``time`` (UTC), ``level``, ``logger`` and ``message``; ``run_id``, ``agent`` and
    ``worker`` if a ``RunFilter`` has added them and they are not ""; and ``traceback`` for an
    exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        fields: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: found for name in _FIELDS if (found := getattr(record, name, ""))}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        # Escaped, so that no character of a text can steer a terminal.
        return json.dumps(fields)


def log_as_json(stream: TextIO) -> None:
    """Write all records of this process to *stream* as JSON: upshot's from info, others' warnings.

    It replaces the handlers of the root logger.
    """
    handler = logging.StreamHandler(stream)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("upshot").setLevel(logging.INFO)
    logging.captureWarnings(True)
