"""An event as a line: for people, or as JSON for programs.

Columns have the source's names, not the escaped ones of Avro.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from tailrace.reading.terminal import shown, shown_json
from tailrace.reading.topics import Event
from tailrace_schemas.topics.escaped_names import unescape
from tailrace_schemas.topics.topic_names import TableName

_WORDS: Final = {"r": "read", "c": "insert", "u": "update", "d": "delete"}
_LONG: Final = 60


def as_json(event: Event, table: TableName) -> str:
    """One JSON object: where it is, which change it is, and its row images."""
    envelope = event.as_envelope
    source = envelope["source"]
    return shown_json(
        json.dumps(
            {
                "table": f"{table.schema}.{table.table}",
                "op": envelope["op"],
                "commit_lsn": source["commit_lsn"],
                "commit_time": time_text(source["ts_ms"]),
                "change_lsn": source["change_lsn"],
                "command_id": source["command_id"],
                "key": _row(event.key),
                "before": _row(envelope["before"]),
                "after": _row(envelope["after"]),
                "topic": event.topic,
                "partition": event.partition,
                "offset": event.offset,
                "schema_id": event.schema_id,
            },
            default=json_value,
            ensure_ascii=False,
        )
    )


def as_line(event: Event, table: TableName) -> str:
    """One line: when, where, what, which row, and of an update what changed."""
    envelope = event.as_envelope
    source = envelope["source"]
    before, after, keys = map(_row, (envelope["before"], envelope["after"], event.key))
    op = envelope["op"]
    key = "" if keys is None else f" {fields_text(keys)}"
    if op == "u" and before is not None and after is not None:
        changed = [name for name in after if before.get(name) != after[name]]
        what = ", ".join(
            f"{shown(n)}: {short_value(before.get(n))} -> {short_value(after[n])}" for n in changed
        )
    else:
        row: Mapping[str, Any] = after if after is not None else before or {}
        what = fields_text({k: v for k, v in row.items() if k not in (keys or {})})
    return (
        f"{time_text(source['ts_ms']) or '-':24}  {source['commit_lsn']}  {_WORDS.get(op, op):6}"
        f"  {shown(f'{table.schema}.{table.table}')}{key}  {what}".rstrip()
    )


def _row(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {unescape(name): value for name, value in values.items()}


def fields_text(values: Mapping[str, Any]) -> str:
    """Names and values, the long ones cut."""
    return ", ".join(f"{shown(name)}={short_value(value)}" for name, value in values.items())


def short_value(value: Any) -> str:
    """Return a value as JSON, cut if it is long."""
    text = shown(json.dumps(value, default=json_value, ensure_ascii=False))
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def time_text(milliseconds: int | None) -> str | None:
    """Milliseconds UTC as ISO 8601."""
    if milliseconds is None:
        return None
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_value(value: object) -> object:
    """What JSON has no form for: bytes as base64, numbers and times as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"no JSON form of {type(value).__name__}")
