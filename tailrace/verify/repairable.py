"""Which rows can be repaired, and their keys as the publisher takes them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace.verify.table_shape import Key, TableShape
from tailrace_publisher.change.instance import CapturedColumn
from tailrace_schemas.records.signals import ROWS_MAX, RepairSignal, RowKeys

SIGNAL_BYTES_MAX: Final = 500_000
"""Bytes of a signal; the checkpoint holds the keys as well."""
_SCALE_OF_EVENTS: Final = 6
"""Digits of a second that events have."""
_MOMENTS: Final = frozenset({"datetime", "smalldatetime"})
_BYTES: Final = frozenset({"binary", "varbinary", "timestamp", "hierarchyid"})
_REWRITTEN: Final = frozenset({"float", "real", "time", "datetimeoffset"})
"""Types whose canonical text the server does not convert back."""


class NotRepairable(Exception):
    """Rows cannot be repaired; says why, and what helps."""


def repair_signal(
    shape: TableShape, keys: Sequence[Key], rows: int, skipped: frozenset[str]
) -> RepairSignal:
    """Return the request to publish differing rows again.

    Args:
        keys: of at most one row more than a repair takes.
        rows: how many rows differ, with those whose key is not known.
        skipped: operations of the table that are not published.

    Raises:
        NotRepairable: the rows cannot be read again by their keys, or are too many.
    """
    name = f"{shape.table.schema}.{shape.table.table}"
    reason = _refusal(shape, skipped)
    if reason is None and (rows > ROWS_MAX or len(keys) > ROWS_MAX):
        reason = f"{max(rows, len(keys)):,} rows differ, and a repair takes {ROWS_MAX:,} at most"
    if reason is None:
        columns = shape.newest.key_columns
        texts = tuple(
            tuple(_text(c, text) for c, text in zip(columns, key, strict=True)) for key in keys
        )
        signal = RepairSignal(name, RowKeys(shape.newest.key, texts))
        if len(signal.to_bytes()) <= SIGNAL_BYTES_MAX:
            return signal
        reason = f"the keys of the rows exceed {SIGNAL_BYTES_MAX // 1000} kB"
    raise NotRepairable(f"{reason}. Fix: tailrace snapshot {name}")


def _refusal(shape: TableShape, skipped: frozenset[str]) -> str | None:
    """Return why no row of a table can be repaired; None if rows can."""
    newest = shape.newest
    if not shape.key:
        return "the table has no key"
    if set(newest.identity) != set(newest.key):
        return "the event key (message_keys) is not the primary key"
    if skipped:
        return f"publisher.skip.operations leaves out {', '.join(sorted(skipped))}"
    hidden = [column.name for column in shape.key if column.is_hidden]
    if hidden:
        return f"key columns are masked, cut or hashed: {', '.join(hidden)}"
    rewritten = [column.name for column in newest.key_columns if _is_rewritten(column)]
    if rewritten:
        return f"the type of key columns has no exact text: {', '.join(rewritten)}"
    return None


def _is_rewritten(column: CapturedColumn) -> bool:
    kind = column.type
    return kind.name in _REWRITTEN or (kind.name == "datetime2" and kind.scale > _SCALE_OF_EVENTS)


def _text(column: CapturedColumn, text: str | None) -> str:
    """Return the text of a key column as in a resume key (``key_text``).

    Args:
        text: the canonical one. No column of a primary key is NULL, but one of a wrong lake may be.
    """
    if text is None:
        raise NotRepairable(
            f"the lake has a row with NULL in key column {column.name}, which the source cannot"
            " have. Fix: take a new snapshot of the table (tailrace snapshot)"
        )
    if column.type.name in _MOMENTS:
        return text[: len("yyyy-mm-dd hh:mi:ss.mmm")].replace(" ", "T")
    return f"0x{text}" if column.type.name in _BYTES else text
