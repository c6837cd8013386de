"""Spark's JDBC reader and writer with Microsoft's driver."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrameReader, SparkSession

from emulator.tests.clients.conftest import Source
from emulator.tests.clients.jvm import driver_jar

pytestmark = pytest.mark.spark

naive = datetime.datetime.fromisoformat
ROWS = 300


@pytest.fixture
def options(spark: SparkSession, source: Source) -> dict[str, str]:
    """How Spark finds the server; the driver's jar joins the running session."""
    spark.sql(f"ADD JAR '{driver_jar('13.2.1')}'")
    return {
        "url": f"jdbc:sqlserver://127.0.0.1:{source.port};databaseName={source.database};"
        "encrypt=true;trustServerCertificate=true",
        "driver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "user": source.user,
        "password": source.password,
    }


@pytest.fixture
def reader(spark: SparkSession, options: dict[str, str]) -> DataFrameReader:
    return spark.read.format("jdbc").options(**options)


def test_types_as_spark_sees_them(reader: DataFrameReader, source: Source, table: str):
    source.connect().execute(
        f"CREATE TABLE {table} (i int NOT NULL PRIMARY KEY, big bigint, b bit, t tinyint, f float,"
        " amount decimal(38, 10), name nvarchar(20), long varchar(max), raw varbinary(max),"
        " d date, at datetime2(7), u uniqueidentifier)"
    )
    source.connect().execute(
        f"INSERT INTO {table} VALUES (1, -9223372036854775808, 1, 255, 1.5,"
        " 1234567890123456789012345678.0123456789, N'日本 🎉', REPLICATE('v', 8000), 0x0001FF,"
        " '9999-12-31', '2026-01-02T03:04:05.1234567',"
        " '6F9619FF-8B86-D011-B42D-00C04FC964FF'),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    frame = reader.options(dbtable=f"dbo.{table}", preferTimestampNTZ="true").load()
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert kinds == {
        "i": "int",
        "big": "bigint",
        "b": "boolean",
        "t": "smallint",
        "f": "double",
        "amount": "decimal(38,10)",
        "name": "string",
        "long": "string",
        "raw": "binary",
        "d": "date",
        "at": "timestamp_ntz",
        "u": "string",
    }
    first, second = (tuple(row) for row in frame.orderBy("i").collect())
    assert first == (
        *(1, -9223372036854775808, True, 255, 1.5),
        decimal.Decimal("1234567890123456789012345678.0123456789"),
        *("日本 🎉", "v" * 8000, bytearray(b"\x00\x01\xff")),
        *(datetime.date(9999, 12, 31), naive("2026-01-02T03:04:05.123456")),
        "6F9619FF-8B86-D011-B42D-00C04FC964FF",
    )
    assert second == (2, *(None,) * 11)


def test_partitions_are_read_by_ranges_of_the_key(
    reader: DataFrameReader, source: Source, table: str
):
    connection = source.connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(9))")
    rows = ", ".join(f"({number}, 'n{number % 3}')" for number in range(ROWS))
    connection.execute(f"INSERT INTO {table} VALUES {rows}")
    partitioned: dict[str, Any] = {
        "dbtable": f"dbo.{table}",
        "partitionColumn": "id",
        "lowerBound": 0,
        "upperBound": ROWS,
        "numPartitions": 3,
        "fetchsize": 50,
    }
    frame = reader.options(**partitioned).load()
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.id for row in frame.collect()) == list(range(ROWS))
    # The filter and the aggregate are the server's work.
    counted = frame.where("id >= 100 AND name = 'n1'").groupBy("name").count().collect()
    assert [tuple(row) for row in counted] == [("n1", 67)]


def test_writing_and_a_query_instead_of_a_table(
    spark: SparkSession,
    options: dict[str, str],
    reader: DataFrameReader,
    source: Source,
    table: str,
):
    frame = spark.createDataFrame(
        [(1, "één", 1.5), (2, None, None)], "id int, name string, f double"
    )
    write = frame.write.format("jdbc").options(**options, dbtable=f"dbo.{table}", batchsize="50")
    write.mode("overwrite").save()
    write.mode("append").save()
    found = reader.option("query", f"SELECT id, COUNT(*) AS n FROM {table} GROUP BY id").load()
    assert sorted(tuple(row) for row in found.collect()) == [(1, 2), (2, 2)]
    assert (
        source.connect().execute(f"SELECT DISTINCT name FROM {table} WHERE id = 1").fetchval()
        == "één"
    )


def test_an_error_has_its_number(reader: DataFrameReader):
    with pytest.raises(Py4JJavaError) as raised:
        reader.option("dbtable", "dbo.nowhere").load()
    assert raised.value.java_exception.getErrorCode() == 208


def test_reading_a_cdc_function(reader: DataFrameReader):
    found = reader.option(
        "query",
        "SELECT __$operation AS operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("
        "sys.fn_cdc_get_min_lsn('dbo_Tracked'), sys.fn_cdc_get_max_lsn(), N'all')",
    ).load()
    assert sorted(tuple(row) for row in found.collect()) == [
        *((1, 2, "zwei"), (2, 1, "één"), (2, 2, "zwei"), (4, 1, "Один")),
    ]
