"""The columns of changes: those of all schema versions among them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.tables.column_identity import source_id
from tailrace_sink.tables.lake_table import Kind, LakeTable
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import in_shared_table
from tailrace_sink.tables.schema_changes import evolve


class NoChanges(ChangesUnknown):
    """The log has no event of a table up to a point."""


def changed_columns(versions: Sequence[TableSchema]) -> LakeTable:
    """Return the columns of the newest version, and those with values of an earlier type."""
    ordered = sorted(versions, key=lambda version: version.schema_lsn)
    first = new_table(ordered[0], Kind.CHANGES)
    table, _ = evolve(first, ordered, mode=SchemaMode.LENIENT)
    wanted = {column.column_id for column in ordered[-1].columns}
    held = tuple(c for c in table.columns if source_id(c.column_id) in wanted)
    return replace(table, columns=held)


def shared_columns(table: TableName, versions: Iterable[TableSchema]) -> LakeTable:
    """Return the columns of all source tables of a lake table, by name.

    The sink stops a source with another key, or with values that do not fit. Its changes are in the
    log as well. So no column is a key here, and values that do not fit have a column of their own.
    """
    known = [
        replace(shared, columns=tuple(replace(c, key_ordinal=0) for c in shared.columns))
        for shared in (in_shared_table(version, table) for version in versions)
    ]
    known.sort(key=lambda version: version.schema_lsn)
    first = new_table(known[0], Kind.CHANGES)
    return evolve(first, known, mode=SchemaMode.LENIENT)[0]
