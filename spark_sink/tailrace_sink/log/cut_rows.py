"""Rows of the log that pass through the driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from tailrace_schemas.events.framing import split_frame
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import ProgressRecord

_ROWS: Final = pa.schema(
    [
        ("day", pa.date32()),
        ("batch", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("schema_id", pa.int32()),
        ("lsn", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("state", pa.string()),
    ]
)


def rows_of_state(
    state: LogState, records: Iterable[ProgressRecord], progress_topic: str, day: dt.date
) -> pa.Table:
    """Build the rows of a cut's state and of its progress records."""
    common = {"day": day, "batch": state.state.batch, "lsn": state.state.closed_lsn}
    rows: list[dict[str, Any]] = [{**common, "topic": "", "state": state.to_json()}]
    rows += (
        {
            **common,
            "topic": progress_topic,
            "partition": record.partition,
            "offset": record.offset,
            "schema_id": split_frame(record.value)[0],
            "value": record.value,
        }
        for record in records
    )
    return pa.Table.from_pylist(rows, schema=_ROWS)


def rows_of_events(events: pa.Table, state: LogState, day: dt.date) -> pa.Table:
    """Convert events of a cut to rows of the log."""
    common = {"day": day, "batch": state.state.batch, "lsn": state.state.closed_lsn, "state": None}
    columns = [
        pa.repeat(pa.scalar(common[field.name], field.type), events.num_rows)
        if field.name in common
        else events[field.name].cast(field.type)
        for field in _ROWS
    ]
    return pa.table(columns, schema=_ROWS)
