"""Names of a rotation, and which columns were added."""

from datetime import datetime

import pytest

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.source.catalog.added_columns import (
    Uncaptured,
    columns_of_add,
    columns_of_drop,
    uncaptured_columns,
)
from tailrace_publisher.source.catalog.capture_tsql import (
    CaptureOptions,
    disable_table,
    enable_table,
)
from tailrace_publisher.source.catalog.next_instance import next_name, succeeds
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.topics.topic_names import TableName


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("dbo_orders", [], "dbo_orders_r1"),
        ("dbo_orders_r1", ["dbo_orders_r1"], "dbo_orders_r2"),
        ("dbo_orders_r9", [], "dbo_orders_r10"),
        ("dbo_orders", ["DBO_Orders_R1"], "dbo_orders_r2"),
        ("dbo_orders_r0", [], "dbo_orders_r0_r1"),
        ("x" * 97, [], "x" * 97 + "_r1"),
    ],
)
def test_names_count_up(name, taken, expected):
    assert next_name(name, taken) == expected
    assert succeeds(expected, name)
    assert not succeeds(name, expected)


def test_a_long_name_is_cut_and_stays_recognisable():
    first = "x" * 100
    second = next_name(first, [])
    third = next_name(second, [])
    assert {len(second), len(third)} == {100}
    assert second != next_name("x" * 99 + "y", [])
    assert succeeds(second, first)
    assert succeeds(third, second)


@pytest.mark.parametrize("other", ["theirs", "dbo_orders_next", "dbo_order_r1", "dbo_orders_"])
def test_another_name_succeeds_nothing(other):
    assert not succeeds(other, "dbo_orders")


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("ALTER TABLE dbo.t ADD city nvarchar(20) NULL", ["city"]),
        ("alter table t add a decimal(10, 2), [b]]c] int DEFAULT (f(1, 2))", ["a", "b]c"]),
        ('ALTER TABLE [add] ADD "d e" int -- secret', ["d e"]),
        ("ALTER TABLE t ADD /* secret, */ a AS (secret + 1) PERSISTED", ["a"]),
        ("ALTER TABLE t ADD CONSTRAINT k CHECK (secret IN ('a', 'it''s, b'))", []),
        ("ALTER TABLE t WITH NOCHECK ADD DEFAULT (0) FOR secret, a int", ["a"]),
        ("ALTER TABLE t ALTER COLUMN secret bigint", []),
        ("ALTER TABLE t DROP COLUMN added, b", []),
    ],
)
def test_columns_are_read_from_the_statement(ddl, expected):
    assert columns_of_add(ddl) == expected


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("ALTER TABLE dbo.t DROP COLUMN city", ["city"]),
        (
            "alter table t drop column if exists [a]]b], c, constraint k, column d",
            ["a]b", "c", "d"],
        ),
        ("ALTER TABLE t DROP CONSTRAINT k WITH (ONLINE = ON, MAXDOP = 2), COLUMN a", ["a"]),
        ("ALTER TABLE t DROP k /* COLUMN a */", []),
        ("ALTER TABLE t DROP PERIOD FOR SYSTEM_TIME", []),
        ("ALTER TABLE t ALTER COLUMN a DROP MASKED", []),
        ("ALTER TABLE [drop] ADD a int", []),
    ],
)
def test_dropped_columns_are_read_from_the_statement(ddl, expected):
    assert columns_of_drop(ddl) == expected


class Ddl:
    """A connection that answers with the statements of change table 1."""

    def __init__(self, *texts):
        self.rows = [(1, text) for text in texts]

    def query(self, sql, *_):
        assert "ORDER BY ddl_lsn" in sql
        return self.rows


ADD_CITY = "ALTER TABLE t ADD city int"


@pytest.mark.parametrize(
    ("ddl", "not_captured", "expected"),
    [
        ([], {}, None),
        ([ADD_CITY], {9: "city"}, Uncaptured(("city",))),
        ([], {9: "city"}, Uncaptured((), ("city",))),  # nobody has seen that it was added
        ([], {3: "secret"}, Uncaptured((), ("secret",))),
        ([ADD_CITY], {3: "secret", 9: "city"}, Uncaptured(("city",), ("secret",))),
        (
            ["ALTER TABLE t DROP COLUMN Secret", "ALTER TABLE t ADD secret int"],
            {9: "secret"},
            Uncaptured(("secret",), ("Secret",)),
        ),
        (
            [ADD_CITY, "ALTER TABLE t DROP COLUMN city", ADD_CITY],
            {9: "city"},
            Uncaptured(("city",)),
        ),
        (["ALTER TABLE t DROP COLUMN note", ADD_CITY], {9: "city"}, Uncaptured(("city",))),
    ],
)
def test_what_was_left_out_is_no_added_column(ddl, not_captured, expected):
    def column(number, name):
        int_ = ColumnType("int")
        return CapturedColumn(number, name, number, int_, True, is_computed=False, in_source=True)

    instance = CaptureInstance(
        "dbo_t",
        TableName("db", "dbo", "t"),
        None,
        datetime(2013, 1, 1),  # noqa: DTZ001
        1,
        2,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=(column(1, "id"), column(4, "note")),
        key=(),
        identity=(),
        not_captured=not_captured,
    )
    found = uncaptured_columns(Ddl(*ddl), [instance])
    assert found == ({} if expected is None else {1: expected})


def test_names_are_quoted():
    options = CaptureOptions(
        "i'n", ["a]b"], "r'", "f'", index="k'", net_changes=False, partition_switch=False
    )
    assert enable_table("s'", "t", options) == (
        "EXEC sys.sp_cdc_enable_table @source_schema = N's''', @source_name = N't',"
        " @role_name = N'r''', @capture_instance = N'i''n', @supports_net_changes = 0,"
        " @index_name = N'k''', @captured_column_list = N'[a]]b]', @filegroup_name = N'f''',"
        " @allow_partition_switch = 0"
    )
    assert disable_table("s'", "t", "i'n") == (
        "EXEC sys.sp_cdc_disable_table @source_schema = N's''', @source_name = N't',"
        " @capture_instance = N'i''n'"
    )
