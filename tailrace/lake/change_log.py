"""A range of the lake's log: the events of its source tables, complete or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

import pyarrow as pa

from tailrace.lake.change_counts import check_counts, good_of
from tailrace.lake.log import DeltaLog, text
from tailrace.lake.store import LakeStore
from tailrace_schemas.position.commit_time import milliseconds
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import ChangesUnknown, ForeignRecord
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import decode_progress
from tailrace_sink.reading.bulk_cuts import BulkCut, bulk_cuts_of, refuse_bulk
from tailrace_sink.reading.change_table import NoChanges
from tailrace_sink.reading.cut_id import CutId, closes_again
from tailrace_sink.reading.point import lsn_or_time
from tailrace_sink.reading.table_by_name import table_by_name
from tailrace_sink.rows.writer_schema import WriterSchema, writer_schema

_COMMIT_MS: Final = """CAST(regexp_match(state, '"through_commit_ms": ([0-9]+)')[1] AS BIGINT)"""
_NOTHING_LOST: Final = """state LIKE '%"lost": {}%'"""
_ALL_COPIED: Final = """(state LIKE '%"in_kafka": {}%' OR state NOT LIKE '%"in_kafka"%')"""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The cuts of the log with a source table's changes of a range.

    Attributes:
        within: SQL condition on their batch ids.
        through: batch id of the last one.
        bulk: those whose events the log lacks; they have no change of the table.
    """

    table: TableName
    topic: str
    within: str
    through: int
    bulk: Sequence[BulkCut]

    @property
    def bulk_schema_ids(self) -> set[int]:
        """Writer schemas of the table's events in the bulk cuts."""
        found = (cut.ranges[self.topic].schema_ids for cut in self.bulk if self.topic in cut.ranges)
        return {schema_id for ids in found for schema_id in ids}


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one source table in the log.

    Attributes:
        versions: schemas of the table, also of events that are not among these.
    """

    table: TableName
    values: pa.Table
    writers: Sequence[WriterSchema]
    versions: Sequence[WriterSchema]


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """The log of a lake in (first, end].

    Attributes:
        last: the newest state of the log.
        first: the cut after which to read; None: the start of the log.
        began: the log's first cut when somebody planned to read from its start.
    """

    lake: str
    log: DeltaLog
    last: LogState
    first: CutId | None
    end: CutId
    began: CutId | None = None

    @classmethod
    def between(
        cls, lake: str, log: DeltaLog, after: str | datetime | None, up_to: str | datetime | None
    ) -> Self:
        """Return the range between two points.

        Raises:
            ChangesUnknown: the log is empty, or has no cut that old.
            PointInvalid: a point is neither an LSN nor a time.
        """
        last = newest_state(lake, log)
        newest = CutId(last.state.closed_lsn, last.state.batch)
        first = None if after is None else cut_of(lake, log, last, after)
        end = newest
        if up_to is not None:
            end = min(newest, cut_of(lake, log, last, up_to), key=lambda cut: cut.order)
        return cls(lake, log, last, first, end)

    def begins(self) -> CutId:
        """Return the log's first cut."""
        return _first_cut(self.log)

    def require_start(self) -> None:
        """Check that the log still has where the range starts.

        Raises:
            ChangesUnknown: retention removed that part.
        """
        begins, needed = self.begins(), self.first or self.began
        if needed is None:
            return
        is_gone = needed.order < begins.order
        if needed.batch is None:  # An earlier release stored it.
            is_gone = needed.lsn < begins.lsn
        if is_gone:
            raise ChangesUnknown.starts_later(self.lake, str(begins), needed.lsn)

    def counted_cuts(self, tables: Iterable[TableName]) -> list[tuple[CutId, int]]:
        """Return the range's cuts in order, with some tables' number of events."""
        topics = [text(self.names.data(table)) for table in tables]
        if not topics:
            return [(self.end, 0)]
        within = self._within()[0]
        counted = self.log.rows(
            f"SELECT batch, count(*) AS events FROM t WHERE {within}"
            f" AND topic IN ({', '.join(topics)}) GROUP BY batch"
        ).to_pylist()
        counts = {row["batch"]: row["events"] for row in counted}
        cuts = self.log.rows(
            f"SELECT batch, lsn FROM t WHERE topic = '' AND {within} ORDER BY batch"
        ).to_pylist()
        return [
            (CutId(min(row["lsn"], self.end.lsn), row["batch"]), counts.get(row["batch"], 0))
            for row in cuts
        ]

    def named(
        self, name: TableName | str, also: Iterable[TableName] = ()
    ) -> tuple[TableName, list[TableName]]:
        """Return the table of a name; of a lake table with several sources, these as well.

        Args:
            also: tables that the log may lack.

        Raises:
            ChangesUnknown: the log has none.
        """
        shared = SharedTables(self.last.into)
        if isinstance(name, TableName) and not shared.is_taken(name):
            return name, []
        known = {*self.tables(), *also}
        try:
            found = table_by_name(name, known | set(map(shared.lake_table, known)))
        except LookupError as error:
            raise ChangesUnknown(f"the log of {self.lake} has no table {name}. {error}") from None
        return found, [] if found in known else shared.sources(found, known)

    def tables(self) -> set[TableName]:
        """Return the source tables of which the log has events, or had in bulk."""
        topics = self.log.rows("SELECT DISTINCT topic FROM t")["topic"].to_pylist()
        bulk = bulk_cuts_of(self._states(f"NOT {_ALL_COPIED}"))
        every = {*topics, *(topic for cut in bulk for topic in cut.ranges)}
        return {table for table in map(self.names.table_of, every) if table is not None}

    def events(self, table: TableName, *, needs_versions: bool = False) -> Events:
        """Find the events of a source table; also some outside of the range.

        Args:
            needs_versions: whether all schema versions up to the end are needed, not only those of
                the events.

        Raises:
            ChangesUnknown, BadRecord: see ``Lake.changes``.
        """
        of = self.range(table)
        ids = self.schema_ids(of.topic, of.within)
        # If the table did not change in the range, earlier events give its columns.
        is_all = needs_versions or not ids
        every = self.schema_ids(of.topic, f"batch <= {of.through}") if is_all else ids
        known = self.writers(of.topic, every | of.bulk_schema_ids)
        writers = [writer for writer in known if writer.schema_id in (ids or every)]
        if all(writer.version.table != table for writer in writers):
            raise NoChanges(
                f"the log of {self.lake} has no event of table {table} up to LSN {self.end.lsn}"
            )
        return self.checked(of, writers, known)

    def checked(
        self, of: LogRange, writers: Sequence[WriterSchema], known: Sequence[WriterSchema]
    ) -> Events:
        """Read the events of a range, and compare them with the publisher's counts.

        Args:
            writers: schemas of the events.
            known: schemas of the table.

        Raises:
            ChangesUnknown, BadRecord: see ``Lake.changes``.
        """
        values = self._values(of.topic, of.within)
        keeps_bad = self.last.bad_records == BadRecords.DEAD_LETTER
        good = good_of(values, writers, of.topic, None if keeps_bad else str(of.table))
        progress = self.log.rows(
            f"SELECT batch, lsn, value FROM t WHERE topic = {text(self.names.progress)}"
            f" AND {of.within}"
        ).to_pylist()
        in_bulk = {cut.batch for cut in of.bulk}
        check_counts(
            (of.table, of.topic),
            [row for row in progress if row["batch"] not in in_bulk],
            values,
            good,
            writers,
            self.log.schema_by_id,
            (self.first, self.lake),
        )
        own, versions = (
            [writer for writer in every if writer.version.table == of.table]
            for every in (writers, known)
        )
        return Events(of.table, values.filter(good), own, versions)

    def range(self, table: TableName) -> LogRange:
        """Find a source table's part of the log.

        Raises:
            ChangesUnknown: the log lacks changes of the range.
        """
        topic = self.names.data(table)
        self._check_complete(table, topic)
        within, through = self._within()
        bulk = bulk_cuts_of(self._states(f"{within} AND NOT {_ALL_COPIED}"))
        refuse_bulk(bulk, table, topic, self.first)
        return LogRange(table, topic, within, through, bulk)

    def _within(self) -> tuple[str, int]:
        through, since = self.end.order[1], -1
        if self.first is not None:
            since = self._batch("max", self.first.has())
        return f"batch > {since} AND batch <= {through}", through

    def known(self, table: TableName) -> list[WriterSchema]:
        """Return all schemas of a source table's events up to the end, also of those in bulk."""
        topic = self.names.data(table)
        through = f"batch <= {self._within()[1]}"
        bulk = bulk_cuts_of(self._states(f"{through} AND NOT {_ALL_COPIED}"))
        ids = self.schema_ids(topic, through)
        ids |= LogRange(table, topic, through, 0, bulk).bulk_schema_ids
        return [w for w in self.writers(topic, ids) if w.version.table == table]

    def writers(self, topic: str, schema_ids: Iterable[int]) -> list[WriterSchema]:
        """Return writer schemas by their ids."""
        return [writer_schema(i, self.log.schema_by_id(i), topic) for i in sorted(schema_ids)]

    def stored(self) -> list[WriterSchema]:
        """Return the schemas of all tables' events that the lake stores."""
        found = []
        for schema_id in self.log.stored_schemas():
            with suppress(ForeignRecord):  # Of progress records, or of somebody else.
                found += self.writers("", [schema_id])
        return found

    @property
    def names(self) -> TopicNames:
        """Names of the topics."""
        return TopicNames(self.last.prefix)

    def _check_complete(self, table: TableName, topic: str) -> None:
        self.require_start()
        in_range = f"NOT {(self.first or self.begins()).has()} AND batch <= {self.end.batch}"
        for found in self._states(f"{in_range} AND NOT {_NOTHING_LOST}"):
            if topic in found.lost:
                reason = found.lost[topic].reason
                raise ChangesUnknown.lost(table, found.state.closed_lsn, reason)

    def _states(self, condition: str) -> list[LogState]:
        rows = self.log.rows(f"SELECT state FROM t WHERE topic = '' AND {condition}").to_pylist()
        return [LogState.of_json(row["state"]) for row in rows]

    def _batch(self, of: str, condition: str) -> int:
        """Find the least or greatest batch id of cuts; 0 if there is none."""
        found = self.log.rows(
            f"SELECT {of}(batch) AS batch FROM t WHERE topic = '' AND {condition}"
        )["batch"][0].as_py()
        return 0 if found is None else int(found)

    def schema_ids(self, topic: str, condition: str) -> set[int]:
        """Return the writer schemas of a topic's events that a SQL condition selects."""
        found = self.log.rows(
            f"SELECT DISTINCT schema_id FROM t WHERE topic = {text(topic)} AND {condition}"
        )
        return set(found["schema_id"].to_pylist()) - {None}

    def _values(self, topic: str, within: str) -> pa.Table:
        found = self.log.rows(
            'SELECT batch, "partition", "offset", value FROM t'
            f" WHERE topic = {text(topic)} AND value IS NOT NULL AND {within}"
        )
        place = found.column_names.index("value")
        found = found.set_column(place, "value", found["value"].cast(pa.binary()))
        return found.combine_chunks()  # Each file of the log is a chunk, often of a few events.


def opened_log(store: LakeStore) -> DeltaLog:
    """Open the log of a lake.

    Raises:
        ChangesUnknown: no sink of this release has written to it.
        LakeUnreadable, StoreUnusable: it cannot be read.
    """
    log = DeltaLog.of(store)
    if log is None:
        raise ChangesUnknown.no_log(store.lake)
    return log


def newest_state(lake: str, log: DeltaLog) -> LogState:
    """Return the newest state of a log.

    Raises:
        ChangesUnknown: no cut has been committed to it.
    """
    last = log.last()
    if last is None:
        raise ChangesUnknown.no_log(lake)
    return last


def cut_of(lake: str, log: DeltaLog, last: LogState, point: str | datetime) -> CutId:
    """Return the cut that a point means: of an LSN, the log's first one that closes it.

    Args:
        last: the newest state of the log.

    Raises:
        ChangesUnknown: the log has no cut that old, or no longer the first one at that LSN.
        PointInvalid: the point is neither an LSN nor a time.
    """
    found = lsn_or_time(point)
    if not isinstance(found, str):
        newest = _cut(log, f"{_COMMIT_MS} <= {milliseconds(found)}", "DESC")
        if newest is None:
            raise ChangesUnknown.no_cut(lake, point)
        return newest
    return with_batch(lake, log, last, CutId.parse(found))


def with_batch(lake: str, log: DeltaLog, last: LogState, cut: CutId) -> CutId:
    """Return a cut with its batch: see :func:`cut_of`."""
    if cut.batch is not None:
        return cut
    first = _cut(log, f"lsn >= {text(cut.lsn)}", "ASC")
    if first is None:
        return CutId(cut.lsn, last.state.batch)
    if first.lsn == cut.lsn and first == _first_cut(log):
        progress = text(TopicNames(last.prefix).progress)
        records = log.rows(
            f"SELECT value FROM t WHERE topic = {progress} AND batch = {first.batch}"
        )
        values = records["value"].to_pylist()
        if closes_again(first, (decode_progress(of, log.schema_by_id) for of in values)):
            raise ChangesUnknown.starts_later(lake, str(first), cut.lsn)
    return CutId(cut.lsn, first.batch)


def _first_cut(log: DeltaLog) -> CutId:
    return _cut(log, "true", "ASC") or CutId("", -1)


def _cut(log: DeltaLog, condition: str, order: str) -> CutId | None:
    """Return the first cut of the log in an order that meets a condition."""
    found = log.rows(
        f"SELECT lsn, batch FROM t WHERE topic = '' AND {condition} ORDER BY batch {order} LIMIT 1"
    ).to_pylist()
    return CutId(**found[0]) if found else None
