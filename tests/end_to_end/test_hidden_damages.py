"""Drawn damage to a lake that its commits do not show, one in each table of a round.

Verify names what differs. Each is then healed by a repair or a snapshot, or refused with the fix
that heals it. A table that is called proven has the rows of the source, by another look.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pytest
from pyarrow.fs import LocalFileSystem, S3FileSystem
from pyspark.sql import SparkSession

from tailrace.settings.load import load
from tailrace.signals.request import send
from tailrace.verify.compare import Limits
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import VerifyOptions, verify
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_sink.tables.lake_table import CDC_COLUMNS
from tests.end_to_end.conftest import Pipeline, wait_until
from tests.end_to_end.test_verify import repeating
from tests.file_damage import OF_DELTA, OF_ICEBERG, TableFiles, folders_of
from tests.hidden_damage import run_as_an_iceberg_sink, run_as_the_sink

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROWS: Final = 300
GONE: Final = 4
"""A row that the source has deleted."""
TOUCHED: Final = 250
"""A row that changes after the damage, so that the next cut has the table as it then is."""
LATE: Final = ChangePosition.end_of(Lsn.MAX).to_bytes().hex()
IN_TURN: Final = 8
"""Damages of a round."""

MORE: Final = range(2, 26)
"""Seeds of further rounds: with the first one, 200 damages are drawn."""

Statements = Callable[[str, int], Sequence[str]]
"""Returns what damages the row with a key of a table."""

OF_ROWS: Final[dict[str, Statements]] = {
    "row_deleted": lambda t, k: [f"DELETE FROM {t} WHERE id = {k}"],
    "row_changed": lambda t, k: [f"UPDATE {t} SET v = v + 1 WHERE id = {k}"],
    "row_nulled": lambda t, k: [f"UPDATE {t} SET note = NULL WHERE id = {k}"],
    "row_doubled": lambda t, k: [f"INSERT INTO {t} SELECT * FROM {t} WHERE id = {k}"],
    "row_resurrected": lambda t, k: [_copied(t, str(GONE), k)],
    "row_invented": lambda t, k: [_copied(t, str(ROWS + k), k)],
    "row_raised": lambda t, k: [f"UPDATE {t} SET v = -1, _cdc_position = X'{LATE}' WHERE id = {k}"],
    "rows_swapped": lambda t, k: [
        f"UPDATE {t} SET v = CASE id WHEN {k} THEN {k + 1} ELSE {k} END WHERE id IN ({k}, {k + 1})"
    ],
    "key_nulled": lambda t, k: [_copied(t, "CAST(NULL AS INT)", k)],
}
OF_OTHERS: Final[dict[str, Statements]] = {
    "row_deleted_by_others": OF_ROWS["row_deleted"],
    "row_changed_by_others": OF_ROWS["row_changed"],
}
REFUSED: Final = {"key_nulled"}
"""Damage that Iceberg refuses: its columns of a key have no NULL."""


def _copied(table: str, key: str, of: int) -> str:
    names = f"v, note, {', '.join(CDC_COLUMNS)}"
    return f"INSERT INTO {table} (id, {names}) SELECT {key}, {names} FROM {table} WHERE id = {of}"


@dataclass(frozen=True)
class Lake:
    """The lake of a round, in one format."""

    pipeline: Pipeline
    sinks: SparkSession
    is_iceberg: bool

    @cached_property
    def spark(self) -> SparkSession:
        """A session of others; one that is made after the sink's has its catalog."""
        return self.sinks.newSession()

    def name(self, table: str) -> str:
        """The table in SQL."""
        if self.is_iceberg:
            options = self.pipeline.sink_config.iceberg_options
            return f"{options.name}.{options.namespace}.{table}"
        return f"delta.`{self.pipeline.folder}/lake/{self.path(table)}`"

    def path(self, table: str) -> str:
        return f"{self.pipeline.database}/dbo/{table}"

    def run(self, table: str, statement: str) -> None:
        """Run a statement as the sink."""
        if self.is_iceberg:
            run_as_an_iceberg_sink(self.spark, self.name(table), statement)
        else:
            run_as_the_sink(self.spark, self.pipeline.prefix, statement)

    def files(self, table: str) -> TableFiles:
        config = self.pipeline.sink_config
        if self.is_iceberg:
            store = S3FileSystem(**config.s3.pyarrow())
            return TableFiles(store, folders_of(self.spark, self.name(table)))
        return TableFiles(LocalFileSystem(), (f"{config.lake}/{self.path(table)}",))

    def strike(self, table: str, damage: str, key: int) -> None:
        files = OF_ICEBERG if self.is_iceberg else OF_DELTA
        if damage in files:
            files[damage](self.files(table))
        for statement in OF_ROWS.get(damage, _nothing)(self.name(table), key):
            self.run(table, statement)
        for statement in OF_OTHERS.get(damage, _nothing)(self.name(table), key):
            self.spark.sql(statement)
        self.forget()

    def forget(self) -> None:
        """Read tables as a process does that starts."""
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def remove(self, words: str) -> None:
        """Do what an error says of a table that cannot be replaced."""
        if folder := re.search(r"move the folder (\S+) away", words):
            shutil.move(folder[1], f"{folder[1].rstrip('/')}.away")
        elif name := re.search(r"drop the table (\S+) in the catalog", words):
            self.spark.sql(f"DROP TABLE {name[1]}")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = self.spark.table(self.name(table)).where("_cdc_op <> 'd'")
        return sorted(map(tuple, found.select("id", "v", "note").collect()))


def _nothing(_table: str, _key: int) -> Sequence[str]:
    return ()


def stopped(pipeline: Pipeline, table: str) -> str:
    """Why the sink stopped a table; empty if it did not."""
    found = pipeline.commit_rows()[-1].stopped
    return next((reason for topic, reason in found.items() if topic.endswith(f".{table}")), "")


@dataclass(frozen=True)
class Round:
    """Tables with a damage each.

    Attributes:
        drawn: table to the damage and the key of its row.
    """

    lake: Lake
    drawn: dict[str, tuple[str, int]]

    @classmethod
    def draw(cls, lake: Lake, seed: int) -> Round:
        chance = random.Random(seed)
        of_files = OF_ICEBERG if lake.is_iceberg else OF_DELTA
        of_rows = [name for name in OF_ROWS if not (lake.is_iceberg and name in REFUSED)]
        names = [*of_rows, *OF_OTHERS, *of_files]
        drawn = chance.sample(names, IN_TURN)
        return cls(
            lake, {f"t{n}": (name, chance.randrange(10, 200)) for n, name in enumerate(drawn)}
        )

    def create(self) -> None:
        pipeline = self.lake.pipeline
        pipeline.server.create_database(pipeline.database)
        with closing(pipeline.server.connect(pipeline.database)) as connection:
            connection.execute("EXEC sys.sp_cdc_enable_db")
            for table in self.drawn:
                connection.execute(
                    f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int, note nvarchar(20))"
                )
                connection.execute(
                    "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                    " @role_name = NULL",
                    table,
                )
                rows = [(n, n, f"note {n}") for n in range(1, ROWS + 1)]
                connection.cursor().executemany(f"INSERT dbo.{table} VALUES (?, ?, ?)", rows)
        pipeline.scan()

    def change(self, *statements: str) -> None:
        """Change each table at the source; returns when a cut has it."""
        pipeline = self.lake.pipeline
        with closing(pipeline.server.connect(pipeline.database)) as connection:
            for table in self.drawn:
                for statement in statements:
                    connection.execute(statement.format(table))
        pipeline.scan()
        pipeline.lake_reaches_source()

    def verified(self, *, repairs: bool = False) -> dict[str, TableResult]:
        """Compare all tables; those that are proven have the rows of the source."""
        pipeline = self.lake.pipeline
        settings = load(pipeline.config(), {})
        options = VerifyOptions(repairs=repairs, limits=Limits(20 if repairs else 120))
        with repeating(pipeline.scan, 0.5):
            found = verify(settings.publisher(), settings.sink(), self.lake.spark, options)
        self.lake.forget()
        results = {result.table.removeprefix("dbo."): result for result in found.tables}
        for table, result in results.items():
            if result.is_proven:
                assert self.lake.rows(table) == self.source(table), self.drawn[table]
            reasons = [text for text in (result.problem, result.repair_problem) if text]
            assert all("Fix: " in text for text in reasons), (self.drawn[table], reasons)
        assert results.keys() == self.drawn.keys()
        return results

    def source(self, table: str) -> list[tuple[Any, ...]]:
        pipeline = self.lake.pipeline
        with closing(pipeline.server.connect(pipeline.database)) as connection:
            return sorted(map(tuple, connection.execute(f"SELECT * FROM dbo.{table}").fetchall()))

    def snapshots(self, tables: Sequence[str]) -> None:
        """Take snapshots, and do what the reason says of those that still stop."""
        pipeline, removed = self.lake.pipeline, set[str]()
        config = load(pipeline.config(), {}).publisher()
        before = pipeline.commit_rows()[-1].tables

        def ask(*names: str) -> None:
            send(config, SnapshotSignal(tuple(f"dbo.{name}" for name in names)).to_bytes())

        def healed() -> bool:
            pipeline.scan()
            row = pipeline.commit_rows()[-1]
            for table in set(tables) - removed:
                reason = stopped(pipeline, table)
                if "move the folder" in reason or "drop the table" in reason:
                    self.lake.remove(reason)
                    removed.add(table)
                    ask(table)
            versions = [
                (row.tables.get(self.lake.path(t)), before.get(self.lake.path(t))) for t in tables
            ]
            return all(now is not None and now != then for now, then in versions)

        if tables:
            ask(*tables)
        wait_until(healed, f"snapshots of {[self.drawn[t] for t in tables]}", 0.5)

    def play(self) -> None:
        """Damage each table; let verify find it, then repair and replace what can be."""
        pipeline = self.lake.pipeline
        self.create()
        pipeline.start("publish")
        with pipeline.sink_here(self.lake.sinks):
            pipeline.lake_has(*self.drawn)
            for number in range(3):
                self.change(f"UPDATE dbo.{{}} SET v = v + 100 WHERE id = {number + 1}")
            self.change(f"DELETE dbo.{{}} WHERE id = {GONE}")
        for table, (damage, key) in self.drawn.items():
            self.lake.strike(table, damage, key)
        with pipeline.sink_here(self.lake.sinks):
            self.change(f"UPDATE dbo.{{}} SET v = v + 1 WHERE id = {TOUCHED}")
            for table, result in self.verified().items():
                damage, _ = self.drawn[table]
                assert damage not in OF_ROWS or result.differs, (damage, result)
                reason = stopped(pipeline, table)
                assert damage not in OF_OTHERS or "by somebody else" in reason, (damage, reason)
                assert result.problem is not None or not reason, (damage, result)
            repaired = self.verified(repairs=True)
            self.snapshots([table for table, result in repaired.items() if not result.is_proven])
            results = self.verified()
        assert all(result.is_proven for result in results.values()), results


@pytest.mark.slow("publisher and sink run while tables are damaged, compared and replaced")
def test_drawn_damage_is_named_and_healed(pipeline: Pipeline, spark: SparkSession) -> None:
    play(pipeline, spark, 1)


@pytest.mark.nightly("one round in make test-sink")
@pytest.mark.slow("further rounds of drawn damage")
@pytest.mark.parametrize("seed", MORE)
def test_more_drawn_damage(pipeline: Pipeline, spark: SparkSession, seed: int) -> None:
    play(pipeline, spark, seed)


def play(pipeline: Pipeline, spark: SparkSession, seed: int, *, is_iceberg: bool = False) -> None:
    pipeline.sink_options |= {
        "apply_attempts": 3,
        "retry_backoff_max_s": 0.25,
        "request_snapshots": False,
    }
    if not is_iceberg:
        pipeline.sink_options |= {"rewrite_below_bytes": 0}
    Round.draw(Lake(pipeline, spark, is_iceberg), seed).play()
