"""Source tables without rows: their columns, which no event names, and rows that must go."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tailrace_schemas.events.envelope import TableSchema, table_schema_of
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_service.registry.access import open_registry
from tailrace_sink.fold.apply import append_changes, rows_there
from tailrace_sink.fold.companions import Companions
from tailrace_sink.fold.history_table import History
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.rows.lost_rows import deletes_of
from tailrace_sink.rows.mirror_statements import empty_statement
from tailrace_sink.rows.writer_schema import check_form
from tailrace_sink.tables.lake_table import LakeTable


def registered_version(config: SinkConfig, topic: str, table: TableName) -> TableSchema | None:
    """Look up the newest schema version that the publisher registered for a topic.

    The publisher registers a table's schema before its first event.

    Returns:
        None if the registry has none, or only one of another table in the same topic.

    Raises:
        RegistryError: the registry does not answer or refuses.
        UnsupportedEventForm: its events would have another form than the sink reads.
    """
    with open_registry(config.registry) as registry:
        found = registry.latest(value_subject(topic))
    if found is None:
        return None
    try:
        version = table_schema_of(found.schema)
        if version.table != table:
            return None
        check_form(found.schema, topic)
    except ValueError:
        return None
    return version


def delete_all(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
    table: LakeTable,
    companions: Companions,
    cut: CutPoint,
) -> None:
    """Delete all rows of a source from a mirror, and end them in its companions. Idempotent.

    Args:
        spark: used by this thread only.
    """
    if companions.changes is not None:
        gone = deletes_of(rows_there(spark, tables, table), table, cut)
        append_changes(config, tables, companions.changes, gone, cut.batch)
    name = tables.name(table.path)
    statement = empty_statement(name, table, config.delete_mode, cut.lsn)
    tables.run(spark, table.path, statement)
    if companions.history is not None:
        History(config, tables, companions.history, table).close_gone(spark, cut)
