"""A snapshot of more rows than a batch takes: applied as it comes, then what is older goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition
from tailrace_sink.reader import CutUnknown, read
from tests.fix_envelopes import Source, SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.test_as_of import log_only, rows
from tests.sink.test_dead_letters import cut_short
from tests.sink.test_write_paths import ways

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)
SMALL: dict[str, Any] = {"changes_per_batch": 5}


def a_table(source: Source, name: str = "t") -> SourceTable:
    return source.table(name, KEY, column(2, "v", "int"))


def filled(source: Source, lake: Lake, numbers: Iterable[int], **options: Any) -> SourceTable:
    """A table that the lake has, with a row for each number."""
    table = a_table(source)
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in numbers))
    source.publish()
    lake.catch_up(**options)
    assert lake.cut() == source.cut()
    return table


def chunk(source: Source, table: SourceTable, rows: Iterable[tuple[int, int]]) -> None:
    """Publish a chunk of a snapshot; the table is named."""
    fence = source.snapshot(table, [{"id": number, "v": v} for number, v in rows])
    source.publish(fence, snapshotting=[table])


@pytest.mark.parametrize(("delete_mode", "local_changes_max"), [("hard", 0), ("soft", 5000)])
def test_a_table_comes_back_in_parts_without_the_rows_that_went_unseen(
    source: Source, lake: Lake, spark: SparkSession, delete_mode: str, local_changes_max: int
):
    options = {
        **SMALL,
        "delete_mode": delete_mode,
        "local_changes_max": local_changes_max,
        "changelog": {"include": [r"dbo\.t"]},
    }
    table = filled(source, lake, range(30), **options)
    # Nobody follows it: 5 and 29 are deleted, 7 changes.
    for gone in (5, 29):
        del table.rows[(gone,)]
    source.publish(source.commit(), snapshotting=[table])

    chunk(source, table, [(n, n + 100 if n == 7 else n) for n in range(10) if n != 5])
    assert lake.catch_up(**options) >= 1
    assert {row["id"]: row["v"] for row in lake.rows("t")}[7] == 107, "it is applied as it comes"
    assert lake.commits()[-1]["tables"] == {}
    with pytest.raises(CutUnknown):
        read(lake.spark, f"{lake.path}/lake").as_of("latest").read(table.name)

    source.commit(
        lambda t: t.update(table, (2,), v=200),
        lambda t: t.delete(table, (3,)),
        lambda t: t.insert(table, id=50, v=50),
        lambda t: t.insert(table, id=5, v=55),  # an older 5 is still there
    )
    chunk(source, table, [(n, n) for n in range(10, 20)])
    lake.catch_up(**options)
    chunk(source, table, [(n, n) for n in range(20, 29)])
    lake.catch_up(**options)
    source.commit(lambda t: t.update(table, (20,), v=0))
    source.publish()

    log_only(lake, spark, **options)
    assert rows(read(lake.spark, f"{lake.path}/lake").as_of("latest"), table) == table.rows
    lake.catch_up(**options)
    kept = [row for row in lake.raw("t") if row["_cdc_op"] != "d"]
    assert Counter(row["id"] for row in kept) == Counter(key for (key,) in table.rows)
    assert {(row["id"],): {"id": row["id"], "v": row["v"]} for row in kept} == table.rows
    assert lake.commits()[-1]["tables"].keys() == {"shop/dbo/t", "shop/dbo/t.changes"}
    deleted = Counter(row["id"] for row in lake.raw("t.changes") if row["_cdc_op"] == "d")
    assert deleted == {3: 1, 29: 1}
    if delete_mode == "soft":
        gone_rows = {row["id"] for row in lake.raw("t") if row["_cdc_op"] == "d"}
        assert gone_rows == {3, 29}


def test_rows_of_the_very_lsn_of_the_naming_are_told_by_their_keys(source: Source, lake: Lake):
    """On an idle database the snapshot is read where the last change was."""
    options = {**SMALL, "changelog": {"include": [r"dbo\.t"]}}
    table = filled(source, lake, range(12), **options)
    at = Lsn.parse(source.through)
    del table.rows[(4,)]
    source.publish(source.through, snapshotting=[table])
    for part in (range(6), range(6, 12)):
        messages = [
            source.message(table, "r", None, {"id": n, "v": n}, ChangePosition.of_snapshot(at))
            for n in part
            if n != 4
        ]
        source.publish(source.through, messages=messages, snapshotting=[table])
        lake.catch_up(**options)
    source.publish(source.commit())

    lake.catch_up(**options)
    assert lake.cut() == source.cut()
    assert [row["id"] for row in lake.raw("t.changes") if row["_cdc_op"] == "d"] == [4]


def test_a_new_table_is_appended_part_by_part_while_keys_do_not_meet(source: Source, lake: Lake):
    options = {**SMALL, "local_changes_max": 0}
    table, mixed = a_table(source), a_table(source, "mixed")
    for first in (0, 10, 20):
        for of in (table, mixed):
            numbers = range(first, first + 10) if of is table else range(first // 10, 30, 3)
            source.snapshot(of, [{"id": n, "v": n} for n in numbers])
        source.publish(str(source.next_lsn()), snapshotting=[table, mixed])
        lake.catch_up(**options)
    assert (ways(lake, "t"), len(lake.rows("t"))) == (["WRITE"] * 3, 30)
    assert (ways(lake, "mixed")[1:], len(lake.rows("mixed"))) == (["MERGE"] * 2, 30)

    source.publish(source.commit())
    lake.catch_up(**options)
    assert lake.cut() == source.cut()
    assert lake.commits()[-1]["tables"].keys() == {"shop/dbo/t", "shop/dbo/mixed"}


@pytest.mark.parametrize("step", ["merged", "finished"])
def test_parts_are_taken_once_whatever_dies(source: Source, lake: Lake, step: str):
    options = {**SMALL, "changelog": {"include": [r"dbo\.t"]}}
    table = filled(source, lake, range(20), **options)
    for gone in (1, 11):
        del table.rows[(gone,)]
    source.publish(source.commit(), snapshotting=[table])

    def crash(now: str, _path: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    def through_a_crash() -> None:
        if step != "finished":
            with pytest.raises(KeyboardInterrupt):
                lake.catch_up(crash, **options)

    for first in (0, 10):
        chunk(source, table, [(n, -n) for n in range(first, first + 10) if n % 10 != 1])
        source.commit(lambda t, n=first: t.insert(table, id=n + 100, v=0))
        through_a_crash()
        source.publish(snapshotting=[table])
        lake.catch_up(**options)
    source.commit(lambda t: t.delete(table, (2,)))
    source.publish()
    with pytest.raises(KeyboardInterrupt):
        lake.catch_up(crash, **options)
    source.commit(lambda t: t.insert(table, id=500, v=0))
    source.publish()
    lake.catch_up(**options)

    assert lake.cut() == source.cut()
    counted = Counter((row["id"], row["_cdc_op"]) for row in lake.raw("t.changes"))
    assert set(counted.values()) == {1}
    assert {key for key, op in counted if op == "d"} == {1, 2, 11}


def test_a_table_that_has_to_be_made_anew_waits_for_the_whole(source: Source, lake: Lake):
    table = filled(source, lake, range(8), **SMALL)
    source.alter(table, KEY, column(2, "v", "date"))
    table.rows.clear()
    source.publish(source.commit(), snapshotting=[table])
    for first in (0, 6):
        fence = source.snapshot(table, [{"id": n, "v": 7} for n in range(first, first + 6)])
        source.publish(fence, snapshotting=[table])
        lake.catch_up(**SMALL)
        assert lake.commits()[-1]["stopped"] == "{}"
        assert len(lake.rows("t")) == 8, "nothing of it is applied yet"
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert len(lake.rows("t")) == 12
    assert lake.commits()[-1]["tables"].keys() == {"shop/dbo/t"}


def test_a_part_that_cannot_be_applied_stops_its_table_until_the_next_snapshot(
    source: Source, lake: Lake
):
    table = filled(source, lake, range(4), **SMALL)
    source.publish(source.commit(), snapshotting=[table])
    chunk(source, table, [(n, n) for n in range(6)])
    lake.catch_up(**SMALL)
    source.snapshot(table, [{"id": n, "v": n} for n in range(6, 12)])
    cut_short(source.pending[2])
    source.publish(snapshotting=[table])
    lake.catch_up(**SMALL)
    assert table.topic in lake.commits()[-1]["stopped"]

    chunk(source, table, [(n, n) for n in range(12, 18)])
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert table.topic in lake.commits()[-1]["stopped"], "what is left of it is not the whole"
    assert lake.commits()[-1]["tables"] == {}

    for first in (0, 6, 12):
        chunk(source, table, [(n, -n) for n in range(first, first + 6)])
    source.publish(source.commit())
    lake.catch_up(**SMALL)
    assert lake.commits()[-1]["stopped"] == "{}"
    assert lake.cut() == source.cut()
