"""Which tables a repair makes equal to an accepted database, and which need a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.offline.lost_history import LostEvents, LostHistory
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.snapshot.keyed_rows import key_refusal
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_schemas.events.serializations import Serialization
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_INEXACT: Final = frozenset({"float", "real", "time", "datetimeoffset", "hierarchyid"})
"""Types of which the server may not convert the value of an event back."""


class Repairable:
    """Judges the tables.

    Args:
        instances: all capture instances of the database, by name.
    """

    def __init__(
        self,
        config: PublisherConfig,
        topics: DatabaseTopics,
        lost: LostHistory,
        instances: Mapping[str, CaptureInstance],
    ) -> None:
        self._config = config
        self._topics = topics
        self._lost = lost
        self._instances = instances

    def refusal(self, table: TableName, record: TableRecord) -> str | None:
        """Return why a concerned table needs a snapshot; None if its rows can be read again.

        Raises:
            CheckpointUnavailable: the beginning of its topic could not be queried.
        """
        lost = self._lost
        if lost.kept is None or not lost.has_kept:
            return "no commit is known that topics and database have in common"
        if table in lost.cleaned:
            return f"cleanup has removed changes of the database after LSN {lost.kept}"
        rows = rows_of(lost, self._topics.names.data(table))
        return (
            _refusal_by_record(record, lost.kept, rows)
            or self._refusal_by_key(table, record)
            or self._refusal_by_topic(rows)
        )

    def _refusal_by_key(self, table: TableName, record: TableRecord) -> str | None:
        """Return why rows cannot be read again by the keys of events."""
        config, instance = self._config, self._instances.get(record.instances[0])
        if config.event_shape.serialization is not Serialization.AVRO:
            return "the keys of its events are not Avro (serialization)"
        if config.skip.operations_of(table):
            return "the options leave out operations (skip)"
        if instance is None:
            return "its capture instance is gone"
        try:
            columns = current_columns(instance, config.lossless_of(table), rules_of(config.columns))
        except ColumnsRefused as error:
            return str(error)
        inexact = [c.name for c in instance.identity_columns if c.type.name in _INEXACT]
        if inexact:
            return f"the type of key columns has no exact text: {', '.join(inexact)}"
        return key_refusal(instance, columns)

    def _refusal_by_topic(self, rows: LostRows) -> str | None:
        """Return why the keys of lost events cannot be read."""
        patience_s = self._config.kafka.start_timeout_s
        for partition, (first, _) in rows.offsets.items():
            with partition_reader(self._topics.kafka, rows.topic, partition=partition) as reader:
                if reader.begin(patience_s) > first:
                    return "retention has removed its lost events"
        return None


def rows_of(lost: LostHistory, topic: str) -> LostRows:
    """Return where the keys of a topic's rows are that may differ from the database."""
    events = lost.events.get(topic, LostEvents())
    kept = lost.through if lost.kept is None else lost.kept
    return LostRows(topic, kept, lost.through, events.events, events.offsets)


def _refusal_by_record(record: TableRecord, kept: Lsn, rows: LostRows) -> str | None:
    """Return why a table was not whole at the last common LSN, or is another one since."""
    is_again = isinstance(record.repair, LostRows) and rows.includes(record.repair)
    if record.state is not TableState.FOLLOWED and not is_again:
        return f"it is not whole ({record.state.value})"
    fence = None if is_again else record.snapshot_fence
    begun = record.covers_from, fence or Lsn.ZERO
    if len(record.instances) != 1 or any(lsn is None or lsn > kept for lsn in begun):
        return "its snapshot or capture instance is of the lost history"
    if record.lacks_changes or record.patch is not None:
        return "changes of it are in the dead letters, or a patch is due"
    return None
