"""Columns of a source table without rows, of which no event names a schema id."""

from __future__ import annotations

from tailrace_schemas.events.envelope import TableSchema, table_schema_of
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_service.registry.access import open_registry
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.rows.decode import check_form


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
