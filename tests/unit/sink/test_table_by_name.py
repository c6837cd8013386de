"""Tables of a lake by the names that people write."""

from __future__ import annotations

import pytest

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.reading.table_by_name import table_by_name

ORDERS = TableName("Shop", "dbo", "orders")
ODD = TableName("Shop", "my.schema", "odd.name")
TABLES = {ORDERS, ODD, TableName("Shop", "dbo", "Lines"), TableName("Shop", "dbo", "lines")}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("dbo.orders", ORDERS),
        ("DBO.Orders", ORDERS),
        ("shop.dbo.orders", ORDERS),
        ("my.schema.odd.name", ODD),
        ("dbo.Lines", TableName("Shop", "dbo", "Lines")),
        (TableName("Other", "x", "y"), TableName("Other", "x", "y")),
    ],
)
def test_a_name_finds_its_table_in_any_case(name: TableName | str, table: TableName):
    assert table_by_name(name, TABLES) == table


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders", r"Near names: dbo\.orders$"),
        ("dbo.ordres", r"Near names: dbo\.orders"),
        ("dbo.LINES", "differ in case only"),
        ("x", r"Its tables: dbo\.Lines, dbo\.lines, dbo\.orders, my\.schema\.odd\.name$"),
    ],
)
def test_an_unknown_name_lists_near_ones(name: str, said: str):
    with pytest.raises(LookupError, match=said):
        table_by_name(name, TABLES)


def test_a_lake_without_tables_and_one_with_many_are_listed():
    with pytest.raises(LookupError, match="Its tables: none"):
        table_by_name("dbo.orders", [])
    with pytest.raises(LookupError, match=r"Its tables: d\.t0, .* and 4 more"):
        table_by_name("nothing like it", [TableName("D", "d", f"t{n}") for n in range(9)])
