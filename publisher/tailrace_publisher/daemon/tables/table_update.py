"""One table at a refresh: from what is known of it to its next state and its schema versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.checks.protected_rows import check_readable
from tailrace_publisher.daemon.tables.coverage import (
    PublishedTable,
    change_of,
    covers_from_start,
    covers_of,
    fresh_record,
    oldest_of,
    reading_of,
    still_covered,
)
from tailrace_publisher.daemon.tables.patch import columns_before, patch_of
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.renames import Renames
from tailrace_publisher.daemon.tables.resumed_versions import ResumedVersions
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import PUBLISHED, WHOLE, TableEvent, TableState
from tailrace_publisher.daemon.tables.table_topics import TableTopics
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import PositionExpired, SchemaChanged, ValuesConverted
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.tables import PatchedTables, SchemaChange
from tailrace_publisher.source.catalog.added_columns import CAPTURES_ALL
from tailrace_publisher.source.catalog.conversions import changing_conversions
from tailrace_publisher.source.catalog.hidden_data import (
    NOTHING_HIDDEN,
    HiddenData,
    check_rows_visible,
)
from tailrace_publisher.source.catalog.instances import Catalog
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_publisher.source.catalog.versions import current_columns, timeline, versions_of
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_HAS_ROWS: Final = WHOLE | {TableState.SNAPSHOTTING}
"""States in which readers take published rows of the table for current."""


class TableUpdate:
    """Moves single tables to the state that the catalog requires.

    Args:
        renames: knows the renamed tables.
        topics: knows partition counts and the stopped tables.
    """

    def __init__(
        self,
        config: PublisherConfig,
        renames: Renames,
        versions: RegisteredVersions,
        topics: TableTopics,
        state: PublisherState,
    ) -> None:
        self._config = config
        self._renames = renames
        self._topics = topics
        self._stopped = topics.stopped
        self._state = state
        self._rules = rules_of(config.columns)
        self._present: set[str] = set()
        self._hidden = NOTHING_HIDDEN
        self._columns: dict[int, tuple[object, tuple[SchemaColumn, ...]]] = {}
        self._known_versions = ResumedVersions(versions, self._columns_of)

    def begin(self, tables: Iterable[PublishedTable], catalog: Catalog) -> None:
        """Note what the catalog shows, before the tables are updated.

        Args:
            tables: all that are captured and selected.
        """
        present = {instance.object_id for instance in catalog.instances}
        self._columns = {n: made for n, made in self._columns.items() if n in present}
        running = [t for t in tables if self._stopped.error_of(t.name) is None]
        self._known_versions.look(running, self._state, catalog.ddl)
        self._present = {i.name for table in tables for i in table.instances}
        self._hidden = catalog.hidden

    def update(self, table: PublishedTable, catalog: Catalog) -> None:
        """Move a table to its next state, and make its versions.

        Raises:
            PublisherError: it cannot be published.
        """
        registered = self._known_versions.of(table)
        self._state.adopt(table.name, self._names_of(table, registered))
        record, covers = self._state.of(table.name), table.recognised
        if not table.object_ids:
            table.object_ids = record.object_ids
        published, reached = self._state.published_lsn, self._state.position.commit_lsn
        if record.state in PUBLISHED:
            covers = covers_of(table, record, published, reached)
        table.instances = TableInstances.of(table.instances, covers)
        newest = table.instances.newest
        table.uncaptured = catalog.uncaptured.get(newest.object_id, CAPTURES_ALL)
        if record.state is TableState.STOPPED:
            has_name_again = self._renames.is_same(table.name, table.instances)
            self._stopped.check_may_restart(
                table.name, record.stopped_reason, has_name_again=has_name_again
            )
        if any(instance.key for instance in table.instances):  # without one, it is partition 0
            self._topics.check_partitions(table.name, record.topic_partitions)
        if self._config.tables.schema_change_of(table.name) is SchemaChange.FAIL:
            types = catalog.ddl.get(newest.object_id, ())
            change = change_of(table, record, types)
            if change is not None:
                raise SchemaChanged(table.name, change)
        for instance in table.instances:
            check_readable(catalog.hidden, instance, self._columns_of(instance))
        if record.state in PUBLISHED:
            after = still_covered(table, record, covers, published, reached, registered)
            if covers:  # else its instances are gone, and the next one is not recognised yet
                after = self._with_patch(table, after, registered)
            self._log_instances(table, record, after)
            self._state.store(table.name, self.with_source(table, after))
        elif covers:
            covers = self._begin(table, record, covers, registered)
        table.versions.clear()
        table.covers = covers
        table.object_ids = {instance.name: instance.object_id for instance in table.instances}
        if not covers:
            _log.info("capture_instance_not_ready", table=str(table.name))
            return
        self._set_versions(table, catalog, registered)

    def check_rows(self, table: PublishedTable, hidden: HiddenData | None = None) -> None:
        """Check that a table's rows may be read as they are.

        Args:
            hidden: what is hidden now; None for what the last refresh showed.

        Raises:
            ValuesHidden: they may not; its changes are not concerned.
        """
        newest = table.instances.newest
        names = [column.name for column in self._columns_of(newest)]
        check_rows_visible(hidden or self._hidden, newest, names)

    def _with_patch(
        self, table: PublishedTable, known: TableRecord, registered: list[TableSchema]
    ) -> TableRecord:
        """Return a table's record with a patch if an instance that gains columns takes over.

        Args:
            known: names the instances that are read now; the table's own record those before.
        """
        before, names = self._state.of(table.name).instances, known.instances
        recreated = table.recreated_instances()
        former = [name for name in before or names[:-1] if name not in recreated]
        if not names or self._config.tables.patch is PatchedTables.NONE:
            return known
        newer = next(i for i in table.instances if i.name == names[-1])
        begins = table.recognised[newer.name]
        start = max(begins, self._state.published_lsn)
        if known.patch is not None and start < known.patch.after:
            # Watermarks never fall on one line of recovery: the hand-over was on one that is lost.
            known = replace(known, patch=replace(known.patch, after=start))
            former = [name for name in former if name != newer.name]
        if newer.name in former:
            return known
        columns = columns_before(former, table.instances, registered)
        published = {column.column_id for column in self._columns_of(newer)}
        newer = replace(newer, columns=tuple(c for c in newer.columns if c.column_id in published))
        earlier = [version for version in registered if version.schema_lsn < begins]
        patch = None if columns is None else patch_of(columns, newer, start, earlier)
        if patch is None:
            return known
        return replace(known, patch=known.patch.joined(patch) if known.patch else patch)

    def _columns_of(self, instance: CaptureInstance) -> tuple[SchemaColumn, ...]:
        """Return the event columns of an instance, cached per answer of the catalog."""
        made_of, columns = self._columns.get(instance.object_id, (None, ()))
        if made_of is not instance.columns:
            lossless = self._config.lossless_of(instance.table)
            columns = current_columns(instance, lossless, self._rules)
            self._columns[instance.object_id] = instance.columns, columns
        return columns

    def _names_of(self, table: PublishedTable, registered: list[TableSchema]) -> list[str]:
        """Return names of a table's instances, present or gone."""
        present = [instance.name for instance in table.instances]
        gone = {version.capture_instance for version in registered} - self._present
        return present + sorted(gone)

    def _begin(
        self,
        table: PublishedTable,
        record: TableRecord,
        covers: dict[str, Lsn],
        registered: list[TableSchema],
    ) -> dict[str, Lsn]:
        """Start a table that is new, has lost its place, or was stopped.

        One that was published before has lost changes, so it needs a snapshot.

        Returns:
            From which LSN on each of its instances holds its changes.

        Raises:
            PositionExpired: cleanup has passed the LSN to start at.
            ValuesHidden: it needs a snapshot, and the login does not see its rows as they are.
        """
        is_new = record.state is TableState.FOUND
        start, options = self._state.start_lsn, self._config.snapshot
        wanted = options.reads_first or not is_new or self._state.resnapshots_all
        if start is not None and is_new:
            held = covers_from_start(covers, start)
            if held is None and not options.fills_gaps:
                raise PositionExpired(oldest_of(covers), start, min(covers.values()))
            wanted, covers = held is None, held or covers
        if wanted:
            self.check_rows(table)
        event = TableEvent.SNAPSHOT_WANTED if wanted else TableEvent.CHANGES_WANTED
        known = self.with_source(table, fresh_record(record, covers))
        if self._state.published_lsn < max(covers.values()):  # else the newest alone is read
            known = self._with_patch(table, known, registered)
        known = replace(known, partitions=record.partitions_before)
        after = self._state.happened(table.name, event, known)
        if is_new:
            self._log_instances(table, record, after)
            self._log_keyless(table)
        else:
            self._stopped.report_restart(table.name, self._state.position.commit_lsn, after.state)
            table.is_stop_reported = False
        return covers

    def with_source(self, table: PublishedTable, record: TableRecord) -> TableRecord:
        """Return a record with what later checks of renames and partition counts need.

        And those of instances that were disabled and enabled again under their names.
        """
        ids = {instance.name: instance.object_id for instance in table.instances}
        known = [ids[name] for name in record.instances if name in ids]
        return replace(
            record,
            instance_ids=tuple(known) if len(known) == len(record.instances) else (),
            source_object_id=table.instances.newest.source_object_id,
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
        log_unused(name for name in before.instances if name not in after.instances)

    def _log_keyless(self, table: PublishedTable) -> None:
        if not all(instance.key for instance in table.instances):
            _log.warning(
                "table_without_key",
                table=str(table.name),
                effect="its events have a null key and go to one partition",
                fix="name its key columns in message_keys",
            )

    def _set_versions(
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


def log_unused(instances: Iterable[str]) -> None:
    """Log capture instances that were read and are not any more."""
    for name in instances:
        _log.warning(
            "capture_instance_unused",
            capture_instance=name,
            reason="it is gone, replaced by a newer one, or left out by tables.exclude",
        )
