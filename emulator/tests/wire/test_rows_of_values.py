"""Rows of VALUES with parameters of different types, as the ODBC driver sends them."""

import datetime
import uuid
from decimal import Decimal

import pytest

naive = datetime.datetime.fromisoformat

ROWS = [
    ("decimal(10, 4)", Decimal("15.756"), Decimal("1.5"), [Decimal("15.7560"), Decimal("1.5000")]),
    ("decimal(10, 4)", 3, Decimal("1.25"), [Decimal("3.0000"), Decimal("1.2500")]),
    (
        "datetime2(3)",
        datetime.date(2024, 2, 29),
        naive("2024-03-01T12:30"),
        [naive("2024-02-29"), naive("2024-03-01T12:30")],
    ),
    (
        "date",
        "2024-02-29",
        datetime.date(2024, 3, 1),
        [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)],
    ),
    ("varchar(20)", "7", 8, ["7", "8"]),
]


@pytest.mark.parametrize(("declared", "first", "second", "wanted"), ROWS)
@pytest.mark.parametrize("table", ["dbo.{0}", "#{0}", "@{0}"])
def test_each_is_stored_as_itself(module_emulator, declared, first, second, wanted, table):
    connection = module_emulator.connect("tempdb")
    name = table.format(f"t{uuid.uuid4().hex}")
    insert = f"INSERT {name} VALUES (?), (?)"
    if name[0] == "@":
        sql = f"SET NOCOUNT ON; DECLARE {name} TABLE (v {declared}); {insert}; SELECT v FROM {name}"
        found = connection.execute(sql, first, second).fetchall()
    else:
        connection.execute(f"CREATE TABLE {name} (v {declared})")
        connection.execute(insert, first, second)
        found = connection.execute(f"SELECT v FROM {name}").fetchall()
    assert [row[0] for row in found] == wanted
