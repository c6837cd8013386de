"""Append-only tables hold every change once, however often a batch broke off while more came."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.application import serve
from tailrace_sink.errors import ApplyFailed
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Interrupted, Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

OPTIONS: dict[str, Any] = {"changelog": {"include": [r"dbo\.keyed"]}, "merge_pool": 1}
WAIT_S = 180.0


class Shop:
    """A keyed table with a companion, a keyless one, and every change of theirs by the model."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.keyed = source.table("keyed", column(1, "id", "int", key=1), column(2, "v", "int"))
        self.log = source.table("log", column(1, "line", "varchar(20)"))
        self.changes: Counter[tuple[str, int, int]] = Counter()
        self.lines: Counter[tuple[str, str]] = Counter()
        self._number = 0

    def change(self) -> None:
        """A transaction over both tables; its rows are like no others."""
        self._number += 1
        n = self._number
        self.source.commit(
            lambda t: t.insert(self.keyed, id=n, v=n),
            lambda t: t.insert(self.log, line=f"line {n}"),
            lambda t: t.update(self.keyed, (n,), v=n + 1_000),
            lambda t: t.insert(self.log, line=f"more {n}"),
        )
        self.source.publish()
        self.changes += Counter([("c", n, n), ("u", n, n + 1_000)])
        self.lines += Counter([("c", f"line {n}"), ("c", f"more {n}")])

    def begin_snapshot(self) -> None:
        """Name both tables as being read, and write the first rows of one fence."""
        self.source.publish(snapshotting=[self.keyed, self.log])
        self._snapshot_rows()
        self.source.publish(snapshotting=[self.keyed, self.log])

    def end_snapshot(self) -> None:
        """The rest of the rows."""
        self._snapshot_rows()
        self.source.publish()

    def _snapshot_rows(self) -> None:
        rows = list(self.keyed.rows.values())
        self.source.snapshot(self.keyed, rows)
        self.changes += Counter(("r", row["id"], row["v"]) for row in rows)
        self._number += 1
        lines = [f"read {self._number} {n}" for n in range(5)]
        self.source.snapshot(self.log, [{"line": line} for line in lines])
        self.lines += Counter(("r", line) for line in lines)

    def check(self, lake: Lake) -> None:
        """Each append table is the multiset of the model, each cut the source."""
        found = lake.raw("keyed.changes")
        assert Counter((row["_cdc_op"], row["id"], row["v"]) for row in found) == self.changes
        found = lake.raw("log")
        assert Counter((row["_cdc_op"], row["line"]) for row in found) == self.lines
        assert len(found) == len({row["line"] for row in found}), "its lines are all different"
        assert lake.logged_twice() == []
        keyed = {row["id"]: row["v"] for row in lake.rows("keyed")}
        assert keyed == {row["id"]: row["v"] for row in self.keyed.rows.values()}


@pytest.fixture(scope="module")
def shop(module_lake: Lake) -> Shop:
    """The tables of the tests that share a lake; each checks all changes since the first."""
    return Shop(module_lake.source)


OF_TABLES = ("merged", "committed")
ALL = ("appending", "logged", "planned", *OF_TABLES)


def interrupt_at(call: int, steps: tuple[str, ...] = OF_TABLES) -> Callable[[str, str], None]:
    """A hook that breaks the sink off at its n-th call with one of some steps."""
    calls = 0

    def interrupt(step: str, _path: str) -> None:
        nonlocal calls
        calls += step in steps
        if calls == call:
            raise Interrupted

    return interrupt


@pytest.mark.slow("a batch breaks off and is repeated with what came")
@pytest.mark.nightly("test_snapshots_and_changes_are_appended_once_wherever_batches_break_off")
def test_appended_once_when_more_came_before_the_next_start(shop: Shop, module_lake: Lake):
    shop.change()
    with pytest.raises(Interrupted):
        module_lake.catch_up(interrupt_at(2), **OPTIONS)
    shop.change()

    assert module_lake.catch_up(**OPTIONS) == 2, "the batch that broke off, then what came"
    shop.check(module_lake)


@pytest.mark.slow("a table fails, and its batch is repeated with what came")
def test_a_table_that_was_not_reached_is_appended_with_the_rest(source: Source, lake: Lake):
    """One table's append is done, the other's fails by itself."""
    shop = Shop(source)
    shop.change()
    in_the_way = Path(lake.location("log"))
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("not a folder")
    with pytest.raises(ApplyFailed, match=r"shop\.dbo\.log"):
        lake.catch_up(**OPTIONS)
    assert len(lake.raw("keyed.changes")) == 2
    in_the_way.unlink()
    shop.change()

    lake.catch_up(**OPTIONS)
    shop.check(lake)


@pytest.mark.slow("a sink tries a batch twice, then one more")
def test_appended_once_in_a_process_that_tries_again(
    shop: Shop, module_lake: Lake, spark: SparkSession
):
    """More comes between the failure and the next attempt of the same sink."""
    before = module_lake.commits() if shop.changes else []
    shop.change()
    stop, steps = threading.Event(), []

    def hook(step: str, _path: str) -> None:
        if step in OF_TABLES:
            steps.append(step)
        if steps == ["merged"]:
            shop.change()
            raise ApplyFailed("a test's step", "told to")
        if steps.count("committed") == 2:
            stop.set()

    serve(spark, module_lake.config(**OPTIONS, retry_backoff_max_s=0.25), stop, hook=hook)
    shop.check(module_lake)
    assert len(module_lake.commits()) == len(before) + 2


@pytest.mark.guarantee(13)
@pytest.mark.slow("batches of ten steps break off, small ones and large ones")
@pytest.mark.timeout(600)
def test_snapshots_and_changes_are_appended_once_wherever_batches_break_off(
    shop: Shop, module_lake: Lake
):
    """Rows of one fence share a position, and a snapshot spreads over partitions and records: what
    was appended is known by the batch, not by positions. Bounds, and whether a batch passes the
    driver, change between the attempts."""
    chance = random.Random(7)
    broken = dict.fromkeys((0, 5_000), 0)
    steps = [shop.change, shop.begin_snapshot, shop.change, shop.end_snapshot]
    for number, step in enumerate([*steps, *steps]):
        step()
        local = 5_000 * (number % 2)
        bound = chance.choice([1, 3, 10, 1_000])
        options = {**OPTIONS, "local_changes_max": local, "changes_per_batch": bound}
        try:
            module_lake.catch_up(interrupt_at(chance.randint(1, 5), ALL), **options)
        except Interrupted:
            broken[local] += 1
    module_lake.catch_up(**OPTIONS)
    assert min(broken.values()) >= 2, broken
    shop.check(module_lake)


@pytest.mark.slow("a batch of three transactions breaks off and is repeated")
def test_a_smaller_bound_does_not_split_a_batch_that_was_begun(shop: Shop, module_lake: Lake):
    """Else a table that the batch reached would stand beyond the cut."""
    for _ in range(3):
        shop.change()
    with pytest.raises(Interrupted):
        module_lake.catch_up(interrupt_at(1), **OPTIONS)

    assert module_lake.catch_up(**OPTIONS, changes_per_batch=1) == 1
    assert module_lake.commits()[-1]["through_lsn"] == shop.source.through
    shop.check(module_lake)
