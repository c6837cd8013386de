"""Reading the rows of a repair by their keys (ADR 0105).

Each key has two statements: its row, and its values as the server converts them. So a key without a
row still has the bytes that it has in events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import RepairRefused
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.key_text import needs_server_text, typed_parameter
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.statements import value_expressions
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_publisher.source.pages.page_size import RowSize
from tailrace_schemas.records.signals import RowKeys

_AT_ONCE: Final = 20
"""Keys in one round trip."""


@dataclass(slots=True)
class FoundRows:
    """What was read of some keys.

    Attributes:
        rows: values in the schema's order.
        asked: the same of each key, with NULL in all other columns.
    """

    rows: list[Sequence[Any]] = field(default_factory=list)
    asked: list[Sequence[Any]] = field(default_factory=list)


def read_keyed(
    connection: Connection, table: PendingTable, wanted: RowKeys, size_max: int
) -> FoundRows:
    """Read the rows with some keys.

    Args:
        size_max: bytes of all rows.

    Raises:
        RepairRefused: the rows are not identified by these columns, or are too large.
        SourceError: the server did not answer or refused.
    """
    _check(table, wanted)
    instance, columns = table.instance, table.schema.columns
    keys = {column.name: column for column in instance.identity_columns}
    values = ", ".join(value_expressions(instance, table.schema))
    equal = [f"{quote_name(name)} = {typed_parameter(keys[name])}" for name in wanted.columns]
    source = quote_table(instance.source_table)
    row = f"SELECT {values} FROM {source} WHERE {' AND '.join(equal)}"
    typed = [typed_parameter(keys[c.name]) if c.name in keys else "NULL" for c in columns]
    key_row = f"SELECT {', '.join(typed)}"
    places = [wanted.columns.index(c.name) for c in columns if c.name in keys]
    size_of, left, found = RowSize(table.schema, leading=0).of, size_max, FoundRows()
    for start in range(0, len(wanted.keys), _AT_ONCE):
        some = wanted.keys[start : start + _AT_ONCE]
        batch = "; ".join([*[row] * len(some), *[key_row] * len(some)])
        texts = [text for key in some for text in key]
        texts += [key[place] for key in some for place in places]
        sets, is_cut = connection.query_within(batch, *texts, size_of=size_of, at_most=left)
        rows = [one for rows in sets[: len(some)] for one in rows]
        left -= sum(map(size_of, rows))
        if is_cut or left <= 0:
            raise RepairRefused(table.name, f"its rows exceed {size_max // 1_000_000} MB")
        found.rows += rows
        found.asked += [one for rows in sets[len(some) :] for one in rows]
    return found


def identifies_rows(instance: CaptureInstance, columns: Sequence[str]) -> bool:
    """Whether columns are the primary key, and events are keyed by it."""
    return set(instance.identity) == set(instance.key) == set(columns)


def _check(table: PendingTable, wanted: RowKeys) -> None:
    """Check that keys identify rows, and that their values are published as they are.

    Raises:
        RepairRefused: they do not, or are not.
    """
    instance = table.instance
    identity = set(instance.identity)
    if not identifies_rows(instance, wanted.columns):
        raise RepairRefused(table.name, f"its key is not {', '.join(wanted.columns)}")
    changed = {c.name for c in table.schema.columns if c.transform is not None or c.lossless}
    changed |= {c.name for c in instance.identity_columns if needs_server_text(c)}
    if identity & changed:
        names = ", ".join(sorted(identity & changed))
        raise RepairRefused(table.name, f"key columns are published in another form: {names}")
