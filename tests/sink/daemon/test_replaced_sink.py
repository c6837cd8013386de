"""A sink that was replaced and does not know it: held at every step, it goes on after the newer one
has finished its batch and applied the next."""

from __future__ import annotations

import threading
from collections.abc import Iterable
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
        self.intervals = 0  # of each keyed table
        lake.options["kinds"] = {r"dbo\.[az]": ["mirror", "history"]}

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
            intervals = cut.read(table.name, is_history=True).collect()
            current = [row for row in intervals if row["_cdc_is_current"]]
            assert by_key(current) == by_key(table.rows.values())
            assert len(current) == len(table.rows)
            positions = [(row["id"], bytes(row["_cdc_position"])) for row in intervals]
            assert len(positions) == len(set(positions))
            assert len(intervals) == self.intervals


def by_key(rows: Iterable[Any]) -> dict[int, int]:
    return {row["id"]: row["v"] for row in rows}


@pytest.fixture(scope="module")
def shop(module_lake: Lake) -> Shop:
    """The tables of all tests, which are in the lake after the first of them."""
    return Shop(module_lake.source, module_lake)


@pytest.mark.slow("four starts of sinks, two of them while another one is held")
@pytest.mark.parametrize(
    "at", ["appending", "logged", "planned", "mirrored", "merged", "committed"]
)
def test_a_replaced_sink_that_goes_on_changes_nothing(
    shop: Shop, module_lake: Lake, spark: SparkSession, at: str
):
    """It ends with a clear word; no row that left comes back, and nothing is doubled."""
    lake = module_lake
    shop.change()
    second = shop.number + 1
    started = threading.Event()

    def start_another(step: str, _path: str) -> None:
        if step != at or started.is_set() or shop.number < second:
            return
        started.set()
        lake.catch_up(merge_pool=1)
        shop.take_back()
        lake.catch_up(merge_pool=1)

    older = lake.sink(start_another, merge_pool=1)
    try:
        older.open()
        with pytest.raises(LakeTaken, match="stop one of the two"):
            run_for_ever(older, spark, lake.source, shop)
    finally:
        older.close()
    assert started.is_set()
    shop.check()

    shop.change()
    lake.catch_up(merge_pool=1)
    shop.check()
    shop.check_cut()


def run_for_ever(sink: Sink, spark: SparkSession, source: Source, shop: Shop) -> None:
    stream = ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)
    while True:
        stream.catch_up(GO_ON)
        sink.fold_tables(GO_ON)
        shop.change()
