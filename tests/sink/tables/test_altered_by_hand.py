"""Whatever somebody altered in a lake table, it stops by name, and a snapshot brings it back."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tailrace_sink import read
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.guarantee(18)]
KEY, NUMBER, TEXT = column(1, "id", "int", key=1), column(2, "v", "int"), column(3, "w", "char(1)")
Rows = Mapping[Key, Row]
MAPPED = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def updates(source: Source, table: SourceTable) -> None:
    source.commit(lambda t: t.update(table, (1,), v=7))


def retyped(kind: str) -> Callable[[Source, SourceTable], None]:
    def change(source: Source, table: SourceTable) -> None:
        source.alter(table, KEY, column(2, "v", kind), TEXT)
        value = "seven" if kind.startswith("varchar") else Decimal(7)
        table.rows = {k: {**row, "v": value} for k, row in table.rows.items()}
        source.commit(lambda t: t.insert(table, id=6, v=value, w="y"))

    return change


def adds(source: Source, table: SourceTable) -> None:
    source.alter(table, KEY, NUMBER, TEXT, column(4, "late", "int"))
    source.commit(lambda t: t.insert(table, id=6, v=1, w="y", late=3))


def renames(source: Source, table: SourceTable) -> None:
    source.alter(table, KEY, column(2, "value", "int"), TEXT)
    source.commit(lambda t: t.insert(table, id=6, value=8, w="y"))


@dataclass(frozen=True)
class Hand:
    """What somebody does to a table, and the change of the source that meets it."""

    alters: tuple[str, ...]
    change: Callable[[Source, SourceTable], None] = updates
    stops: bool = True


HANDS = {
    "a_check": Hand(("ADD CONSTRAINT small CHECK (v < 5)",)),
    "append_only": Hand(("SET TBLPROPERTIES ('delta.appendOnly' = 'true')",)),
    "dropped": Hand((MAPPED, "DROP COLUMN v")),
    "replaced": Hand((MAPPED, "DROP COLUMN v", "ADD COLUMNS (v STRING)")),
    "added": Hand(("ADD COLUMNS (late STRING)",), adds),
    "widened": Hand(
        ("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "ALTER COLUMN v TYPE BIGINT"),
        retyped("decimal(12,2)"),
    ),
    "clustered": Hand(("CLUSTER BY (v)",), retyped("varchar(9)")),
    "unset": Hand(("UNSET TBLPROPERTIES ('tailrace.columns')",)),
    "unmapped": Hand(
        (MAPPED, "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')"), stops=False
    ),
    "a_check_of_a_renamed": Hand(("ADD CONSTRAINT small CHECK (v < 50)",), renames),
}


@pytest.mark.slow("ten tables in four batches")
def test_a_snapshot_brings_back_whatever_was_altered(source: Source, lake: Lake):
    def alter(name: str, text: str) -> None:
        lake.spark.sql(f"ALTER TABLE delta.`{lake.location(name)}` {text}")

    tell(source, lake, HANDS, alter, lake.by_key)


def tell(
    source: Source,
    lake: Lake,
    hands: Mapping[str, Hand],
    alter: Callable[[str, str], None],
    rows_of: Callable[[SourceTable], Rows],
) -> None:
    """Alter a table by each hand; those that stop come back with a snapshot.

    Args:
        rows_of: reads a table as it is in the lake.
    """
    tables = {name: source.table(name, KEY, NUMBER, TEXT) for name in hands}
    for table in tables.values():
        source.commit(*(lambda t, of=table, k=k: t.insert(of, id=k, v=k, w="a") for k in range(3)))
    source.publish()
    lake.catch_up()
    first, at_first = lake.commits()[-1]["through_lsn"], source.cut()

    for name, hand in hands.items():
        for text in hand.alters:
            alter(name, text)
        hand.change(source, tables[name])
    source.publish()
    lake.catch_up(apply_attempts=1)
    stopped = stopped_tables(lake)
    assert stopped.keys() == {name for name, hand in hands.items() if hand.stops}
    for name, reason in stopped.items():
        assert re.search(rf"shop[./]dbo[./]{name}\b", reason), reason
        assert "tailrace snapshot" in reason
        assert "with values" not in reason, "the stop's reason shows none of a row"
    check(rows_of, {name: table for name, table in tables.items() if name not in stopped})

    for table in tables.values():
        source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=list(tables.values()))
    source.publish()
    lake.catch_up(apply_attempts=1)
    assert stopped_tables(lake) == {}
    check(rows_of, tables)
    source.commit(*(lambda t, of=of: t.delete(of, (2,)) for of in tables.values()))
    source.publish()
    lake.catch_up(apply_attempts=1)
    assert stopped_tables(lake) == {}
    check(rows_of, tables)

    old = read(lake.spark, lake.address).as_of(lsn=first)
    for name in tables:
        rows = [row.asDict() for row in old.read(f"dbo.{name}").select("id", "v", "w").collect()]
        assert {(row["id"],): row for row in rows} == at_first[name], name


KINDS = {r"dbo\.followed": ["mirror", "changelog"]}


@pytest.mark.slow("tables that no snapshot replaces, in five batches")
def test_what_no_snapshot_replaces_says_what_to_move_away(source: Source, lake: Lake):
    """A changelog, a table without a key, and one of which a later part of a snapshot fails."""
    options: dict[str, Any] = {"apply_attempts": 1, "kinds": KINDS, "changes_per_batch": 20}
    followed, large = (source.table(name, KEY, NUMBER) for name in ("followed", "large"))
    keyless = source.table("keyless", column(1, "v", "int"))
    source.commit(
        lambda t: t.insert(followed, id=1, v=1),
        lambda t: t.insert(large, id=0, v=0),
        lambda t: t.insert(keyless, v=1),
    )
    source.publish()
    lake.catch_up(**options)
    refuse = {"followed": "followed.changes", "keyless": "keyless", "large": "large"}
    for path in refuse.values():
        limit = "ADD CONSTRAINT small CHECK (v < 50)"
        lake.spark.sql(f"ALTER TABLE delta.`{lake.location(path)}` {limit}")
    source.commit(
        lambda t: t.insert(followed, id=60, v=60),
        lambda t: t.insert(keyless, v=60),
    )
    rows = [{"id": n, "v": n} for n in range(60)]
    for part in (rows[:30], rows[30:]):
        source.publish(source.snapshot(large, part), snapshotting=[large])
        lake.catch_up(**options)
    # The mirror is replaced, its companion is not.
    source.snapshot(followed, list(followed.rows.values()))
    source.publish(snapshotting=[large, followed])
    source.publish(snapshotting=[large])
    lake.catch_up(**options)
    reasons = stopped_tables(lake)
    assert reasons.keys() == refuse.keys()
    for name, reason in reasons.items():
        assert "move the table's folder away" in reason, reason
        assert "(tailrace snapshot)" not in reason, f"{name} would be asked for again and again"

    for name, path in refuse.items():
        shutil.move(lake.location(path), lake.path / name)
    source.publish()
    source.snapshot(keyless, [{"v": 1}, {"v": 60}])
    for table in (followed, large):
        source.snapshot(table, list(table.rows.values()))
    source.publish(snapshotting=[followed, large, keyless])
    source.publish()
    lake.catch_up(**options)
    assert stopped_tables(lake) == {}
    check(lake.by_key, {"followed": followed, "large": large})
    assert Counter(row["v"] for row in lake.rows("keyless")) == {1: 1, 60: 1}
    changes = [row for row in lake.raw("followed.changes") if row["_cdc_op"] == "r"]
    assert sorted(row["id"] for row in changes) == [1, 60]


def stopped_tables(lake: Lake) -> dict[str, str]:
    """The reasons by table."""
    stopped = json.loads(lake.commits()[-1]["stopped"])
    return {topic.rpartition(".")[2]: reason for topic, reason in stopped.items()}


def check(rows_of: Callable[[SourceTable], Rows], tables: Mapping[str, SourceTable]) -> None:
    """Compare the rows of tables with the source's, without columns of somebody else."""
    for name, table in tables.items():
        own = [of.name for of in table.schema.columns]
        found = {key: {n: row[n] for n in own} for key, row in rows_of(table).items()}
        assert found == table.rows, name
