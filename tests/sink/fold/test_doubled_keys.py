"""No key is in a mirror twice, though rows left the source table without change rows (ADR 0064)."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.fold.test_write_paths import LARGE, insert, ways
from tests.sink.stories import Stories, Story

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)
V = column(2, "v", "int")
shared = Stories(12, small={}, large=LARGE)


def switch_out(table: SourceTable, *keys: Any) -> None:
    """Take rows out of the source table; no event reports it."""
    for key in keys:
        del table.rows[(key,)]


def double(lake: Lake, condition: str) -> None:
    """Put rows of the lake table into it once more, as an earlier release did."""
    name = f"delta.`{lake.location('t')}`"
    lake.spark.sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE {condition}")


@shared
def test_a_key_created_again_after_a_switch_replaces_its_row(source: Source, lake: Lake) -> Story:
    table = source.table("again", KEY, V)
    insert(source, table, *range(0, 20, 2))
    yield
    switch_out(table, 4)
    source.commit(lambda t: t.insert(table, id=4, v=40), lambda t: t.insert(table, id=30, v=30))
    yield
    assert lake.by_key(table) == table.rows
    # Between keys that are there, but none of them: an append all the same.
    insert(source, table, 5, 31)
    yield
    assert lake.by_key(table) == table.rows
    assert ways(lake, "again") == ["WRITE", "MERGE", "WRITE"]


@shared.only("small")  # ADR 0064: in a large batch it is left to the next snapshot
def test_a_key_created_twice_in_one_batch_has_the_later_row(source: Source, lake: Lake) -> Story:
    table = source.table("twice", KEY, V)
    for first in (0, 10):  # a new table, and one with rows
        insert(source, table, *range(first, first + 3))
        switch_out(table, first)
        source.commit(lambda t, n=first: t.insert(table, id=n, v=-1))
        yield
        assert lake.by_key(table) == table.rows


@shared
def test_keys_that_differ_in_case_are_two_keys(source: Source, lake: Lake) -> Story:
    """As the publisher has it: an update of the case is a delete and a create."""
    table = source.table("codes", column(1, "code", "varchar(10)", key=1), V)
    source.commit(lambda t: t.insert(table, code="abc", v=1))
    yield
    source.commit(lambda t: t.update(table, ("abc",), code="ABC"))
    yield
    assert [row["code"] for row in lake.rows("codes")] == ["ABC"]
    switch_out(table, "ABC")
    source.commit(lambda t: t.insert(table, code="ABC", v=2))
    yield
    assert lake.by_key(table) == table.rows


@pytest.mark.slow("a snapshot in chunks, and rows that others changed")
@pytest.mark.parametrize("options", [{}, {"changes_per_batch": 5}], ids=["whole", "parts"])
def test_a_new_snapshot_leaves_one_row_of_each_key(
    source: Source, lake: Lake, options: dict[str, Any]
):
    table = source.table("t", KEY, V, column(3, "body", "nvarchar(max)"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n, body="b" * n) for n in range(12)))
    source.publish()
    lake.catch_up(**options)
    double(lake, "id < 6")
    lake.spark.sql(f"ALTER TABLE delta.`{lake.location('t')}` ADD COLUMNS (note STRING)")
    lake.spark.sql(f"UPDATE delta.`{lake.location('t')}` SET note = concat('n', id)")
    switch_out(table, 0, 11)
    source.publish(source.commit(), snapshotting=[table])
    # Chunks leave out what changes while they are read: 3 comes by its update, without the body.
    chunks = [[n for n in some if n != 3] for some in (range(1, 7), range(7, 11))]
    for keys in chunks:
        fence = source.snapshot(table, [dict(table.rows[(n,)]) for n in keys])
        source.publish(fence, snapshotting=[table])
    source.commit(lambda t: t.update(table, (3,), v=33))
    source.publish()
    lake.catch_up(**options)
    there = [row for row in lake.raw("t") if row["_cdc_op"] != "d"]
    assert sorted(row["id"] for row in there) == list(range(1, 11))
    assert {row["id"]: (row["v"], row["body"]) for row in there} == {
        n: (33 if n == 3 else n, "b" * n) for n in range(1, 11)
    }
    assert {row["note"] for row in there} == {f"n{n}" for n in range(1, 11)}


@pytest.mark.slow("a lake and two snapshots")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="whole"),
        pytest.param(
            {"changes_per_batch": 1},
            id="parts",
            marks=pytest.mark.nightly(
                "test_snapshot_parts.py has an idle database's snapshot in parts"
            ),
        ),
    ],
)
def test_a_new_snapshot_of_an_idle_database_replaces_values(
    source: Source, lake: Lake, options: dict[str, Any]
):
    """What the source changed without change rows is read at the LSN of the last change."""
    table = source.table("t", KEY, V)
    lsn = source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(3)))
    source.publish()
    lake.catch_up(**options)
    source.publish(lsn, snapshotting=[table])
    table.rows = {(n,): {"id": n, "v": -n} for n in range(3)}
    position = ChangePosition.of_snapshot(Lsn.parse(lsn))
    for row in table.rows.values():
        source.pending.append(source.message(table, "r", None, row, position))
    source.publish(lsn, snapshotting=[table])
    source.publish(lsn)
    lake.catch_up(**options)
    assert lake.cut() == source.cut()
