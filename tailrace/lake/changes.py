"""The changes of a table between two points, read from the lake's log without Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tailrace.lake.change_log import ChangeLog, Events
from tailrace.lake.change_rows import ChangeTable, change_rows, with_origin
from tailrace.lake.errors import ColumnsChanged
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.reading.change_table import NoChanges, changed_columns, shared_columns
from tailrace_sink.tables.lake_table import POSITION, LakeTable


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reader of the changes in a range of the log."""

    log: ChangeLog

    def read(self, name: TableName | str) -> pa.Table:
        """Read every change of a table, as it was committed: see ``Lake.changes``.

        Raises:
            ChangesUnknown, BadRecord, NeedsSpark: see there.
        """
        table, sources = self.log.named(name)
        if not sources:
            found = self.log.events(table)
            columns = changed_columns([writer.version for writer in found.writers])
            return self._decoded(found, columns)
        parts, missing = [], []
        for source in sources:
            try:
                parts.append(self.log.events(source, needs_versions=True))
            except NoChanges as error:
                missing.append(error)
        if not parts:
            raise missing[0]
        every = (writer.version for part in parts for writer in part.versions)
        columns = shared_columns(table, every)
        return pa.concat_tables(
            with_origin(self._decoded(part, columns), part.table) for part in parts
        )

    def read_as(self, table: ChangeTable) -> pa.Table:
        """Read every change of a table into given columns, ordered by position.

        Raises:
            ColumnsChanged: a schema version in the range has columns or types that they lack.
            ChangesUnknown, BadRecord, NeedsSpark: see ``Lake.changes``.
        """
        found = [table.arrow_schema.empty_table()]
        for source in self.sources(table):
            of = self.log.range(source)
            every = self.log.writers(of.topic, self.log.schema_ids(of.topic, of.within))
            events = self.log.checked(of, every, every)
            lacking = table.new_columns(events.writers)
            if lacking:
                raise ColumnsChanged(str(source), lacking)
            rows = self._decoded(events, table.columns)
            found.append(with_origin(rows, source) if table.columns.is_shared else rows)
        return pa.concat_tables(found).sort_by(POSITION)

    def table(self, name: TableName | str) -> ChangeTable:
        """Return a table with the columns of all its schema versions up to the end.

        If the log has no event of it any more, they are those of the schemas that the lake stores.

        Raises:
            ChangesUnknown: the lake has no such table.
        """
        try:
            table, sources = self.log.named(name)
            known = [writer for source in sources or [table] for writer in self.log.known(source)]
            if not known:
                raise NoChanges(f"the log of {self.log.lake} has no event of table {table}")
        except ChangesUnknown:
            stored = self.log.stored()
            table, sources = self.log.named(name, (writer.version.table for writer in stored))
            own = set(sources or [table])
            known = [writer for writer in stored if writer.version.table in own]
            if not known:
                raise
        versions = [writer.version for writer in known]
        columns = shared_columns(table, versions) if sources else changed_columns(versions)
        return ChangeTable(columns, frozenset(writer.schema_id for writer in known))

    def sources(self, table: ChangeTable) -> list[TableName]:
        """Return the source tables of a table: itself, unless it is shared."""
        if not table.columns.is_shared:
            return [table.name]
        return SharedTables(self.log.last.into).sources(table.name, self.log.tables())

    def _decoded(self, found: Events, columns: LakeTable) -> pa.Table:
        """Decode the changes of a source table in the range."""
        between = (self.log.first, self.log.end)
        return change_rows(found.values, found.table, found.writers, columns, between)
