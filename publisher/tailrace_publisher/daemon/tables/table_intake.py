"""Discovery of tables: compare what the catalog shows now with what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.tables.coverage import (
    PublishedTable,
    covers_from_start,
    covers_of,
    fresh_record,
    oldest_of,
    reading_of,
    still_covered,
)
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.renames import Renames
from tailrace_publisher.daemon.tables.resumed_versions import ResumedVersions
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import (
    PUBLISHED,
    UNREAD,
    WHOLE,
    TableEvent,
    TableState,
)
from tailrace_publisher.daemon.tables.table_topics import TableTopics
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import (
    PositionExpired,
    PublisherError,
    TableFailed,
    TableRenamed,
    ValuesConverted,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.catalog_state import CatalogState
from tailrace_publisher.source.catalog.conversions import changing_conversions
from tailrace_publisher.source.catalog.instances import Catalog, by_table
from tailrace_publisher.source.catalog.versions import current_columns, timeline, versions_of
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_NOT_CAPTURED: Final = "its capture instances are gone (sys.sp_cdc_disable_table or DROP TABLE)"
_HAS_ROWS: Final = WHOLE | {TableState.SNAPSHOTTING}
"""States in which readers take published rows of the table for current."""


class TableIntake:
    """The captured and selected tables; moves each to its next state at a refresh.

    Args:
        renames: reads the catalog, and knows the renamed tables.
        topics: creates the topics, and knows the stopped tables.

    Attributes:
        tables: those that are captured and selected.
        elsewhere: those that other shards publish.
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
        self._lossless = {
            name.casefold(): columns for name, columns in self._config.lossless_columns.items()
        }
        self._rules = rules_of(self._config.columns)
        self.tables: dict[TableName, PublishedTable] = {}
        self.elsewhere: set[TableName] = set()
        self.catalog_state: CatalogState | None = None
        self.refreshed = 0
        self._present: set[str] = set()
        self._columns: dict[int, tuple[object, tuple[SchemaColumn, ...]]] = {}
        self._known_versions = ResumedVersions(versions, self._columns_of)

    def is_stopped(self, table: PublishedTable) -> bool:
        """Return whether a table is stopped."""
        return self._state.of(table.name).state is TableState.STOPPED

    def restart(self, table: PublishedTable) -> PublishedTable:
        """Restart a stopped table; create the topic of another one if it was deleted.

        Returns:
            The table after a refresh.

        Raises:
            TableFailed: Kafka refuses its topic.
            PublisherError: as :meth:`refresh`.
        """
        record = self._state.of(table.name)
        if record.state in UNREAD - WHOLE:
            return table  # its snapshot continues, so its keys stay where they are
        if record.state is not TableState.STOPPED:
            self._topics.recreate_topic(table.name)
            self._state.store(table.name, self._with_source(table, record))
            return table
        self._stopped.forgive(table.name)
        del self.tables[table.name]
        self.refresh()
        return self.tables.get(table.name, table)

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
        present = {instance.object_id for instance in catalog.instances}
        self._columns = {n: made for n, made in self._columns.items() if n in present}
        captured = by_table(catalog.instances)
        found = {n: instances for n, instances in captured.items() if self._selects(n)}
        self.elsewhere = {
            name for name in captured if name not in found and self._config.tables.selects(name)
        }
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
        self._topics.make(new, published)
        for name in names:
            table = self.tables.setdefault(name, PublishedTable(name, found[name]))
            table.instances = found[name]
            self._state.happened(name, TableEvent.CAPTURED)
        running = [t for t in self.tables.values() if self._stopped.error_of(t.name) is None]
        self._known_versions.look(running, self._state, catalog.ddl)
        self._present = {i.name for table in self.tables.values() for i in table.instances}
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

    def _notice_gone(self, found: Iterable[TableName], catalog: Catalog) -> None:
        captured = set(found)
        for name in [name for name in self.tables if name not in captured]:
            now = self._renames.present_name(name, catalog.instances)
            self._stopped.miss(name, _NOT_CAPTURED if now is None else f"it is called {now} now")
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
                stopped_reason=renamed,
                topic_partitions=record.topic_partitions,
            )
            self._state.happened(name, TableEvent.PLACE_LOST, lost)
        self._log_unused(left)

    def _log_unused(self, instances: Iterable[str]) -> None:
        for name in instances:
            _log.warning(
                "capture_instance_unused",
                capture_instance=name,
                reason="it is gone, replaced by a newer one, or left out by tables.exclude",
            )

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
        if self._stopped.ends_all(error.cause) or not self._stopped.add(error.table, error.cause):
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
                self._update(table, catalog)
        except TableFailed as error:
            self._stopped.add(table.name, error.cause)
            return error.cause
        return None

    def _update(self, table: PublishedTable, catalog: Catalog) -> None:
        registered = self._known_versions.of(table)
        self._state.adopt(table.name, self._names_of(table, registered))
        record = self._state.of(table.name)
        if record.state is TableState.STOPPED:
            has_name_again = self._renames.is_same(table.name, table.instances)
            self._stopped.check_may_restart(
                table.name, record.stopped_reason, has_name_again=has_name_again
            )
        if any(instance.key for instance in table.instances):  # without one, it is partition 0
            self._topics.check_partitions(table.name, record.topic_partitions)
        covers = table.recognised
        if record.state in PUBLISHED:
            covers = covers_of(table, record, self._state.published_lsn)
            after = still_covered(table, record, covers, self._state.published_lsn)
            self._log_instances(table, record, after)
            self._state.store(table.name, self._with_source(table, after))
        elif covers:
            covers = self._begin(table, record, covers)
        table.versions.clear()
        table.covers = covers
        table.object_ids = {instance.name: instance.object_id for instance in table.instances}
        if not covers:
            _log.info("capture_instance_not_ready", table=str(table.name))
            return
        self._make_versions(table, catalog, registered)

    def _columns_of(self, instance: CaptureInstance) -> tuple[SchemaColumn, ...]:
        """Return the event columns of an instance, cached per answer of the catalog."""
        made_of, columns = self._columns.get(instance.object_id, (None, ()))
        if made_of is not instance.columns:
            name = f"{instance.table.schema}.{instance.table.table}".casefold()
            columns = current_columns(instance, self._lossless.get(name, ()), self._rules)
            self._columns[instance.object_id] = instance.columns, columns
        return columns

    def _names_of(self, table: PublishedTable, registered: list[TableSchema]) -> list[str]:
        """Return names of a table's instances, present or gone."""
        present = [instance.name for instance in table.instances]
        gone = {version.capture_instance for version in registered} - self._present
        return present + sorted(gone)

    def _begin(
        self, table: PublishedTable, record: TableRecord, covers: dict[str, Lsn]
    ) -> dict[str, Lsn]:
        """Start a table that is new, has lost its place, or was stopped.

        One that was published before has lost changes, so it needs a snapshot.

        Returns:
            From which LSN on each of its instances holds its changes.

        Raises:
            PositionExpired: cleanup has passed the LSN to start at.
        """
        is_new = record.state is TableState.FOUND
        start, options = self._state.start_lsn, self._config.snapshot
        wanted = options.reads_first or not is_new or self._state.resnapshots_all
        if start is not None and is_new:
            held = covers_from_start(covers, start)
            if held is None and not options.fills_gaps:
                raise PositionExpired(oldest_of(covers), start, min(covers.values()))
            wanted, covers = held is None, held or covers
        event = TableEvent.SNAPSHOT_WANTED if wanted else TableEvent.CHANGES_WANTED
        known = self._with_source(table, fresh_record(record, covers))
        known = replace(known, partitions=record.partitions_before)
        after = self._state.happened(table.name, event, known)
        if is_new:
            self._log_instances(table, record, after)
            self._log_keyless(table)
        else:
            self._stopped.report_restart(table.name, self._state.position.commit_lsn, after.state)
            table.is_stop_reported = False
        return covers

    def _with_source(self, table: PublishedTable, record: TableRecord) -> TableRecord:
        """Return a record with what later checks of renames and partition counts need."""
        return replace(
            record,
            source_object_id=table.instances[-1].source_object_id,
            topic_partitions=self._topics.partitions(table.name),
        )

    def _log_instances(
        self, table: PublishedTable, before: TableRecord, after: TableRecord
    ) -> None:
        for name in after.instances:
            if name not in before.instances:
                _log.info(
                    "capture_instance_found",
                    table=str(table.name),
                    capture_instance=name,
                    covers_from=str(table.recognised[name]),
                    state=after.state.value,
                )
        self._log_unused(name for name in before.instances if name not in after.instances)

    def _log_keyless(self, table: PublishedTable) -> None:
        if not all(instance.key for instance in table.instances):
            _log.warning(
                "table_without_key",
                table=str(table.name),
                effect="its events have a null key and go to one partition",
                fix="name its key columns in message_keys",
            )

    def _make_versions(
        self, table: PublishedTable, catalog: Catalog, registered: list[TableSchema]
    ) -> None:
        first = first_lsn_after(self._state.position)
        for instance in table.instances:
            if instance.name not in table.covers:
                continue
            table.versions[instance.name] = timeline(
                instance,
                self._columns_of(instance),
                catalog.ddl.get(instance.object_id, ()),
                versions_of(instance, registered, table.covers[instance.name], first),
                max(first, table.covers[instance.name]),
            )
            self._check_converted(table, instance.name)
        reading = reading_of(table, first)
        if reading is not None:
            record = self._state.of(table.name)
            known = replace(
                record,
                schema_lsn=reading.schema.schema_lsn,
                schema_fingerprint=self._known_versions.fingerprint(table, reading.schema, record),
            )
            self._state.store(table.name, known)

    def _check_converted(self, table: PublishedTable, instance: str) -> None:
        """Check that no published rows were converted to other values since.

        Raises:
            ValuesConverted: ALTER COLUMN may have changed them.
        """
        record = self._state.of(table.name)
        if record.schema_lsn is None or record.state not in _HAS_ROWS:
            return
        known = max(record.schema_lsn, record.snapshot_fence or Lsn.ZERO)
        for conversion in changing_conversions(table.versions[instance], known):
            raise ValuesConverted(table.name, *conversion)
