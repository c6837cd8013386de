"""Discovery of tables: compare what the catalog shows now with what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.coverage import PublishedTable, kept_instances
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.renames import Renames
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import UNREAD, WHOLE, TableEvent, TableState
from tailrace_publisher.daemon.tables.table_topics import TableTopics
from tailrace_publisher.daemon.tables.table_update import TableUpdate, log_unused
from tailrace_publisher.errors import (
    PublisherError,
    TableFailed,
    TableRenamed,
    ValuesHidden,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.catalog_state import CatalogState
from tailrace_publisher.source.catalog.hidden_data import HiddenData
from tailrace_publisher.source.catalog.instances import Catalog
from tailrace_publisher.source.catalog.table_instances import TableInstances, by_table
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_NOT_CAPTURED: Final = "its capture instances are gone (sys.sp_cdc_disable_table or DROP TABLE)"


class TableIntake:
    """The captured and selected tables; moves each to its next state at a refresh.

    Args:
        renames: reads the catalog, and knows the renamed tables.
        topics: creates the topics, and knows the stopped tables.

    Attributes:
        tables: those that are captured and selected.
        catalog_state: of the catalog when it was last read; None before.
        refreshed: how often the catalog was read.
    """

    def __init__(
        self,
        runtime: Runtime,
        renames: Renames,
        versions: RegisteredVersions,
        topics: TableTopics,
        state: PublisherState,
    ) -> None:
        self._config = runtime.config
        self._selects = runtime.selects
        self._renames = renames
        self._versions = versions
        self._topics = topics
        self._stopped = topics.stopped
        self._state = state
        self._update = TableUpdate(runtime.config, renames, versions, topics, state)
        self.tables: dict[TableName, PublishedTable] = {}
        self.catalog_state: CatalogState | None = None
        self.refreshed = 0

    def is_stopped(self, table: PublishedTable) -> bool:
        """Return whether a table is stopped."""
        return self._state.of(table.name).state is TableState.STOPPED

    def restart(self, table: PublishedTable) -> PublishedTable:
        """Restart a stopped table; create the topic of another one if it was deleted.

        Returns:
            The table after a refresh.

        Raises:
            TableFailed: Kafka refuses its topic.
            PublisherError: any error of :meth:`refresh`.
        """
        record = self._state.of(table.name)
        if record.state in UNREAD - WHOLE:
            return table  # its snapshot continues, so its keys stay where they are
        if record.state is not TableState.STOPPED:
            self._topics.recreate_topic(table.name)
            self._state.store(table.name, self._update.with_source(table, record))
            return table
        self._stopped.forgive(table.name)
        del self.tables[table.name]
        self.refresh()
        return self.tables.get(table.name, table)

    def rows_refusal(self, table: PublishedTable, hidden: HiddenData | None = None) -> str | None:
        """Return why a table's rows may not be read, see :meth:`TableUpdate.check_rows`."""
        try:
            self._update.check_rows(table, hidden)
        except ValuesHidden as error:
            return str(error)
        return None

    def note(self, errors: Mapping[TableName, Exception]) -> None:
        """Note errors of tables; the next refresh acts on them."""
        for table, error in errors.items():
            self._stopped.add(table, error)

    def refresh(self) -> None:
        """Read the catalog again and add what is new.

        Raises:
            SourceError, RegistryError, DeliveryError: a system did not answer, or refused.
        """
        self.refreshed += 1
        for refused in self._versions.refused(is_to_wait=True).values():
            self._stopped.add(refused.table, refused.cause)
        catalog = self._renames.catalog()
        captured = by_table(catalog.instances)
        found = {n: self._read_of(n, i) for n, i in captured.items() if self._selects(n)}
        self._notice_gone(found, catalog)
        self._renames.check(found, catalog.instances)
        names = self._topics.with_one(found)
        new = [name for name in names if name not in self.tables]
        published = {
            name
            for name in new
            if not isinstance(self._stopped.error_of(name), TableRenamed)
            and self._state.holds_events(name, [instance.name for instance in found[name]])
        }
        self._topics.create(new, published)
        for name in names:
            table = self.tables.setdefault(name, PublishedTable(name, found[name]))
            table.instances = found[name]
            self._state.happened(name, TableEvent.CAPTURED)
        self._update.begin(self.tables.values(), catalog)
        for name in names:
            self._update_or_stop(self.tables[name], catalog)
        self._register_or_stop()
        self._forget_absent(catalog)
        self.catalog_state = catalog.state

    def failure(self) -> PublisherError | None:
        """Return the first table's error to end with if all tables are stopped; else None."""
        if self.tables and all(self.is_stopped(table) for table in self.tables.values()):
            return self._stopped.failure(self.tables)
        return None

    def _read_of(self, name: TableName, instances: TableInstances) -> TableInstances:
        """Return the instances that the configuration lets be read."""
        if self._config.tables.schema_change_of(name) is not SchemaChange.IGNORE:
            return instances
        return kept_instances(instances, self._state.of(name))

    def _notice_gone(self, found: Iterable[TableName], catalog: Catalog) -> None:
        captured = set(found)
        for name in [name for name in self.tables if name not in captured]:
            now = self._renames.present_name(name, catalog.instances)
            reason = _NOT_CAPTURED if now is None else f"it is called {now} now"
            self._stopped.miss(name, reason)
            del self.tables[name]
        self._stopped.miss_all_but(captured)

    def _forget_absent(self, catalog: Catalog) -> None:
        """Forget tables that are not read: not captured any more, or excluded now.

        The position moves past their changes, so a table that comes back later needs a new
        snapshot. Until then it is not part of the cut. Only two records are forgotten. One is of a
        whole table that the configuration excluded: its copy stays as it was then. The other is of
        a name that a table had only for a while and was never published under.
        """
        left = self._state.older_left()
        for name in sorted(self._state.known() - self.tables.keys(), key=str):
            if self._renames.keep_old_name(name, catalog.instances):
                continue
            record, is_selected = self._state.of(name), self._selects(name)
            left += record.instances
            is_whole = record.state in WHOLE and not is_selected
            if is_whole or self._renames.had_name_briefly(record):
                self._state.happened(name, TableEvent.GONE)
                continue
            renamed = self._renames.stored_reason(name, catalog.instances)
            if is_selected and renamed is None:
                self._stopped.miss(name, _NOT_CAPTURED)
            lost = TableRecord(
                record.state,
                record.covers_from,
                # Captured again, it may have another name by then (tables.on_rename).
                source_object_id=record.source_object_id,
                stopped_reason=renamed,
                topic_partitions=record.topic_partitions,
            )
            self._state.happened(name, TableEvent.PLACE_LOST, lost)
        log_unused(left)

    def _update_or_stop(self, table: PublishedTable, catalog: Catalog) -> None:
        """Refresh a table; an error stops it alone, or makes it restart."""
        cause = self._stopped.error_of(table.name) or self._try_update(table, catalog)
        if cause is not None and self._stopped.restarts_after(cause):
            known = replace(self._state.of(table.name), stopped_reason=None)
            self._state.happened(table.name, TableEvent.PLACE_LOST, known)
            if not table.recognised:
                _log.info("capture_instance_not_ready", table=str(table.name))
                table.versions.clear()
                return
            cause = self._try_update(table, catalog)
        if cause is not None:
            self._stop(table)

    def _register_or_stop(self) -> None:
        """Register the newest versions and create their encoders; refused tables stop."""
        refused = self._versions.register(
            {
                name: [versions[-1] for versions in table.versions.values()]
                for name, table in self.tables.items()
                if table.versions
            }
        )
        for name, error in refused.items():
            self.stop(self.tables[name], error.cause)

    def check_registered(self) -> None:
        """Check the versions that are registered while the stream runs.

        Raises:
            TableFailed: those of a table were refused.
            RegistryError: the registry did not answer.
        """
        for error in self._versions.refused().values():
            raise error

    def note_failure(self, error: TableFailed) -> bool:
        """Note a table's error; return whether the table restarts.

        Raises:
            TableFailed: the error, if it ends the publisher or was noted before.
        """
        is_new = self._stopped.add(error.table, error.cause)
        if self._stopped.ends_all(error.cause) or not is_new:
            raise error
        return self._stopped.restarts_after(error.cause)

    def stop(self, table: PublishedTable, error: Exception) -> None:
        """Stop a table with an error."""
        self._stopped.add(table.name, error)
        self._stop(table)

    def _stop(self, table: PublishedTable) -> None:
        cause = self._stopped.error_of(table.name)
        if cause is not None and self._stopped.ends_all(cause):
            raise TableFailed(table.name, cause)
        reason = self._stopped.reason_of(table.name)
        known = replace(self._state.of(table.name), stopped_reason=reason)
        self._state.happened(table.name, TableEvent.FAILED, known)
        table.versions.clear()
        if not table.is_stop_reported:
            self._stopped.report(table.name)
            table.is_stop_reported = True

    def _try_update(self, table: PublishedTable, catalog: Catalog) -> Exception | None:
        """Refresh a table; note and return its error."""
        try:
            with of_one_table(table.name, "reading its capture instances and schema versions"):
                self._update.update(table, catalog)
        except TableFailed as error:
            self._stopped.add(table.name, error.cause)
            return error.cause
        return None
