"""What ``from_avro`` is told of a registered schema."""

import json

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.rows.writer_schema import writer_schema


def test_times_are_read_as_the_lakes_microseconds():
    """Spark 4.2 makes a TIME of ``time-micros``, and its cast to BIGINT gives seconds."""
    key = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
    opens = SchemaColumn(2, "opens", ColumnType("time", scale=6))
    schema = TableSchema(TableName("shop", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), (key, opens))
    registered = envelope_schema("p", schema)
    assert "time-micros" in json.dumps(registered)
    read = writer_schema(1, registered, "p.dbo.t")
    assert "time-micros" not in read.avro
    assert "opens" in read.avro
    assert read.version == schema
