"""Types, names, envelope, framing and ledger arithmetic of the contract."""

from __future__ import annotations

import json
import zlib

import fastavro
import pytest

from tailrace_schemas.events.column_types import ColumnType, UnsupportedType, avro_type, lake_type
from tailrace_schemas.events.envelope import (
    SchemaColumn,
    TableSchema,
    envelope_schema,
    key_schema,
    table_schema_of,
)
from tailrace_schemas.events.framing import frame_header, split_frame
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import position_hash, signed
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tests.property.values import ALL_TYPES

TABLE = TableName("Flug Daten", "dbo", "Flüge.2013")
COLUMNS = tuple(
    SchemaColumn(i + 1, f"Spalte {i}", t, key_ordinal=0) for i, t in enumerate(ALL_TYPES)
)
SCHEMA = TableSchema(
    TABLE,
    "dbo_Flüge",
    Lsn(1, 2, 3),
    (
        SchemaColumn(90, "b", ColumnType("int"), nullable=False, key_ordinal=2),
        SchemaColumn(91, "a", ColumnType("nvarchar", length=5), nullable=True, key_ordinal=1),
        SchemaColumn(92, "exact", ColumnType("datetime2", scale=7), lossless=True),
        *COLUMNS,
    ),
)


@pytest.mark.parametrize("column_type", ALL_TYPES, ids=str)
def test_declarations_read_back(column_type: ColumnType) -> None:
    assert str(ColumnType.parse(str(column_type))) == str(column_type)
    assert avro_type(ColumnType.parse(str(column_type))) == avro_type(column_type)
    assert lake_type(ColumnType.parse(str(column_type))) == lake_type(column_type)


def test_types_without_a_form_are_named() -> None:
    for function in (avro_type, lake_type):
        with pytest.raises(UnsupportedType, match="sql_variant"):
            function(ColumnType("sql_variant"))


def test_the_version_is_rebuilt_from_its_registered_schema() -> None:
    text = json.dumps(envelope_schema("p", SCHEMA))
    rebuilt = table_schema_of(json.loads(text))
    assert (rebuilt.table, rebuilt.capture_instance) == (SCHEMA.table, SCHEMA.capture_instance)
    assert rebuilt.schema_lsn == SCHEMA.schema_lsn
    assert envelope_schema("p", rebuilt) == envelope_schema("p", SCHEMA)
    assert key_schema("p", rebuilt) == key_schema("p", SCHEMA)


def test_schemas_are_avro() -> None:
    fastavro.parse_schema(envelope_schema("p", SCHEMA))
    key = key_schema("p", SCHEMA)
    assert key is not None
    fastavro.parse_schema(key)
    assert [field["sqlName"] for field in key["fields"]] == ["a", "b"]


def test_columns_are_nullable_except_keys_that_cannot_be() -> None:
    fields = envelope_schema("p", SCHEMA)["fields"][0]["type"][1]["fields"]
    required = [field["sqlName"] for field in fields if not isinstance(field["type"], list)]
    assert required == ["b"]


def test_a_keyless_table_has_no_key_schema() -> None:
    keyless = TableSchema(TABLE, "i", Lsn(1, 1, 1), (SchemaColumn(1, "v", ColumnType("int")),))
    assert key_schema("p", keyless) is None


@pytest.mark.parametrize("record", [{}, {"fields": []}, {"fields": [{"type": "int"}]}])
def test_other_schemas_are_not_ours(record: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an envelope schema"):
        table_schema_of(record)


@pytest.mark.parametrize("prefix", ["p", "a.b", "a_b.c-d", "A1_"])
def test_a_topic_gives_its_table_back_under_any_prefix(prefix: str) -> None:
    names = TopicNames(prefix)
    table = TableName("shop.db", "dbo", "a_b.c")

    assert names.table_of(names.data(table)) == table
    for other in (
        names.offsets,
        names.progress,
        names.signals,
        names.ddl("db"),
        f"x{prefix}.a.b.c",
    ):
        assert names.table_of(other) is None


@pytest.mark.parametrize("prefix", ["", ".a", "a.", "a..b", "_a", "-a", "a b", "ä", "a\n"])
def test_bad_prefixes(prefix: str) -> None:
    with pytest.raises(ValueError, match="topic prefix"):
        TopicNames(prefix)


def test_a_topic_name_may_not_be_too_long() -> None:
    with pytest.raises(ValueError, match="choose a shorter prefix"):
        TopicNames("p").data(TableName("d" * 128, "s" * 100, "t" * 100))


def test_frames() -> None:
    assert frame_header(1) == b"\x00\x00\x00\x00\x01"
    assert split_frame(frame_header(2**32 - 1) + b"x") == (2**32 - 1, b"x")
    for raw in (b"", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x01"):
        with pytest.raises(ValueError, match=r"framed|magic"):
            split_frame(raw)
    with pytest.raises(ValueError, match="does not fit"):
        frame_header(2**32)


def test_hash_sums_wrap_to_avros_long() -> None:
    assert position_hash(b"abc") == zlib.crc32(b"abc")
    assert signed(2**63 - 1) == 2**63 - 1
    assert signed(2**63) == -(2**63)
    assert signed(2**64 + 5) == 5
