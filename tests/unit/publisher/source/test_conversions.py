"""Which type changes keep every value."""

import pytest

from tailrace_publisher.source.catalog.conversions import changing_conversions, keeps_values
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import ColumnTransform, SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("shop", "dbo", "t")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("int", "bigint"),
        ("bigint", "int"),  # what does not fit fails the statement
        ("int", "decimal(10,0)"),
        ("decimal(10,0)", "bigint"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "numeric(9,4)"),
        ("money", "decimal(19,4)"),
        ("smallmoney", "money"),
        ("real", "float(53)"),
        ("varchar(20)", "varchar(10)"),
        ("varchar(20)", "nvarchar(max)"),
        ("text", "varchar(max)"),
        ("int", "varchar(20)"),
        ("binary(8)", "varbinary(8)"),
        ("date", "datetime2(0)"),
        ("smalldatetime", "datetime"),
        ("datetime", "datetime2(3)"),
        ("datetime2(3)", "datetime2(7)"),
        ("time(0)", "time(3)"),
    ],
)
def test_what_is_kept(was: str, now: str):
    assert keeps_values(ColumnType.parse(was), ColumnType.parse(now))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("datetime", "date"),
        ("datetime", "datetime2(7)"),
        ("datetime", "smalldatetime"),
        ("datetime2(7)", "datetime2(3)"),
        ("datetime2(7)", "datetime"),
        ("datetimeoffset(7)", "datetime2(7)"),
        ("time(7)", "time(0)"),
        ("decimal(10,2)", "decimal(10,1)"),
        ("decimal(10,2)", "int"),
        ("money", "decimal(19,2)"),
        ("decimal(19,6)", "money"),
        ("bigint", "float(53)"),
        ("float(53)", "real"),
        ("float(53)", "decimal(38,10)"),
        ("int", "bit"),
        ("nvarchar(20)", "varchar(20)"),
        ("varchar(10)", "char(10)"),
        ("char(10)", "char(20)"),
        ("varbinary(8)", "binary(10)"),
        ("uniqueidentifier", "varchar(36)"),
    ],
)
def test_what_may_change(was: str, now: str):
    assert not keeps_values(ColumnType.parse(was), ColumnType.parse(now))


def version(lsn: int, *types: str, transform: ColumnTransform | None = None) -> TableSchema:
    columns = tuple(
        SchemaColumn(number, f"c{number}", ColumnType.parse(text), transform=transform)
        for number, text in enumerate(types, 1)
    )
    return TableSchema(TABLE, "dbo_t", Lsn.from_bytes(lsn.to_bytes(10, "big")), columns)


def test_a_conversion_is_named_with_its_column_types_and_lsn():
    versions = [
        version(1, "int", "datetime"),
        version(5, "bigint", "datetime"),
        version(9, "bigint", "date"),
    ]

    (found,) = changing_conversions(versions, Lsn.ZERO)

    assert found == ("c2", "datetime", "date", versions[2].schema_lsn)


def test_a_conversion_that_was_seen_is_not_seen_again():
    versions = [version(1, "datetime"), version(9, "date")]

    assert changing_conversions(versions, versions[1].schema_lsn) == []
    assert changing_conversions(versions, versions[0].schema_lsn)
