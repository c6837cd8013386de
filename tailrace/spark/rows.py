"""The columns and rows of a DataFrame of changes, of one table or of several. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from tailrace.lake.change_rows import OWN, ChangeTable
from tailrace_sink.tables.lake_table import COMMIT_TIME, LSN, OPERATION, POSITION

TABLE: Final = "table"
"""The column with the name of the table, if there are several."""
CLOSED: Final = "closed"
"""Operation of the row that names the LSN which a micro-batch closes."""
_ROWS_MAX: Final = 10_000
"""Rows of one Arrow batch, as Spark's own default."""


def names_of(tables: Sequence[ChangeTable]) -> list[str]:
    """Return the names of the tables' columns: ``schema.table``, with the database if needed."""
    short = [table.name.in_database for table in tables]
    return short if len(set(short)) == len(short) else [str(table.name) for table in tables]


def schema_of(tables: Sequence[ChangeTable]) -> pa.Schema:
    """Return the columns of changes: those of the only table, or a struct for each table."""
    if len(tables) == 1:
        return tables[0].arrow_schema
    structs = [
        pa.field(name, pa.struct(_own_of_table(table)))
        for name, table in zip(names_of(tables), tables, strict=True)
    ]
    own = [tables[0].arrow_schema.field(name) for name in OWN]
    return pa.schema([pa.field(TABLE, pa.string()), *structs, *own])


def combined(tables: Sequence[ChangeTable], changes: Sequence[pa.Table]) -> pa.Table:
    """Combine the changes of each table, ordered by position."""
    if len(tables) == 1:
        return changes[0]
    schema = schema_of(tables)
    found = [schema.empty_table()]
    for name, table, rows in zip(names_of(tables), tables, changes, strict=True):
        fields = _own_of_table(table)
        columns = {of.name: pa.nulls(rows.num_rows, of.type) for of in schema}
        columns |= {of: rows[of] for of in OWN}
        columns[TABLE] = pa.repeat(name, rows.num_rows)
        arrays = [rows[of.name].combine_chunks() for of in fields]
        columns[name] = pa.StructArray.from_arrays(arrays, fields=fields)
        found.append(pa.table(columns, schema=schema))
    return pa.concat_tables(found).sort_by(POSITION)


def closing(schema: pa.Schema, lsn: str, commit_ms: int) -> pa.Table:
    """Return the row of a closed LSN."""
    committed = datetime.fromtimestamp(commit_ms / 1000, UTC)
    values = {OPERATION: CLOSED, LSN: lsn, COMMIT_TIME: committed}
    return pa.table({of.name: pa.array([values.get(of.name)], of.type) for of in schema})


def in_batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Split rows into batches as Spark takes them."""
    yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS_MAX)


def _own_of_table(table: ChangeTable) -> list[pa.Field]:
    return [of for of in table.arrow_schema if of.name not in OWN]
