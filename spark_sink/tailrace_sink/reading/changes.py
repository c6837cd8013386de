"""The changes of a table between two points, read from the lake's log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.framing import FRAME_BYTES
from tailrace_schemas.position.commit_time import milliseconds
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.options.s3_options import hadoop_address
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import decode_progress
from tailrace_sink.reading.bulk_cuts import bulk_cuts, refuse_bulk
from tailrace_sink.reading.change_gaps import counted_by_publisher, first_gap
from tailrace_sink.reading.change_table import NoChanges, changed_columns, shared_columns
from tailrace_sink.reading.cut_id import CutId, closes_again
from tailrace_sink.reading.point import lsn_or_time
from tailrace_sink.reading.shared_changes import (
    SourceEvents,
    events_of_all,
    with_origins,
)
from tailrace_sink.reading.table_by_name import table_by_name
from tailrace_sink.rows.bad_records import REASON, Screen
from tailrace_sink.rows.decode import POSITION_SQL
from tailrace_sink.rows.writer_schema import WriterSchema, fields_of, writer_schema
from tailrace_sink.tables.lake_table import (
    CHANGED,
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    LakeTable,
    literal,
    quote,
)
from tailrace_sink.tables.origins import in_shared_table

Point = str | datetime
"""A source LSN, the id of a cut, or a source commit time (UTC without a zone), also as text. An LSN
means the first cut of the log that closes it, a time the newest one at or before it."""


def changes(
    spark: SparkSession,
    lake: str,
    table: TableName | str,
    *,
    after: Point | None = None,
    up_to: Point | None = None,
) -> DataFrame:
    """Read every change of a source table in (after, up_to], as it was committed.

    Args:
        spark: a session with Delta and spark-avro.
        lake: the lake's address, as in the sink's configuration.
        table: ``"dbo.orders"``, in any case; or with the database first. A lake table with several
            sources has the changes of all.
        after: the point after which changes start; None: the start of the lake's log. The log is
            retained one day longer than the oldest kept cut (``sink.retention``).
        up_to: the last point; None: the newest cut in the log. To follow a table, pass the id of
            a cut (``Cut.id``), and the same one as ``after`` the next time.

    Returns:
        ``before`` and ``after`` are structs of the columns of the newest schema version among the
        changes. Values of an earlier type that does not fit are in a further field
        ``<column>_old_1``. ``before`` is NULL for a create, ``after`` for a delete. ``_cdc_op`` is
        c, u or d: snapshot rows are no changes. ``_cdc_changed`` has the columns in the update
        mask. ``_cdc_position`` orders the changes. ``_cdc_lsn`` and ``_cdc_commit_time`` are those
        of the commit. The result does not change while the sink runs.

    Raises:
        ChangesUnknown: the log has no such table (lists near names), starts after ``after``, has no
            event of the table, or lacks changes.
            Kafka lost these, the configuration excluded them, or they differ from the publisher's
            counts.
        BadRecord: a record cannot be decoded and was not stored in the dead letters.
    """
    lake = hadoop_address(lake).rstrip("/")
    log = LogTable.of_lake(spark, f"{lake}/_tailrace/log")
    last = None if log is None else log.last()
    if log is None or last is None:
        raise ChangesUnknown.no_log(lake)
    names = TopicNames(last.prefix)
    rows = log.rows()
    newest = CutId(last.state.closed_lsn, last.state.batch)
    points = _Points(lake, rows, names, newest, SchemaStore.of_lake(spark, lake))
    first = None if after is None else points.find(after)
    end = newest if up_to is None else min(points.find(up_to), newest, key=lambda cut: cut.order)
    shared = SharedTables(last.into)
    table, sources = _named(table, rows, names, lake, shared)
    found = _Log(spark, lake, rows, names, last, first, end)
    if not sources:
        events = found.events(table)
        return found.decoded(events, changed_columns([writer.version for writer in events.writers]))
    parts = events_of_all(sources, partial(found.events, needs_versions=True))
    columns = shared_columns(table, (version for part in parts for version in part.versions))
    return with_origins(parts, partial(found.decoded, columns=columns))


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of a lake, read in (first, end]."""

    spark: SparkSession
    lake: str
    rows: DataFrame
    names: TopicNames
    last: LogState
    first: CutId | None
    end: CutId

    def events(self, table: TableName, *, needs_versions: bool = False) -> SourceEvents:
        """Find the events of a source table; also some outside of the range.

        Args:
            needs_versions: whether all schema versions up to the end are needed, not only those of
                the events.

        Raises:
            ChangesUnknown, BadRecord: see :func:`changes`.
        """
        rows, names, first, end = self.rows, self.names, self.first, self.end
        states = rows.where("topic = ''")
        topic = names.data(table)
        _check_complete(self.lake, states, table, topic, first, end)
        through = end.batch
        events = rows.where(f"topic = {literal(topic)} AND batch <= {through}")
        since = -1
        if first is not None:
            since = _batch(states, "max", first.has())
        values = events.where(f"batch > {since}")
        bulk = bulk_cuts(states.where(f"batch > {since} AND batch <= {through}"))
        refuse_bulk(bulk, table, topic, first)
        schemas = SchemaStore.of_lake(self.spark, self.lake)
        # If the table did not change in the range, earlier events give its columns.
        ids = _schema_ids(values)
        every = _schema_ids(events) if needs_versions or not ids else ids
        every = every.union(*(cut.ranges[topic].schema_ids for cut in bulk if topic in cut.ranges))
        known = [writer_schema(i, schemas.schema_by_id(i), topic) for i in sorted(every)]
        found = [writer for writer in known if writer.schema_id in (ids or every)]
        own = [writer for writer in found if writer.version.table == table]
        if not own:
            raise NoChanges(
                f"the log of {self.lake} has no event of table {table} up to LSN {end.lsn}"
            )
        other = tuple(writer for writer in found if writer.version.table != table)
        screen = Screen(table, topic, tuple(own), other)
        if self.last.bad_records == BadRecords.DEAD_LETTER:
            judged = screen.judged(values)
            values = judged.where(f"{REASON} IS NULL").drop(REASON)
        else:
            if (bad := screen.first(values)) is not None:
                raise bad
            judged = values.withColumn(REASON, F.lit(None))
        progress = rows.where(
            f"topic = {literal(names.progress)} AND batch > {since} AND batch <= {through}"
        ).where(~F.col("batch").isin([cut.batch for cut in bulk]))
        _check_counts(table, topic, progress, judged, found, schemas, first)
        versions = tuple(w.version for w in known if w.version.table == table)
        return SourceEvents(table, values, tuple(own), versions)

    def decoded(self, events: SourceEvents, columns: LakeTable) -> DataFrame:
        """Decode the changes of a source table in the range."""
        parts = (_decoded(events.values, writer, columns) for writer in events.writers)
        decoded = reduce(DataFrame.unionByName, parts)
        decoded = decoded.where(f"{OPERATION} <> 'r' AND {self.end.has(LSN)}")
        if self.first is not None:
            decoded = decoded.where(f"NOT {self.first.has(LSN)}")
        return decoded.drop("batch")


@dataclass(frozen=True, slots=True)
class _Points:
    """Finds the cuts of a log that points mean."""

    lake: str
    rows: DataFrame
    names: TopicNames
    newest: CutId
    schemas: SchemaStore

    def find(self, point: Point) -> CutId:
        """Return the cut of a point."""
        found, states = lsn_or_time(point), self.rows.where("topic = ''")
        if not isinstance(found, str):
            time = "CAST(get_json_object(state, '$.state.through_commit_ms') AS BIGINT)"
            reached = states.where(f"{time} <= {milliseconds(found)}")
            row = reached.selectExpr("max_by(lsn, batch)", "max(batch)").first()
            if row is None or row[1] is None:
                raise ChangesUnknown.no_cut(self.lake, point)
            return CutId(*row)
        cut = CutId.parse(found)
        if cut.batch is not None:
            return cut
        closes = states.where(f"lsn >= {literal(found)}")
        row = closes.selectExpr("min_by(lsn, batch)", "min(batch)").first()
        if row is None or row[1] is None:
            return CutId(found, self.newest.batch)
        if row[0] == found:
            self._require_first(CutId(*row))
        return CutId(found, row[1])

    def _require_first(self, cut: CutId) -> None:
        """Refuse an LSN if the log no longer has the first cut that closed it."""
        if _batch(self.rows.where("topic = ''"), "min", "true") != cut.batch:
            return
        records = self.rows.where(
            f"topic = {literal(self.names.progress)} AND batch = {cut.batch}"
        ).select("value")
        values = (bytes(row["value"]) for row in records.collect())
        if closes_again(cut, (decode_progress(of, self.schemas.schema_by_id) for of in values)):
            raise ChangesUnknown.starts_later(self.lake, str(cut), cut.lsn)


def _named(
    name: TableName | str,
    rows: DataFrame,
    names: TopicNames,
    lake: str,
    shared: SharedTables,
) -> tuple[TableName, list[TableName]]:
    """Return the table of a name; of a lake table with several sources, these as well."""
    if isinstance(name, TableName) and name.in_database not in shared.rules.values():
        return name, []
    topics = {row["topic"] for row in rows.select("topic").distinct().collect()}
    topics |= {topic for cut in bulk_cuts(rows.where("topic = ''")) for topic in cut.ranges}
    known = {table for table in map(names.table_of, topics) if table is not None}
    try:
        found = table_by_name(name, known | set(map(shared.lake_table, known)))
        return found, [] if found in known else shared.sources(found, known)
    except LookupError as error:
        raise ChangesUnknown(f"the log of {lake} has no table {name}. {error}") from None


def _schema_ids(events: DataFrame) -> set[int]:
    ids = {row["schema_id"] for row in events.select("schema_id").distinct().collect()}
    return ids - {None}


def _batch(states: DataFrame, of: str, condition: str) -> int:
    """Find the least or greatest batch id of cuts; 0 if there is none."""
    row = states.where(condition).selectExpr(f"{of}(batch) AS batch").first()
    return 0 if row is None or row["batch"] is None else int(row["batch"])


def _check_complete(
    lake: str, states: DataFrame, table: TableName, topic: str, first: CutId | None, end: CutId
) -> None:
    oldest = states.selectExpr("min_by(lsn, batch)", "min(batch)").first()
    begins = CutId("", -1) if oldest is None else CutId(*oldest)
    if first is not None and first.order < begins.order:
        raise ChangesUnknown.starts_later(lake, str(begins), str(first))
    in_range = states.where(f"NOT {(first or begins).has()} AND batch <= {end.batch}")
    lossy = in_range.where("get_json_object(state, '$.lost') <> '{}'")
    for row in lossy.selectExpr("lsn", "get_json_object(state, '$.lost') AS lost").collect():
        reason = json.loads(row["lost"]).get(topic)
        if reason is not None:
            raise ChangesUnknown.lost(table, row["lsn"], reason)


def _check_counts(
    table: TableName,
    topic: str,
    progress: DataFrame,
    judged: DataFrame,
    writers: list[WriterSchema],
    schemas: SchemaStore,
    first: CutId | None,
) -> None:
    """Compare the log with the publisher's counts.

    Raises:
        ChangesUnknown: the log lacks changes, or has others.
    """
    ids = [row["schema_id"] for row in progress.select("schema_id").distinct().collect()]
    if not ids:
        return
    counted = counted_by_publisher(progress, topic, ids, schemas.schema_by_id)
    if first is not None:
        counted = counted.where(f"NOT {first.has('closed_lsn')}")
    gap = first_gap(counted, judged, writers)
    if gap is None:
        return
    lsn, expected, there = gap["first"]
    held = f"{there} changes of table {table} where the publisher counted {expected}"
    if there == expected:
        held = f"other changes of table {table} than the publisher counted"
    raise ChangesUnknown(
        f"the log has {held}, in the cut at LSN {lsn}: records of topic {topic} were removed"
        " (compaction or retention) or written by somebody else before the sink read them."
        f" Fix: read the changes after LSN {gap['last_lsn']}, where the last such cut ends, and the"
        " table at that LSN with read(spark, lake).as_of(lsn=...)"
    )


def _decoded(values: DataFrame, writer: WriterSchema, columns: LakeTable) -> DataFrame:
    of_it = values.where(f"substring(value, 1, {FRAME_BYTES}) = {writer.header}")
    body = F.expr(f"substring(value, {FRAME_BYTES + 1})")
    decoded = from_avro(body, writer.avro, {"mode": "FAILFAST"})
    event = of_it.select(decoded.alias("event"), "batch")
    return event.selectExpr(
        _image("before", writer.version, columns),
        _image("after", writer.version, columns),
        f"event.op AS {OPERATION}",
        f"event.source.commit_lsn AS {LSN}",
        f"timestamp_millis(event.source.ts_ms) AS {COMMIT_TIME}",
        f"event.source.changed AS {CHANGED}",
        f"{POSITION_SQL.replace('source.', 'event.source.')} AS {POSITION}",
        "batch",
    )


def _image(side: str, version: TableSchema, columns: LakeTable) -> str:
    if columns.is_shared:
        version = in_shared_table(version, columns.table)
    fields = fields_of(columns, version)
    parts = []
    for column in columns.columns:
        if column.is_origin:
            continue
        field = fields.get(column.column_id)
        value = "NULL" if field is None else f"event.{side}.{quote(field)}"
        parts.append(f"{literal(column.name)}, CAST({value} AS {column.type})")
    return f"CASE WHEN event.{side} IS NOT NULL THEN named_struct({', '.join(parts)}) END AS {side}"
