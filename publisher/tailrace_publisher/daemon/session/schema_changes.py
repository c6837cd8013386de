"""Publication of schema changes, before the first event with the new columns."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.tables.coverage import PublishedTable, reading_of
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_state import PUBLISHED
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.ddl_history import DdlStatement, ddl_after
from tailrace_publisher.source.log.commit_times import milliseconds
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.schema_changes import SchemaChange


class SchemaChanges:
    """Sends what changed in the catalog, once.

    No window is published before the catalog was read after the window's end. So a schema change
    that is sent after the catalog was read precedes its events. The checkpoint, committed with the
    records, stores up to which LSN they are published.

    Args:
        control: connection for reading DDL.
        state: stores up to which LSN they are published.
        time: the server's local time.
    """

    def __init__(
        self,
        control: Connection,
        tables: PublishedTables,
        delivery: KafkaDelivery,
        state: PublisherState,
        time: ServerTime,
    ) -> None:
        self._control = control
        self._tables = tables
        self._delivery = delivery
        self._state = state
        self._time = time
        self._refreshed = 0

    def announce(self) -> None:
        """Send what is new since the catalog was last read.

        Raises:
            SourceError, DeliveryError: a system did not answer, or refused.
        """
        if self._refreshed == self._tables.refreshed:
            return
        known = self._state.announced_lsn
        if known is None:  # changes before a first start are not new
            known = self._state.announced_lsn = self._state.published_lsn
        found = sorted(
            [*self._by_ddl(known), *self._by_hand_over(known)],
            key=lambda change: (change.lsn, str(change.after.table)),
        )
        if found:
            self._delivery.send_schema_changes(found)
            self._state.announced_lsn = found[-1].lsn
        self._refreshed = self._tables.refreshed

    def _by_ddl(self, known: Lsn) -> Iterator[SchemaChange]:
        tables = {table.instances.newest.source_object_id: table for table in self._published()}
        for statement in ddl_after(self._control, known):
            table = tables.get(statement.source_object_id)
            change = None if table is None else self._of_statement(table, statement)
            if change is not None:
                yield change

    def _of_statement(self, table: PublishedTable, statement: DdlStatement) -> SchemaChange | None:
        before = _version(table, statement.lsn.decrement())
        after = _version(table, statement.lsn)
        if before is None or after is None:
            return None
        ts_ms = milliseconds(statement.local_time, self._time.utc_offset_minutes)
        return SchemaChange(statement.lsn, before, after, statement.text, ts_ms)

    def _by_hand_over(self, known: Lsn) -> Iterator[SchemaChange]:
        for table in self._published():
            for lsn in sorted({table.covers[name] for name in table.versions} - {Lsn.ZERO})[1:]:
                before, after = _version(table, lsn), _version(table, lsn.increment())
                if lsn > known and before is not None and after is not None:
                    yield SchemaChange(lsn, before, after)

    def _published(self) -> list[PublishedTable]:
        return [t for t in self._tables if self._state.of(t.name).state in PUBLISHED]


def _version(table: PublishedTable, lsn: Lsn) -> TableSchema | None:
    reading = reading_of(table, lsn)
    return None if reading is None else reading.schema
