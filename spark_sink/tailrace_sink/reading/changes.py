"""The changes of a table between two points, from the lake's log: before, after, operation."""

from __future__ import annotations

import json
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.column_types import lake_type
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.framing import FRAME_BYTES
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import SinkError
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.options.config import BadRecords
from tailrace_sink.reading.change_gaps import counted_by_publisher, first_gap
from tailrace_sink.reading.log_tail import milliseconds
from tailrace_sink.rows.bad_records import REASON, Screen
from tailrace_sink.rows.decode import POSITION_SQL, WriterSchema, writer_schema
from tailrace_sink.tables.lake_table import (
    CHANGED,
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    literal,
    quote,
)

Point = str | datetime
"""A source LSN as text, or a commit time at the source, which means the newest cut of the log at or
before it; without a zone it is UTC."""


class ChangesUnknown(SinkError):
    """The lake's log does not have all changes between two points."""


def changes(
    spark: SparkSession,
    lake: str,
    table: TableName | str,
    *,
    after: Point | None = None,
    up_to: Point | None = None,
) -> DataFrame:
    """Every change of a source table in (after, up_to], as it was committed.

    Args:
        spark: a session with Delta and spark-avro, as the sink has it.
        lake: the lake's address, as in the sink's configuration.
        table: the source table, or ``database.schema.table``.
        after: the point behind which they begin; None: where the lake's log begins. The log is kept
            a day longer than ``commit_retention_days``.
        up_to: the last point; None: the newest closed LSN in the log.

    Returns:
        ``before`` and ``after``: structs of the columns of the newest schema version among the
        changes, NULL where there is no such image (``before`` of a create, ``after`` of a delete);
        ``_cdc_op`` (c, u or d: rows that a snapshot read are no changes), ``_cdc_lsn``,
        ``_cdc_commit_time``, ``_cdc_changed`` (columns in the update mask) and ``_cdc_position``,
        which orders them. It stays what it is while the lake goes on.

    Raises:
        ChangesUnknown: the log does not reach back to ``after``, has no change of the table, or
            lacks some: Kafka had lost them, the configuration left them out, or they are not those
            that the publisher counted.
        BadRecord: one cannot be decoded, and was not put aside.
    """
    table = TableName.of(table)
    log = LogTable.of_lake(spark, f"{lake.rstrip('/')}/_tailrace/log")
    last = None if log is None else log.last()
    if log is None or last is None:
        raise ChangesUnknown(f"{lake} has no log: no sink of this release wrote to it yet")
    names = TopicNames(last.prefix)
    topic = names.data(table)
    rows = spark.read.format("delta").load(log.path)
    states = rows.where("topic = ''")
    first = None if after is None else _lsn_of(states, after)
    end = last.state.closed_lsn if up_to is None else _lsn_of(states, up_to)
    end = min(end, last.state.closed_lsn)
    _check_complete(states, table, topic, first, end)
    # The cut that closes the last point has all of them; what comes later is never looked at.
    through = _batch(states, "min", f"lsn >= {literal(end)}")
    events = rows.where(f"topic = {literal(topic)} AND batch <= {through}")
    since = -1
    if first and len(last.state.shards) < 2:
        since = _batch(states, "max", f"lsn <= {literal(first)}")
    values = events.where(f"batch > {since}")
    schemas = SchemaStore(spark, log.path, f"{lake.rstrip('/')}/_tailrace/schemas")
    # Where the table did not change, its columns are told by what came before.
    found = _writers(values, schemas, topic) or _writers(events, schemas, topic)
    own = [writer for writer in found if writer.version.table == table]
    if not own:
        raise ChangesUnknown(f"the log of {lake} has no event of table {table} up to LSN {end}")
    other = tuple(writer for writer in found if writer.version.table != table)
    screen = Screen(table, topic, tuple(own), other)
    if last.bad_records == BadRecords.DEAD_LETTER:
        judged = screen.judged(values)
        values = judged.where(f"{REASON} IS NULL").drop(REASON)
    else:
        if (bad := screen.first(values)) is not None:
            raise bad
        judged = values.withColumn(REASON, F.lit(None))
    progress = rows.where(
        f"topic = {literal(names.progress)} AND batch > {since} AND batch <= {through}"
    )
    _check_counts(table, topic, progress, judged, found, schemas, first or "")
    newest = max((writer.version for writer in own), key=lambda version: version.schema_lsn)
    decoded = reduce(DataFrame.unionByName, (_decoded(values, of, newest) for of in own))
    decoded = decoded.where(f"{OPERATION} <> 'r' AND {LSN} <= {literal(end)}")
    return decoded.where(f"{LSN} > {literal(first)}") if first else decoded


def _writers(events: DataFrame, schemas: SchemaStore, topic: str) -> list[WriterSchema]:
    ids = [row["schema_id"] for row in events.select("schema_id").distinct().collect()]
    return [writer_schema(i, schemas.schema_by_id(i), topic) for i in ids if i is not None]


def _lsn_of(states: DataFrame, point: Point) -> str:
    """The newest closed LSN at or before a point."""
    if isinstance(point, str):
        return str(Lsn.parse(point))
    reached = states.where(
        "CAST(get_json_object(state, '$.state.through_commit_ms') AS BIGINT)"
        f" <= {milliseconds(point)}"
    )
    row = reached.selectExpr("max(lsn) AS lsn").first()
    if row is None or row["lsn"] is None:
        raise ChangesUnknown(f"the lake's log has no cut at or before {point}")
    return str(row["lsn"])


def _batch(states: DataFrame, of: str, condition: str) -> int:
    """The least or greatest batch id of some cuts; 0 when there is none."""
    row = states.where(condition).selectExpr(f"{of}(batch) AS batch").first()
    return 0 if row is None or row["batch"] is None else int(row["batch"])


def _check_complete(
    states: DataFrame, table: TableName, topic: str, first: str | None, end: str
) -> None:
    oldest = states.selectExpr("min_by(lsn, batch) AS lsn").first()
    begins = "" if oldest is None else oldest["lsn"]
    if first is not None and first < begins:
        raise ChangesUnknown(
            f"the log begins at LSN {begins}, which is later than {first}: older days were removed"
            " (sink.commit_retention_days), or the lake began there"
        )
    in_range = states.where(f"lsn > {literal(first or begins)} AND lsn <= {literal(end)}")
    lossy = in_range.where("get_json_object(state, '$.lost') <> '{}'")
    for row in lossy.selectExpr("lsn", "get_json_object(state, '$.lost') AS lost").collect():
        reason = json.loads(row["lost"]).get(topic)
        if reason is not None:
            raise ChangesUnknown(
                f"the log lacks changes of table {table} up to LSN {row['lsn']}: {reason}"
            )


def _check_counts(
    table: TableName,
    topic: str,
    progress: DataFrame,
    judged: DataFrame,
    writers: list[WriterSchema],
    schemas: SchemaStore,
    first: str,
) -> None:
    """Refuse where the log lacks changes that the publisher counted.

    Raises:
        ChangesUnknown: it does.
    """
    ids = [row["schema_id"] for row in progress.select("schema_id").distinct().collect()]
    if not ids:
        return
    counted = counted_by_publisher(progress, topic, ids, schemas.schema_by_id)
    gap = first_gap(counted.where(f"closed_lsn > {literal(first)}"), judged, writers)
    if gap is None:
        return
    lsn, expected, there = gap["first"]
    held = f"{there} changes of table {table} where the publisher counted {expected}"
    if there == expected:
        held = f"other changes of table {table} than the publisher counted"
    raise ChangesUnknown(
        f"the log has {held}, in the cut at LSN {lsn}: records of topic {topic} were removed"
        " (compaction or retention) or written by somebody else before the sink read them."
        f" Fix: ask for the changes after LSN {gap['last_lsn']}, where the last such cut ends;"
        " what the table held there is in read(spark, lake).as_of(lsn=...)"
    )


def _decoded(values: DataFrame, writer: WriterSchema, newest: TableSchema) -> DataFrame:
    of_it = values.where(f"substring(value, 1, {FRAME_BYTES}) = {writer.header}")
    body = F.expr(f"substring(value, {FRAME_BYTES + 1})")
    event = of_it.select(from_avro(body, writer.avro, {"mode": "FAILFAST"}).alias("event"))
    return event.selectExpr(
        _image("before", writer.version, newest),
        _image("after", writer.version, newest),
        f"event.op AS {OPERATION}",
        f"event.source.commit_lsn AS {LSN}",
        f"timestamp_millis(event.source.ts_ms) AS {COMMIT_TIME}",
        f"event.source.changed AS {CHANGED}",
        f"{POSITION_SQL.replace('source.', 'event.source.')} AS {POSITION}",
    )


def _image(side: str, version: TableSchema, newest: TableSchema) -> str:
    fields = {column.column_id: avro_name(column.name) for column in version.columns}
    parts = []
    for column in newest.columns:
        field = fields.get(column.column_id)
        value = "NULL" if field is None else f"event.{side}.{quote(field)}"
        type_ = lake_type(column.type, lossless=column.lossless)
        parts.append(f"{literal(column.name)}, CAST({value} AS {type_})")
    return f"CASE WHEN event.{side} IS NOT NULL THEN named_struct({', '.join(parts)}) END AS {side}"
