"""Drawn damage to a lake that its commits do not show, one in each table of a round.

Verify names what differs. Each is then healed by a repair or a snapshot, or refused with the fix
that heals it. A table that is called proven has the rows of the source, by another look.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tailrace.settings.load import load
from tailrace.signals.request import send
from tailrace.verify.compare import Limits
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import VerifyOptions, verify
from tailrace_schemas.records.signals import SnapshotSignal
from tests.end_to_end.conftest import Pipeline, wait_until
from tests.end_to_end.damaged_lake import GONE, OF_OTHERS, OF_ROWS, ROWS, Lake, stopped
from tests.end_to_end.test_verify import repeating

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOUCHED: Final = 250
"""A row that changes after the damage, so that the next cut has the table as it then is."""
IN_TURN: Final = 8
"""Damages of a round."""

MORE: Final = range(2, 26)
"""Seeds of further rounds: with the first one, 200 damages are drawn."""


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
        drawn = chance.sample(lake.damages, IN_TURN)
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


@pytest.mark.slow("publisher and sink run while tables are damaged, compared and replaced")
def test_drawn_damage_to_a_lake_in_iceberg_is_named_and_healed(
    iceberg_pipeline: Pipeline, spark_with_store: SparkSession
) -> None:
    play(iceberg_pipeline, spark_with_store, 1, is_iceberg=True)


@pytest.mark.nightly("one round in make test-sink")
@pytest.mark.slow("further rounds of drawn damage")
@pytest.mark.parametrize("seed", MORE)
def test_more_drawn_damage(pipeline: Pipeline, spark: SparkSession, seed: int) -> None:
    play(pipeline, spark, seed)


@pytest.mark.nightly("one round in make test-sink")
@pytest.mark.slow("further rounds of drawn damage")
@pytest.mark.parametrize("seed", MORE)
def test_more_drawn_damage_to_a_lake_in_iceberg(
    iceberg_pipeline: Pipeline, spark_with_store: SparkSession, seed: int
) -> None:
    play(iceberg_pipeline, spark_with_store, seed, is_iceberg=True)


def play(pipeline: Pipeline, spark: SparkSession, seed: int, *, is_iceberg: bool = False) -> None:
    pipeline.sink_options |= {
        "apply_attempts": 3,
        "retry_backoff_max_s": 0.25,
        "request_snapshots": False,
    }
    if not is_iceberg:
        pipeline.sink_options |= {"rewrite_below_bytes": 0}
    Round.draw(Lake(pipeline, spark, is_iceberg), seed).play()
