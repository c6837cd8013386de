"""Which records of a topic are no changes of their table, and why: pure DataFrame to DataFrame.

Asked only where something is wrong: the counts differ from the ledger's, or writing failed. What is
wrong is found in the records themselves, not read off an exception.
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
from tailrace_sink.rows.decode import WriterSchema

REASON: Final = "_tailrace_reason"
_OPERATIONS: Final = ("c", "u", "d", "r")


@dataclass(frozen=True, slots=True)
class Screen:
    """Tells the records of one source table that are no changes of it.

    Attributes:
        table: the source table.
        topic: its topic.
        writers: its writer schemas.
        other_writers: those of other tables in the same topic: their records are theirs to judge.
        missing: writer schemas that the ledger names and nobody has: id to why.
    """

    table: TableName
    topic: str
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...] = ()
    missing: Mapping[int, str] = field(default_factory=dict)

    def judged(self, values: DataFrame) -> DataFrame:
        """The records with a column more: what is wrong with each, NULL where nothing is.

        Args:
            values: framed messages in column ``value``, without tombstones.
        """
        header = f"substring(value, 1, {FRAME_BYTES})"
        body = F.expr(f"substring(value, {FRAME_BYTES + 1})")
        none = F.lit(None).cast("string")
        # A column each, so that an event is decoded once however often it is looked at.
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
                " lake had it"
            )
            of_it = F.expr(f"{header} = X'{frame_header(schema_id).hex()}'")
            reason = reason.when(of_it, F.lit(text))
        for writer in self.other_writers:
            reason = reason.when(F.expr(f"{header} = {writer.header}"), none)
        foreign = F.lit("it begins with no schema id that the publisher names")
        reason = reason.otherwise(foreign if self._judges_what_is_nobodys else none)
        return values.withColumns(events).withColumn(REASON, reason).drop(*events)

    def bad(self, values: DataFrame) -> DataFrame:
        """The bad ones, with what is wrong."""
        return self.judged(values).where(f"{REASON} IS NOT NULL")

    def good(self, values: DataFrame) -> DataFrame:
        """The others."""
        return self.judged(values).where(f"{REASON} IS NULL").drop(REASON)

    def first(self, values: DataFrame, also: str | None = None) -> BadRecord | None:
        """The first bad record, or None when there is none.

        Args:
            values: partition, offset and value.
            also: what else is known, for the message.
        """
        bad = self.bad(values).orderBy("partition", "offset").limit(1)
        for row in bad.select("partition", "offset", REASON).collect():
            place = (self.topic, row["partition"], row["offset"])
            return BadRecord(str(self.table), place, row[REASON], also)
        return None

    @property
    def _judges_what_is_nobodys(self) -> bool:
        """Whether records of nobody are this table's to judge: of tables in a topic the first's."""
        return all(self.table <= writer.version.table for writer in self.other_writers)


def _judged(writer: WriterSchema) -> Column:
    """What is wrong with a record that names a writer schema."""
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
