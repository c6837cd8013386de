"""Events that the sink cannot read."""

from __future__ import annotations

from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class SchemaUnknown(TableError):
    """Neither the lake nor the registry has a writer schema that the ledger names.

    The table stops alone; a new snapshot brings it back.

    Attributes:
        topic: whose events are written with it.
        schema_id: its id.
    """

    def __init__(self, topic: str, schema_id: int, reason: str) -> None:
        self.topic = topic
        self.schema_id = schema_id
        super().__init__(
            f"topic {topic}: the registry does not have schema {schema_id} ({reason}): it was"
            " deleted before the lake had it; register it again, and take a new snapshot of the"
            f" table {SNAPSHOT_HELPS}"
        )


class UnsupportedEventForm(TableError):
    """The publisher writes events in another form than the sink reads.

    The table stops alone. A new snapshot does not help as long as its events have that form.

    Attributes:
        topic: whose events have it.
        found: the publisher's options that say so, with their values.
    """

    def __init__(self, topic: str, found: str) -> None:
        self.topic = topic
        self.found = found
        super().__init__(
            f"topic {topic}: its events have the publisher's {found}, and the sink reads"
            " event_form: debezium with serialization: avro only; publish for the lake under a"
            " prefix of its own, with event_form: debezium and serialization: avro"
        )


class UnsupportedTopicName(TableError):
    """The publisher names topics by templates, and the sink reads default names only.

    The table stops alone. A new snapshot does not help as long as its topic has that name.

    Attributes:
        topic: the topic.
        table: whose events it has.
    """

    def __init__(self, topic: str, table: str) -> None:
        self.topic = topic
        self.table = table
        super().__init__(
            f"topic {topic} has the events of table {table}, named by the publisher's topic_names,"
            " and the sink reads default names only; publish for the lake under a prefix of its"
            " own, without topic_names"
        )


class BadRecord(TableError):
    """A record of a data topic that is no change of its table.

    The table stops alone, at the cut before; with ``sink.on_bad_record: dead-letter`` the record is
    put aside instead.

    Attributes:
        table: database.schema.table.
        topic: where it is.
        partition: its partition.
        offset: its offset.
        reason: what is wrong with it.
    """

    def __init__(
        self, table: str, place: tuple[str, int, int], reason: str, also: str | None = None
    ) -> None:
        self.table = table
        self.topic, self.partition, self.offset = place
        self.reason = reason
        super().__init__(
            f"table {table}: the record of topic {self.topic} partition {self.partition} offset"
            f" {self.offset} is no change of it: {reason}; mend who wrote it, and take a new"
            f" snapshot of the table {SNAPSHOT_HELPS}; or set sink.on_bad_record to dead-letter to"
            " put such records aside" + ("" if also is None else f" ({also})")
        )


class BadRecordRefused(SinkError):
    """A record that cannot be applied, where ``sink.on_bad_record`` is ``fail``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sink.on_bad_record is fail: {reason}")
