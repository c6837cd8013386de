"""Validity intervals over random changes, batches and snapshots, against a fold in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.rows.intervals import KNOWN, intervals, known_rows

pytestmark = pytest.mark.spark

NAMES = ["story", "id", "v", "doc"]
KEY = ["story", "id"]
SCHEMA = (
    "story INT, id INT, v INT, doc STRING, _cdc_unavailable ARRAY<STRING>, _cdc_op STRING,"
    " _cdc_lsn STRING, _cdc_position BINARY, batch INT"
)
ENDS = ["_cdc_valid_from_lsn", "_cdc_valid_to_lsn", "_cdc_is_current"]


@dataclass(frozen=True)
class Change:
    """A change of one key."""

    story: int
    id: int
    v: int
    doc: str | None
    op: str
    position: ChangePosition
    batch: int
    lacks: bool = False

    @property
    def lsn(self) -> str:
        return str(self.position.commit_lsn)

    @property
    def order(self) -> tuple[str, bool, bytes]:
        return self.lsn, self.position.operation is Operation.READ, self.position.to_bytes()

    def row(self) -> tuple[Any, ...]:
        doc = None if self.lacks else self.doc
        unavailable = ["doc"] if self.lacks else []
        of_key = (self.story, self.id, self.v, doc, unavailable)
        return (*of_key, self.op, self.lsn, self.position.to_bytes(), self.batch)


def story(number: int) -> Iterator[Change]:
    """Changes of some keys over some transactions, in the batches that bring them."""
    chance = random.Random(number)
    there: dict[int, tuple[int, str]] = {}
    batch, sequence = 0, 0
    for block in range(1, 9):
        lsn = Lsn(1, block, 1)
        for _ in range(chance.randint(1, 4)):
            key, sequence = chance.randrange(3), sequence + 1
            op = chance.choice("ud") if key in there else "c"
            lacks = op == "u" and chance.random() < 0.4
            value, doc = chance.randrange(3), chance.choice("ab")
            if lacks:
                doc = there[key][1]
            if op == "d":
                value, doc = there.pop(key)
            else:
                there[key] = value, doc
            kind = {"c": Operation.INSERT, "u": Operation.UPDATE_AFTER, "d": Operation.DELETE}[op]
            position = ChangePosition(lsn, sequence, Lsn(1, 1, 1), kind)
            yield Change(number, key, value, doc, op, position, batch, lacks)
        if chance.random() < 0.4:
            read, op = ChangePosition.of_snapshot(lsn), chance.choice("ru")  # u: of a patch
            for key, (value, doc) in list(there.items()):
                if chance.random() < 0.2:  # a change that never came
                    there[key] = value + 10, doc
                elif op == "r" and chance.random() < 0.2:  # or a delete
                    del there[key]
                    yield Change(number, key, value, doc, "d", read, batch)
                    continue
                yield Change(number, key, there[key][0], doc, op, read, batch)
        batch += chance.random() < 0.5


def folded(changes: list[Change]) -> Iterator[tuple[Any, ...]]:
    """The intervals, one change after the other."""
    opened: dict[tuple[int, int], Change] = {}
    for change in sorted(changes, key=lambda c: c.order):
        key = change.story, change.id
        was = opened.get(key)
        is_read = change.position.operation is Operation.READ and change.op != "d"
        if is_read and was is not None and (was.v, was.doc) == (change.v, change.doc):
            continue
        if was is not None:
            yield (*key, was.v, was.doc, was.lsn, change.lsn, False)
            del opened[key]
        if change.op != "d":
            opened[key] = replace(change, lacks=False)
    for key, was in opened.items():
        yield (*key, was.v, was.doc, was.lsn, None, True)


@cache
def stories(count: int) -> list[Change]:
    return [change for number in range(count) for change in story(number)]


def frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    rows = spark.createDataFrame([c.row() for c in changes], SCHEMA).coalesce(1)
    return rows.withColumn("_cdc_commit_time", F.lit(None).cast("timestamp"))


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.select(*NAMES, *ENDS).collect()), key=str)


@pytest.mark.guarantee(15)
def test_intervals_are_those_of_the_fold(spark: SparkSession):
    found = intervals(frame(spark, stories(300)), NAMES, KEY, ["doc"])

    assert listed(found) == sorted(folded(stories(300)), key=str)


@pytest.mark.guarantee(15)
@pytest.mark.slow("random stories through Spark, each batch by itself")
@pytest.mark.parametrize(
    "count", [60, pytest.param(300, marks=pytest.mark.nightly("the same with fewer stories"))]
)
def test_a_batch_continues_what_the_table_has(spark: SparkSession, count: int):
    """In any batches: the closed intervals of each, and the current ones of the last."""
    changes = frame(spark, stories(count)).persist()
    names = [*NAMES, "_cdc_position", "_cdc_op", "_cdc_valid_from", "_cdc_valid_to", *ENDS]
    batches = max(c.batch for c in stories(count)) + 1
    after: DataFrame | None = None
    closed: list[tuple[Any, ...]] = []
    for batch in range(batches):
        own = changes.where(f"batch = {batch}").drop("batch").withColumn(KNOWN, F.expr("false"))
        if after is not None:
            own = own.unionByName(known_rows(after, NAMES), allowMissingColumns=True)
        whole = intervals(own, NAMES, KEY, ["doc"]).select(*names)
        # Held as a table would be: else each batch computes all before.
        after = spark.createDataFrame(whole.toArrow(), whole.schema).coalesce(1)
        closed += listed(after.where("NOT _cdc_is_current"))
    changes.unpersist()

    assert after is not None
    assert sorted(closed + listed(after.where("_cdc_is_current")), key=str) == sorted(
        folded(stories(count)), key=str
    )
