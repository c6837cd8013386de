"""Taking tables in: what the catalog says of them now, against what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.tables.coverage import (
    PublishedTable,
    begun,
    covers_from_start,
    covers_of,
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
"""States in which rows of the table are published that a reader takes for current."""


class TableIntake:
    """Takes in what is captured and selected, and moves each table to the state that follows.

    Args:
        runtime: what all parts share.
        renames: reads the catalog, and knows the tables that have another name than before.
        versions: the schema versions.
        topics: makes the topics, and knows the tables that cannot go on.
        state: what is out.

    Attributes:
        tables: those that are captured and selected.
        elsewhere: those that other shards publish.
        catalog_state: of the catalog when it was last read; None before.
        refreshed: how often the catalog was taken in.
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
        """Whether a table cannot go on."""
        return self._state.of(table.name).state is TableState.STOPPED

    def take_up(self, table: PublishedTable) -> PublishedTable:
        """Begin again with a table that is stopped; make the topic anew of one that is not.

        Returns:
            The table as it was taken in.

        Raises:
            TableFailed: its topic is refused.
            PublisherError: as :meth:`refresh`.
        """
        record = self._state.of(table.name)
        if record.state in UNREAD - WHOLE:
            return table  # its snapshot goes on, so its keys stay where they are
        if record.state is not TableState.STOPPED:
            self._topics.make_again(table.name, table.topic)
            self._state.keep(table.name, self._with_source(table, record))
            return table
        self._stopped.forgive(table.name)
        del self.tables[table.name]
        self.refresh()
        return self.tables.get(table.name, table)

    def note(self, errors: Mapping[TableName, Exception]) -> None:
        """Note what tables cannot go on for; the next refresh acts on it."""
        for table, error in errors.items():
            self._stopped.add(table, error)

    def refresh(self) -> None:
        """Read the catalog again and take in what is new.

        Raises:
            SourceError, RegistryError, DeliveryError: a part did not answer or refused.
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
        topics = self._topics.names(found)
        new = {name: topic for name, topic in topics.items() if name not in self.tables}
        published = {
            name
            for name in new
            if not isinstance(self._stopped.error_of(name), TableRenamed)
            and self._state.holds_events(name, [instance.name for instance in found[name]])
        }
        self._topics.make(new, published)
        for name, topic in topics.items():
            table = self.tables.setdefault(name, PublishedTable(name, topic, found[name]))
            table.instances = found[name]
            self._state.happened(name, TableEvent.CAPTURED)
        going_on = [t for t in self.tables.values() if self._stopped.error_of(t.name) is None]
        self._known_versions.look(going_on, self._state, catalog.ddl)
        self._present = {i.name for table in self.tables.values() for i in table.instances}
        for name in topics:
            self._take_in_or_stop(self.tables[name], catalog)
        self._register_or_stop()
        self._forget_unread(catalog)
        self.catalog_state = catalog.state

    def failure(self) -> PublisherError | None:
        """The error to end with when no table can go on: that of the first; else None."""
        if self.tables and all(self.is_stopped(table) for table in self.tables.values()):
            return self._stopped.failure(self.tables)
        return None

    def _notice_gone(self, found: Iterable[TableName], catalog: Catalog) -> None:
        captured = set(found)
        for name in [name for name in self.tables if name not in captured]:
            now = self._renames.whose(name, catalog.instances)
            self._stopped.miss(name, _NOT_CAPTURED if now is None else f"it is called {now} now")
            del self.tables[name]
        self._stopped.miss_all_but(captured)

    def _forget_unread(self, catalog: Catalog) -> None:
        """Forget tables that nothing is read of: not captured any more, or left out now.

        The position goes on without them, so one that comes back later needs a new snapshot. Until
        then it is not part of the cut. Forgotten are only a table that was whole when it was left
        out by configuration, so that what a reader has of it stays as it was then, and a name that
        a table had for a while and was never published under.
        """
        left = self._state.older_left()
        for name in sorted(self._state.known() - self.tables.keys(), key=str):
            if self._renames.keep_old_name(name, catalog.instances):
                continue
            record, is_selected = self._state.of(name), self._selects(name)
            left += record.instances
            is_whole = record.state in WHOLE and not is_selected
            if is_whole or self._renames.was_in_passing(record):
                self._state.happened(name, TableEvent.GONE)
                continue
            renamed = self._renames.told_of(name, catalog.instances)
            if is_selected and renamed is None:
                self._stopped.miss(name, _NOT_CAPTURED)
            kept = TableRecord(
                record.state,
                record.covers_from,
                stopped_reason=renamed,
                topic_partitions=record.topic_partitions,
            )
            self._state.happened(name, TableEvent.PLACE_LOST, kept)
        self._tell_left_behind(left)

    def _tell_left_behind(self, instances: Iterable[str]) -> None:
        for name in instances:
            _log.warning(
                "capture_instance_left_behind",
                capture_instance=name,
                reason="it is gone, replaced by a newer one, or left out by tables.exclude",
            )

    def _take_in_or_stop(self, table: PublishedTable, catalog: Catalog) -> None:
        """Take a table in; what it cannot go on for stops it alone, or has it begin again."""
        cause = self._stopped.error_of(table.name) or self._taken_in(table, catalog)
        if cause is not None and self._stopped.is_taken_up(cause):
            known = replace(self._state.of(table.name), stopped_reason=None)
            self._state.happened(table.name, TableEvent.PLACE_LOST, known)
            if not table.recognised:
                _log.info("capture_instance_not_ready", table=str(table.name))
                table.versions.clear()
                return
            cause = self._taken_in(table, catalog)
        if cause is not None:
            self._stop(table)

    def _register_or_stop(self) -> None:
        """Register the newest versions, and make their encoders; tables that are refused stop."""
        tables = {table.topic: table for table in self.tables.values() if table.versions}
        refused = self._versions.register(
            {
                topic: [versions[-1] for versions in table.versions.values()]
                for topic, table in tables.items()
            }
        )
        for topic, error in refused.items():
            self._stopped.add(error.table, error.cause)
            self._stop(tables[topic])

    def check_registered(self) -> None:
        """Check what became of the versions that are registered beside the stream.

        Raises:
            TableFailed: those of a table were refused.
            RegistryError: the registry did not answer.
        """
        for error in self._versions.refused().values():
            raise error

    def note_failure(self, error: TableFailed) -> bool:
        """Note what a table failed for; whether it is to begin again.

        Raises:
            TableFailed: the error, when it is to end the publisher, or was noted before.
        """
        if self._stopped.ends_all(error.cause) or not self._stopped.add(error.table, error.cause):
            raise error
        return self._stopped.is_taken_up(error.cause)

    def stop(self, table: PublishedTable, error: Exception) -> None:
        """Stop a table for what it cannot go on for."""
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
        if not table.is_told:
            self._stopped.tell(table.name)
            table.is_told = True

    def _taken_in(self, table: PublishedTable, catalog: Catalog) -> Exception | None:
        """Take a table in; gives what it cannot go on for, which is noted."""
        try:
            with of_one_table(table.name, "taking in its capture instances and schema versions"):
                self._take_in(table, catalog)
        except TableFailed as error:
            self._stopped.add(table.name, error.cause)
            return error.cause
        return None

    def _take_in(self, table: PublishedTable, catalog: Catalog) -> None:
        registered = self._known_versions.of(table)
        self._state.adopt(table.name, self._names_of(table, registered))
        record = self._state.of(table.name)
        if record.state is TableState.STOPPED:
            has_name_again = self._renames.is_same(table.name, table.instances)
            self._stopped.check_may_begin(
                table.name, record.stopped_reason, has_name_again=has_name_again
            )
        if any(instance.key for instance in table.instances):  # without one, it is partition 0
            self._topics.check_partitions(table.name, table.topic, record.topic_partitions)
        covers = table.recognised
        if record.state in PUBLISHED:
            covers = covers_of(table, record, self._state.out)
            after = still_covered(table, record, covers, self._state.out)
            self._tell_instances(table, record, after)
            self._state.keep(table.name, self._with_source(table, after))
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
        """The event columns that an instance gives now; made once for what the catalog gave."""
        made_of, columns = self._columns.get(instance.object_id, (None, ()))
        if made_of is not instance.columns:
            name = f"{instance.table.schema}.{instance.table.table}".casefold()
            columns = current_columns(instance, self._lossless.get(name, ()), self._rules)
            self._columns[instance.object_id] = instance.columns, columns
        return columns

    def _names_of(self, table: PublishedTable, registered: list[TableSchema]) -> list[str]:
        """Names of a table's instances, present or gone."""
        present = [instance.name for instance in table.instances]
        gone = {version.capture_instance for version in registered} - self._present
        return present + sorted(gone)

    def _begin(
        self, table: PublishedTable, record: TableRecord, covers: dict[str, Lsn]
    ) -> dict[str, Lsn]:
        """Begin with a table that is new, that has lost its place, or that was stopped.

        One that was published before has lost changes: only a snapshot makes it true again.

        Returns:
            From which LSN on each of its instances holds its changes.

        Raises:
            PositionExpired: cleanup has passed the LSN that is to be begun with.
        """
        is_new = record.state is TableState.FOUND
        start, options = self._state.start_lsn, self._config.snapshot
        wanted = options.reads_first or not is_new or self._state.reads_all_anew
        if start is not None and is_new:
            held = covers_from_start(covers, start)
            if held is None and not options.fills_gaps:
                raise PositionExpired(oldest_of(covers), start, min(covers.values()))
            wanted, covers = held is None, held or covers
        event = TableEvent.SNAPSHOT_WANTED if wanted else TableEvent.CHANGES_WANTED
        known = self._with_source(table, begun(record, covers))
        known = replace(known, partitions=record.partitions_before)
        after = self._state.happened(table.name, event, known)
        if is_new:
            self._tell_instances(table, record, after)
            self._tell_keyless(table)
        else:
            self._stopped.take_up(table.name, self._state.position.commit_lsn, after.state)
            table.is_told = False
        return covers

    def _with_source(self, table: PublishedTable, record: TableRecord) -> TableRecord:
        """A record with what it is compared by later: a renamed table, a topic that grew."""
        return replace(
            record,
            source_object_id=table.instances[-1].source_object_id,
            topic_partitions=self._topics.partitions(table.topic),
        )

    def _tell_instances(
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
        self._tell_left_behind(name for name in before.instances if name not in after.instances)

    def _tell_keyless(self, table: PublishedTable) -> None:
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
                [row.lsn for row in catalog.ddl.get(instance.object_id, ())],
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
            self._state.keep(table.name, known)

    def _check_converted(self, table: PublishedTable, instance: str) -> None:
        """Check that no rows which are published were converted to other values since.

        Raises:
            ValuesConverted: ALTER COLUMN may have changed them.
        """
        record = self._state.of(table.name)
        if record.schema_lsn is None or record.state not in _HAS_ROWS:
            return
        known = max(record.schema_lsn, record.snapshot_fence or Lsn.ZERO)
        for conversion in changing_conversions(table.versions[instance], known):
            raise ValuesConverted(table.name, *conversion)
