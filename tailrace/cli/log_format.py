"""How the daemons log: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal

import structlog

from tailrace.reading.terminal import escape_fields

LogFormat = Literal["text", "json"]


def set_log_format(log_format: LogFormat, program: str) -> None:
    """Have everything logged in a form from now on, on standard output.

    A JSON line has ``timestamp`` (ISO 8601, UTC), ``level``, ``program``, ``event``, and the
    event's fields (docs/events.md).

    Args:
        log_format: text is structlog's own form, with characters that a terminal obeys escaped.
        program: named in JSON lines.
    """
    if log_format == "text":
        *processors, render = structlog.get_config()["processors"]
        if escape_fields not in processors:
            structlog.configure(processors=[*processors, escape_fields, render])
        return

    def named(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        first = {name: event.pop(name) for name in ("timestamp", "level")}
        return {**first, "program": program, "event": event.pop("event"), **event}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            named,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    )


@contextmanager
def quiet_logs(level: int = logging.CRITICAL) -> Iterator[None]:
    """Log nothing below a level meanwhile, so that a report speaks alone."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    try:
        yield
    finally:
        structlog.configure(**before)
