"""The part of a batch for each source table, before its lake table is read."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import RegistryError
from tailrace_sink.errors import (
    ForeignRecord,
    LakeNameTaken,
    LakeRowsChanged,
    RowsElsewhere,
    SchemaNotStored,
    SchemaUnknown,
    SinkError,
    TableExcluded,
    UnsupportedEventForm,
    UnsupportedTopicName,
)
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.progress_record import SchemaById
from tailrace_sink.plan.sink_state import CutPoint, SinkState
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.writer_schema import WriterSchema, writer_schema
from tailrace_sink.tables.lake_table import Kind, companion_paths, source_path, table_path

if TYPE_CHECKING:
    from tailrace_sink.rows.bad_records import Screen


@dataclass(frozen=True, slots=True)
class TableBatch:
    """One source table's part of a batch.

    Attributes:
        lake_table: name of the lake table with its rows; its own, unless several share one.
        other_writers: writer schemas of other tables in the same topic.
        missing: id of each writer schema that could not be found, to the reason.
        values: partition, offset, key and value of its events if they are few; else None.
        differs: the events' difference from the ledger; None also if they were not counted.
        starts: the cut that each companion of its mirror starts with, if it starts.
    """

    table: TableName
    lake_table: TableName
    topic_range: TopicRange
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...] = ()
    missing: Mapping[int, str] = field(default_factory=dict)
    values: pa.Table | None = None
    differs: SinkError | None = None
    starts: Mapping[Kind, CutPoint] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """Topic of the events."""
        return self.topic_range.topic

    @property
    def is_shared(self) -> bool:
        """Whether the lake table may have rows of other source tables."""
        return self.lake_table != self.table

    @property
    def home(self) -> str:
        """Path of the lake table, for the state after the batch; empty if that is its own."""
        is_recorded = self.is_shared or self.topic_range.is_part
        return table_path(self.lake_table) if is_recorded else ""

    @property
    def is_snapshot(self) -> bool:
        """Whether the batch has rows of a snapshot, or its end."""
        found = self.topic_range
        return found.is_whole or found.is_part or found.finishes is not None

    @property
    def all_writers(self) -> tuple[WriterSchema, ...]:
        """All known writer schemas of the topic."""
        return (*self.writers, *self.other_writers)

    @property
    def versions(self) -> list[TableSchema]:
        """Schema versions of its changes."""
        return [writer.version for writer in self.writers]

    @property
    def comes_whole(self) -> bool:
        """Whether every row of a lake table comes, and nothing older."""
        return self.topic_range.is_only_whole and not self.is_shared

    @property
    def may_be_replaced(self) -> bool:
        """Whether its next snapshot replaces a lake table that refuses rows.

        A later part of a snapshot cannot: the rows of the others would go.
        """
        has_key = all(version.key_columns for version in self.versions)
        return has_key and not self.is_shared and not self.topic_range.is_part

    @property
    def is_empty(self) -> bool:
        """Whether a snapshot found no row, so that no event names a schema."""
        return not self.writers and not self.missing

    @property
    def repeats_keys(self) -> bool:
        """Whether two events have the same key; False also if they are not in memory."""
        if self.values is None:
            return False
        return bool(pc.count_distinct(self.values["key"]).as_py() < self.values.num_rows)

    @property
    def screen(self) -> Screen:
        """Filter of records that are no changes of the table; for Spark only."""
        from tailrace_sink.rows.bad_records import Screen

        return Screen(self.table, self.topic, self.writers, self.other_writers, self.missing)


@dataclass(slots=True)
class Staged:
    """What a batch has written before its publication.

    Attributes:
        versions: path below the lake to the version of each table.
        stopped: topic to the error of each table that the lake cannot follow.
    """

    versions: dict[str, int]
    stopped: dict[str, SinkError]

    def leave_out(self, path: str) -> None:
        """Publish nothing of a lake table and its companions; the path may be of any of them."""
        home = source_path(path)
        for own in (home, *companion_paths(home)):
            self.versions.pop(own, None)

    def stop(self, topics: Iterable[str], error: LakeRowsChanged) -> None:
        """Stop all sources of a lake table."""
        self.stopped |= dict.fromkeys(topics, error)
        self.leave_out(error.path)


class TableBatches:
    """Sorts the topics of plans by source table, and caches writer schemas.

    Args:
        selects: whether the lake gets a table.
        shared: which lake table has the rows of each.
    """

    def __init__(
        self,
        names: TopicNames,
        selects: Callable[[TableName], bool],
        schema_by_id: SchemaById,
        shared: SharedTables | None = None,
    ) -> None:
        self._names = names
        self._shared = shared or SharedTables()
        self._selects = selects
        self._schema_by_id = schema_by_id
        self._writers: dict[int, WriterSchema] = {}

    def of(self, ranges: Iterable[TopicRange]) -> tuple[list[TableBatch], dict[str, SinkError]]:
        """Return the batches to apply, and the error of each topic that cannot be applied.

        Raises:
            RegistryError: the registry does not answer.
        """
        batches: list[TableBatch] = []
        stopped: dict[str, SinkError] = {}
        for topic_range in ranges:
            topic = topic_range.topic
            try:
                writers, missing = self._known(topic_range)
            except (ForeignRecord, UnsupportedEventForm) as error:
                stopped[topic] = error
                continue
            tables = {writer.version.table for writer in writers}
            named = self._names.table_of(topic)
            if tables and (named is None or named.database not in {t.database for t in tables}):
                stopped[topic] = UnsupportedTopicName(topic, str(min(tables)))
                continue
            if not tables and (missing or topic_range.is_whole) and named is not None:
                # No event can be read, so only the topic's name says which table it is.
                tables = {named}
            if missing and not tables:
                stopped[topic] = SchemaUnknown(topic, *next(iter(missing.items())))
                continue
            selected = sorted(filter(self._selects, tables))
            if tables and not selected:
                # These events were logged before the table was excluded. The lake lacks them now.
                stopped[topic] = TableExcluded()
            for table in selected:
                if self._shared.is_taken(table):
                    stopped[topic] = LakeNameTaken(str(table))
                    continue
                own = tuple(w for w in writers if w.version.table == table)
                other = tuple(w for w in writers if w.version.table != table)
                into = self._shared.lake_table(table)
                batches.append(TableBatch(table, into, topic_range, own, other, missing))
        return batches, stopped

    def _known(self, topic_range: TopicRange) -> tuple[list[WriterSchema], dict[int, str]]:
        """Look up the writer schemas of a range; those that are missing with the reason."""
        writers: list[WriterSchema] = []
        missing: dict[int, str] = {}
        for schema_id in sorted(topic_range.schema_ids):
            try:
                writers.append(self._writer(schema_id, topic_range.topic))
            except (RegistryError, SchemaNotStored) as error:
                if error.retryable:
                    raise
                missing[schema_id] = str(error)
        return writers, missing

    def _writer(self, schema_id: int, topic: str) -> WriterSchema:
        found = self._writers.get(schema_id)
        if found is None:
            found = writer_schema(schema_id, self._schema_by_id(schema_id), topic)
            self._writers[schema_id] = found
        return found


def elsewhere(
    batches: Iterable[TableBatch], before: SinkState
) -> tuple[dict[str, SinkError], list[tuple[TableBatch, str]]]:
    """Find sources with rows in another lake table than their batch would write to.

    Returns:
        Topic to error of those that need a snapshot first. Then those whose snapshot is here, with
        the path of the shared table that their rows must leave.
    """
    stopped: dict[str, SinkError] = {}
    leaving = []
    for batch in batches:
        wanted, home = table_path(batch.lake_table), before.home_of(batch.table.path)
        if home is None or home == wanted:
            continue
        held = before.held.get(batch.topic)
        if not batch.is_snapshot or (held is not None and held.rest is not None):
            stopped[batch.topic] = RowsElsewhere(str(batch.table), home, wanted)
        elif home != batch.table.path:
            leaving.append((batch, home))
    return stopped, leaving


def with_starts(config: SinkConfig, source: TableBatch, before: SinkState) -> TableBatch:
    """Add the cut that companions of the table start with, if they start."""
    lake_table = source.lake_table
    # Without other sources, a whole table has every row.
    has_all = source.topic_range.is_whole and not source.is_shared
    if has_all or table_path(lake_table) not in before.versions:
        return source
    # A table without a key has every change, and no companions.
    if not any(version.key_columns for version in source.versions):
        return source
    kinds = config.companions_of(lake_table)
    new = [kind for kind in kinds if table_path(lake_table, kind) not in before.versions]
    return replace(source, starts=dict.fromkeys(new, before.point))


def left_behind(
    before: SinkState, names: TopicNames, shared: SharedTables, batches: Iterable[TableBatch]
) -> dict[str, SinkError]:
    """Find quiet sources with rows in another lake table than configured, by topic.

    Args:
        batches: sources that are not quiet.
    """
    busy = {batch.topic for batch in batches}
    stopped: dict[str, SinkError] = {}
    for topic, table, home in _homes(before, names):
        wanted = table_path(shared.lake_table(table))
        is_quiet = topic not in busy | before.held.keys() | before.stopped.keys()
        if is_quiet and home != wanted:
            stopped[topic] = RowsElsewhere(str(table), home, wanted)
    return stopped


def sharing(before: SinkState, names: TopicNames, path: str) -> list[str]:
    """Select the topics of the sources whose rows are in a shared lake table."""
    return [topic for topic, _, home in _homes(before, names) if home == path]


def _homes(before: SinkState, names: TopicNames) -> Iterator[tuple[str, TableName, str]]:
    """Yield each source with rows in the lake: topic, name, and path of the table with them."""
    for topic in before.offsets:
        table = names.table_of(topic)
        home = None if table is None else before.home_of(table.path)
        if table is not None and home is not None:
            yield topic, table, home


def without(batches: Iterable[TableBatch], topics: Container[str]) -> list[TableBatch]:
    """The batches of other topics."""
    return [batch for batch in batches if batch.topic not in topics]
