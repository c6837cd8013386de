"""Schema modes over the lake's history: before and after a change, in cuts, changes, intervals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row

from tailrace_sink import history, read
from tailrace_sink.reading.cut import CutUnknown
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Interrupted, Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ID, NOTE = column(1, "id", "int", key=1), column(2, "note", "varchar(20)")
OPTIONS: dict[str, Any] = {
    "schema_modes": {
        r"dbo\.strict": "fail",
        r"dbo\.loose": "lenient",
        r"dbo\.deaf": "ignore",
    },
    "changelog": {"include": [r"dbo\.loose"]},
    "merge_pool": 1,
}


def break_off_at_the_end(step: str, path: str) -> None:
    if step == "merged" and path.endswith("strict_too"):
        raise Interrupted


@pytest.mark.slow("four modes over several cuts")
def test_each_mode_in_cuts_changes_and_history(source: Source, lake: Lake):
    tables = {n: source.table(n, ID, NOTE) for n in ("follows", "loose", "deaf", "strict")}
    last = source.table("strict_too", ID, NOTE)  # applied last: where the sink breaks off
    for table in (*tables.values(), last):
        source.commit(lambda t, table=table: t.insert(table, id=1, note="1"))  # type: ignore[misc]
        source.commit(lambda t, table=table: t.insert(table, id=2, note="2"))  # type: ignore[misc]
    source.publish()
    lake.catch_up(**OPTIONS)
    before = source.through
    alter_and_change(source, tables, last)

    # Altered by a sink that never commits the batch: the next one records the changes.
    with pytest.raises(Interrupted):
        lake.catch_up(break_off_at_the_end, **OPTIONS)
    in_tail = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    check_cut(in_tail)
    lake.catch_up(**OPTIONS)

    reader = read(lake.spark, f"{lake.path}/lake")
    check_cut(reader.as_of("latest"))
    was = reader.as_of(lsn=before)
    for name in tables:
        assert rows_of(was.read(f"dbo.{name}").collect()) == [(1, "1"), (2, "2")]
    commit = lake.commits()[-1]
    assert "column price: it was added" in json.loads(commit["stopped"])[tables["strict"].topic]
    changes = {(c["table"], c["change"], c["column"]) for c in json.loads(commit["schema_changes"])}
    assert changes == {
        ("shop/dbo/follows", "added", "price"),
        ("shop/dbo/loose", "retired", "note_old_1"),
        ("shop/dbo/loose", "retyped", "note"),
        ("shop/dbo/loose.changes", "retired", "note_old_1"),
        ("shop/dbo/loose.changes", "retyped", "note"),
        ("shop/dbo/deaf", "ignored", "price"),
    }
    every = reader.changes("dbo.loose").orderBy("_cdc_position").collect()
    assert [(r["after"]["note"], r["after"]["note_old_1"]) for r in every] == [
        (None, "1"),
        (None, "2"),
        (7, None),
    ]
    intervals = history(reader.as_of("latest").read("dbo.loose", is_changes=True), ["id"])
    found = intervals.orderBy("_cdc_position").collect()
    assert [(r["note"], r["note_old_1"], r["_cdc_valid_to_lsn"] is None) for r in found] == [
        (None, "1", False),
        (None, "2", True),
        (7, None, True),
    ]
    go_on(source, lake, tables["strict"])


def alter_and_change(source: Source, tables: dict[str, SourceTable], last: SourceTable) -> None:
    price = column(3, "price", "int")
    for name in ("follows", "deaf", "strict"):
        source.alter(tables[name], ID, NOTE, price)
        row = {"note": "1", "price": 7}
        source.commit(lambda t, n=name, r=row: t.update(tables[n], (1,), **r))  # type: ignore[misc]
    source.alter(tables["loose"], ID, column(2, "note", "int"))
    for row in tables["loose"].rows.values():
        row["note"] = int(row["note"])  # as SQL Server converts them, without change rows
    source.commit(lambda t: t.update(tables["loose"], (1,), note=7))
    source.commit(lambda t: t.update(last, (1,), note="1"))
    source.publish()


def check_cut(cut: Any) -> None:
    """The newest cut, whether the tables have it or the log's tail."""
    assert rows_of(cut.read("dbo.follows").collect(), "price") == [(1, "1", 7), (2, "2", None)]
    loose = rows_of(cut.read("dbo.loose").collect(), "note_old_1")
    assert loose == [(1, 7, None), (2, None, "2")]
    deaf = cut.read("dbo.deaf")
    assert "price" not in deaf.columns
    assert rows_of(deaf.collect()) == [(1, "1"), (2, "2")]
    with pytest.raises(CutUnknown, match=r"strict"):
        cut.read("dbo.strict")


def go_on(source: Source, lake: Lake, table: SourceTable) -> None:
    """A snapshot changes nothing while the mode is fail; with evolve it brings the table back."""
    for mode, is_there in (("fail", False), ("evolve", True)):
        source.publish(snapshotting=[table])
        source.snapshot(table, list(table.rows.values()))
        source.publish()
        lake.catch_up(**{**OPTIONS, "schema_modes": {r"dbo\.strict": mode}})
        assert ("shop/dbo/strict" in lake.commits()[-1]["tables"]) is is_there
    assert lake.by_key(table) == table.rows


def rows_of(rows: list[Row], *more: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in ("id", "note", *more)) for row in rows)
