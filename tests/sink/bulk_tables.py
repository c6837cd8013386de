"""Tables of several kinds, whose changes the tests let the sink write by columns and by Spark."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.envelopes.source import Source
from tests.envelopes.tables import Row, SourceTable, column
from tests.sink.tables.test_rows import insert_documents, insert_types

KEY = column(1, "id", "int", key=1)
V = column(3, "v", "int")


@dataclass(frozen=True)
class BulkTables:
    """Those that a test changes further.

    Attributes:
        versions: its columns change in the middle of a batch.
        documents: with large values.
        mixed: with the rows of a snapshot.
        first: without them.
    """

    versions: SourceTable
    documents: SourceTable
    mixed: SourceTable
    first: SourceTable


def insert_all(source: Source, chance: random.Random) -> BulkTables:
    """Rows of these tables, of one with every type and of one without a key."""
    insert_types(source)
    keyless = source.table("line", column(1, "n", "int"), column(2, "text", "nvarchar(max)"))
    source.commit(lambda t: t.insert(keyless, n=1, text="x" * 30), lambda t: t.insert(keyless, n=2))
    versions = source.table(
        "versions", KEY, column(2, "small", "int"), column(3, "name", "varchar(10)")
    )
    source.commit(lambda t: t.insert(versions, id=0, small=0, name="zero"))
    documents = insert_documents(source)
    parts = column(2, "the part", "nvarchar(9)", key=2)
    mixed, first = (source.table(name, KEY, parts, V) for name in ("mixed", "first"))
    source.snapshot(mixed, [row_of(n, "a", n) for n in range(20)])
    change_rows(source, first, chance)
    return BulkTables(versions, documents, mixed, first)


def row_of(number: int, part: str | None, v: int) -> Row:
    return {"id": number, "the part": part, "v": v}


def change_rows(source: Source, table: SourceTable, chance: random.Random) -> None:
    """Creates, updates, deletes and changes of keys, each row several times."""
    for _ in range(60):
        key = (chance.randrange(25), chance.choice(["a", "", "ä"]))
        value = chance.randrange(1000)
        if key not in table.rows:
            source.commit(lambda t, k=key, v=value: t.insert(table, **row_of(*k, v)))
        elif chance.random() < 0.5:
            source.commit(lambda t, k=key, v=value: t.update(table, k, v=v))
        elif chance.random() < 0.5:
            source.commit(lambda t, k=key: t.delete(table, k))
        else:
            other = 100 + chance.randrange(1000)
            source.commit(lambda t, k=key, o=other: t.update(table, k, id=o))
