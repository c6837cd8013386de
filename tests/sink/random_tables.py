"""Random changes and snapshots of tables with a key and a value, and their intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable
from tests.envelopes.transaction import Transaction

COLUMNS = ["id", "v", "_cdc_valid_from_lsn", "_cdc_valid_to_lsn", "_cdc_is_current"]
TIMES = ["_cdc_valid_from", "_cdc_valid_to"]


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


def patch(source: Source, table: SourceTable, chance: random.Random) -> None:
    """Read some rows again; of some the value changed without an event."""
    rows = [row for row in table.rows.values() if chance.random() < 0.6]
    for row in rows:
        row["v"] += chance.choice((0, 100))
    source.publish(through=source.snapshot(table, rows, op="u"))


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
