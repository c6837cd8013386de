"""Repairs and patches close an LSN again: cuts stay as they were, followers have each once."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tailrace import lake as without_spark
from tailrace.spark import changes_stream
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink import read
from tailrace_sink.reading.cut_errors import CutForgotten
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.both_readers import changes
from tests.sink.conftest import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.guarantee(14),
    pytest.mark.guarantee(15),
]
COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))
_NUMBERS = count(1)


def repair(source: Source, table: SourceTable, **row: Any) -> None:
    """Publish a row as ``tailrace verify --repair`` does, at the LSN that was closed last."""
    table.rows[table.key_of(row)] = row
    last = Lsn(0, next(_NUMBERS), 1)
    place = ChangePosition(Lsn.parse(source.through), 0x7FFFFFFF, last, Operation.UPDATE_AFTER)
    source.pending.append(source.message(table, "u", row, row, place))
    source.publish(source.through)


def patch(source: Source, table: SourceTable, keys: list[int]) -> None:
    """Publish rows as the patch of a column does, at the LSN that was closed last."""
    place = ChangePosition.of_snapshot(Lsn.parse(source.through))
    for key in keys:
        row = table.rows[(key,)]
        row["v"] += 100
        source.pending.append(source.message(table, "u", None, row, place))
    source.publish(source.through)


def rows_at(lake: Lake, **point: str) -> tuple[dict[int, int], str]:
    """The rows of a cut and its id: the same by both readers."""
    by_spark = read(lake.spark, lake.address).as_of(**point)
    cut = without_spark.open(lake.address).as_of(**point)
    assert (by_spark.id, by_spark.tables) == (cut.id, cut.tables)
    found = {row["id"]: row["v"] for row in cut.read("dbo.t").to_pylist()}
    assert {row["id"]: row["v"] for row in by_spark.read("dbo.t").collect()} == found
    return found, cut.id


def values(found: DataFrame) -> list[int]:
    return sorted(row["v"] for row in found.select("after.v").collect())


class Followed:
    """A stream with a checkpoint, which is started for each look."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self) -> list[int]:
        """Return what came since the last look."""
        found: list[int] = []

        def take(batch: DataFrame, _number: int) -> None:
            found.extend(values(batch))

        stream = changes_stream(self._lake.spark, self._lake.address, "dbo.t").writeStream
        stream = stream.option("checkpointLocation", f"{self._lake.path}/checkpoint")
        query = stream.foreachBatch(take).trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        return found


@pytest.mark.slow("batches of a lake, a stream that starts anew, and retention")
@pytest.mark.timeout(900)
def test_a_repair_is_a_new_cut_at_its_lsn_and_reaches_whoever_follows(source: Source, lake: Lake):
    """In the log, in the tables, and with a change after it; forgotten by name."""
    lake.options["kinds"] = {r"dbo\.t": ["mirror", "changelog"]}
    table = source.table("t", *COLUMNS)
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in (1, 2)))
    source.publish()
    lake.catch_up()
    followed = Followed(lake)
    assert followed.run() == [1, 2]
    lsn = source.through
    before, first = rows_at(lake)
    has_before = [row for row in lake.raw("t.changes") if row["_cdc_lsn"] <= lsn]
    assert first.startswith(f"{lsn}@")

    repair(source, table, id=1, v=100)
    lake.log_only()
    repaired = {1: 100, 2: 2}
    news = {"in the log": [100], "in the tables": [], "before a change": [20]}
    for step, comes in news.items():
        if step == "in the tables":
            lake.catch_up()
        if step == "before a change":
            source.commit(lambda t: t.update(table, (2,), v=20))
            source.publish()
            lake.catch_up()
        else:
            found, latest = rows_at(lake)
            assert (found, latest.partition("@")[0]) == (repaired, lsn), step
            assert values(changes(lake.spark, lake.address, "dbo.t", after=lsn)) == [100]
        assert latest != first
        assert rows_at(lake, lsn=lsn) == rows_at(lake, lsn=first) == (before, first), step
        assert rows_at(lake, lsn=latest) == (repaired, latest), step
        between = {"after": first, "up_to": latest}
        assert values(changes(lake.spark, lake.address, "dbo.t", **between)) == [100], step
        assert followed.run() == comes
    assert values(changes(lake.spark, lake.address, "dbo.t", after=lsn)) == [20, 100]
    assert values(changes(lake.spark, lake.address, "dbo.t", after=latest)) == [20]

    # The changelog by its LSN: at or after it, without what was there.
    had = {(row["id"], row["_cdc_position"], row["_cdc_op"]) for row in has_before}
    later = [row for row in lake.raw("t.changes") if row["_cdc_lsn"] >= lsn]
    later = [r for r in later if (r["id"], r["_cdc_position"], r["_cdc_op"]) not in had]
    assert sorted(row["v"] for row in later) == [20, 100]

    repair(source, table, id=2, v=200)
    lake.catch_up(retention={"days": 7, "cuts": 1})
    newest = rows_at(lake)
    assert newest[0] == {1: 100, 2: 200}
    for reader in (read(lake.spark, lake.address), without_spark.open(lake.address)):
        for point in (source.through, first):
            with pytest.raises(CutForgotten, match=rf"oldest kept cut is at LSN {newest[1]}"):
                reader.as_of(lsn=point)
    assert rows_at(lake, lsn=newest[1]) == newest


@pytest.mark.slow("a random story of cuts, each read by both readers")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_cuts_stay_and_a_copy_follows(source: Source, lake: Lake, seed: int):
    """Commits, repairs and patches, in log and tables; a copy by changes equals each cut."""
    chance = random.Random(seed)
    table = source.table("t", *COLUMNS)
    copy: dict[int, int] = {}
    known: dict[str, dict[int, int]] = {}
    reached: str | None = None
    for step in range(10):
        act = chance.choice(("commit", "repair", "patch")) if step else "commit"
        if act == "commit":
            key, value = chance.randrange(4), chance.randrange(100)
            is_there = (key,) in table.rows
            changed = {key}
            source.commit(
                (lambda t, k=key, v=value: t.update(table, (k,), v=v))
                if is_there
                else (lambda t, k=key, v=value: t.insert(table, id=k, v=v))
            )
            source.publish()
        elif act == "repair":
            (key,) = chance.choice(sorted(table.rows))
            changed |= {key}
            repair(source, table, id=key, v=chance.randrange(1000, 2000))
        else:
            patch(source, table, [k for (k,) in table.rows if k not in changed])
            changed = {k for (k,) in table.rows}
        if not step or chance.random() < 0.6:
            lake.catch_up()
        else:
            lake.log_only()
        opened = without_spark.open(lake.address)
        cut = opened.as_of("latest")
        rows = {key: row["v"] for (key,), row in table.rows.items()}
        for change in opened.changes("dbo.t", after=reached, up_to=cut.id).to_pylist():
            copy[change["after"]["id"]] = change["after"]["v"]
        assert copy == rows, (step, act)
        reached = cut.id
        known[cut.id] = rows
        known.setdefault(cut.closed_lsn, rows)
        for point in chance.sample(sorted(known), min(4, len(known))):
            found = opened.as_of(lsn=point).read("dbo.t").to_pylist()
            assert {row["id"]: row["v"] for row in found} == known[point], (step, point)
    for point in chance.sample(sorted(known), 6):
        assert rows_at(lake, lsn=point)[0] == known[point]
    middle = chance.choice([point for point in known if "@" in point])
    parts = [
        values(changes(lake.spark, lake.address, "dbo.t", **between))
        for between in ({"up_to": middle}, {"after": middle}, {})
    ]
    assert sorted(parts[0] + parts[1]) == parts[2]
