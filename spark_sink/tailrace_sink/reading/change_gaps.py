"""Comparison of the log with the publisher's counts of a topic, cut by cut."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.framing import FRAME_BYTES, frame_header
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_sink.fold.ledger import position_hashes
from tailrace_sink.plan.progress_record import SchemaById
from tailrace_sink.rows.bad_records import REASON
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import literal

_WORD: Final = 1 << 64
_READER: Final = json.dumps(PROGRESS_SCHEMA)
_AS_COUNTED: Final = (
    "found.changes = counted.changes AND found.hashes = counted.hashes",
    "found.good = counted.changes AND found.good_hashes = counted.hashes",
    # Records of the publisher, some of which cannot be decoded any more.
    "found.good < found.changes AND found.changes = counted.changes",
)
"""Ways in which a cut may agree with the publisher's counts, as in the fold (``ledger``)."""


def counted_by_publisher(
    progress: DataFrame, topic: str, schema_ids: Iterable[int], schema_by_id: SchemaById
) -> DataFrame:
    """Read the publisher's counts: batch, partition, lsn, closed_lsn, changes, hashes.

    Args:
        progress: the log's rows of the progress topic.
        topic: the topic of the changes.
        schema_ids: of the writer schemas of ``progress``; at least one.
    """
    record: Column | None = None
    for schema_id in schema_ids:
        is_its = F.expr(f"substring(value, 1, {FRAME_BYTES}) = X'{frame_header(schema_id).hex()}'")
        body = F.expr(f"substring(value, {FRAME_BYTES + 1})")
        decoded = from_avro(body, json.dumps(schema_by_id(schema_id)), {"avroSchema": _READER})
        record = F.when(is_its, decoded) if record is None else record.when(is_its, decoded)
    if record is None:
        raise ValueError("no writer schema of progress records")
    of_topic = f"filter(record.partitions, part -> part.topic = {literal(topic)})"
    of_cuts = (
        progress.select("batch", "lsn", record.alias("record"))
        .groupBy("batch")
        # A record within a transaction repeats the LSN before, so the greatest of the cut counts.
        .agg(
            F.expr("max(lsn) AS lsn"),
            F.expr("max(record.through_lsn) AS closed_lsn"),
            F.expr(f"flatten(collect_list({of_topic})) AS parts"),
        )
    )
    return (
        of_cuts.selectExpr("batch", "lsn", "closed_lsn", "explode(parts) AS part")
        .groupBy("batch", "lsn", "closed_lsn", F.expr("part.partition AS partition"))
        .agg(
            F.expr("sum(part.count) AS changes"),
            F.expr(_sum_of("part.position_hash", "hashes")),
        )
    )


def first_gap(counted: DataFrame, judged: DataFrame, writers: Iterable[WriterSchema]) -> Row | None:
    """Find the first cut whose changes differ from the publisher's counts; None if all agree.

    Args:
        counted: the result of :func:`counted_by_publisher`.
        judged: the log's rows of the topic, with the reason of each bad one.
        writers: all writer schemas of the topic.

    Returns:
        ``first`` (lsn, changes, found) and ``last_lsn``, the LSN of the last such cut.
    """
    found = (
        position_hashes(judged, writers, "batch", "partition", REASON)
        .groupBy("batch", "partition")
        .agg(
            F.expr("count(*) AS changes"),
            F.expr(_sum_of("hash", "hashes")),
            F.expr(f"count_if({REASON} IS NULL) AS good"),
            F.expr(_sum_of(f"CASE WHEN {REASON} IS NULL THEN hash END", "good_hashes")),
        )
    )
    is_right = " OR ".join(f"coalesce({way}, false)" for way in _AS_COUNTED)
    none_expected = "counted.changes = 0 AND found.changes IS NULL"
    row = (
        counted.alias("counted")
        .join(found.alias("found"), ["batch", "partition"], "left")
        .where(f"NOT ({is_right} OR ({none_expected}))")
        .selectExpr(
            "min_by(struct(counted.lsn AS lsn, counted.changes AS changes,"
            " coalesce(found.changes, 0) AS found), batch) AS first",
            "max(counted.lsn) AS last_lsn",
        )
        .first()
    )
    return None if row is None or row["first"] is None else row


def _sum_of(value: str, name: str) -> str:
    """Expression of a sum of hashes modulo 2**64, as in the ledger."""
    total = f"coalesce(sum(CAST({value} AS DECIMAL(38, 0))), 0)"
    return f"pmod({total}, {_WORD}) AS {name}"
