"""What a replaced sink still wants to write reaches no lake table, whatever kind of write it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta import commits
from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.conflicts import is_conflict
from tailrace_sink.delta.fence import Fence, epochs_scope
from tailrace_sink.delta.file_log import table_metadata, table_version
from tailrace_sink.delta.foreign_commits import OwnVersions
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.errors import ApplyFailed, LakeTaken
from tailrace_sink.ports.writes import Owner
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.tables.lake_table import OWNER_PROPERTY
from tests.sink.lake_rows import read_delta

pytestmark = [pytest.mark.spark, pytest.mark.guarantee(17)]


class Log:
    """The log's epoch, and the sinks that it had."""

    def __init__(self) -> None:
        self.epoch = 0

    def sink(self) -> Fence:
        self.epoch += 1
        mine = self.epoch

        def check() -> None:
            if self.epoch != mine:
                raise LakeTaken("lake", 0, 0)

        own = OwnVersions("lake", epochs_scope("log"), "batches")
        return Fence(Owner("log", mine, check), own)


@pytest.fixture
def small(spark: SparkSession) -> SparkSession:
    return small_batch_session(spark)


@pytest.fixture
def location(small: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    small.sql(f"CREATE TABLE delta.`{path}` (id INT, v INT) USING delta")
    small.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 2)")
    return path


def writes(location: str) -> dict[str, Callable[[SparkSession, Fence], object]]:
    """Every kind of write that a fold does."""
    table = f"delta.`{location}`"
    return {
        "MERGE": lambda spark, fence: fence.write(
            spark,
            location,
            lambda: spark.sql(
                f"MERGE INTO {table} t USING (SELECT 99 AS id, 1 AS v) s ON t.id = s.id"
                " WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT *"
            ),
        ),
        "DELETE": lambda spark, fence: fence.write(
            spark, location, lambda: spark.sql(f"DELETE FROM {table} WHERE id = 1")
        ),
        "UPDATE": lambda spark, fence: fence.write(
            spark, location, lambda: spark.sql(f"UPDATE {table} SET v = 7")
        ),
        "overwrite": lambda spark, fence: fence.write(
            spark,
            location,
            lambda: (
                spark.createDataFrame([("x",)], "other STRING")
                .write.format("delta")
                .mode("overwrite")
                .option("overwriteSchema", "true")
                .save(location)
            ),
        ),
        "ALTER": lambda spark, fence: fence.alter(
            spark, location, f"ALTER TABLE {table} ADD COLUMNS (w INT)"
        ),
        "append": lambda spark, fence: append_version(
            spark.sql("SELECT 99 AS id, 1 AS v"), location, "app", 5, fence=fence
        ),
    }


KINDS = tuple(writes(""))


@pytest.fixture(params=[False, True], ids=["in parts", "by statements"])
def by_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Delta's own classes, and as in a release of Delta that lacks them."""
    if request.param:
        monkeypatch.setattr(commits, "is_available", lambda *_: False)


@pytest.mark.usefixtures("by_statements")
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_sink_writes_and_an_older_one_does_not(
    small: SparkSession, location: str, kind: str
):
    log, write = Log(), writes(location)[kind]
    older = log.sink()
    older.enter(small, location)
    newer = log.sink()
    assert newer.enter(small, location)
    assert not newer.enter(small, location), "it has it"
    before = table_version(small, location)

    with pytest.raises(LakeTaken):
        write(small, older)
    with pytest.raises(LakeTaken):
        older.enter(small, location)
    assert table_version(small, location) == before

    write(small, newer)
    assert table_version(small, location) == before + 1
    metadata = table_metadata(small, location)
    assert metadata is not None
    assert metadata.properties[OWNER_PROPERTY] == newer.owner.text
    assert small.conf.get("spark.databricks.delta.write.txnAppId", None) is None


@pytest.mark.parametrize("is_alter", [False, True], ids=["rows", "metadata"])
def test_a_commit_in_the_making_fails_when_the_table_is_taken(
    small: SparkSession, location: str, is_alter: bool
):
    """The older sink is held after it has read the table and compared the owner."""
    log = Log()
    older = log.sink()
    older.enter(small, location)
    transaction = DeltaTransaction(small, location)
    older.require(location, transaction.property_of(OWNER_PROPERTY))
    if not is_alter:
        transaction.add(small.sql("SELECT 99 AS id, 1 AS v"))
    log.sink().enter(small, location)
    before = table_version(small, location)

    commit = partial(transaction.commit_append, None)
    if is_alter:
        commit = partial(transaction.commit_property, "tailrace.columns", "older")
    with pytest.raises((PySparkException, Py4JError)) as failed:
        commit()
    assert is_conflict(failed.value)
    assert table_version(small, location) == before


@pytest.mark.usefixtures("by_statements")
def test_a_statement_that_was_held_before_it_begins_is_skipped(small: SparkSession, location: str):
    log = Log()
    older = log.sink()
    older.enter(small, location)

    def run() -> None:
        log.sink().enter(small, location)
        small.sql(f"DELETE FROM delta.`{location}`")

    with pytest.raises(LakeTaken):
        older.write(small, location, run)
    assert len(read_delta(small, location)) == 2


def test_a_table_that_was_restored_is_taken_again(small: SparkSession, location: str):
    """It names a sink that the log does not know, or none: the next attempt takes it."""
    log = Log()
    for _ in range(3):
        newer = log.sink()
    newer.enter(small, location)
    log.epoch = 0
    sink = log.sink()
    with pytest.raises(ApplyFailed, match="is no known sink"):
        writes(location)["append"](small, sink)
    assert sink.enter(small, location)
    for kind in ("append", "DELETE"):
        writes(location)[kind](small, sink)
    assert {row["id"] for row in read_delta(small, location)} == {2, 99}


def test_a_batch_is_written_once_by_whichever_sink_comes_first(small: SparkSession, location: str):
    log, table = Log(), f"delta.`{location}`"
    insert = partial(
        small.sql,
        f"MERGE INTO {table} t USING (SELECT 9 AS id, 9 AS v) s ON false"
        " WHEN NOT MATCHED THEN INSERT *",
    )
    older = log.sink()
    older.enter(small, location)
    older.write_once(small, location, "app", 5, insert)
    older.write_once(small, location, "app", 5, insert)
    newer = log.sink()
    newer.enter(small, location)
    newer.write_once(small, location, "app", 5, insert)
    newer.write_once(small, location, "app", 6, insert)

    with pytest.raises(LakeTaken):
        older.write_once(small, location, "app", 7, insert)
    assert [row["id"] for row in read_delta(small, location)] == [1, 2, 9, 9]
