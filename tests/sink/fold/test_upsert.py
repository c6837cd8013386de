"""Rows out and rows in by one commit: what it leaves is what a MERGE leaves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from structlog.testing import capture_logs

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta import classes as delta_classes
from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.conflicts import is_conflict
from tailrace_sink.delta.file_log import table_bytes, table_version
from tailrace_sink.delta.table_properties import create_statement
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.delta.upsert import upsert
from tailrace_sink.delta.warm_up import check_upsert
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.writes import Latest
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.tables.key_bounds import KeyBound, conditions_of
from tailrace_sink.tables.lake_table import CDC_COLUMNS, Kind, LakeColumn, LakeTable
from tests.sink.lake_rows import Rows, read_delta

TABLE: Final = LakeTable(
    TableName("shop", "dbo", "orders"),
    Kind.MIRROR,
    (
        LakeColumn("the id", 1, "INT", "int", 1),
        LakeColumn("region", 2, "STRING", "nvarchar(20)", 2),
        LakeColumn("amount", 3, "DECIMAL(9,2)", "decimal(9,2)"),
    ),
    str(Lsn(1, 1, 1)),
)
VECTORS: Final = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
NO_VECTORS: Final = {"delta.columnMapping.mode": "name"}
ALWAYS: Final = 1 << 30


@pytest.fixture
def small(spark: SparkSession) -> SparkSession:
    return small_batch_session(spark)


def create(spark: SparkSession, path: Path, properties: dict[str, str], **layout: Any) -> str:
    spark.sql(create_statement(TABLE, str(path), properties, **layout))
    return str(path)


def changes(number: int, keys: list[tuple[int | None, str]], operations: str = "ucd") -> list[Any]:
    """A row of the table for each key, as the number-th change of it."""
    rng = random.Random(number)
    position = ChangePosition.of_snapshot(Lsn(number + 1, 1, 1)).to_bytes()
    at = (bytearray(position), str(Lsn(number + 1, 1, 1)))
    return [(*key, number, *at, rng.choice(operations), None) for key in keys]


def frame(spark: SparkSession, rows: list[Any]) -> DataFrame:
    types = (f"`{name}` {type_}" for name, (type_, _) in CDC_COLUMNS.items())
    given = spark.createDataFrame(rows, f"id int, region string, amount int, {', '.join(types)}")
    amount = "CAST(amount AS DECIMAL(9,2)) AS amount"
    return given.selectExpr("id AS `the id`", "region", amount, *CDC_COLUMNS)


def latest(rows: DataFrame, count: int, *, few: bool, bounds: tuple[KeyBound, ...] = ()) -> Latest:
    return Latest(lambda: rows, bounds, count, rows.toArrow() if few else None, None)


def sorted_rows(location: str, spark: SparkSession) -> Rows:
    rows = read_delta(spark, location)
    return sorted(rows, key=lambda row: (str(row["the id"]), row["region"]))


def ways(location: str) -> list[bool]:
    """Of every commit with rows, the newest first: whether it was an upsert's."""
    commits = [c for c in DeltaTable(location).history() if c["operation"] == "MERGE"]
    return ["numTargetRowsInserted" not in commit["operationMetrics"] for commit in commits]


@pytest.mark.slow("each commit is compared with that of a MERGE")
@pytest.mark.parametrize(
    ("mode", "rewrite_below", "layout"),
    [
        (DeleteMode.HARD, 0, {}),
        (DeleteMode.SOFT, ALWAYS, {}),
        (DeleteMode.HARD, 0, {"partition_by": ["region"]}),
    ],
)
def test_it_leaves_what_a_merge_leaves(
    small: SparkSession, tmp_path: Path, mode: DeleteMode, rewrite_below: int, layout: Any
):
    rng = random.Random(7)
    every = [(key, region) for key in [None, *range(40)] for region in ("N'ord", "${env:HOME}")]
    upserted = create(small, tmp_path / "upserted", VECTORS, **layout)
    merged = create(small, tmp_path / "merged", VECTORS, **layout)
    for number, size in enumerate((60, 20, 1)):
        keys = rng.sample(every, k=size)
        rows = frame(small, changes(number, keys)).persist()
        bounds = () if None in dict(keys) else (KeyBound(TABLE.columns[0], 0, 63),)
        given = latest(rows, len(keys), few=number % 2 == 0, bounds=bounds)
        assert upsert(small, upserted, TABLE, given, mode, rewrite_below)
        rows.createOrReplaceTempView("v")
        small.sql(
            merge_statement(f"delta.`{merged}`", "v", TABLE, [], mode, None, conditions_of(bounds))
        )
        assert sorted_rows(upserted, small) == sorted_rows(merged, small)
    assert all(ways(upserted))
    has_vectors = any(Path(upserted).rglob("deletion_vector*.bin"))
    assert has_vectors is (rewrite_below == 0)


@pytest.mark.slow("four commits are compared with those of a MERGE")
def test_small_files_are_written_anew_with_the_changes(small: SparkSession, tmp_path: Path):
    upserted = create(small, tmp_path / "upserted", VECTORS)
    merged = create(small, tmp_path / "merged", VECTORS)
    keys: list[tuple[int | None, str]] = [(key, "a") for key in range(3_000)]
    below = 8_000
    for number in range(4):
        taken = keys if number == 0 else keys[:20]
        taken = [*taken, *((3_000 + 10 * number + new, "b") for new in range(5))]
        rows = frame(small, changes(number, taken, "ucd" if number else "c")).coalesce(1).persist()
        few = latest(rows, len(taken), few=number > 0)
        assert upsert(small, upserted, TABLE, few, DeleteMode.HARD, below)
        rows.createOrReplaceTempView("v")
        small.sql(merge_statement(f"delta.`{merged}`", "v", TABLE, [], DeleteMode.HARD))
    assert table_bytes(small, upserted) > below
    assert sorted_rows(upserted, small) == sorted_rows(merged, small)
    assert all(ways(upserted))
    assert any(Path(upserted).rglob("deletion_vector*.bin"))
    assert len(DeltaTable(upserted).file_uris()) == 2


@pytest.mark.slow("five commits are compared with those of a MERGE")
def test_files_with_deletion_vectors_are_written_anew_without_their_rows(
    small: SparkSession, tmp_path: Path
):
    rng = random.Random(9)
    upserted = create(small, tmp_path / "upserted", VECTORS)
    merged = create(small, tmp_path / "merged", VECTORS)
    every: list[tuple[int | None, str]] = [(key, "a") for key in range(60)]
    for number, below in enumerate((0, 0, 4_000, 0, ALWAYS)):
        keys = every if number == 0 else rng.sample(every, k=15)
        rows = frame(small, changes(number, keys)).coalesce(1).persist()
        assert upsert(
            small, upserted, TABLE, latest(rows, len(keys), few=True), DeleteMode.HARD, below
        )
        rows.createOrReplaceTempView("v")
        small.sql(merge_statement(f"delta.`{merged}`", "v", TABLE, [], DeleteMode.HARD))
        assert sorted_rows(upserted, small) == sorted_rows(merged, small)
    assert all(ways(upserted))


@pytest.mark.slow("tables of six kinds are made and changed")
def test_rows_that_are_newer_and_columns_of_others_are_for_a_merge(
    small: SparkSession, tmp_path: Path
):
    location = create(small, tmp_path / "t", VECTORS)
    keys: list[tuple[int | None, str]] = [(1, "a"), (2, "a")]
    new = latest(frame(small, changes(5, keys, "c")), 2, few=True)
    assert upsert(small, location, TABLE, new, DeleteMode.HARD, 0)
    version = table_version(small, location)
    old = latest(frame(small, changes(4, keys[:1], "u")), 1, few=True)
    for again in (new, old):
        assert not upsert(small, location, TABLE, again, DeleteMode.HARD, 0)
    keeps_more = (("delta.enableChangeDataFeed", "TRUE"), ("delta.enableRowTracking", "true"))
    for feature, value in keeps_more:
        kept = create(small, tmp_path / feature, {**VECTORS, feature: value})
        assert not upsert(small, kept, TABLE, new, DeleteMode.HARD, 0)
    foreign = create(small, tmp_path / "foreign", VECTORS)
    small.sql(f"ALTER TABLE delta.`{foreign}` ADD COLUMNS (segment STRING)")
    assert not upsert(small, foreign, TABLE, new, DeleteMode.HARD, ALWAYS)
    spelled = {**NO_VECTORS, "delta.enableDeletionVectors": "TRUE"}
    assert upsert(
        small, create(small, tmp_path / "spelled", spelled), TABLE, new, DeleteMode.HARD, 0
    )
    plain = create(small, tmp_path / "plain", NO_VECTORS)
    assert not upsert(small, plain, TABLE, new, DeleteMode.HARD, 0)
    assert table_version(small, location) == version
    assert upsert(small, plain, TABLE, new, DeleteMode.HARD, ALWAYS)
    newer = latest(frame(small, changes(6, keys, "d")), 2, few=True)
    assert upsert(small, plain, TABLE, newer, DeleteMode.HARD, ALWAYS)
    assert read_delta(small, plain) == []


def test_deletes_of_rows_that_are_not_there_write_nothing(small: SparkSession, tmp_path: Path):
    location = create(small, tmp_path / "t", VECTORS)
    gone = latest(frame(small, changes(5, [(1, "a"), (2, "a")], "d")), 2, few=True)
    assert upsert(small, location, TABLE, gone, DeleteMode.HARD, 0)
    assert read_delta(small, location) == []
    assert DeltaTable(location).file_uris() == []


def test_a_write_in_between_is_a_conflict(small: SparkSession, tmp_path: Path):
    location = create(small, tmp_path / "t", VECTORS)
    rows = latest(frame(small, changes(1, [(1, "a"), (2, "a")], "c")), 2, few=True)
    assert upsert(small, location, TABLE, rows, DeleteMode.HARD, 0)
    transaction = DeltaTransaction(small, location)
    with transaction.reading() as there:
        assert there.count() == 2
    small.sql(f"DELETE FROM delta.`{location}` WHERE `the id` = 1")
    transaction.add(frame(small, changes(2, [(1, "a")], "u")))
    with pytest.raises((PySparkException, Py4JError)) as raised:
        transaction.commit_merge({"operationNumSourceRows": 1})
    assert is_conflict(raised.value)


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What is given up in a test is not in those after it: they share a JVM."""
    known: list[bool] = []
    monkeypatch.setattr(delta_classes, "_given_up", lambda _: known)
    return known


@pytest.mark.slow("an upsert is tried twice, and the check of a start twice")
def test_a_method_that_delta_lacks_leaves_the_work_to_a_merge(
    small: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: list[bool]
):
    """Of another release, that is; nothing is committed, and from then on nothing is tried."""
    location, scratch = create(small, tmp_path / "t", VECTORS), str(tmp_path / "scratch")
    rows = latest(frame(small, changes(1, [(1, "a"), (2, "a")], "c")), 2, few=True)
    assert check_upsert(small, scratch)
    assert upsert(small, location, TABLE, rows, DeleteMode.HARD, 0)
    version = table_version(small, location)

    def renamed(self: DeltaTransaction, *_: object) -> None:
        self._transaction.commitIfNeeded()

    monkeypatch.setattr(DeltaTransaction, "commit_merge", renamed)
    newer = latest(frame(small, changes(2, [(1, "a"), (3, "a")], "u")), 2, few=True)
    with capture_logs() as told:
        for _ in range(2):
            assert not upsert(small, location, TABLE, newer, DeleteMode.HARD, 0)
    assert table_version(small, location) == version
    assert given_up
    assert [event["event"] for event in told] == ["delta_parts_missing"]
    assert "commitIfNeeded" in told[0]["reason"]
    assert append_version(newer.rows, location, "sink", 1)
    assert len(sorted_rows(location, small)) == 4
    assert not check_upsert(small, scratch)


def test_an_upsert_that_does_something_else_is_given_up(
    small: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: list[bool]
):
    monkeypatch.setattr(DeltaTransaction, "remove_rows", lambda *_: None)
    assert not check_upsert(small, str(tmp_path / "scratch"))
    assert given_up


def test_a_table_with_a_feature_that_is_not_known_takes_a_merge(
    small: SparkSession, tmp_path: Path
):
    """Supported is enough: row tracking wants numbers of rows before it is turned on."""
    location = create(small, tmp_path / "t", {**VECTORS, "delta.feature.rowTracking": "supported"})
    rows = latest(frame(small, changes(1, [(1, "a")], "c")), 1, few=True)
    assert not upsert(small, location, TABLE, rows, DeleteMode.HARD, 0)
