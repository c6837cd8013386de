"""What a topic holds against what the ledger says that was written.

Progress records tell for each partition how many changes a Kafka transaction put there, and the sum
of the hashes of their positions. Both are counted before anything is written: Kafka's consumer
passes over removed records without a word, and a count alone does not tell one record from another.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.envelope import position_of, position_only
from tailrace_schemas.events.framing import FRAME_BYTES, frame_header
from tailrace_schemas.records.progress import position_hash, signed
from tailrace_sink.errors import BadRecord, LedgerMismatch
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.rows.decode import POSITION_SQL, WriterSchema

_NONE = Counted()


def counted_in(values: pa.Table, writers: Iterable[WriterSchema]) -> dict[int, Counted]:
    """Count messages that are in memory.

    Args:
        values: partition and value of each; no tombstones.
        writers: all writer schemas that the ledger names. A message of another one, or one that
            cannot be decoded, is counted without a position.

    Returns:
        What is there, by partition.
    """
    by_header = {frame_header(writer.schema_id): _parsed(writer.avro) for writer in writers}
    counts: dict[int, int] = {}
    hashes: dict[int, int] = {}
    partitions = values["partition"].to_pylist()
    for partition, value in zip(partitions, values["value"].to_pylist(), strict=True):
        counts[partition] = counts.get(partition, 0) + 1
        hashes[partition] = hashes.get(partition, 0) + _hash_of(value, by_header)
    return {partition: Counted(n, signed(hashes[partition])) for partition, n in counts.items()}


def counted_by_spark(values: DataFrame, writers: Iterable[WriterSchema]) -> dict[int, Counted]:
    """The same for messages in a DataFrame."""
    rows = (
        position_hashes(values, writers, "partition")
        .groupBy("partition")
        .agg(F.expr("count(*) AS changes"), F.expr("coalesce(sum(hash), 0) AS hashes"))
        .collect()
    )
    return {row["partition"]: Counted(row["changes"], signed(row["hashes"])) for row in rows}


def position_hashes(values: DataFrame, writers: Iterable[WriterSchema], *columns: str) -> DataFrame:
    """Some columns of messages, and ``hash``: of the position, NULL where it cannot be decoded."""
    event: Column | None = None
    for writer in writers:
        options = {"avroSchema": _position_only(writer.avro), "mode": "PERMISSIVE"}
        decoded = from_avro(F.expr(f"substring(value, {FRAME_BYTES + 1})"), writer.avro, options)
        is_its = F.expr(f"substring(value, 1, {FRAME_BYTES}) = {writer.header}")
        event = F.when(is_its, decoded) if event is None else event.when(is_its, decoded)
    if event is None:
        raise ValueError("no writer schema")
    return (
        values.select(*columns, event.alias("event"))
        .selectExpr(*columns, "event.source AS source")
        .selectExpr(
            *columns,
            f"CASE WHEN source.commit_lsn IS NOT NULL THEN crc32({POSITION_SQL}) END AS hash",
        )
    )


def difference(
    table: str, ranges: TopicRange, found: Mapping[int, Counted]
) -> LedgerMismatch | None:
    """The error of a topic that does not hold what the ledger says, or None.

    Args:
        table: for the message.
        ranges: what was read, with the ledger's sums.
        found: what was there.
    """
    ledger = ranges.ledger
    if ranges.ledger_total.count != ranges.count:
        # An earlier release remembered the waiting part of a snapshot without its sums.
        count = sum(of.count for of in found.values())
        if count != ranges.count:
            return LedgerMismatch(table, ranges.topic, None, (ranges.count, None), (count, None))
        return None
    for partition in sorted({*ledger, *found}):
        expected, there = ledger.get(partition, _NONE), found.get(partition, _NONE)
        if expected != there:
            return LedgerMismatch(
                table,
                ranges.topic,
                partition,
                (expected.count, expected.position_hash),
                (there.count, there.position_hash),
            )
    return None


def rest_of(source: TableBatch, values: DataFrame, bad: BadRecord) -> DataFrame:
    """What is left of a table's events when the bad records are put aside.

    Args:
        source: one table's part of a batch.
        values: its events.
        bad: the first bad record.

    Raises:
        LedgerMismatch: something else is wrong, too.
        BadRecord: nothing is left of a whole table.
    """
    if not source.writers and source.topic_range.is_whole:
        raise bad
    good = source.screen.good(values)
    if source.all_writers:
        everything, rest = (counted_by_spark(frame, source.all_writers) for frame in (values, good))
        differs = _difference_without(str(source.table), source.topic_range, everything, rest)
        if differs is not None:
            raise differs
    return good


def _difference_without(
    table: str,
    ranges: TopicRange,
    everything: Mapping[int, Counted],
    good: Mapping[int, Counted],
) -> LedgerMismatch | None:
    """The error of a topic whose bad records are left out, or None.

    A partition is as the ledger says when the good records are: the bad ones are somebody else's.
    Or when all of them are as many: the bad ones are the publisher's own, whose positions nobody
    can tell any more.

    Args:
        table: for the message.
        ranges: what was read, with the ledger's sums.
        everything: what was there.
        good: what is left without the bad records.
    """
    judged = dict(everything)
    for partition, found in everything.items():
        expected = ranges.ledger.get(partition, _NONE)
        rest = good.get(partition, _NONE)
        if rest == expected or (rest.count < found.count == expected.count):
            judged[partition] = expected
    return difference(table, ranges, judged)


def _hash_of(value: bytes, parsed: Mapping[bytes, tuple[Any, Any]]) -> int:
    schemas = parsed.get(value[:FRAME_BYTES])
    if schemas is None:
        return 0
    try:
        event: Any = fastavro.schemaless_reader(io.BytesIO(value[FRAME_BYTES:]), *schemas)
        return position_hash(position_of(event).to_bytes())
    except (ValueError, EOFError, TypeError, KeyError, IndexError):
        return 0


@lru_cache(maxsize=4096)
def _parsed(avro: str) -> tuple[Any, Any]:
    """Writer and reader: what the reader does not name is skipped, not decoded."""
    writer = json.loads(avro)
    return fastavro.parse_schema(writer), fastavro.parse_schema(position_only(writer))


@lru_cache(maxsize=4096)
def _position_only(avro: str) -> str:
    return json.dumps(position_only(json.loads(avro)))
