"""Sinks that were replaced and do not know it: held at every step, each goes on after the newer
ones have finished its batch and applied the next."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink import read
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import LakeTaken
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

STEPS = ("logged", "planned", "mirrored")
"""What a sink goes on with after "merged" it also does after "mirrored": the next tables. After
"committed" it goes on with "appending", in which test_stored_lake.py holds one."""
ALL_STEPS = ("appending", *STEPS, "merged", "committed")
GO_ON = threading.Event()
"""Never set: the sinks of these tests end when there is nothing more."""


class Shop:
    """Two keyed tables and a keyless one; tables are applied in the order of their names."""

    def __init__(self, source: Source, lake: Lake) -> None:
        self._source, self._lake = source, lake
        key, value = column(1, "id", "int", key=1), column(2, "v", "int")
        self.keyed = [source.table(name, key, value) for name in ("a", "z")]
        self._lines = source.table("lines", column(1, "line", "varchar(20)"))
        self.number = 0
        self.intervals = 0
        lake.options["kinds"] = {r"dbo\.a": ["mirror", "history"]}

    def change(self) -> None:
        """A new row and an update of every keyed table, and a line."""
        self.number += 1
        number = self.number
        for table in self.keyed:
            self._source.commit(
                lambda t, of=table: t.insert(of, id=number, v=number),
                lambda t, of=table: t.insert(of, id=-number, v=number),
                lambda t, of=table: t.update(of, (1,), v=-number),
            )
        self.intervals += 3
        self._source.commit(lambda t: t.insert(self._lines, line=f"line {number}"))
        self._source.publish()

    def take_back(self) -> None:
        """What the last change brought leaves the tables, or becomes other rows."""
        number = self.number
        for table in self.keyed:
            self._source.commit(
                lambda t, of=table: t.delete(of, (number,)),
                lambda t, of=table: t.update(of, (-number,), v=0),
            )
        self.intervals += 1
        self._source.publish()

    def check(self) -> None:
        """Log, tables and the newest cut have every change once, and nothing else."""
        for table in self.keyed:
            found = self._lake.rows(table.name.table)
            assert by_key(found) == by_key(table.rows.values()), table.name
            assert len(found) == len(table.rows)
        lines = sorted(row["line"] for row in self._lake.rows("lines"))
        assert lines == sorted(f"line {n}" for n in range(1, self.number + 1))
        assert self._lake.logged_twice() == []
        batches = [row["batch"] for row in self._lake.commits()]
        assert len(batches) == len(set(batches)), "a cut has one row"

    def check_cut(self) -> None:
        """The same of what readers get; every change of a row has one interval."""
        cut = read(self._lake.spark, f"{self._lake.path}/lake").as_of("latest")
        for table in self.keyed:
            assert by_key(cut.read(table.name).collect()) == by_key(table.rows.values())
        table = self.keyed[0]
        intervals = cut.read(table.name, is_history=True).collect()
        current = [row for row in intervals if row["_cdc_is_current"]]
        assert by_key(current) == by_key(table.rows.values())
        assert len(current) == len(table.rows)
        positions = [(row["id"], bytes(row["_cdc_position"])) for row in intervals]
        assert len(positions) == len(set(positions))
        assert len(intervals) == self.intervals


def by_key(rows: Iterable[Any]) -> dict[int, int]:
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.guarantee(17)
@pytest.mark.slow("four starts of sinks, and two batches of each")
@pytest.mark.parametrize(
    "steps",
    [
        STEPS,
        pytest.param(
            ALL_STEPS, marks=pytest.mark.nightly("the same, held at the steps that go on otherwise")
        ),
    ],
    ids=["some", "all"],
)
def test_replaced_sinks_that_go_on_change_nothing(
    source: Source, lake: Lake, spark: SparkSession, steps: Sequence[str]
):
    """Each one is held at a step of its second batch, while the next one takes over, finishes that
    batch and is held in turn. They go on, newest first, when the lake is at rest: each ends with a
    clear word; no row that left comes back, and nothing is doubled."""
    shop = Shop(source, lake)
    shop.change()
    hold_in_turn(shop, lake, spark, steps)

    shop.change()
    lake.catch_up(merge_pool=1)
    shop.check()
    shop.check_cut()


def hold_in_turn(shop: Shop, lake: Lake, spark: SparkSession, steps: Sequence[str]) -> None:
    """Hold a sink at the first step until sinks that were held at the others have ended."""
    if not steps:
        lake.catch_up(merge_pool=1)
        shop.take_back()
        lake.catch_up(merge_pool=1)
        return
    at, *others = steps
    second = shop.number + 1
    is_replaced = threading.Event()

    def replace(step: str, _path: str) -> None:
        if step == at and shop.number == second and not is_replaced.is_set():
            is_replaced.set()
            hold_in_turn(shop, lake, spark, others)

    older = lake.sink(replace, merge_pool=1)
    try:
        older.open()
        with pytest.raises(LakeTaken, match="stop one of the two"):
            run_for_ever(older, spark, lake.source, shop)
    finally:
        older.close()
    assert is_replaced.is_set(), at
    shop.check()


def run_for_ever(sink: Sink, spark: SparkSession, source: Source, shop: Shop) -> None:
    stream = ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)
    while True:
        stream.catch_up(GO_ON)
        sink.fold_tables(GO_ON)
        if shop.number > 1:
            shop.take_back()
        shop.change()
