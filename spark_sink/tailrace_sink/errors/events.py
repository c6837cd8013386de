"""Events that the sink cannot read."""

from __future__ import annotations

from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class SchemaNotStored(SinkError):
    """The lake lacks a writer schema that a record names."""


class SchemaUnknown(TableError):
    """A writer schema that the ledger names is neither in the lake nor in the registry."""

    def __init__(self, topic: str, schema_id: int, reason: str) -> None:
        self.topic = topic
        self.schema_id = schema_id
        super().__init__(
            f"topic {topic}: the registry does not have schema {schema_id} ({reason}): it was"
            " deleted before the lake stored it. Fix: register it again, and take a new snapshot"
            f" of the table {SNAPSHOT_HELPS}"
        )


class UnsupportedEventForm(TableError):
    """The publisher's options choose a form of events that the sink does not read.

    A new snapshot helps only after these options have changed.

    Attributes:
        found: the publisher's options with their values.
    """

    def __init__(self, topic: str, found: str) -> None:
        self.topic = topic
        self.found = found
        super().__init__(
            f"topic {topic}: its events have the publisher's {found}, and the sink reads only"
            " event_form: debezium with serialization: avro. Fix: publish for the lake under a"
            " prefix of its own, with event_form: debezium and serialization: avro"
        )


class UnsupportedTopicName(TableError):
    """The publisher's options name topics so that the sink cannot find their tables.

    A new snapshot helps only after the topic has a default name.
    """

    def __init__(self, topic: str, table: str) -> None:
        self.topic = topic
        self.table = table
        super().__init__(
            f"topic {topic} has the events of table {table}, named by the publisher's topic_names,"
            " and the sink reads only default names. Fix: publish for the lake under a prefix of"
            " its own, without topic_names"
        )


class BadRecord(TableError):
    """A record of a data topic that is no change of its table.

    The table stops at the cut before it. With ``sink.on_bad_record: dead-letter`` the record is
    stored in the dead letters instead.
    """

    def __init__(
        self, table: str, place: tuple[str, int, int], reason: str, also: str | None = None
    ) -> None:
        self.table = table
        self.topic, self.partition, self.offset = place
        self.reason = reason
        super().__init__(
            f"table {table}: the record of topic {self.topic} partition {self.partition} offset"
            f" {self.offset} is no change of it: {reason}"
            + ("" if also is None else f" ({also})")
            + ". Fix: stop what wrote it, and take a new snapshot of the table"
            f" {SNAPSHOT_HELPS}; or set sink.on_bad_record to dead-letter"
        )


class BadRecordRefused(SinkError):
    """A record that cannot be applied ended the sink, as ``sink.on_bad_record: fail`` says."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sink.on_bad_record is fail: {reason}")
