"""Reading the rows of a repair by their keys (ADR 0105, 0116).

Each key has two statements: its row, and its values as the server converts them. So a key without a
row still has the bytes that it has in events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import RepairRefused
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.key_text import needs_server_text, typed_parameter
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.repair_keys import AskedKey, RepairKeys
from tailrace_publisher.snapshot.statements import value_expressions
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_publisher.source.pages.column_values import server_text
from tailrace_publisher.source.pages.page_readers import TableRows
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

KEYS_AT_ONCE: Final = 20
"""Keys in one round trip."""

Rows = Sequence[Sequence[Any]]
Encode = Callable[[Rows, Lsn], TableRows]


def key_refusal(instance: CaptureInstance, columns: Sequence[SchemaColumn]) -> str | None:
    """Return why rows cannot be read by the keys of events; None if they can.

    Args:
        columns: of the version in force.
    """
    identity = set(instance.identity)
    if not identity:
        return "it has no key"
    if not identifies_rows(instance, instance.identity):
        return "its events have another key than its rows"
    changed = {c.name for c in columns if c.transform is not None or c.lossless}
    changed |= {c.name for c in instance.identity_columns if needs_server_text(c)}
    if identity & changed:
        names = ", ".join(sorted(identity & changed))
        return f"key columns are published in another form: {names}"
    return None


def identifies_rows(instance: CaptureInstance, columns: Sequence[str]) -> bool:
    """Whether columns are the primary key, and events are keyed by it."""
    return set(instance.identity) == set(instance.key) == set(columns)


class KeyedRows:
    """The rows with some keys, and the keys as the server converts them.

    Args:
        size_max: bytes of the rows of one round trip.

    Raises:
        RepairRefused: keys do not identify rows, or events hold another form of them.
    """

    def __init__(self, table: PendingTable, size_max: int) -> None:
        # See: SELECT; Collation Precedence: a column's is stronger than a parameter's.
        instance, columns = table.instance, table.schema.columns
        refusal = key_refusal(instance, columns)
        if refusal is not None:
            raise RepairRefused(table.name, refusal)
        self._name = table.name
        self._size_max = size_max
        self._size_of = RowSize(table.schema, leading=0).of
        keys = {column.name: column for column in instance.identity_columns}
        values = ", ".join(value_expressions(instance, table.schema))
        equal = [f"{quote_name(key.name)} = {typed_parameter(key)}" for key in keys.values()]
        source = quote_table(instance.source_table)
        self._row = f"SELECT {values} FROM {source} WHERE {' AND '.join(equal)}"
        typed = [
            server_text(typed_parameter(keys[c.name]), keys[c.name].type)
            if c.name in keys
            else "NULL"
            for c in columns
        ]
        self._key = f"SELECT {', '.join(typed)}"
        self._places = [list(keys).index(c.name) for c in columns if c.name in keys]

    def read(self, connection: Connection, keys: Sequence[AskedKey]) -> tuple[Rows, Rows]:
        """Return the rows, and each key as a row with NULL in all other columns.

        Raises:
            RepairRefused: the rows are too large.
            SourceError: the server did not answer or refused.
        """
        batch = "; ".join([*[self._row] * len(keys), *[self._key] * len(keys)])
        texts = [text for key in keys for text in key.texts]
        texts += [key.texts[place] for key in keys for place in self._places]
        sets, is_cut = connection.query_within(
            batch, *texts, size_of=self._size_of, at_most=self._size_max
        )
        if is_cut:
            raise RepairRefused(self._name, f"its rows exceed {self._size_max // 1_000_000} MB")
        rows, asked = sets[: len(keys)], sets[len(keys) :]
        return [row for one in rows for row in one], [row for one in asked for row in one]


class RepairReader:
    """Reads the chunks of a repair.

    Args:
        limit: of a chunk: its keys, and about the bytes of its rows.
        encode: writes rows, read after a closed LSN.
    """

    def __init__(
        self, rows: KeyedRows, keys: RepairKeys, limit: PageLimit, encode: Encode, table: TableName
    ) -> None:
        self._rows = rows
        self._keys = keys
        self._limit = limit
        self._encode = encode
        self._table = table

    def read(
        self, connection: Connection, chunk: Chunk, position: Lsn, is_stopped: Callable[[], bool]
    ) -> None:
        """Read the next rows into a chunk, then the keys that have none.

        Raises:
            RepairRefused: the keys are not all there any more, or the server converts one to
                another value.
            PublisherError: any error of the two systems.
        """
        there: set[bytes] = set()
        absent: dict[bytes, tuple[TableRows, int]] = {}
        left = self._limit.rows
        while left > 0 and chunk.size < self._limit.size and not is_stopped():
            wanted = self._keys.take(connection, min(left, KEYS_AT_ONCE))
            if not wanted:
                chunk.is_last = True
                break
            left -= len(wanted)
            read, converted = self._rows.read(connection, wanted)
            rows, asked = self._encode(read, position), self._encode(converted, position)
            self._check_converted(wanted, asked)
            # Keys that the server takes for equal have the same row; events know them apart.
            found = {i: place for place, i in enumerate(rows.identities) if i not in there}
            there |= found.keys()
            chunk.take(rows.at(list(found.values())))
            for place, identity in enumerate(asked.identities):
                if place not in asked.letters:
                    absent.setdefault(identity, (asked, place))
        chunk.gone_from = len(chunk)
        for identity, (asked, place) in absent.items():
            if identity not in there:
                chunk.take(asked.at([place]))
        chunk.resume_key = self._keys.place

    def _check_converted(self, wanted: Sequence[AskedKey], asked: TableRows) -> None:
        """Check that the server converted the text of each key to the value that events have."""
        for key, found in zip(wanted, asked.keys, strict=True):
            if key.payload is not None and (found is None or split_frame(found)[1] != key.payload):
                raise RepairRefused(self._table, "the server converts a key to another value")
