"""The first writes of a sink, into tables of its own.

The first MERGE of a JVM takes many seconds. A test upsert also shows whether this release of Delta
supports the sink's own commits (``upsert``).
"""

from __future__ import annotations

from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.classes import give_up_writing
from tailrace_sink.delta.table_properties import create_statement
from tailrace_sink.delta.upsert import upsert
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.writes import Latest
from tailrace_sink.rows.mirror_statements import snapshot_position
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    LSN,
    OPERATION,
    POSITION,
    Kind,
    LakeColumn,
    LakeTable,
    literal,
    quote,
)

_TABLE: Final = LakeTable(
    TableName("_tailrace", "_tailrace", "upsert_check"),
    Kind.MIRROR,
    (LakeColumn("id", 1, "INT", "int", 1), LakeColumn("v", 2, "INT", "int")),
    str(Lsn(1, 1, 1)),
)
_BEFORE: Final = {1: (0, "c"), 2: (0, "c"), 3: (0, "c")}
_CHANGES: Final = {1: (1, "u"), 2: (0, "d"), 4: (1, "c")}
_AFTER: Final = {1: 1, 3: 0, 4: 1}

_log = structlog.get_logger("tailrace.sink")


def warm_up(spark: SparkSession, config: SinkConfig) -> None:
    """Run one MERGE and one upsert on tables of the sink's own.

    Raises:
        SinkError: the lake cannot be written.
    """
    name = f"delta.{quote(f'{config.lake}/_tailrace/warm_up')}"
    spark = small_batch_session(spark)
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} (id INT, at BINARY) USING delta"
            " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT 1 AS id, X'00' AS at) s ON t.id <=> s.id"
            " WHEN MATCHED AND s.at > t.at THEN UPDATE SET t.at = s.at"
            " WHEN NOT MATCHED THEN INSERT (id, at) VALUES (s.id, s.at)"
        )
        check_upsert(spark, f"{config.lake}/_tailrace/upsert_check")
    except (PySparkException, Py4JError) as error:
        raise translated(f"lake {config.lake}", error) from error


def check_upsert(spark: SparkSession, location: str) -> bool:
    """Test an upsert; if its result is wrong, MERGEs are used from then on.

    Args:
        location: of a table of the sink's own, which is created if it does not exist.

    Raises:
        PySparkException, Py4JError: the table cannot be written.
    """
    spark.sql(create_statement(_TABLE, location, {"delta.enableDeletionVectors": "true"}))
    spark.sql(f"INSERT OVERWRITE delta.{quote(location)} {_rows(_BEFORE, 1)}")
    rows = spark.sql(_rows(_CHANGES, 2))
    latest = Latest(lambda: rows, (), len(_CHANGES), rows.toArrow(), None)
    is_done = upsert(spark, location, _TABLE, latest, DeleteMode.HARD, 0)
    there = spark.read.format("delta").load(location).select("id", "v").collect()
    if is_done and sorted(map(tuple, there)) != sorted(_AFTER.items()):
        give_up_writing(spark)
        is_done = False
    if is_done:
        _log.info("upsert_checked")
    else:
        _log.error(
            "upsert_given_up",
            effect="tables are written by MERGE and by Delta's own writer, which takes longer",
            fix="run the sink with the release of Delta that"
            " compose/tailrace_compose/local/jars.lock names",
        )
    return is_done


def _rows(rows: dict[int, tuple[int, str]], number: int) -> str:
    """SELECT of rows of the test table (key to value and operation) at the number-th LSN."""
    lsn = str(Lsn(number, 1, 1))
    listed = ", ".join(f"({key}, {v}, '{op}')" for key, (v, op) in rows.items())
    values = {POSITION: snapshot_position(lsn), LSN: literal(lsn), OPERATION: "op"}
    ours = (
        f"CAST({values.get(name, 'NULL')} AS {type_}) AS {name}"
        for name, (type_, _) in CDC_COLUMNS.items()
    )
    return f"SELECT id, v, {', '.join(ours)} FROM VALUES {listed} AS t (id, v, op)"
