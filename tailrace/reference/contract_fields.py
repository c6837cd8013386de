"""What each field of the topics means, in the words of docs/contract.md.

The order is that of the schemas. ``tailrace.reference.contract`` compares both.
"""

from __future__ import annotations

from typing import Final

_LSN: Final = "An LSN as text"
_MS: Final = "milliseconds UTC"

TOPICS: Final = {
    "data": (
        "the table's key",
        "an event, or null: a tombstone",
        "`kafka.partitions`, by the key",
    ),
    "progress": ("none", "a progress record", "one"),
    "transaction": ("id", "begin or end of a transaction (`transaction_metadata`)", "one"),
    "ddl": ("the table", "a schema change (`schema_changes`)", "one"),
    "dead_letters": (
        "as the event's",
        "a row as JSON (`on_bad_event: dead-letter`)",
        "one",
    ),
    "signals": ("none", "a request as JSON, also yours ([ADR 0010](adr/0010-signals.md))", "one"),
    "offsets": ("not public", "the publisher's checkpoint", "one"),
}
"""By role: key, value and partitions of a topic."""

OPERATIONS: Final = {
    "READ": "a row of a snapshot",
    "DELETE": "delete",
    "INSERT": "insert",
    "UPDATE": "update, same key",
    "KEY_DELETE": "update of the key, first event: the old key",
    "KEY_INSERT": "update of the key, second event: the new key",
    "PATCH": "a row that a patch re-read",
}

ENVELOPE: Final = {
    "before": "The row before the change.",
    "after": "The row after the change.",
    "source": "Where the change comes from.",
    "op": "`c` create, `u` update, `d` delete, `r` row of a snapshot.",
    "ts_ms": f"When the publisher wrote the event, {_MS}. It differs if an event is encoded again.",
    "transaction": "Place in the source transaction. Null unless `transaction_metadata` is on.",
    "transaction.id": "The commit LSN as text.",
    "transaction.total_order": "Number of the event in its transaction, from 1.",
    "transaction.data_collection_order": "The same, among the events of its table.",
}

SOURCE: Final = {
    "version": "Release of Tailrace that wrote the event.",
    "connector": "Always `sqlserver`.",
    "name": "Option `server_name`; the prefix by default.",
    "ts_ms": f"Commit time, {_MS}. Of `r` events, patches and repairs: when the row was read.",
    "snapshot": "Null for a change; else `true`, `last`, `patch` or `repair`.",
    "db": "Database, as SQL Server spells it.",
    "schema": "Schema of the table.",
    "table": "Table.",
    "change_lsn": "Third part of the position: `__$seqval`.",
    "commit_lsn": "First part of the position: `__$start_lsn`.",
    "event_serial_no": "Debezium's field: 1 delete, 2 an event with `after`, null if read.",
    "command_id": "Second part of the position: `__$command_id`.",
    "operation": "Fourth part of the position: `__$operation`; 0 if the row was read.",
    "capture_instance": "Capture instance that had the change row.",
    "schema_lsn": "LSN that started the schema version; with the capture instance its identity.",
    "changed": "Avro names of the columns that an update set; empty for other events.",
    "unavailable": "Avro names of large columns whose value is not known: NULL is not NULL.",
}

PROGRESS: Final = {
    "shard": "Always 0: one publisher has all tables of a database.",
    "server": "As `source.name`.",
    "database": "The source database.",
    "after_lsn": f"{_LSN}: `through_lsn` of the record before.",
    "through_lsn": f"{_LSN}: the closed LSN. Every change up to it is published.",
    "through_commit_ms": f"Its commit time, {_MS}, or a later time at which nothing was newer.",
    "closed": "False inside a source transaction that needs several Kafka transactions.",
    "published_ms": f"When the record was written, {_MS}.",
    "partitions": "What this Kafka transaction wrote: one entry for each partition.",
    "partitions.topic": "Data topic.",
    "partitions.partition": "Partition of it.",
    "partitions.first_offset": "Offset of the first record.",
    "partitions.next_offset": "Offset after the last record, tombstones included.",
    "partitions.count": "Events; tombstones are not counted.",
    "partitions.position_hash": "Sum of CRC-32 of each position's 25 bytes, modulo 2^64, signed.",
    "partitions.schema_ids": "Registry ids of the events' schemas.",
    "partitions.bytes": "Bytes of the events' values, uncompressed, with frames.",
    "partitions.operations": "Events by `source.operation`. Null if options leave operations out.",
    "partitions.operations.reads": "Of operation 0: `r` and patches.",
    "partitions.operations.creates": "Of operation 2.",
    "partitions.operations.updates": "Of operation 4.",
    "partitions.operations.deletes": "Of operation 1.",
    "snapshotting": "Topics of tables outside the cut: in a snapshot, stopped or dropped.",
    "shards": "Always 1: one publisher has all tables of a database. Most records lack the field.",
    "patched": "Columns whose values are all published, from `through_lsn` on.",
    "patched.topic": "Data topic.",
    "patched.columns": "Names of the columns.",
}

TRANSACTION: Final = {
    "status": "`BEGIN` or `END`.",
    "id": "The commit LSN as text; also the record's key.",
    "event_count": "Events of the transaction; of `END` only.",
    "data_collections": "The same for each table; of `END` only.",
    "data_collections.data_collection": "database.schema.table.",
    "data_collections.event_count": "Events of that table.",
    "ts_ms": f"Commit time, {_MS}.",
}

SCHEMA_CHANGE: Final = {
    "database": "The table's database; with schema and table the record's key.",
    "schema": "Its schema.",
    "table": "Its name.",
    "lsn": f"{_LSN}: the change holds from here on.",
    "ts_ms": f"When the statement ran, {_MS}, if it is known.",
    "ddl": "The statement; null if a newer capture instance takes over.",
    "capture_instance": "The one whose events follow.",
    "before": "Columns of the events below `lsn`.",
    "before.name": "As SQL Server spells it.",
    "before.type": "SQL Server type, as DDL writes it.",
    "before.nullable": "Whether the source allows NULL.",
    "before.key_ordinal": "Place in the event key, from 1; 0 if it is no key column.",
    "before.column_id": "`column_id` of the source table; a rename keeps it.",
    "after": "Columns of the events from `lsn` on, with the same fields.",
}

LETTER: Final = {
    "table": "database.schema.table.",
    "topic": "Topic that lacks the event.",
    "op": "As `op` of the event.",
    "commit_lsn": "First part of its position.",
    "command_id": "Second part.",
    "seqval": "Third part.",
    "operation": "Fourth part.",
    "error": "Class of the error ([errors](errors.md)).",
    "reason": "The error in words, without values.",
    "column": "The column, if it was the value of one.",
}

ATTRIBUTES: Final = {
    "captureInstance": "Capture instance of the version.",
    "schemaLsn": "LSN from which the version holds.",
    "sqlTable": "Database, schema and table, as SQL Server spells them.",
    "sqlName": "Name of the column, which Avro cannot always spell.",
    "sqlType": "Its SQL Server type, as DDL writes it.",
    "columnId": "`column_id` of the source table; a rename keeps it.",
    "sqlKey": "Place in the key, from 1; of key columns only.",
    "captureOrdinal": "Place in the change table, if options leave columns out.",
    "transform": "`mask`, `truncate` or `hash` ([columns](columns.md)).",
}
