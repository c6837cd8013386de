"""An append by its transaction version: once, a conflict where two are quick, and never a state."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.conflicts import is_conflict, is_refused
from tailrace_sink.delta.file_log import table_version, transaction_version
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.spark.session import small_batch_session
from tests.sink.lake_rows import read_delta

pytestmark = pytest.mark.guarantee(13)

APPLICATION: Final = "append"
COLUMNS: Final = "id BIGINT, day DATE, tags MAP<STRING, BIGINT>"


@pytest.fixture
def small(spark: SparkSession) -> SparkSession:
    return small_batch_session(spark)


@pytest.fixture
def location(small: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    small.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (day)")
    return path


def row(spark: SparkSession, number: int, type_: str = "BIGINT") -> DataFrame:
    tags = f"map('n', CAST({number} AS BIGINT)) AS tags"
    return spark.sql(f"SELECT {tags}, CAST({number} AS {type_}) AS id, DATE'2026-01-02' AS day")


def ids(spark: SparkSession, location: str) -> list[int]:
    return sorted(found["id"] for found in read_delta(spark, location))


def test_a_version_is_appended_once(small: SparkSession, location: str):
    assert append_version(row(small, 1), location, APPLICATION, 5, "first")
    assert not append_version(row(small, 2), location, APPLICATION, 5)
    assert not append_version(row(small, 3), location, APPLICATION, 4)
    assert append_version(row(small, 4), location, "another", 1)
    assert append_version(row(small, 5), location, APPLICATION, 6, "second")
    assert ids(small, location) == [1, 4, 5]
    assert transaction_version(small, location, APPLICATION) == 6
    history = DeltaTable(location).history()
    assert [commit.get("userMetadata") for commit in history] == ["second", None, "first", None]
    assert [commit["operation"] for commit in history[:3]] == ["WRITE"] * 3
    assert history[0]["operationMetrics"]["numOutputRows"] == "1"
    found = next(one for one in read_delta(small, location) if one["id"] == 5)
    assert dict(found["tags"]) == {"n": 5}
    assert str(found["day"]) == "2026-01-02"


def test_of_two_that_are_quick_one_is_refused(small: SparkSession, location: str):
    slow = DeltaTransaction(small, location)
    assert slow.is_new_version(APPLICATION, 5)
    slow.add(row(small, 1))
    assert append_version(row(small, 2), location, APPLICATION, 5)
    with pytest.raises((PySparkException, Py4JError)) as raised:
        slow.commit_append(None)
    assert is_conflict(raised.value)
    assert not append_version(row(small, 1), location, APPLICATION, 5)
    assert ids(small, location) == [2]


def test_another_application_is_no_conflict(small: SparkSession, location: str):
    slow = DeltaTransaction(small, location)
    assert slow.is_new_version(APPLICATION, 5)
    slow.add(row(small, 1))
    assert append_version(row(small, 2), location, "another", 9)
    small.sql(f"OPTIMIZE delta.`{location}`")
    slow.commit_append(None)
    assert ids(small, location) == [1, 2]


def test_what_a_constraint_refuses_is_not_appended(small: SparkSession, location: str):
    small.sql(f"ALTER TABLE delta.`{location}` ADD CONSTRAINT few CHECK (id < 10)")
    version = table_version(small, location)
    with pytest.raises((PySparkException, Py4JError)) as raised:
        append_version(row(small, 10), location, APPLICATION, 1)
    assert is_refused(raised.value)
    assert table_version(small, location) == version
    assert append_version(row(small, 9), location, APPLICATION, 1)


def test_a_column_that_the_table_does_not_have_is_refused(small: SparkSession, location: str):
    with pytest.raises(AnalysisException):
        append_version(row(small, 1).withColumnRenamed("id", "no"), location, APPLICATION, 1)
    assert ids(small, location) == []


def test_another_type_is_refused_and_not_written(small: SparkSession, location: str):
    with pytest.raises(AnalysisException, match="id"):
        append_version(row(small, 1, "STRING"), location, APPLICATION, 1)
    assert transaction_version(small, location, APPLICATION) is None
    assert ids(small, location) == []


def test_it_takes_one_job(small: SparkSession, location: str):
    scheduler = small.sparkContext._jsc.sc().dagScheduler()
    for number in range(3):
        append_version(row(small, number), location, APPLICATION, number)
    before = scheduler.numTotalJobs()
    assert append_version(row(small, 3), location, APPLICATION, 3)
    assert scheduler.numTotalJobs() - before == 1
