"""Comparison of a topic's events with the publisher's ledger.

For each partition, progress records have the number of changes of a Kafka transaction, and the sum
of the hashes of their positions. Both are compared before anything is written. Kafka's consumer
skips removed records silently, and a count alone cannot distinguish one record from another.
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
from tailrace_sink.errors import BadRecord
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.ledger_difference import difference_without
from tailrace_sink.plan.topic_ranges import Counted
from tailrace_sink.rows.decode import POSITION_SQL
from tailrace_sink.rows.writer_schema import WriterSchema


def counted_in(values: pa.Table, writers: Iterable[WriterSchema]) -> dict[int, Counted]:
    """Count messages in memory by partition.

    Args:
        values: partition and value of each message; no tombstones.
        writers: all writer schemas that the ledger names. A message with another schema, or one
            that cannot be decoded, is counted without a position.
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
    """Count the messages of a DataFrame by partition."""
    rows = (
        position_hashes(values, writers, "partition")
        .groupBy("partition")
        .agg(F.expr("count(*) AS changes"), F.expr("coalesce(sum(hash), 0) AS hashes"))
        .collect()
    )
    return {row["partition"]: Counted(row["changes"], signed(row["hashes"])) for row in rows}


def position_hashes(values: DataFrame, writers: Iterable[WriterSchema], *columns: str) -> DataFrame:
    """Select columns of messages and ``hash``, that of the position; NULL if not decodable."""
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


def rest_of(source: TableBatch, values: DataFrame, bad: BadRecord) -> DataFrame:
    """Remove the bad records from a table's events.

    Raises:
        LedgerMismatch: the good records are not what the ledger counts.
        BadRecord: no record of a whole table is good.
    """
    if not source.writers and source.topic_range.is_whole:
        raise bad
    good = source.screen.good(values)
    if source.all_writers:
        everything, rest = (counted_by_spark(frame, source.all_writers) for frame in (values, good))
        differs = difference_without(str(source.table), source.topic_range, everything, rest)
        if differs is not None:
            raise differs
    return good


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
    """Parse the writer and the reader schema; fields outside of the reader are skipped."""
    writer = json.loads(avro)
    return fastavro.parse_schema(writer), fastavro.parse_schema(position_only(writer))


@lru_cache(maxsize=4096)
def _position_only(avro: str) -> str:
    return json.dumps(position_only(json.loads(avro)))
