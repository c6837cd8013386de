"""History tables over random changes, snapshots and kills: never other than the source's states."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tailrace_sink import history, read
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROUNDS = 4
STEPS = 8
"""Of a sink that has something to do."""
ALL_KINDS: dict[str, Any] = {"kinds": {".*": ["mirror", "changelog", "history"]}}
COLUMNS = ["id", "v", "_cdc_valid_from_lsn", "_cdc_valid_to_lsn", "_cdc_is_current"]
TIMES = ["_cdc_valid_from", "_cdc_valid_to"]


@pytest.mark.slow("random changes and kills in a lake of their own")
def test_a_history_is_that_of_the_source(source: Source, lake: Lake):
    chance = random.Random(29)
    table = source.table("kept", column(1, "id", "int", key=1), column(2, "v", "int"))
    lake.options |= {"merge_pool": 1}
    change(source, table, chance)
    source.publish()
    lake.catch_up()
    since = source.through  # switched on later: from here on it is whole
    lake.options |= ALL_KINDS
    for number in range(ROUNDS):
        for _ in range(chance.randint(1, 3)):
            change(source, table, chance)
        source.publish()
        if number in (1, 2):
            snapshot(source, table, chance, names_it_first=number == 1)
        lake.break_off(at=chance.randrange(STEPS))
        newest = read(lake.spark, f"{lake.path}/lake").as_of("latest")
        if "shop/dbo/kept.history" in newest.versions:
            found = newest.read("dbo.kept", is_history=True)
            assert listed(found) == expected(source, table, since, newest.closed_lsn), number
        if number in (1, 2):
            # Rows that a snapshot does not find end with the cut: so it is that of the snapshot.
            lake.catch_up()
    lake.catch_up()

    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    kept = cut.read("dbo.kept", is_history=True)
    assert listed(kept) == expected(source, table, since, source.through)
    changes = history(cut.read("dbo.kept", is_changes=True), ["id"])
    assert listed(kept, *TIMES) == listed(changes, *TIMES)
    properties = lake.spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.location('kept.history')}`")
    assert ("tailrace.wholeFrom", since) in {tuple(row) for row in properties.collect()}
    assert cut.tables == [table.name]

    table.rows.clear()  # nothing is left, and no event says so
    snapshot(source, table, chance, names_it_first=True)
    lake.catch_up()
    kept = read(lake.spark, f"{lake.path}/lake").as_of("latest").read("dbo.kept", is_history=True)
    assert listed(kept) == expected(source, table, since, source.through)
    assert kept.where("_cdc_is_current").isEmpty()


def change(source: Source, table: SourceTable, chance: random.Random) -> None:
    """A transaction that creates, changes and deletes some rows, each once."""

    def changes(transaction: Transaction) -> None:
        for key in range(6):
            if (key,) not in table.rows:
                if chance.random() < 0.5:
                    transaction.insert(table, id=key, v=chance.randrange(9))
            elif chance.random() < 0.4:
                transaction.update(table, (key,), v=table.rows[(key,)]["v"] + 1)
            elif chance.random() < 0.3:
                transaction.delete(table, (key,))

    source.commit(changes)


def snapshot(
    source: Source, table: SourceTable, chance: random.Random, *, names_it_first: bool
) -> None:
    """Name the table and read it whole; some rows changed or left without an event."""
    if names_it_first:
        source.publish(snapshotting=[table])
    for key in list(table.rows):
        if chance.random() < 0.3:
            del table.rows[key]
        elif chance.random() < 0.3:
            table.rows[key]["v"] += 100
    if not names_it_first:
        source.publish(snapshotting=[table])
    fence = source.snapshot(table, list(table.rows.values()))
    source.publish(through=fence)


def expected(source: Source, table: SourceTable, since: str, end: str) -> list[tuple[Any, ...]]:
    """The intervals of the source's states in (since, end], which start with those of since."""

    def found() -> Iterator[tuple[Any, ...]]:
        opened: dict[Key, tuple[Row, str]] = {}
        for lsn in sorted(lsn for lsn in source.cuts if since <= lsn <= end):
            rows = source.cuts[lsn][table.name.table]
            for key, (row, start) in list(opened.items()):
                if rows.get(key) != row:
                    yield row["id"], row["v"], start, lsn, False
                    del opened[key]
            opened |= {key: (row, lsn) for key, row in rows.items() if key not in opened}
        for row, start in opened.values():
            yield row["id"], row["v"], start, None, True

    return sorted(found(), key=str)


def listed(rows: DataFrame, *more: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.select(*COLUMNS, *more).collect()), key=str)
