"""Tables that have another name than the one under which they were published.

A renamed table keeps its object id and its capture instances. Under the new name it would get a new
topic, and subscribers would take its changes from then on for the whole table. So the checkpoint
stores the object id with the name. The option ``tables.on_rename`` says whether a renamed table
stops or continues under its old name. The record of the old name stays, stopped, until the table
gets its old name back, starts under its new name, or is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.stopped import StoppedTables, reason_of
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableEvent, TableState
from tailrace_publisher.errors import StillStopped, TableRenamed
from tailrace_publisher.options.tables import OnRename
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.instances import Catalog
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


class Renames:
    """Comparison of the tables' names with those in the checkpoint.

    Args:
        state: which table is published under which name.
        runtime: has the options, and selects the tables that are published here.
        read: reads the catalog, given by object id the names to use instead of the present ones.
    """

    def __init__(
        self,
        state: PublisherState,
        stopped: StoppedTables,
        runtime: Runtime,
        read: Callable[[Mapping[int, TableName]], Catalog],
    ) -> None:
        self._state = state
        self._stopped = stopped
        self._selects = runtime.selects
        self._keeps_topic = runtime.config.tables.on_rename is OnRename.KEEP_TOPIC
        self._read = read
        self._logged: set[TableName] = set()

    def catalog(self) -> Catalog:
        """Read the catalog; with ``keep_topic``, renamed tables have their published names.

        Raises:
            SourceError: the server did not answer.
        """
        catalog = self._read(self._state.published_as() if self._keeps_topic else {})
        self._log_renames(catalog.instances)
        return catalog

    def _log_renames(self, instances: Iterable[CaptureInstance]) -> None:
        """Log once for each table that continues under its old name."""
        for instance in instances:
            now = instance.renamed_to
            if now is not None and now not in self._logged and self._selects(instance.table):
                self._logged.add(now)
                _log.warning(
                    "table_renamed",
                    table=str(now),
                    was=str(instance.table),
                    effect="it continues under its old topic, subjects and name",
                )

    def check(
        self,
        found: Mapping[TableName, Sequence[CaptureInstance]],
        captured: Iterable[CaptureInstance],
    ) -> None:
        """Stop tables that were published under another name, before their topics are created.

        A table that took over the name of a table that was renamed is a new table.

        Args:
            found: the tables to publish, with their instances.
            captured: all instances of the database.
        """
        published = self._state.published_as()
        for name, instances in found.items():
            for instance in instances:
                was = published.get(instance.source_object_id, name)
                if was != name and not self._stopped.is_asked_for(name):
                    self._stopped.add(name, TableRenamed(was, name))
        present = {instance.source_object_id for instance in captured}
        for name, instances in found.items():
            known = self._state.of(name).source_object_id
            if known in present and not self.is_same(name, instances):
                self._state.happened(name, TableEvent.GONE)

    def is_same(self, name: TableName, instances: Iterable[CaptureInstance]) -> bool:
        """Return whether a table is the one that was published under this name."""
        known = self._state.of(name).source_object_id
        return any(instance.source_object_id == known for instance in instances)

    def present_name(
        self, missing: TableName, captured: Iterable[CaptureInstance]
    ) -> TableName | None:
        """Return the present name of a table that is missing under its old one, if it exists."""
        known = self._state.of(missing).source_object_id
        for instance in captured:
            if instance.source_object_id == known and instance.table != missing:
                return instance.table
        return None

    def had_name_briefly(self, record: TableRecord) -> bool:
        """Return whether a record is of a name that a published table had only for a while."""
        is_renamed = StillStopped(record.stopped_reason).is_by(TableRenamed)
        return is_renamed and record.state is TableState.STOPPED and record.covers_from is None

    def stored_reason(self, gone: TableName, captured: Iterable[CaptureInstance]) -> str | None:
        """Return the reason to store with the old name of a renamed table, if there is one."""
        record, now = self._state.of(gone), self.present_name(gone, captured)
        if now is not None:
            return reason_of(TableRenamed(gone, now))
        return record.stopped_reason if record.state is TableState.LOST else None

    def keep_old_name(self, name: TableName, captured: Iterable[CaptureInstance]) -> bool:
        """Keep the record of a renamed table under its old name, as a stopped one.

        Returns:
            False if there is nothing to keep: the table was dropped, or has started under its new
            name.
        """
        now = self.present_name(name, captured)
        record = self._state.of(name)
        if now is None or self._has_started(now, record.source_object_id):
            return False
        reason = reason_of(TableRenamed(name, now))
        self._state.happened(name, TableEvent.FAILED, replace(record, stopped_reason=reason))
        return True

    def _has_started(self, name: TableName, object_id: int | None) -> bool:
        """Return whether a table started under its new name."""
        return self._selects(name) and self._state.of(name).source_object_id == object_id
