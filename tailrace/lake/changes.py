"""The changes of a table between two points, read from the lake's log without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.change_counts import check_counts
from tailrace.lake.log import DeltaLog, text
from tailrace.lake.tail_events import decode, in_terms_of, reasons_of
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.columns.spec import Column, Target, Work, Writer
from tailrace_sink.errors import BadRecord, ChangesUnknown
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.reading.bulk_cuts import bulk_cuts_of, refuse_bulk
from tailrace_sink.reading.change_table import NoChanges, changed_columns, shared_columns
from tailrace_sink.reading.table_by_name import table_by_name
from tailrace_sink.reading.tail_plan import milliseconds
from tailrace_sink.rows.writer_schema import WriterSchema, fields_of, writer_schema
from tailrace_sink.tables.lake_table import (
    CHANGED,
    CHANGES_COLUMNS,
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    LakeColumn,
    LakeTable,
)
from tailrace_sink.tables.origins import ORIGIN, origin_values

_IMAGES: Final = ("before", "after")
_COMMIT_MS: Final = """CAST(regexp_match(state, '"through_commit_ms": ([0-9]+)')[1] AS BIGINT)"""
_NOTHING_LOST: Final = """state LIKE '%"lost": {}%'"""
_ALL_COPIED: Final = """(state LIKE '%"in_kafka": {}%' OR state NOT LIKE '%"in_kafka"%')"""


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of one source table in the log.

    Attributes:
        versions: schema versions of the table, also of events that are not among these.
    """

    table: TableName
    values: pa.Table
    writers: Sequence[WriterSchema]
    versions: Sequence[TableSchema]


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """The log of a lake, read in (first, end].

    Attributes:
        last: the newest state of the log.
        first: LSN after which to read; None: the start of the log.
        end: LSN of the last point.
    """

    lake: str
    log: DeltaLog
    last: LogState
    first: str | None
    end: str

    @classmethod
    def between(
        cls, lake: str, log: DeltaLog, after: str | datetime | None, up_to: str | datetime | None
    ) -> ChangeReader:
        """Return the reader between two points.

        Raises:
            ChangesUnknown: the log is empty, or has no cut that old.
        """
        last = log.last()
        if last is None:
            raise no_log(lake)
        first = None if after is None else _lsn_of(log, after)
        newest = last.state.closed_lsn
        end = newest if up_to is None else min(newest, _lsn_of(log, up_to))
        return cls(lake, log, last, first, end)

    def read(self, name: TableName | str) -> pa.Table:
        """Read every change of a table, as it was committed: see ``Lake.changes``.

        Raises:
            ChangesUnknown, BadRecord, NeedsSpark: see there.
        """
        table, sources = self._named(name)
        if not sources:
            found = self._events(table)
            return self._decoded(found, changed_columns([w.version for w in found.writers]))
        parts, missing = [], []
        for source in sources:
            try:
                parts.append(self._events(source, needs_versions=True))
            except NoChanges as error:
                missing.append(error)
        if not parts:
            raise missing[0]
        columns = shared_columns(table, (version for part in parts for version in part.versions))
        return pa.concat_tables(
            _with_origin(self._decoded(part, columns), part.table) for part in parts
        )

    def _named(self, name: TableName | str) -> tuple[TableName, list[TableName]]:
        """Return the table of a name; of a lake table with several sources, these as well.

        Raises:
            ChangesUnknown: the log has none.
        """
        shared = SharedTables(self.last.into)
        if isinstance(name, TableName) and not shared.is_taken(name):
            return name, []
        topics = self.log.rows("SELECT DISTINCT topic FROM t")["topic"].to_pylist()
        bulk = bulk_cuts_of(self._states(f"NOT {_ALL_COPIED}"))
        every = {*topics, *(topic for cut in bulk for topic in cut.ranges)}
        known = {table for table in map(self._names.table_of, every) if table is not None}
        try:
            found = table_by_name(name, known | set(map(shared.lake_table, known)))
        except LookupError as error:
            raise ChangesUnknown(f"the log of {self.lake} has no table {name}. {error}") from None
        return found, [] if found in known else shared.sources(found, known)

    def _events(self, table: TableName, *, needs_versions: bool = False) -> _Events:
        """Find the events of a source table; also some outside of the range.

        Args:
            needs_versions: whether all schema versions up to the end are needed, not only those of
                the events.

        Raises:
            ChangesUnknown, BadRecord: see ``Lake.changes``.
        """
        topic = self._names.data(table)
        self._check_complete(table, topic)
        # The cut that closes the last point has all changes up to it, so later cuts are not read.
        through = self._batch("min", f"lsn >= {text(self.end)}")
        since = -1
        if self.first and len(self.last.state.shards) < 2:
            since = self._batch("max", f"lsn <= {text(self.first)}")
        within = f"batch > {since} AND batch <= {through}"
        bulk = bulk_cuts_of(self._states(f"{within} AND NOT {_ALL_COPIED}"))
        refuse_bulk(bulk, table, topic, self.first or "")
        ids = self._schema_ids(topic, within)
        # If the table did not change in the range, earlier events give its columns.
        is_all = needs_versions or not ids
        every = self._schema_ids(topic, f"batch <= {through}") if is_all else ids
        every = every.union(*(cut.ranges[topic].schema_ids for cut in bulk if topic in cut.ranges))
        known = [writer_schema(i, self.log.schema_by_id(i), topic) for i in sorted(every)]
        writers = [writer for writer in known if writer.schema_id in (ids or every)]
        own = [writer for writer in writers if writer.version.table == table]
        if not own:
            raise NoChanges(
                f"the log of {self.lake} has no event of table {table} up to LSN {self.end}"
            )
        values = self._values(topic, within)
        good = self._good(values, table, topic, writers)
        progress = self.log.rows(
            f"SELECT batch, lsn, value FROM t WHERE topic = {text(self._names.progress)}"
            f" AND {within}"
        ).to_pylist()
        in_bulk = {cut.batch for cut in bulk}
        check_counts(
            (table, topic),
            [row for row in progress if row["batch"] not in in_bulk],
            values,
            good,
            writers,
            self.log.schema_by_id,
            (self.first or "", self.lake),
        )
        versions = [writer.version for writer in known if writer.version.table == table]
        return _Events(table, values.filter(good), own, versions)

    @property
    def _names(self) -> TopicNames:
        return TopicNames(self.last.prefix)

    def _check_complete(self, table: TableName, topic: str) -> None:
        oldest = self.log.rows(
            "SELECT lsn FROM t WHERE topic = '' ORDER BY batch LIMIT 1"
        ).to_pylist()
        begins = oldest[0]["lsn"] if oldest else ""
        if self.first is not None and self.first < begins:
            raise ChangesUnknown(
                f"the log starts at LSN {begins}, which is later than {self.first}: older days were"
                " deleted (sink.retention), or the lake started there"
            )
        in_range = f"lsn > {text(self.first or begins)} AND lsn <= {text(self.end)}"
        for found in self._states(f"{in_range} AND NOT {_NOTHING_LOST}"):
            if topic in found.lost:
                raise ChangesUnknown(
                    f"the log lacks changes of table {table} up to LSN {found.state.closed_lsn}:"
                    f" {found.lost[topic].reason}"
                )

    def _states(self, condition: str) -> list[LogState]:
        rows = self.log.rows(f"SELECT state FROM t WHERE topic = '' AND {condition}").to_pylist()
        return [LogState.of_json(row["state"]) for row in rows]

    def _batch(self, of: str, condition: str) -> int:
        """Find the least or greatest batch id of cuts; 0 if there is none."""
        found = self.log.rows(
            f"SELECT {of}(batch) AS batch FROM t WHERE topic = '' AND {condition}"
        )["batch"][0].as_py()
        return 0 if found is None else int(found)

    def _schema_ids(self, topic: str, condition: str) -> set[int]:
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
        return found.set_column(place, "value", found["value"].cast(pa.binary()))

    def _good(
        self, values: pa.Table, table: TableName, topic: str, writers: Sequence[WriterSchema]
    ) -> pa.Array:
        """Whether each record is a change.

        Raises:
            BadRecord: one is none, and it was not stored in the dead letters.
        """
        reasons = reasons_of(values, writers, {})
        if self.last.bad_records != BadRecords.DEAD_LETTER:
            places = zip(values["partition"].to_pylist(), values["offset"].to_pylist(), strict=True)
            for place, reason in sorted(zip(places, reasons, strict=True), key=lambda of: of[0]):
                if reason is not None:
                    raise BadRecord(str(table), (topic, *place), reason)
        return pa.array([reason is None for reason in reasons], pa.bool_())

    def _decoded(self, found: _Events, columns: LakeTable) -> pa.Table:
        """Decode the changes of a source table in the range."""
        work = Work(
            tuple(Writer(writer.schema_id, writer.avro) for writer in found.writers),
            (_target(columns, found.writers),),
            self.first,
            self.end,
        )
        rows = decode(found.values, work, str(found.table))
        rows = rows.filter(pc.not_equal(rows[OPERATION], "r"))
        images = {image: _struct(rows, image, columns) for image in _IMAGES}
        own = (OPERATION, LSN, COMMIT_TIME, CHANGED, POSITION)
        return pa.table({**images, **{name: rows[name] for name in own}})


def _with_origin(changes: pa.Table, source: TableName) -> pa.Table:
    values = origin_values(source)
    origin = {
        name: pa.repeat(pa.scalar(values[id_]), changes.num_rows) for name, id_ in ORIGIN.items()
    }
    return pa.table({**origin, **{name: changes[name] for name in changes.column_names}})


def no_log(lake: str) -> ChangesUnknown:
    """Create the error of a lake without a log."""
    return ChangesUnknown(f"{lake} has no log: no sink of this release has written to it yet")


def _target(columns: LakeTable, writers: Sequence[WriterSchema]) -> Target:
    """Describe both images of a change as columns, with their presence."""
    by_writer = {
        writer.schema_id: fields_of(columns, in_terms_of(columns, writer).version)
        for writer in writers
    }
    found: list[Column] = []
    for image in _IMAGES:
        found.append(Column(image, image, "BOOLEAN", image=image, is_presence=True))
        for place, column in enumerate(_mirrored(columns)):
            fields = {
                schema_id: of[column.column_id]
                for schema_id, of in by_writer.items()
                if column.column_id in of
            }
            name = f"{image}.{place}"
            found.append(Column(name, name, column.type, fields=fields, image=image))
    own = (Column(name, name, type_) for name, (type_, _) in CHANGES_COLUMNS.items())
    return Target("", (*found, *own), 0)


def _mirrored(columns: LakeTable) -> list[LakeColumn]:
    return [column for column in columns.columns if not column.is_origin]


def _struct(rows: pa.Table, image: str, columns: LakeTable) -> pa.StructArray:
    """Combine the columns of an image; NULL where a change has none."""
    fields = [pa.field(column.name, lake_type(column.type)) for column in _mirrored(columns)]
    arrays = [rows[f"{image}.{place}"].combine_chunks() for place in range(len(fields))]
    is_missing = pc.invert(rows[image].combine_chunks())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=is_missing)


def _lsn_of(log: DeltaLog, point: str | datetime) -> str:
    """Find the newest closed LSN at or before a point."""
    if isinstance(point, str):
        return str(Lsn.parse(point))
    found = log.rows(
        f"SELECT max(lsn) AS lsn FROM t WHERE topic = '' AND {_COMMIT_MS} <= {milliseconds(point)}"
    )["lsn"][0].as_py()
    if found is None:
        raise ChangesUnknown(f"the lake's log has no cut at or before {point}")
    return str(found)
