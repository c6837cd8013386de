"""Lake tables move from one source LSN to another, all together."""

from __future__ import annotations

import contextlib
import os
import random
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import CDC_COLUMNS
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake
from tests.sink.stories import Stories, Story

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


shared = Stories(12, hard={}, soft={"delete_mode": "soft"})


def two_tables(source: Source, prefix: str = "") -> tuple[SourceTable, SourceTable]:
    planes = source.table(
        f"{prefix}planes",
        column(1, "tail", "nvarchar(10)", key=1),
        column(2, "seats", "smallint"),
        column(3, "hours flown", "decimal(9,2)"),
    )
    flights = source.table(
        f"{prefix}flights",
        column(1, "id", "int", key=1),
        column(2, "tail", "nvarchar(10)"),
    )
    return planes, flights


def random_changes(chance: random.Random, planes: SourceTable, flights: SourceTable) -> Any:
    """A few changes of both tables, changes of keys and re-used keys among them."""

    def change(transaction: Transaction) -> None:
        for _ in range(chance.randint(1, 5)):
            table = chance.choice([planes, flights])
            kind = chance.choice(["insert", "update", "key", "delete"])
            free = [n for n in range(8) if key(table, n) not in table.rows]
            if kind == "insert" or not table.rows:
                if free:
                    insert(transaction, table, chance.choice(free), chance)
                continue
            chosen = chance.choice(sorted(table.rows))
            if kind == "delete":
                transaction.delete(table, chosen)
            elif kind == "key" and free:
                name = table.schema.key_columns[0].name
                transaction.update(table, chosen, **{name: key(table, chance.choice(free))[0]})
            else:
                other = "seats" if table is planes else "tail"
                value = chance.randint(0, 99) if table is planes else f"N{chance.randint(0, 9)}"
                transaction.update(table, chosen, **{other: value})

    def key(table: SourceTable, number: int) -> tuple[Any]:
        return (f"N{number}",) if table is planes else (number,)

    def insert(
        transaction: Transaction, table: SourceTable, number: int, chance: random.Random
    ) -> None:
        if table is planes:
            hours = Decimal(chance.randint(0, 99_999)) / 100
            transaction.insert(planes, tail=f"N{number}", seats=number, **{"hours flown": hours})
        else:
            transaction.insert(flights, id=number, tail=None)

    return change


@pytest.mark.guarantee(12)
@pytest.mark.slow("a dozen batches, each cut compared with the source")
def test_every_cut_is_the_source_at_that_lsn(source: Source, lake: Lake):
    """Random transactions over two tables, batches bounded to a few changes, an aborted Kafka
    transaction between: each commit row's versions are the source at its LSN. Some batches go
    through the driver, larger ones are read table by table."""
    chance = random.Random(5)
    planes, flights = two_tables(source)
    for number in range(5):
        for _ in range(1 + number):
            source.commit(random_changes(chance, planes, flights))
        if number == 3:
            source.publish(messages=source.pending, abort=True)
        source.publish()

    committed = lake.catch_up(changes_per_batch=30, local_changes_max=15)

    commits = lake.commits()
    assert len(commits) == committed > 1
    sizes = [commit["rows"] for commit in commits]
    assert min(sizes) <= 15 < max(sizes), sizes
    assert lake.cut() == source.cut()
    reader = read(lake.spark, f"{lake.path}/lake")
    for commit in commits:
        cut = reader.as_of(lsn=commit["through_lsn"])
        assert cut.closed_lsn == commit["through_lsn"]
        versions = {table.table: cut.versions[f"shop/dbo/{table.table}"] for table in cut.tables}
        assert lake.cut(**versions) == source.cuts[cut.closed_lsn]
    newest = reader.as_of()
    assert newest.read(planes.name).count() == len(planes.rows)
    with pytest.raises(CutUnknown, match="no cut at or before LSN"):
        reader.as_of(lsn="00000000:00000000:0001")
    with pytest.raises(CutUnknown, match=r"shop.dbo.none is not in the cut"):
        newest.read(TableName("shop", "dbo", "none"))


@pytest.mark.guarantee(12)
def test_a_transaction_over_several_kafka_transactions_is_never_half_visible(
    source: Source, lake: Lake
):
    planes, flights = two_tables(source)
    before = source.commit(lambda t: t.insert(planes, tail="N1", seats=1))
    source.publish()
    through = source.commit(
        *(lambda t, n=n: t.insert(flights, id=n) for n in range(5)),
        lambda t: t.update(planes, ("N1",), seats=2),
    )
    whole, source.pending = source.pending, []

    source.publish(closed=False, messages=whole[:2])
    assert lake.catch_up() == 1
    source.publish(closed=False, messages=whole[2:4])
    assert lake.catch_up() == 0
    assert lake.rows("planes") == list(source.cuts[before]["planes"].values())

    source.publish(messages=whole[4:])
    assert lake.catch_up() == 1
    assert lake.cut() == source.cuts[through]


@shared.only("hard")
def test_snapshot_rows_join_the_cut_with_what_was_streamed_meanwhile(
    source: Source, lake: Lake
) -> Story:
    planes, flights = two_tables(source, "read_")
    source.snapshotting.append(planes)
    source.commit(lambda t: t.insert(flights, id=1, tail="N1"))
    source.snapshot(planes, [{"tail": f"N{n}", "seats": n, "hours flown": None} for n in (1, 2)])
    yield
    newest = lake.commits()[-1]["tables"]
    assert "shop/dbo/read_flights" in newest
    assert "shop/dbo/read_planes" not in newest

    source.commit(
        lambda t: t.update(planes, ("N1",), seats=10),
        lambda t: t.delete(planes, ("N2",)),
        lambda t: t.insert(flights, id=2, tail="N1"),
    )
    source.publish()
    source.snapshotting.remove(planes)
    source.snapshot(planes, [{"tail": "N3", "seats": 3, "hours flown": None}])
    source.publish()
    source.commit(lambda t: t.update(planes, ("N3",), seats=30))
    yield
    assert lake.by_key(planes) == planes.rows
    assert lake.by_key(flights) == flights.rows


@shared
def test_a_new_snapshot_takes_away_what_was_deleted_meanwhile(source: Source, lake: Lake) -> Story:
    """A table that nobody followed for a while comes back with the rows that it has now."""
    planes, flights = two_tables(source, "left_")
    for number in (1, 2, 3):
        source.commit(
            lambda t, n=number: t.insert(planes, tail=f"N{n}", seats=n),
            lambda t, n=number: t.insert(flights, id=n, tail=f"N{n}"),
        )
    yield
    # Nobody follows planes: one row is deleted, one changes; all flights are deleted.
    del planes.rows[("N2",)]
    flights.rows.clear()
    source.commit()
    source.snapshotting += [planes, flights]
    yield
    cut = read(lake.spark, f"{lake.path}/lake").as_of()
    assert not {planes.name, flights.name} & set(cut.tables), "nobody follows them"
    with pytest.raises(CutUnknown, match="stopped it"):
        cut.read(planes.name)
    for table in (planes, flights):
        source.snapshotting.remove(table)
    source.snapshot(
        planes,
        [{"tail": "N1", "seats": 10, "hours flown": None}, {**planes.rows[("N3",)]}],
    )
    source.commit(lambda t: t.insert(planes, tail="N4", seats=4))
    yield
    through = lake.commits()[-1]["through_lsn"]
    keeps_deleted = lake.options.get("delete_mode") == "soft"
    for table, left in ((planes, 1), (flights, 3)):
        rows = lake.raw(table.name.table)
        kept = [row for row in rows if row["_cdc_op"] != "d"]
        assert {
            table.key_of(row): {name: row[name] for name in row if name not in CDC_COLUMNS}
            for row in kept
        } == table.rows
        gone = [row["_cdc_lsn"] for row in rows if row["_cdc_op"] == "d"]
        assert gone == [through] * (left if keeps_deleted else 0)


@pytest.mark.slow("five starts of a sink, and a compaction of the commit table")
def test_records_without_changes(source: Source, lake: Lake):
    """A heartbeat writes nothing; a newer LSN without changes moves the cut. Old commit rows go
    when the commit table is compacted, the newest stays."""
    planes, _ = two_tables(source)
    source.commit(lambda t: t.insert(planes, tail="N1"))
    source.publish()
    source.publish(source.through)
    assert lake.catch_up() == 1
    source.publish(source.through)
    assert lake.catch_up() == 0

    newer = str(source.next_lsn())
    source.publish(newer)
    assert lake.catch_up() == 1
    assert [commit["through_lsn"] for commit in lake.commits()][-1] == newer
    assert lake.version("planes") == 1

    commits = CommitTable(lake.spark, lake.config().commits_path)
    before = commits.last()
    commits.forget(before.batch)
    commits.compact()
    assert [commit["through_lsn"] for commit in lake.commits()] == [newer]
    assert commits.last() == before


@shared.only("hard")
def test_a_cut_stays_what_it_is_while_the_lake_goes_on(source: Source, lake: Lake) -> Story:
    """A DataFrame of the newest cut, run after the next commit, shows the cut."""
    planes, flights = two_tables(source, "held_")

    def insert(number: int) -> None:
        source.commit(
            lambda t: t.insert(planes, tail=f"N{number}", seats=number),
            lambda t: t.insert(flights, id=number),
        )

    insert(1)
    yield
    cut = read(lake.spark, f"{lake.path}/lake").as_of()
    joined = cut.read(planes.name).crossJoin(cut.read(flights.name).select("id"))
    insert(2)
    yield
    assert [(row["tail"], row["id"]) for row in joined.collect()] == [("N1", 1)]
    newest = read(lake.spark, f"{lake.path}/lake").as_of()
    assert newest.read(planes.name).count() == newest.read(flights.name).count() == 2


@shared.only("hard")
def test_a_cut_of_a_table_that_was_quiet_for_long_is_readable(source: Source, lake: Lake) -> Story:
    """Its version is older than the retention, but was current a moment ago: its files are there.
    Delta by itself refuses it."""
    planes, _ = two_tables(source, "quiet_")
    location = lake.location("quiet_planes")
    source.commit(lambda t: t.insert(planes, tail="N1", seats=1))
    yield
    quiet = read(lake.spark, f"{lake.path}/lake").as_of()
    version = quiet.versions["shop/dbo/quiet_planes"]
    long_ago = time.time() - timedelta(days=40).total_seconds()
    for file in Path(location, "_delta_log").glob("*.json"):
        os.utime(file, (long_ago, long_ago))
    source.commit(lambda t: t.update(planes, ("N1",), seats=2))
    yield
    at_version = lake.spark.read.format("delta").option("versionAsOf", version)

    def refused() -> contextlib.AbstractContextManager[Any]:
        if lake.spark.version.startswith("4.0."):
            return contextlib.nullcontext()  # Delta 4.0 does not look at the age.
        return pytest.raises(PySparkException, match="BEYOND_DELETED_FILE_RETENTION")

    with refused():
        at_version.load(location).collect()
    seats = [row["seats"] for row in quiet.read(planes.name).collect()]
    assert seats == [1]
    with refused():
        at_version.load(location).collect()


@pytest.mark.slow("all tables are altered at the start of a sink")
def test_a_changed_retention_reaches_the_tables_that_are_there(source: Source, lake: Lake):
    planes, _ = two_tables(source)
    source.commit(lambda t: t.insert(planes, tail="N1", seats=1))
    source.publish()
    options: dict[str, Any] = {"changelog": {"include": [r"dbo\.planes"]}}
    lake.catch_up(**options)

    def retained() -> set[tuple[str, str]]:
        """How long both tables retain deleted files and their log."""
        found = set()
        for name in ("planes", "planes.changes"):
            of_table = table_metadata(lake.spark, lake.location(name))
            assert of_table is not None
            files = of_table.properties["delta.deletedFileRetentionDuration"]
            found.add((files, of_table.properties["delta.logRetentionDuration"]))
        return found

    def open_lake() -> None:
        sink = lake.sink(retention={"days": 60}, **options)
        sink.open()
        sink.close()

    assert retained() == {("interval 192 hours", "interval 576 hours")}
    open_lake()
    assert retained() == {("interval 1464 hours", "interval 4392 hours")}
    before = lake.version("planes")
    open_lake()
    assert lake.version("planes") == before, "written once"
    assert read(lake.spark, f"{lake.path}/lake").as_of().read(planes.name).count() == 1
