"""tailrace verify: what Spark writes of a lake's rows, and which of them it finds to differ."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tailrace.verify.canonical_text import CanonicalColumn, as_held, canonical_column, lake_row
from tailrace.verify.lake_rows import checksums, differences, row_count, texts_of
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.ranges import EVERYTHING, KeyRange, differing
from tailrace.verify.source_rows import COUNT, HASH
from tailrace.verify.table_shape import TableShape
from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_schemas.events.column_types import ColumnType, lake_type
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.tables.lake_table import CHANGED, OPERATION
from tailrace_sink.tables.type_widening import Widening, widening
from tests.verify_mutants import missed
from tests.verify_values import VALUES, row_hash

pytestmark = pytest.mark.spark

TABLE = TableName("shop", "dbo", "t")


def test_spark_writes_the_same_texts(spark, monkeypatch):
    """As SQL Server: tests/pipeline/operate/test_canonical_text.py has the same values."""
    frame = every_value(spark).coalesce(1)
    check_texts(frame)

    def texts_of(expressions):
        aliased = (f"{text} AS t{n}" for n, text in enumerate(expressions))
        return [tuple(row) for row in frame.selectExpr(*aliased).collect()]

    assert missed("lake", texts_of, monkeypatch) == []


def test_spark_finds_what_differs_and_nothing_else(spark):
    """Rows with keys by ranges and by hash, with soft deletes; rows without keys by counts."""
    id_column = SchemaColumn(1, "id", ColumnType("int"))
    name_column = SchemaColumn(2, "name", ColumnType.parse("nvarchar(9)"))
    columns = tuple(canonical_column(column, column.type) for column in (id_column, name_column))
    keyed = shape_with(columns, columns[:1])
    rows = [(number, f"n{number}") for number in range(10)]
    frame = lake_frame(spark, [(*row, "c") for row in rows] + [(11, "gone", "d"), (12, "n", "d")])
    ranges = [KeyRange(None, 3), KeyRange(3, 6), KeyRange(6, None)]

    found = checksums(keyed, frame, ranges)
    assert found == {n: checksum_of(columns, rows, keys) for n, keys in enumerate(ranges)}
    assert differing(ranges, [found[n] for n in range(3)], found) == []
    assert row_count(keyed, frame) == 10
    assert found_rows(spark, keyed, rows, frame) == set()
    assert found_rows(spark, keyed, rows[:5], frame, KeyRange(None, 4)) == set()

    wrong = [(*row, "c") for row in rows if row[0] != 4] + [(5, "n5", "c"), (20, "x", "c")]
    wrong[7] = (8, "N8", "u")
    frame = lake_frame(spark, wrong)
    assert found_rows(spark, keyed, rows, frame) == {
        ("4", 1, 0),
        ("5", 1, 2),
        ("8", 1, 1),
        ("20", 0, 1),
    }
    assert found_rows(spark, keyed, rows[7:], frame, KeyRange(6, None)) == {
        ("8", 1, 1),
        ("20", 0, 1),
    }
    texts = texts_of(spark, keyed, frame, [("5",), ("8",), ("4",)])
    assert texts == {("5",): [("5", "n5")] * 2, ("8",): [("8", "N8")]}

    keyless = shape_with(columns, ())
    events = [*((*row, "c") for row in rows), (1, "n1", "c"), (2, "n2", "d"), (30, "x", "c")]
    counted = differences(
        spark,
        keyless,
        source_frame(columns, rows, key=False),
        changes_frame(spark, events),
        [EVERYTHING],
    )
    assert sorted((row.source, row.lake) for row in counted.rows) == [(0, 1), (1, 0), (1, 2)]
    assert row_count(keyless, changes_frame(spark, events)) == 11
    updated = changes_frame(spark, [(1, "n1", "c"), (1, "n2", "u")])
    with pytest.raises(NotProvable, match="updates of it are in the lake without their old rows"):
        differences(spark, keyless, source_frame(columns, rows, key=False), updated, [EVERYTHING])
    with pytest.raises(NotProvable, match="has no key at the source, but one in the lake"):
        row_count(keyless, frame)
    with pytest.raises(NotProvable, match="has a key at the source, and none in the lake"):
        row_count(keyed, changes_frame(spark, events))
    with pytest.raises(NotProvable, match="the cut has no column name"):
        row_count(keyed, frame.drop("name"))


def test_a_wider_type_that_the_lake_keeps_makes_no_difference(spark):
    """ALTER COLUMN to a narrower type: the lake has the wider one, with the same values."""
    narrowed = {
        "int": ("DOUBLE", "CAST(250 AS DOUBLE)", "250", "CAST(0.5 AS DOUBLE)"),
        "smallint": ("BIGINT", "CAST(-7 AS BIGINT)", "-7", "CAST(70000 AS BIGINT)"),
        "date": (
            "TIMESTAMP_NTZ",
            "TIMESTAMP_NTZ '1999-12-31 00:00:00'",
            "1999-12-31",
            "TIMESTAMP_NTZ '1999-12-31 00:00:01'",
        ),
        "decimal(9,2)": (
            "DECIMAL(18,4)",
            "CAST(1.25 AS DECIMAL(18,4))",
            "1.25",
            "CAST(1.255 AS DECIMAL(18,4))",
        ),
        "real": ("DOUBLE", "CAST(0.5 AS DOUBLE)", "1056964608", "CAST(0.1 AS DOUBLE)"),
    }
    columns, equal, other = [], [], []
    for n, (type_text, (_, literal, _, wrong)) in enumerate(narrowed.items()):
        declared = ColumnType.parse(type_text)
        columns.append(canonical_column(SchemaColumn(n, f"c{n}", declared), declared))
        equal.append(f"{literal} AS c{n}")
        other.append(f"{wrong} AS c{n}")
    frame = spark.range(1).selectExpr(*equal).union(spark.range(1).selectExpr(*other))
    assert [kind.upper() for _, kind in frame.dtypes] == [kind for kind, *_ in narrowed.values()]
    held = [as_held(column, kind) for column, (_, kind) in zip(columns, frame.dtypes, strict=True)]

    right, wrong = frame.selectExpr(*[c.lake for c in held]).collect()
    (hashed,) = frame.limit(1).selectExpr(lake_row(held)).collect()

    texts = [text for _, _, text, _ in narrowed.values()]
    assert list(right) == texts
    assert bytes(hashed[0]) == row_hash(columns, texts)
    assert all(text.startswith("other ") for text in wrong)


def test_every_lake_type_that_holds_a_type_of_the_source_has_its_texts(spark):
    """Each value of each type, in the lake's own type and in every wider one that it may keep."""
    declared = {name: ColumnType.parse(name) for name in VALUES}
    of_lake = {name: lake_type(kind) for name, kind in declared.items()}
    wider = {*of_lake.values(), "DECIMAL(10,0)", "DECIMAL(20,0)", "DECIMAL(38,4)", "DECIMAL(38,18)"}
    pairs = [
        (name, held)
        for name, own in of_lake.items()
        for held in sorted(wider - {own})
        if widening(held, own) is Widening.HOLDS
    ]
    assert len(pairs) > 30, "integers, decimals, money, reals and dates"
    casts = [f"CAST(`{name}` AS {held}) AS c{n}" for n, (name, held) in enumerate(pairs)]
    frame = every_value(spark).coalesce(1).selectExpr(*casts)
    columns = [
        canonical_column(SchemaColumn(n, f"c{n}", declared[name]), declared[name])
        for n, (name, _) in enumerate(pairs)
    ]
    held = [as_held(column, kind) for column, (_, kind) in zip(columns, frame.dtypes, strict=True)]
    found = frame.selectExpr(*(column.lake for column in held), lake_row(held)).collect()
    for number, row in enumerate(found):
        texts = [
            VALUES[name][number].text if number < len(VALUES[name]) else None for name, _ in pairs
        ]
        assert dict(zip(pairs, row, strict=False)) == dict(zip(pairs, texts, strict=True))
        assert bytes(row[-1]) == row_hash(columns, texts)


def every_value(spark: SparkSession) -> DataFrame:
    """The values of every type, with the types that they have in a lake."""
    schema = ", ".join(f"`{name}` {lake_type(ColumnType.parse(name))}" for name in VALUES)
    rows = [
        tuple(values[n].lake if n < len(values) else None for values in VALUES.values())
        for n in range(max(map(len, VALUES.values())))
    ]
    return spark.createDataFrame(rows, schema)


def check_texts(frame: DataFrame) -> None:
    """Compare the texts of every value in a lake's table, which has them in their order."""
    declared = {name: ColumnType.parse(name) for name in VALUES}
    columns = [
        canonical_column(SchemaColumn(1, name, column), column) for name, column in declared.items()
    ]
    found = frame.selectExpr(
        *(f"{column.lake} AS `{column.name}`" for column in columns), lake_row(columns)
    ).collect()
    texts = [
        tuple(values[n].text if n < len(values) else None for values in VALUES.values())
        for n in range(len(found))
    ]
    assert len(found) == max(map(len, VALUES.values()))
    assert [tuple(row[:-1]) for row in found] == texts
    assert [bytes(row[-1]) for row in found] == [row_hash(columns, row) for row in texts]


def shape_with(
    columns: tuple[CanonicalColumn, ...], key: tuple[CanonicalColumn, ...]
) -> TableShape:
    captured = tuple(
        CapturedColumn(n, c.name, n, ColumnType("int"), False, False, True)
        for n, c in enumerate(columns, 1)
    )
    names = tuple(column.name for column in key)
    instance = CaptureInstance(
        "dbo_t",
        TABLE,
        None,
        datetime(2026, 1, 1),  # noqa: DTZ001 - the server's local time
        1,
        2,
        False,
        True,
        captured,
        names,
        names,
    )
    conditions = tuple(f"[{name}] = ?" for name in names)
    return TableShape(TABLE, TableInstances((instance,)), columns, key, conditions, (), False)


def lake_frame(spark: SparkSession, rows: list[tuple[int, str, str]]) -> DataFrame:
    return spark.createDataFrame(rows, f"id INT, name STRING, {OPERATION} STRING")


def changes_frame(spark: SparkSession, rows: list[tuple[int, str, str]]) -> DataFrame:
    return lake_frame(spark, rows).selectExpr("*", f"CAST(NULL AS ARRAY<STRING>) AS {CHANGED}")


def hash_of(columns: tuple[CanonicalColumn, ...], row: tuple[int, str]) -> bytes:
    return row_hash(columns, [str(row[0]), row[1]])


def source_frame(
    columns: tuple[CanonicalColumn, ...], rows: list[tuple[int, str]], *, key: bool
) -> pa.Table:
    hashes = pa.array([hash_of(columns, row) for row in rows], pa.binary(16))
    if key:
        return pa.table({"key_0": [str(row[0]) for row in rows], HASH: hashes})
    return pa.table({HASH: hashes, COUNT: pa.array([1] * len(rows), pa.int64())})


def checksum_of(
    columns: tuple[CanonicalColumn, ...], rows: list[tuple[int, str]], keys: KeyRange
) -> tuple[int, ...]:
    least = -1 if keys.after is None else keys.after
    inside = [r for r in rows if least < r[0] and (keys.last is None or r[0] <= keys.last)]
    hashes = [hash_of(columns, row) for row in inside]
    parts = [[int.from_bytes(h[at : at + 4], "big") for h in hashes] for at in range(0, 16, 4)]
    return (len(inside), *map(sum, parts))


def found_rows(
    spark: SparkSession,
    shape: TableShape,
    rows: list[tuple[int, str]],
    frame: DataFrame,
    keys: KeyRange = EVERYTHING,
) -> set[tuple[str | None, int, int]]:
    found = differences(spark, shape, source_frame(shape.columns, rows, key=True), frame, [keys])
    assert found.count == len(found.rows)
    return {(row.key[0], row.source, row.lake) for row in found.rows}
