"""Drawn operations of other programs between batches: no cut has rows that the source did not have.

Each table either has the source's rows in the cut, or is out of it, with a reason. Operations that
change no row never take a table out.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable, WriterProperties
from pyspark.sql import SparkSession

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.tables.test_foreign_hands import forget_tables

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))
ROWS = 8
ROUNDS = 4
SHARED = "all.orders"
NEVER = threading.Event()
Hand = Callable[[SparkSession, str, random.Random], Any]


def _sql(statement: str) -> Hand:
    """Run a statement; {t} is the table, {n} a number."""

    def hand(spark: SparkSession, at: str, chance: random.Random) -> None:
        spark.sql(statement.format(t=f"delta.`{at}`", n=chance.randrange(ROWS)))

    return hand


def _restored(spark: SparkSession, at: str, chance: random.Random) -> None:
    newest = DeltaTable(at).version()
    spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF {chance.randint(1, newest)}")


def _removed(_: SparkSession, at: str, __: random.Random) -> None:
    shutil.rmtree(at)


def _deleted_elsewhere(_: SparkSession, at: str, chance: random.Random) -> None:
    DeltaTable(at).delete(f"id >= {chance.randrange(ROWS)}")


def _compacted_elsewhere(_: SparkSession, at: str, __: random.Random) -> None:
    DeltaTable(at).optimize.compact(writer_properties=WriterProperties(compression="SNAPPY"))


CHANGING: dict[str, Hand] = {
    "delete": _sql("DELETE FROM {t} WHERE id = {n}"),
    "delete all": _sql("DELETE FROM {t}"),
    "update": _sql("UPDATE {t} SET v = -7 WHERE id >= {n}"),
    "insert": _sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = {n}"),
    "overwrite": _sql("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> {n}"),
    "merge": _sql(
        "MERGE INTO {t} t USING (SELECT {n} AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = -8"
    ),
    "restore": _restored,
    "remove": _removed,
    "delete by another engine": _deleted_elsewhere,
}
HARMLESS: dict[str, Hand] = {
    "optimize": _sql("OPTIMIZE {t}"),
    "z-order": _sql("OPTIMIZE {t} ZORDER BY (v)"),
    "purge": _sql("REORG TABLE {t} APPLY (PURGE)"),
    "properties": _sql("ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'of {n}')"),
    "comment": _sql("COMMENT ON TABLE {t} IS 'of {n}'"),
    "compact by another engine": _compacted_elsewhere,
}
HANDS: dict[str, Hand] = CHANGING | HARMLESS


class Story:
    """A lake with plain tables, one with companions, and two sources that share one."""

    def __init__(self, source: Source, lake: Lake, spark: SparkSession, seed: int) -> None:
        self.chance = random.Random(seed)
        self.source, self.lake, self.spark = source, lake, spark
        self.options: dict[str, Any] = {
            "kinds": {r"dbo\.kept": ["mirror", "changelog", "history"]},
            "into": {r"dbo\.part_.*": SHARED},
        }
        names = ("first", "second", "third", "kept", "part_a", "part_b")
        self.tables = [source.table(name, *COLUMNS) for name in names]
        for table in self.tables:
            source.commit(*(self._insert(table, n) for n in range(ROWS)))
        source.publish()
        self.begin()
        self.carry()

    @staticmethod
    def _insert(table: SourceTable, number: int) -> Callable[[Any], None]:
        return lambda t: t.insert(table, id=number, v=number)

    def begin(self) -> None:
        self.sink: Sink = self.lake.sink(**self.options)
        self.sink.open()
        by_id = self.source.registry.schema_by_id
        self.stream = ProgressStream(self.spark, self.sink.config, by_id, self.sink)

    def carry(self) -> None:
        self.stream.catch_up(NEVER)
        self.sink.fold_tables(NEVER)

    def restart(self) -> None:
        self.sink.close()
        forget_tables(self.spark)
        self.begin()

    def change(self) -> None:
        """Each table but one has changes, so that the next batch looks at it."""
        for table in self.tables:
            key = self.chance.choice(sorted(table.rows))
            new = max(table.rows)[0] + 1
            self.source.commit(
                lambda t, of=table, k=key: t.update(of, k, v=self.chance.randrange(1000)),
                self._insert(table, new),
            )
        self.source.publish()

    def round(self) -> dict[str, str]:
        """Draw an operation for each lake table; return that of each source."""
        done: dict[str, str] = {}
        for name in ("first", "second", "third", "kept", SHARED):
            hand = self.chance.choice(sorted(HANDS))
            path = f"shop/dbo/{name}" if name != SHARED else "shop/all/orders"
            if name == "kept" and hand in HARMLESS | {"delete all": None, "remove": None}:
                path += self.chance.choice(("", ".changes", ".history"))
            HANDS[hand](self.lake.spark, f"{self.lake.address}/{path}", self.chance)
            sources = [name] if name != SHARED else ["part_a", "part_b"]
            done |= dict.fromkeys(sources, hand)
        return done

    def judge(self, done: dict[str, str]) -> list[SourceTable]:
        """Check the newest cut; return the sources that are out of it."""
        stopped = json.loads(self.lake.commits()[-1]["stopped"])
        cut = read(self.lake.spark, self.lake.address).as_of("latest")
        out = []
        for table in self.tables:
            name = table.name.table
            path = f"shop/dbo/{name}" if not name.startswith("part") else "shop/all/orders"
            if table.topic in stopped:
                assert done[name] in CHANGING, (name, done[name], stopped[table.topic])
                assert "take a new snapshot" in stopped[table.topic]
                out.append(table)
                continue
            assert path in cut.versions, (name, done[name])
            rows = [row.asDict() for row in cut.read(f"dbo.{name}").collect()]
            found = {(row["id"],): {"id": row["id"], "v": row["v"]} for row in rows}
            assert len(found) == len(rows), (name, done[name])
            assert found == table.rows, (name, done[name])
        return out

    def snapshot(self, tables: list[SourceTable]) -> None:
        if not tables:
            return
        self.source.publish(snapshotting=tables)
        for table in tables:
            self.source.snapshot(table, list(table.rows.values()))
        self.source.publish()
        self.carry()


def play(source: Source, lake: Lake, spark: SparkSession, seed: int) -> None:
    story = Story(source, lake, spark, seed)
    try:
        for _ in range(ROUNDS):
            done = story.round()
            story.change()
            if story.chance.random() < 0.5:
                story.restart()
            story.carry()
            story.snapshot(story.judge(done))
            assert story.judge(dict.fromkeys(done, "")) == [], done
    finally:
        story.sink.close()


@pytest.mark.slow("twenty operations of others between batches")
def test_no_cut_has_what_somebody_else_did(source: Source, lake: Lake, spark: SparkSession):
    play(source, lake, spark, 1)


@pytest.mark.nightly("twenty draws in make test-sink")
@pytest.mark.slow("two hundred operations of others")
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_cut_has_what_somebody_else_did_in_more_draws(
    source: Source, lake: Lake, spark: SparkSession, seed: int
):
    play(source, lake, spark, seed)
