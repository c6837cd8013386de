"""``tailrace verify`` again and again under a load that does not stop: is there a false alarm?

Two writers change ten tables: inserts, updates, deletes, changed keys, large values, transactions
that stay open, and rollbacks. The tables have what makes values differ by design:

- every type, floats, rounded times, large values, computed columns
- several collations, and keys that are equal by them
- masked, hashed, cut and excluded columns
- a table without a key, and one with ``message_keys``
- soft deletes and changelogs
- columns that are added, widened and dropped meanwhile, and rotated capture instances

All tables are compared in this process, one comparison after another. Next to it runs
``tailrace verify --continuous`` for the tables whose columns stay. At the end three rows of the
lake are damaged while the writers continue. It must name them alone.

- ``false_alarms``: rows reported as different, though nothing but the sink wrote to the lake
- ``patch_pending``: rows without a new column's value at a cut before its patch ended; documented
- ``rows_read_again``: rows that were read more than once, most because they changed meanwhile
- ``unsettled``: rows that changed during each of six comparisons
- ``not_compared``: tables by reason, e.g. a keyless table that changed during each comparison
- ``proven``: comparisons in which every row of every table was found equal
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyodbc
from pyspark.sql import SparkSession

from bench.daemon_process import DaemonProcess
from bench.publisher.published_orders import settings_of
from bench.verify_load.continuous import Continuous
from bench.verify_load.tables import (
    ACCOUNTS,
    DATABASE,
    EVOLVING_TABLES,
    PUBLISHER,
    SINK,
    TABLES,
    create,
)
from bench.verify_load.writers import Writers
from tailrace.reading.lake import CommitRow, CommitRows
from tailrace.reading.lake_session import configured_session
from tailrace.settings.load import load
from tailrace.verify.compare import Limits
from tailrace.verify.report import difference_text, verification_lines
from tailrace.verify.row_differences import Kind, RowDifference
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import Verification, VerifyOptions, verify
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.process import free_port
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_sink.options.config import SinkConfig
from tests.hidden_damage import run_as_the_sink

_LIMIT_S: Final = 600.0
_POLL_S: Final = 0.5
_COLUMNS_EVERY_S: Final = 300.0
"""Longer than a comparison of the table takes: its changes must be in one change table so long."""
_MARKER: Final = 999_999
_SHOWN: Final = 30_000
_SEED: Final = 33


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--minutes", type=float, default=3.0, help="verify_load: how long rows are compared"
    )


@dataclass
class _Found:
    """What all comparisons found together."""

    false_alarms: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    not_compared: Counter[str] = field(default_factory=Counter)
    rows_compared: int = 0
    rows_read_again: int = 0
    patch_pending: int = 0
    unsettled: int = 0
    not_examined: int = 0
    proven: int = 0

    def take(self, found: Verification, patched: dict[str, str]) -> None:
        """Count one comparison.

        Args:
            patched: the LSN from which on every row has a column's value, by column.
        """
        self.seconds.append(sum(table.seconds for table in found.tables))
        self.proven += found.is_proven
        for table in found.tables:
            self.rows_compared += table.source_rows
            self.rows_read_again += max(0, table.rows_read - table.source_rows)
            self.unsettled += table.unsettled
            self.not_examined += table.not_examined
            if table.problem is not None:
                reason = table.problem.partition(". Fix:")[0]
                self.not_compared[f"{table.table}: {reason}"[:200]] += 1
            pending = [row for row in table.examples if _is_pending(row, table, patched)]
            self.patch_pending += len(pending)
            wrong = [row for row in table.examples if row not in pending]
            self.false_alarms += [
                f"{table.table} at {table.lsn}: {difference_text(row)}" for row in wrong
            ]
            if hidden := table.differing.total() - sum(row.rows for row in table.examples):
                self.false_alarms.append(f"{table.table}: {hidden} further rows")


def _is_pending(row: RowDifference, table: TableResult, patched: dict[str, str]) -> bool:
    """Return whether a row lacks values of new columns alone, at a cut before their patch ended."""
    return row.kind is Kind.VALUE and all(
        name.startswith(("extra_", "rank_")) and patched.get(name, "~") > (table.lsn or "")
        for name in row.columns
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compare under load.

    Returns:
        What was compared and changed, and what was found.

    Raises:
        RuntimeError: a row was reported that did not differ, or a damaged one was not.
    """
    spark_jars()  # Downloads are no part of it.
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-bench-")))
        stack = cleanup.enter_context(LocalStack(folder))
        source = stack.emulator.connection_string(DATABASE)
        create(stack.emulator.connection_string(), source, random.Random(_SEED))  # noqa: S311
        sink_options = SINK | {"lake": str(folder / "lake"), "metrics_port": free_port()}
        settings = settings_of(stack, "verify", DATABASE, **PUBLISHER) | {"sink": sink_options}
        publisher = DaemonProcess("publisher", settings, folder)
        sink = DaemonProcess("sink", settings, folder)
        path = folder / "verify.yaml"
        path.write_text(json.dumps(settings))
        configured = load(path, {})
        writers = Writers(source, _SEED)
        cleanup.enter_context(writers.working())
        for daemon in (publisher, sink):
            cleanup.callback(daemon.stop)
            daemon.start()
        spark = configured_session(configured.sink())
        cleanup.callback(spark.stop)
        alive = _Alive(writers, publisher, sink)
        return _Load(
            configured.publisher(), configured.sink(), spark, source, writers, alive
        ).measured(path, arguments.minutes)


@dataclass
class _Alive:
    """Everything that must not end meanwhile."""

    writers: Writers
    publisher: DaemonProcess
    sink: DaemonProcess

    def check(self) -> None:
        """Raise what ended a writer or a daemon."""
        self.writers.check()
        for daemon in (self.publisher, self.sink):
            if (status := daemon.exited_within(0)) is not None:
                raise daemon.failure(f"ended with status {status}")

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait for a condition.

        Raises:
            RuntimeError: it was not reached within ten minutes.
        """
        deadline, pause = time.monotonic() + _LIMIT_S, threading.Event()
        while not reached():
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {_LIMIT_S:g} s: {what}")
            pause.wait(_POLL_S)


@dataclass
class _Load:
    publisher: PublisherConfig
    sink: SinkConfig
    spark: SparkSession
    source: str
    writers: Writers
    alive: _Alive

    def measured(self, config: Path, minutes: float) -> dict[str, Any]:
        """Compare for some minutes, then damage rows and compare again."""
        paths = {f"{DATABASE}/dbo/{table}" for table in TABLES}
        self.alive.until(lambda: paths <= self._cut().keys(), "all tables are in the lake")
        stay = [name for table in TABLES if (name := f"dbo.{table}") not in EVOLVING_TABLES]
        continuous = Continuous(config, self.sink.lake, stay)
        continuous.start()
        found, begun = _Found(), time.monotonic()
        with self.writers.changing_columns(_COLUMNS_EVERY_S):
            while time.monotonic() < begun + minutes * 60:
                self.alive.check()
                found.take(self._verify(), self._patched())
                continuous.look()
                _say(found, self.writers)
        lasted_s = time.monotonic() - begun
        continuous.stop()
        changed, committed = self.writers.rows, self.writers.transactions
        if found.false_alarms or continuous.differing:
            raise RuntimeError(
                f"{len(found.false_alarms)} rows, and {continuous.differing} of --continuous:\n"
                + "\n".join(found.false_alarms[:100])
            )
        figures = {
            "minutes": round(lasted_s / 60, 1),
            "verifications": len(found.seconds),
            "proven": found.proven,
            "seconds": round(statistics.median(found.seconds), 1),
            "rows_compared": found.rows_compared,
            "rows_read_again": found.rows_read_again,
            "rows_changed": changed,
            "transactions": committed,
            "refused": self.writers.refused,
            "column_changes": len(self.writers.ddl),
            "false_alarms": 0,
            "patch_pending": found.patch_pending,
            "unsettled": found.unsettled,
            "not_examined": found.not_examined,
            "not_compared": dict(found.not_compared),
            "continuous_passes": continuous.passes,
            "continuous_parts": continuous.parts,
            "continuous_not_proven": continuous.not_proven,
            "load_after": round(os.getloadavg()[0], 1),
        }
        print(json.dumps(figures), file=sys.stderr)
        return figures | {"damaged_and_named": self._damaged_and_named()}

    def _verify(self) -> Verification:
        options = VerifyOptions(limits=Limits(examples=_SHOWN))
        return verify(self.publisher, self.sink, self.spark, options)

    def _cut(self) -> dict[str, int]:
        """Return the versions of the tables in the newest cut."""
        newest: CommitRow | None = CommitRows.of(self.sink).newest()
        return {} if newest is None else dict(newest.tables)

    def _patched(self) -> dict[str, str]:
        """Return the LSN from which on every row has a column's value, by column."""
        rows = self.spark.read.format("delta").load(self.sink.commits_path)
        changes = [
            change
            for row in rows.where("schema_changes <> '[]'").select("schema_changes").collect()
            for change in json.loads(row[0])
        ]
        return {c["column"]: c["becomes"] for c in changes if c["change"] == "whole"}

    def _damaged_and_named(self) -> dict[str, str]:
        """Damage three rows, let the writers continue, and see that these alone are named."""
        path = f"{DATABASE}/dbo/accounts"
        with self.writers.paused():  # A merge of the sink would conflict.
            with pyodbc.connect(self.source, autocommit=True) as source:
                source.execute(
                    f"INSERT dbo.accounts (branch, id, owner) VALUES (0, {_MARKER}, N'marker')"
                )
            table = f"delta.`{self.sink.lake}/{path}`"
            self.alive.until(
                lambda: self.spark.table(table).where(f"id = {_MARKER}").count() == 1,
                "the lake has what was written",
            )
            damaged = self._damage(table)
            history = self.spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()
        self.alive.until(lambda: self._cut()[path] > history[0]["version"], "a cut has the damage")
        found, patched = self._verify(), self._patched()
        named = {
            str(row.kind): row.key.get("id", "")
            for one in found.tables
            for row in one.examples
            if not _is_pending(row, one, patched)
        }
        accounts = next(one for one in found.tables if one.table == "dbo.accounts")
        if named != damaged or accounts.differing.total() != len(damaged):
            raise RuntimeError(f"not exactly {damaged}: {verification_lines(found)[:100]}")
        return damaged

    def _damage(self, table: str) -> dict[str, str]:
        """Lose, change and add a row of the lake; return their ids by how they differ."""
        lost, changed, surplus = ACCOUNTS + 100, ACCOUNTS + 200, 2 * _MARKER
        others = ", ".join(f"`{n}`" for n in self.spark.table(table).columns if n != "id")
        damage = partial(run_as_the_sink, self.spark, self.sink.prefix)
        damage(f"DELETE FROM {table} WHERE id = {lost}")
        damage(f"UPDATE {table} SET balance = balance + 0.01 WHERE id = {changed}")
        damage(
            f"INSERT INTO {table} (id, {others}) SELECT {surplus}, {others} FROM {table}"
            f" WHERE id = {changed + 1}"
        )
        return {"missing": str(lost), "value": str(changed), "surplus": str(surplus)}


def _say(found: _Found, writers: Writers) -> None:
    parts = (
        time.strftime("%H:%M:%S"),
        f"{len(found.seconds)} comparisons, the last in {found.seconds[-1]:.0f} s",
        f"{found.rows_compared:,} rows compared, {writers.rows:,} changed",
        f"{len(found.false_alarms)} false alarms, {found.patch_pending} pending",
        f"{found.unsettled} unsettled, {len(writers.ddl)} column changes",
        *(f"{count} x {reason}" for reason, count in found.not_compared.items()),
        *found.false_alarms[-3:],
    )
    print("; ".join(parts), file=sys.stderr)
