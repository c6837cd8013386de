"""The last changes of messages in memory, decoded by columns: that needs no job of Spark.

They are what ``last_change`` finds in the rows of ``decode``. What is not decoded by columns is
left to Spark, which also reports messages that nobody can decode.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import AVAILABLE, ChangeDecoder
from tailrace_sink.columns.cursor import Undecodable
from tailrace_sink.columns.last_changes import LastChanges
from tailrace_sink.columns.spec import Work
from tailrace_sink.rows.column_targets import target_of, writers_of
from tailrace_sink.rows.last_change import available_flag
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import LakeTable


def latest_in_memory(
    values: pa.ChunkedArray,
    table: LakeTable,
    writers: Sequence[WriterSchema],
    other_writers: Sequence[WriterSchema],
) -> pa.Table | None:
    """Reduce changes to the last one of each key.

    Args:
        values: framed messages, of all partitions.
        writers: the table's schemas in these messages.
        other_writers: those of other tables in the same topic, whose messages are skipped.

    Returns:
        As ``latest_changes`` of a table with a key; None if Spark must decode them.
    """
    target = target_of(table, writers, "", {}, 0, last_only=True, keeps_deletes=True)
    try:
        decoder = ChangeDecoder(Work(writers_of(writers, other_writers), (target,)))
        decoded = decoder.decode(values.combine_chunks())
    except (NotByColumns, Undecodable):
        return None
    (schema,), (batches,) = decoder.schemas, decoded.rows
    latest = LastChanges(target, schema).reduced(pa.Table.from_batches(batches, schema))
    for number in range(len(target.large)):
        place = schema.get_field_index(AVAILABLE.format(number))
        is_there = latest.column(place).is_valid()
        latest = latest.set_column(place, available_flag(number), is_there)
    return latest
