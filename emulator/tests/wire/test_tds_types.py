"""Declared types to TYPE_INFO and back."""

import pytest

from tailrace_emulator.values.tds_types import from_wire, to_wire
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    DATE,
    DATETIME,
    FLOAT,
    INT,
    MAX,
    MONEY,
    REAL,
    SMALLDATETIME,
    SMALLINT,
    SMALLMONEY,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    decimal_type,
    nvarchar,
    varbinary,
    varchar,
)
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types import PLP, DataType, TypeInfo, decode_type_info, encode_type_info

SAME_BOTH_WAYS = [
    *(BIT, TINYINT, SMALLINT, INT, BIGINT, FLOAT, REAL, MONEY, SMALLMONEY),
    *(DATE, DATETIME, SMALLDATETIME, UNIQUEIDENTIFIER, SYSNAME),
    *(decimal_type(precision, 2) for precision in (2, 9, 10, 19, 20, 28, 29, 38)),
    SqlType("numeric", precision=4, scale=2),
    *(SqlType(n, scale=s) for n in ("time", "datetime2", "datetimeoffset") for s in range(8)),
    *(nvarchar(n) for n in (1, 4000, MAX)),
    *(varchar(n) for n in (1, 8000, MAX)),
    *(varbinary(n) for n in (1, 8000, MAX)),
    SqlType("binary", length=10),
    SqlType("char", length=3, collation=SYSNAME.collation),
    SqlType("nchar", length=3, collation=SYSNAME.collation),
    SqlType("xml", collation=SYSNAME.collation),
]


@pytest.mark.parametrize("sql_type", SAME_BOTH_WAYS, ids=str)
def test_both_ways(sql_type):
    info = to_wire(sql_type)
    assert from_wire(info) == sql_type
    assert decode_type_info(Reader(encode_type_info(info))) == info


def test_lengths_are_bytes_on_the_wire():
    assert to_wire(nvarchar(10)).length == 20
    assert to_wire(varchar(10)).length == 10
    assert to_wire(nvarchar(MAX)).length == PLP
    assert to_wire(SqlType("timestamp")) == TypeInfo(DataType.BIGBINARY, 8)


@pytest.mark.parametrize(
    ("name", "token"),
    [("text", DataType.TEXT), ("ntext", DataType.NTEXT), ("image", DataType.IMAGE)],
)
def test_legacy_types_travel_as_what_they_are(name, token):
    assert to_wire(SqlType(name)).token is token


def test_an_empty_constant_has_length_one():
    assert to_wire(nvarchar(0)).length == 2
