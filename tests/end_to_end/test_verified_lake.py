"""tailrace verify: what Spark writes of a lake's rows, and which of them it finds to differ."""

from __future__ import annotations

import pytest

from tailrace.verify.canonical_text import canonical_column, lake_row
from tailrace_schemas.events.column_types import ColumnType, lake_type
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.topics.topic_names import TableName
from tests.verify_values import VALUES, row_hash

pytestmark = pytest.mark.spark

TABLE = TableName("shop", "dbo", "t")


def test_spark_writes_the_same_texts(spark):
    """As SQL Server: tests/pipeline/operate/test_canonical_text.py has the same values."""
    declared = {name: ColumnType.parse(name) for name in VALUES}
    schema = ", ".join(f"`{name}` {lake_type(declared[name])}" for name in VALUES)
    rows = [
        tuple(values[n].lake if n < len(values) else None for values in VALUES.values())
        for n in range(max(map(len, VALUES.values())))
    ]
    texts = [
        tuple(values[n].text if n < len(values) else None for values in VALUES.values())
        for n in range(len(rows))
    ]
    columns = [
        canonical_column(SchemaColumn(1, name, column), column) for name, column in declared.items()
    ]
    frame = spark.createDataFrame(rows, schema).selectExpr(
        *(f"{column.lake} AS `{column.name}`" for column in columns), lake_row(columns)
    )
    found = frame.collect()
    assert [tuple(row[:-1]) for row in found] == texts
    assert [bytes(row[-1]) for row in found] == [row_hash(columns, row) for row in texts]
