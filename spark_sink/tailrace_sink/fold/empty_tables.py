"""The columns of a source table that has no row: no event carries a schema id that tells them."""

from __future__ import annotations

from tailrace_schemas.events.envelope import TableSchema, table_schema_of
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_service.registry.access import open_registry
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.rows.decode import check_form


def registered_version(config: SinkConfig, topic: str, table: TableName) -> TableSchema | None:
    """The newest schema version that the publisher registered for a topic.

    It registers a table's schema when it takes the table in, before its first event.

    Args:
        config: where the registry is.
        topic: the data topic.
        table: the source table.

    Returns:
        None where the registry has none, or one of another table that shares the topic.

    Raises:
        RegistryError: no answer, or refused.
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
