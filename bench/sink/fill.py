"""Tables with rows that no topic has, for the benchmark of a MERGE into large ones."""

from __future__ import annotations

from pyspark.sql import SparkSession

from bench.sink.topics import Topics
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.tables.lake_table import quote, table_path


def fill(spark: SparkSession, config: SinkConfig, topics: Topics, rows: int) -> None:
    """Rows of a table that the sink made, in order of the key, older than every change."""
    location = f"{config.lake}/{table_path(topics.schemas[0].table)}"
    position = ChangePosition.of_snapshot(Lsn(0, 0, 2)).to_bytes().hex()
    values = {
        "_cdc_position": f"X'{position}'",
        "_cdc_lsn": f"'{Lsn(0, 0, 2)}'",
        "_cdc_op": "'r'",
        "_cdc_commit_time": "TIMESTAMP'2024-01-01 00:00:00'",
    }
    _write_rows(spark, location, rows, values)


def fill_by_hand(spark: SparkSession, location: str, rows: int) -> None:
    """The same rows in the table of the job that is written by hand."""
    _write_rows(spark, location, rows, {"op": "'r'", "lsn": f"'{Lsn(0, 0, 2)}'"})


def _write_rows(spark: SparkSession, location: str, rows: int, more: dict[str, str]) -> None:
    values = {
        "id": "id",
        "departed": "TIMESTAMP_NTZ'2024-01-01 00:00:00'",
        "tail": "concat('N', id % 4000)",
        "cancelled": "false",
        **more,
    }
    columns = [
        f"CAST({values.get(name, 'id % 200')} AS {type_}) AS {quote(name)}"
        for name, type_ in spark.read.format("delta").load(location).dtypes
    ]
    filled = spark.range(1, rows, 1, 16).selectExpr(*columns)
    filled.write.format("delta").mode("append").save(location)
