"""The format of a lake's tables: the only place that knows which one implements the port.

A lake in Iceberg has a small file that names its catalog, so its readers need no configuration. A
lake without the file is in Delta.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import read_text, write_text
from tailrace_sink.delta.tables import DeltaFormat, DeltaTables
from tailrace_sink.errors import ConfigError
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.format import IcebergFormat
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.layout_options import format_path
from tailrace_sink.options.modes import TableFormats
from tailrace_sink.ports.table_format import TableFormat, TableReader


def format_of(spark: SparkSession, config: SinkConfig) -> TableFormat:
    """Return the format that a sink writes.

    Raises:
        ConfigError: the file of a secret cannot be read.
    """
    if config.format is TableFormats.ICEBERG:
        return IcebergFormat(spark, config)
    return DeltaFormat(config)


def settle_format(spark: SparkSession, config: SinkConfig) -> None:
    """Compare the format of a lake with the configured one; store that of a new lake.

    Raises:
        ConfigError: the lake has tables of another format, or in another catalog.
        PySparkException, Py4JError: the lake cannot be read or written.
    """
    known = _known(spark, config.lake)
    wanted: dict[str, str] = {}
    if config.format is TableFormats.ICEBERG:
        options = config.iceberg_options
        wanted = {"catalog": options.name, "namespace": options.namespace}
    if known == wanted:
        return
    if known or CommitTable(spark, config.commits_path).version() >= 0:
        found = "in Delta: use format: delta"
        if known:
            found = (
                f"in Iceberg: use format: iceberg, iceberg.name {known['catalog']} and"
                f" iceberg.namespace {known['namespace']}"
            )
        raise ConfigError([f"lake {config.lake} has tables {found}, or another lake"])
    write_text(spark, config.log_path, format_path(config.lake), json.dumps(wanted))


def tables_of(spark: SparkSession, lake: str) -> TableReader:
    """Return the tables of a lake, for its readers.

    Raises:
        ConfigError: the session does not know the lake's catalog.
    """
    known = _known(spark, lake)
    if not known:
        return DeltaTables(lake)
    name = known["catalog"]
    setting = f"spark.sql.catalog.{name}"
    if spark.conf.get(setting, None) is None:
        raise ConfigError(
            [
                f"lake {lake} has tables in the Iceberg catalog {name}, which this session does not"
                f" know: set {setting} and its options, or start the session with"
                " tailrace.reading.lake_session.configured_session"
            ]
        )
    return IcebergTables(IcebergCatalog(spark, name), lake, known["namespace"])


def _known(spark: SparkSession, lake: str) -> dict[str, str]:
    """Read the file; empty without one."""
    text = read_text(spark, f"{lake}/_tailrace/log", format_path(lake))
    return {} if text is None else dict(json.loads(text))
