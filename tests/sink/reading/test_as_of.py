"""Cuts as readers get them: the tables of a commit row with the log's tail on top."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_schemas.position.lsn import Lsn
from tailrace_sink import changes
from tailrace_sink.delta import classes as delta_classes
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.cut_errors import CutUnknown, PointInvalid
from tailrace_sink.reading.reader import LakeReader, read
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS, quote
from tests.envelopes.messages import FIRST_COMMIT_MS
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.both_readers import assert_same_cut
from tests.sink.conftest import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow("cuts are read by Spark, from tables and from the log's tail"),
]


def reader(lake: Lake) -> LakeReader:
    return read(lake.spark, f"{lake.path}/lake")


def rows(cut: Cut, table: SourceTable) -> dict[tuple[object, ...], dict[str, object]]:
    """The mirrored columns by key, deleted rows left out; the same with both readers."""
    assert_same_cut(cut, table.name)
    return rows_by_spark(cut, table)


def rows_by_spark(cut: Cut, table: SourceTable) -> dict[tuple[object, ...], dict[str, object]]:
    frame = cut.read(table.name).where("_cdc_op <> 'd'")
    names = [name for name in frame.columns if name not in CHANGES_COLUMNS]
    found = [row.asDict() for row in frame.select(*map(quote, names)).collect()]
    by_key = {table.key_of(row): row for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


@pytest.mark.parametrize(
    "delete_mode", [pytest.param("hard", marks=pytest.mark.guarantee(14)), "soft"]
)
def test_every_closed_lsn_is_readable(source: Source, lake: Lake, delete_mode: str):
    """Whatever part of it is folded: random changes, a rename and a new column in the tail."""
    chance = random.Random(3)
    key = column(1, "id", "int", key=1)
    table = source.table("t", key, column(2, "v", "int"), column(3, "text", "nvarchar(max)"))
    lines = source.table("lines", column(1, "line", "varchar(20)"))
    lsns = []

    def change(number: int) -> None:
        free = [n for n in range(8) if (n,) not in table.rows]
        there = sorted(table.rows)
        value = table.schema.columns[1].name

        def changes(transaction: object) -> None:
            transaction.insert(lines, line=f"line {number}")  # type: ignore[attr-defined]
            transaction.insert(table, id=chance.choice(free), text="x", **{value: number})  # type: ignore[attr-defined]
            if there:
                transaction.update(table, chance.choice(there), **{value: -number})  # type: ignore[attr-defined]
            if len(there) > 4:
                transaction.delete(table, sorted(table.rows)[0])  # type: ignore[attr-defined]

        lsns.append(source.commit(changes))
        source.publish()

    for number in range(2):
        change(number)
    lake.catch_up(delete_mode=delete_mode)
    change(2)
    source.alter(
        table,
        key,
        column(2, "w", "int"),
        column(3, "text", "nvarchar(max)"),
        column(4, "d", "date"),
    )
    for number in range(3, 6):
        change(number)
    lake.log_only(delete_mode=delete_mode)

    before = reader(lake).as_of(lsn=lsns[4])
    held = before.read(table.name)
    # In its table, and in the tail before and after the new columns; with soft deletes the rows
    # that are left out are of both in each of the tail.
    for number in (1, 2, 4) if delete_mode == "hard" else (3,):
        lsn = lsns[number]
        cut = reader(lake).as_of(lsn=lsn)
        assert cut.closed_lsn == lsn
        assert {t.table for t in cut.tables} == {"t", "lines"}
        if number in (1, 3):
            assert cut.read("dbo.lines").count() == number + 1
        assert rows(cut, table) == source.cuts[lsn]["t"]
    at = datetime.fromtimestamp((FIRST_COMMIT_MS + Lsn.parse(lsns[3]).block) / 1000, UTC)
    assert reader(lake).as_of(time=at).closed_lsn == lsns[3]
    assert reader(lake).as_of("latest").closed_lsn == lsns[-1]
    with pytest.raises(PointInvalid, match=r"'25:60:3' is not an LSN\. Fix:"):
        reader(lake).as_of(lsn="25:60:3")
    with pytest.raises(CutUnknown, match="no cut at or before LSN"):
        reader(lake).as_of(lsn="00000000:00000000:0001")
    with pytest.raises(CutUnknown, match=r"dbo\.line is not in the cut .*Near names: dbo\.lines"):
        before.read("dbo.line")
    views = before.create_views("then_")
    assert views[table.name] == "then_dbo_t"
    expected = len(source.cuts[lsns[4]]["t"])

    lake.catch_up(delete_mode=delete_mode)
    assert held.where("_cdc_op <> 'd'").count() == expected, "a cut stays what it is"
    assert lake.spark.sql("SELECT * FROM then_dbo_t WHERE _cdc_op <> 'd'").count() == expected
    assert rows(before, table) == source.cuts[lsns[4]]["t"]
    assert rows(reader(lake).as_of("latest"), table) == source.cuts[lsns[-1]]["t"]


@pytest.mark.guarantee(14)
def test_snapshots_and_new_tables_are_read_from_the_log(source: Source, lake: Lake):
    key = column(1, "id", "int", key=1)
    table, other = source.table("t", key, column(2, "v", "int")), source.table("other", key)
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(4)))
    source.publish()
    lake.catch_up()
    before = reader(lake).as_of("latest")
    for prefix in ("", "then_"):
        before.create_views(prefix)
    # Nobody follows t: a row is gone. The table other is new, and its snapshot is not over.
    del table.rows[(2,)]
    source.publish(snapshotting=[table, other])
    source.snapshot(other, [{"id": 1}])
    source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[table, other])
    lake.log_only()
    without = reader(lake).as_of("latest")
    assert without.tables == []
    # No join reads two cuts; views of another prefix are of a cut that somebody compares with.
    assert without.create_views() == {}
    views = {row["viewName"] for row in lake.spark.sql("SHOW VIEWS").collect()}
    assert "dbo_t" not in views
    assert "then_dbo_t" in views

    source.snapshot(other, [{"id": 2}])
    through = source.commit(lambda t: t.insert(table, id=9, v=9))
    source.publish()
    lake.log_only()
    cut = reader(lake).as_of("latest")
    assert cut.closed_lsn == through
    assert rows(cut, table) == source.cuts[through]["t"]
    assert rows(cut, other) == source.cuts[through]["other"]


def test_a_session_without_deltas_own_classes_reads_the_same(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    """As in Spark Connect, or with another vendor's Delta: public statements alone."""
    key = column(1, "id", "int", key=1)
    table = source.table("t", key, column(2, "v", "int"))
    first = source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(3)))
    source.publish()
    lake.catch_up()
    second = source.commit(lambda t: t.update(table, (1,), v=9))
    source.publish()
    lake.log_only()

    def reads() -> list[object]:
        at = [reader(lake).as_of(lsn=lsn) for lsn in (first, second)]
        found = changes(lake.spark, f"{lake.path}/lake", table.name, after=first)
        assert at[1].create_views("v_") == {table.name: "v_dbo_t"}
        return [*(rows(cut, table) for cut in at), [row["after"]["v"] for row in found.collect()]]

    def none(_spark: SparkSession) -> None:
        raise RuntimeError("there is no JVM")

    with monkeypatch.context() as without:
        without.setattr(delta_classes, "jvm_of", none)
        assert reads() == [source.cuts[first]["t"], source.cuts[second]["t"], [9]]
        with pytest.raises(CutUnknown, match="is not a lake"):
            read(lake.spark, str(lake.path)).as_of("latest")


def test_many_tables_are_one_commit_of_the_log(source: Source, lake: Lake):
    """A transaction over all of them is in the log, and readable, as a whole."""
    tables = [source.table(f"t{n}", column(1, "id", "int", key=1)) for n in range(20)]
    for number in (1, 2):
        source.commit(*(lambda t, of=of, n=number: t.insert(of, id=n) for of in tables))
        source.publish()
    lake.log_only(changes_per_batch=20)

    versions = Path(lake.config().log_path, "_delta_log").glob("*.json")
    assert len(list(versions)) == 1 + 1 + 2, "made, taken over, and one for each cut"
    cut = reader(lake).as_of("latest")
    assert set(cut.tables) == {table.name for table in tables}
    for table in (tables[0], tables[-1]):
        assert rows(cut, table) == {(1,): {"id": 1}, (2,): {"id": 2}}
