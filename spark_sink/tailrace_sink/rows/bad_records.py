"""Records of a topic that are no changes of their table, with the reason. Pure.

They are looked for only if counts differ from the ledger or a write failed. The reason comes from
the records themselves, not from an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_schemas.events.column_types import lake_type
from tailrace_schemas.events.framing import FRAME_BYTES, frame_header
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import BadRecord
from tailrace_sink.rows.writer_schema import WriterSchema

REASON: Final = "_tailrace_reason"
_OPERATIONS: Final = ("c", "u", "d", "r")


@dataclass(frozen=True, slots=True)
class Screen:
    """Filter of records that are no changes of a source table.

    Attributes:
        other_writers: writer schemas of other tables in the same topic, whose records are ignored.
        missing: id of each writer schema that could not be found, to the reason.
    """

    table: TableName
    topic: str
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...] = ()
    missing: Mapping[int, str] = field(default_factory=dict)

    def judged(self, values: DataFrame) -> DataFrame:
        """Add the column of the reason why a record is bad; NULL if it is good.

        Args:
            values: framed messages in column ``value``, without tombstones.
        """
        header = f"substring(value, 1, {FRAME_BYTES})"
        body = F.expr(f"substring(value, {FRAME_BYTES + 1})")
        none = F.lit(None).cast("string")
        # One column for each writer schema, so that an event is decoded only once.
        events = {
            _event(writer): F.when(
                F.expr(f"{header} = {writer.header}"),
                from_avro(body, writer.avro, {"mode": "PERMISSIVE"}),
            )
            for writer in self.writers
        }
        reason = F.when(F.expr("value IS NULL"), none)
        for writer in self.writers:
            reason = reason.when(F.expr(f"{header} = {writer.header}"), _judged(writer))
        for schema_id, why in sorted(self.missing.items()):
            text = (
                f"the registry does not have schema {schema_id} ({why}): it was deleted before the"
                " lake stored it"
            )
            of_it = F.expr(f"{header} = X'{frame_header(schema_id).hex()}'")
            reason = reason.when(of_it, F.lit(text))
        for writer in self.other_writers:
            reason = reason.when(F.expr(f"{header} = {writer.header}"), none)
        foreign = F.lit("it begins with no schema id that the publisher names")
        reason = reason.otherwise(foreign if self._judges_what_is_nobodys else none)
        return values.withColumns(events).withColumn(REASON, reason).drop(*events)

    def bad(self, values: DataFrame) -> DataFrame:
        """Select the bad records, with their reasons."""
        return self.judged(values).where(f"{REASON} IS NOT NULL")

    def good(self, values: DataFrame) -> DataFrame:
        """Select the good records."""
        return self.judged(values).where(f"{REASON} IS NULL").drop(REASON)

    def first(self, values: DataFrame, also: str | None = None) -> BadRecord | None:
        """Return the error of the first bad record, or None.

        Args:
            values: partition, offset and value.
            also: further text of the message.
        """
        bad = self.bad(values).orderBy("partition", "offset").limit(1)
        for row in bad.select("partition", "offset", REASON).collect():
            place = (self.topic, row["partition"], row["offset"])
            return BadRecord(str(self.table), place, row[REASON], also)
        return None

    @property
    def _judges_what_is_nobodys(self) -> bool:
        """Whether records of no table count as this one's: the first table of a topic gets them."""
        return all(self.table <= writer.version.table for writer in self.other_writers)


def _judged(writer: WriterSchema) -> Column:
    """Expression of the reason why a record with a known writer schema is bad."""
    event = F.col(_event(writer))
    op, source = event.getField("op"), event.getField("source")
    image = F.coalesce(event.getField("after"), event.getField("before"))
    no_event = F.lit(f"it cannot be decoded with its writer schema {writer.schema_id}")
    reason = F.when(op.isNull() | source.getField("commit_lsn").isNull(), no_event)
    reason = reason.when(image.isNull(), F.lit("it has no image of a row"))
    reason = reason.when(~op.isin(*_OPERATIONS), F.lit("its op is none of c, u, d, r"))
    for column in writer.version.columns:
        type_ = lake_type(column.type, lossless=column.lossless)
        value = image.getField(avro_name(column.name))
        does_not_fit = value.isNotNull() & value.try_cast(type_).isNull()
        text = f"the value of column {column.name} is no {column.type}"
        reason = reason.when(does_not_fit, F.lit(text))
    return reason


def _event(writer: WriterSchema) -> str:
    return f"_tailrace_event_{writer.schema_id}"
