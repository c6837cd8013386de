"""When a lake table that fails in attempts at a batch stops, and what its reason shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tailrace_sink.errors import ApplyFailed
from tailrace_sink.fold.patience import Patience
from tailrace_sink.spark.jvm_errors import shows_damage, translated

ALL = "abc"
CHECKSUM = ("org.apache.spark.SparkException", "org.apache.spark.sql.delta.DeltaChecksumException")


def stopped(
    attempts: int, failures: Sequence[str], classes: Mapping[str, Sequence[str]] | None = None
) -> list[set[str]]:
    """The tables that stop in each attempt at one batch, by those that fail in it."""
    patience, found = Patience(attempts, "s3a://lake"), []
    sources: list[Any] = [SimpleNamespace(topic=t, table=f"shop.dbo.{t}") for t in ALL]
    for failing in failures:
        futures: list[Future[dict[str, int]]] = []
        for topic in ALL:
            future: Future[dict[str, int]] = Future()
            if topic in failing:
                future.set_exception(ApplyFailed(topic, "it", (classes or {}).get(topic, ())))
            else:
                future.set_result({})
            futures.append(future)
        found.append(set(patience.over(1, sources, futures, lambda _: None)))
    return found


@pytest.mark.parametrize(
    ("attempts", "failures", "expected"),
    [
        (3, ["a", "a", "a"], [set(), set(), {"a"}]),
        (1, ["a"], [{"a"}]),
        # Damage that shows when the batch is applied again, and one that is over.
        (3, ["a", "ab", "ab"], [set(), set(), {"a", "b"}]),
        (3, ["ac", "ab", "ab"], [set(), set(), {"a", "b"}]),
        # A table that fails for the first time in the last attempt: perhaps the store's.
        (3, ["a", "a", "ab"], [set(), set(), {"a"}]),
        # If all fail, the cause is not in the tables.
        (2, ["abc", "abc"], [set(), set()]),
    ],
)
def test_a_table_that_fails_alone_stops_in_the_last_attempt(
    attempts: int, failures: Sequence[str], expected: list[set[str]]
) -> None:
    assert stopped(attempts, failures) == expected


def test_tables_whose_files_are_damaged_stop_if_all_fail() -> None:
    assert stopped(2, ["abc", "abc"], {"b": CHECKSUM})[-1] == {"b"}


@pytest.mark.parametrize(
    ("removal", "words"),
    [
        (None, "which replaces what the lake has"),
        ("move the folder /lake/t away", "move the folder /lake/t away, with which its older cuts"),
    ],
)
def test_the_reason_says_what_brings_the_table_back(removal: str | None, words: str) -> None:
    future: Future[dict[str, int]] = Future()
    future.set_exception(ApplyFailed("a", "it is damaged"))
    source: Any = SimpleNamespace(topic="a", table="shop.dbo.a")
    (error,) = Patience(1, "s3a://lake").over(1, [source], [future], lambda _: removal).values()
    assert "failed in 1 attempts at one batch" in str(error)
    assert words in str(error)
    assert "take a new snapshot of the source table" in str(error)


def test_an_entry_of_the_log_that_cannot_be_parsed_is_not_shown() -> None:
    text = (
        "Unexpected end-of-input: expected close marker for Object (start marker at [Source:"
        ' (byte[])"{"add":{"stats":"{\\"minValues\\":{\\"salary\\":4000}"; line: 1, column: 11])'
    )
    found = translated("table t", PySparkException(text))
    assert isinstance(found, ApplyFailed)
    assert "4000" not in str(found)
    assert "Unexpected end-of-input" in str(found)


@pytest.mark.parametrize(
    ("name", "reason", "expected"),
    [
        ("java.io.FileNotFoundException", "", True),
        ("org.apache.spark.sql.delta.DeltaChecksumException", "", True),
        ("org.apache.iceberg.exceptions.NotFoundException", "", True),
        ("java.lang.RuntimeException", "s3a://x/y.parquet is not a Parquet file. Expected", True),
        ("java.lang.RuntimeException", "no space left on device", False),
        ("java.net.ConnectException", "refused", False),
    ],
)
def test_missing_and_damaged_files_are_no_lack_of_the_store(
    name: str, reason: str, expected: bool
) -> None:
    assert shows_damage(["org.apache.spark.SparkException", name], reason) is expected
