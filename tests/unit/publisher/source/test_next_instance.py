"""Names of a rotation, and which columns were added."""

import pytest

from tailrace_publisher.source.catalog.added_columns import columns_of_add
from tailrace_publisher.source.catalog.capture_tsql import (
    CaptureOptions,
    disable_table,
    enable_table,
)
from tailrace_publisher.source.catalog.next_instance import next_name, succeeds


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
