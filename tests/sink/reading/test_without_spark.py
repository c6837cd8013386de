"""Random tables of every type, read with Spark and without, from tables and from the log's tail."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tailrace import lake as without_spark
from tailrace.spark import register
from tailrace_sink.reading.reader import read
from tests.envelopes.every_type import change, of_every_type, with_a_wide_key
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.envelopes.transaction import Transaction
from tests.sink.both_readers import assert_same, assert_same_cut
from tests.sink.conftest import Lake


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.guarantee(14)
@pytest.mark.slow("cuts of four tables are read by Spark")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly("seed 1"))])
def test_every_type_is_the_same_without_spark(source: Source, lake: Lake, seed: int):
    """With soft deletes, partitions, deletion vectors; a rename and a wider type in the tail."""
    chance = random.Random(seed)
    tables = [of_every_type(source), with_a_wide_key(source)]
    lines = source.table("lines", column(1, "line", "nvarchar(20)"), column(2, "n", "int"))
    lsns: list[str] = []

    def commits(count: int) -> None:
        for number in range(count):

            def changes(transaction: Transaction, number: int = number) -> None:
                transaction.insert(lines, line=f"line {number}", n=number)
                for table in tables:
                    for _ in range(6):
                        change(table, chance, transaction)

            lsns.append(source.commit(changes))
            source.publish()

    options: dict[str, Any] = {
        "delete_mode": "soft",
        "partition_by": {"dbo.types": ["v0"]},
        "kinds": {r"dbo\..*": ["mirror", "changelog", "history"]},
        "rewrite_below_bytes": 0,
    }
    commits(3)
    lake.catch_up(**options)
    commits(2)
    lake.catch_up(**options)
    commits(1)
    wide = [c for c in tables[1].schema.columns if c.name not in ("v", "text")]
    more = (column(9, "w", "bigint"), column(10, "the text", "varchar(max)"))
    source.alter(tables[1], *wide, *more, column(11, "added", "date"))
    commits(2)
    lake.log_only(**options)

    reader = read(lake.spark, lake.address)
    for lsn in (lsns[-1], lsns[5], lsns[4]):
        cut = reader.as_of(lsn=lsn)
        assert cut.closed_lsn == lsn
        for table in (*tables, lines):
            assert_same_cut(cut, table.name)
    newest = reader.as_of("latest")
    assert_same_cut(newest, "dbo.types", is_changes=True)
    for table in tables:
        assert_same_cut(newest, table.name, is_history=True)

    register(lake.spark)
    for table in (*tables, lines):
        source_of = lake.spark.read.format("tailrace").option("tables", str(table.name))
        every = without_spark.open(lake.address).changes(table.name)
        assert_same(source_of.load(lake.address), every)
