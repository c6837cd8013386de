"""Checks of event keys without decoding the events: keys are a fraction of their bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.envelope import key_schema
from tailrace_schemas.events.framing import FRAME_BYTES
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_sink.rows.decode import WriterSchema
from tailrace_sink.tables.key_bounds import KeyBound, extremes_by_spark
from tailrace_sink.tables.lake_table import LakeTable, quote

_BODY = f"substring(key, {FRAME_BYTES + 1})"


def repeats_keys(
    values: DataFrame, writers: Sequence[WriterSchema], table: LakeTable, changes: DataFrame
) -> bool:
    """Whether two changes may have the same key; by hash, so that only numbers are grouped.

    Args:
        changes: the decoded messages, for use if the messages have no comparable keys.
    """
    hashed = F.xxhash64(*(quote(name) for name in table.key))
    if _has_keys(values, writers):
        # In one schema version the same key has the same bytes, so nothing must be decoded.
        changes, hashed = values, F.xxhash64(F.expr(_BODY))
    twins = changes.groupBy(hashed.alias("hash")).count().where("count > 1").limit(1)
    return bool(twins.collect())


def key_extremes(
    values: DataFrame, writers: Sequence[WriterSchema], table: LakeTable
) -> list[KeyBound]:
    """Compute the bounds of each key column; empty if the messages have no comparable keys."""
    if not _has_keys(values, writers):
        return []
    (writer,) = writers
    names = {c.column_id: avro_name(c.name) for c in writer.version.key_columns}
    columns = [column for column in table.columns if column.key_ordinal]
    if {column.column_id for column in columns} != names.keys():
        return []
    schema = json.dumps(key_schema("key", writer.version))
    fields = [
        F.col(f"key.{quote(names[column.column_id])}").cast(column.type).alias(column.name)
        for column in columns
    ]
    # A key that cannot be decoded is NULL, and a column with NULLs has no bound.
    keys = values.select(from_avro(F.expr(_BODY), schema, {"mode": "PERMISSIVE"}).alias("key"))
    return extremes_by_spark(keys.select(*fields), table)


def _has_keys(values: DataFrame, writers: Sequence[WriterSchema]) -> bool:
    return "key" in values.columns and len(writers) == 1
