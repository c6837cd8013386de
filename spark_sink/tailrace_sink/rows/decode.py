"""Decoding of framed Avro messages to rows of a lake table, by writer schema id.

Each message is decoded with its writer schema, and its columns are matched to the lake's by column
id. So renames, exchanged names, widened types and missing columns need no Avro aliases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.envelope import TableSchema, nested_only
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_sink.rows.writer_schema import WriterSchema, fields_of
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
from tailrace_sink.tables.origins import in_shared_table, origin_values

_FIELDS: Final = frozenset({"before", "after", "op", "source"})
_OF_SOURCE: Final = frozenset(
    {
        *("commit_lsn", "command_id", "change_lsn", "operation"),
        *("ts_ms", "changed", "unavailable"),
    }
)
"""Fields of ``source`` that rows need; the others are skipped without decoding."""
UNAVAILABLE = "_cdc_unavailable"
"""Column with the names of columns whose value the change table did not hold; never stored."""

POSITION_SQL = (
    "unhex(concat("
    "replace(coalesce(source.commit_lsn, '00000000:00000000:0000'), ':', ''),"
    " lpad(hex(coalesce(source.command_id, 0)), 8, '0'),"
    " replace(coalesce(source.change_lsn, '00000000:00000000:0000'), ':', ''),"
    " lpad(hex(coalesce(source.operation, 0)), 2, '0')))"
)
"""``ChangePosition.to_bytes`` over the fields of an envelope's source. Snapshot rows have no
command id, seqval or operation: their position is (fence, 0, zero, READ)."""


def change_rows(
    values: DataFrame,
    table: LakeTable,
    writers: Sequence[WriterSchema],
    other_writers: Iterable[WriterSchema] = (),
) -> DataFrame:
    """Decode messages into changes of one lake table.

    Args:
        values: framed messages in column ``value``, without tombstones.
        writers: the table's writer schemas in these messages.
        other_writers: those of other tables in the same topic, whose messages are skipped.

    Returns:
        The table's columns, ``_cdc_*`` columns, ``_cdc_changed`` and ``_cdc_unavailable``. A
        message of any other schema fails the read.
    """
    known = ", ".join(writer.header for writer in [*writers, *other_writers])
    checked = values.where(
        f"CASE WHEN substring(value, 1, 5) IN ({known}) THEN true ELSE"
        " CAST(raise_error(concat('message with a schema id that the ledger does not name: ',"
        " hex(substring(value, 1, 5)))) AS BOOLEAN) END"
    )
    parts = [_decoded(checked, table, writer) for writer in writers]
    return reduce(DataFrame.unionByName, parts)


def _decoded(values: DataFrame, table: LakeTable, writer: WriterSchema) -> DataFrame:
    body = F.expr("substring(value, 6)")
    options = {"mode": "FAILFAST", "avroSchema": _rows_only(writer.avro)}
    envelope = values.where(f"substring(value, 1, 5) = {writer.header}").select(
        from_avro(body, writer.avro, options).alias("envelope")
    )
    image = envelope.selectExpr(
        "coalesce(envelope.after, envelope.before) AS image",
        "envelope.source AS source",
        "envelope.op AS op",
    )
    return image.selectExpr(*column_expressions(table, writer.version))


@lru_cache(maxsize=4096)
def _rows_only(avro: str) -> str:
    """Reduce an envelope's schema to the fields that rows need."""
    return json.dumps(nested_only(json.loads(avro), _FIELDS, _OF_SOURCE))


def column_expressions(table: LakeTable, version: TableSchema) -> list[str]:
    """SQL expressions over image, source and op for the columns of the lake table."""
    origin = origin_values(version.table)
    if table.is_shared:
        version = in_shared_table(version, table.table)
    fields = fields_of(table, version)
    rows = []
    for column in table.columns:
        if column.is_origin:
            rows.append(f"{literal(origin[column.column_id])} AS {quote(column.name)}")
            continue
        field = fields.get(column.column_id)
        value = f"image.{quote(field)}" if field is not None else "NULL"
        if field is not None and column.is_large:
            # It may be a placeholder for a value that the change table does not hold.
            is_not_held = f"coalesce(array_contains(source.unavailable, {literal(field)}), false)"
            value = f"CASE WHEN NOT {is_not_held} THEN {value} END"
        rows.append(f"CAST({value} AS {column.type}) AS {quote(column.name)}")
    return [
        *rows,
        f"{POSITION_SQL} AS {POSITION}",
        f"source.commit_lsn AS {LSN}",
        f"op AS {OPERATION}",
        f"timestamp_millis(source.ts_ms) AS {COMMIT_TIME}",
        f"source.changed AS {CHANGED}",
        f"{_by_lake_name(table, version)} AS {UNAVAILABLE}",
    ]


def _by_lake_name(table: LakeTable, version: TableSchema) -> str:
    """``source.unavailable``, which names fields of the images, with the lake's names."""
    large = [column for column in version.columns if column.type.is_large]
    holders = [(avro_name(column.name), table.holder_of(column)) for column in large]
    renamed = [
        (name, holder.name)
        for name, holder in holders
        if holder is not None and holder.name != name
    ]
    if not renamed:
        return "source.unavailable"
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in renamed)
    return f"transform(source.unavailable, name -> CASE name {cases} ELSE name END)"
