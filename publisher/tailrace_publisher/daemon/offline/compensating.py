"""Compensation: changes that lead a topic from the lost history to that of the database (ADR 0091).

The images of the lost events are in the topics, those of the database's own changes in its change
tables. Both histories start from the state at the last common LSN. So the difference of a table at
the last published LSN follows from its changed rows alone; the table is not read. What cannot be
proven complete is refused: such a table needs a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.change.row_histories import HistoriesContradict, RowHistory
from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.offline.lost_history import LostEvents, LostHistory
from tailrace_publisher.daemon.tables.known_schemas import KnownSchemas
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.envelopes.event_images import EventImages
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    EncodeError,
    PositionExpired,
    SchemaRefused,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection, Ports
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.catalog.versions import current_columns, registered_form
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.forms import EventForm, EventShape
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

CHANGES_MAX: Final = 100_000
"""Changes of a table in either history. With more, a snapshot is the better way."""
BYTES_MAX: Final = 256_000_000
"""Bytes of a table's lost events, which are in memory."""

_PAGE: Final = PageLimit(2000, 64_000_000)
_NUMBERS: Final = 1 << 32
"""Numbers of one acceptance. The next one has a later progress record, so higher numbers."""


class NotCompensable(Exception):
    """A table needs a snapshot: its difference is not proven, or too large."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """The changes that make a table's topic equal the database.

    Attributes:
        rows: their events; perhaps none.
    """

    rows: EncodedRows

    def count(self, operation: Operation) -> int:
        """Return the number of events of an operation."""
        return sum(position[-1] == operation for position in self.rows.positions)


class Compensator:
    """Compensates the tables of a database with one shard.

    Args:
        instances: all capture instances of the database, with the keys that the options name.
    """

    def __init__(
        self,
        config: PublisherConfig,
        ports: Ports,
        connection: Connection,
        topics: DatabaseTopics,
        instances: Mapping[str, CaptureInstance],
    ) -> None:
        self._config = config
        self._connection = connection
        self._topics = topics
        self._instances = instances
        self._schemas = KnownSchemas()
        self._versions = RegisteredVersions(config, ports.executor, topics.registry, self._schemas)

    def compensation(
        self, table: TableName, record: TableRecord, lost: LostHistory, first: int
    ) -> Compensation:
        """Return the changes that lead a table to its state in the database at ``lost.through``.

        Args:
            record: of the table, in the checkpoint.
            first: number of the table's first event; see :meth:`first_number`.

        Raises:
            NotCompensable: the table needs a snapshot.
            PublisherError, RegistryError: a system does not answer, or refuses.
        """
        kept = lost.kept
        if kept is None or not lost.is_proven:
            raise NotCompensable("no commit is known that topics and database have in common")
        events = lost.events.get(self._topics.names.data(table), LostEvents())
        self._check_options(table)
        _check_record(record, kept, events)
        instance, schema = self._version(table, record)
        try:
            encoder = self._versions.encoder(table, schema)
            envelope = self._topics.registry.schema_by_id(encoder.schema_id)
            images = EventImages(encoder.schema_id, envelope)
            ours = self._lost(encoder.topic, events, images)
            theirs = RowHistory()
            if table in lost.overwritten:
                span = LsnRange(ChangePosition.end_of(kept), lost.through)
                theirs = self._own(instance, schema, span, encoder, images)
            changes = list(ours.differences(theirs))
        except HistoriesContradict as error:
            raise NotCompensable(f"{error}: one of them lacks changes") from error
        except (PositionExpired, CaptureInstanceGone) as error:
            raise NotCompensable("the database's own changes are cleaned up") from error
        except (EncodeError, SchemaRefused) as error:
            raise NotCompensable(str(error)) from error
        now_ms = self._topics.kafka.clock.now_ms()
        commit_ms = lost.through_ms or lost.kept_ms or now_ms
        return Compensation(
            encoder.compensating_events(changes, lost.through, first, commit_ms, now_ms)
        )

    def _check_options(self, table: TableName) -> None:
        config = self._config
        if config.event_shape != EventShape(EventForm.DEBEZIUM):
            raise NotCompensable("its events are not Avro with both images (event_form)")
        if config.skip.operations_of(table):
            raise NotCompensable("the options leave out operations (skip)")

    def _version(
        self, table: TableName, record: TableRecord
    ) -> tuple[CaptureInstance, TableSchema]:
        """Return the capture instance and the version that were in force in both histories."""
        instance = self._instances.get(record.instances[0])
        found = [
            version
            for version in self._versions.of(table)
            if (version.capture_instance, version.schema_lsn)
            == (record.instances[0], record.schema_lsn)
        ]
        if instance is None or not found:
            raise NotCompensable("its capture instance or schema version is gone")
        config = self._config
        columns = current_columns(instance, config.lossless_of(table), rules_of(config.columns))
        schema = found[-1]
        is_same = self._schemas.shapes.get(table) == config.event_shape
        if not is_same or schema.columns not in {columns, registered_form(columns)}:
            raise NotCompensable("its columns or the options of its events have changed")
        if not schema.key_columns:
            raise NotCompensable("it has no key")
        if any(column.type.is_large for column in schema.columns):
            raise NotCompensable("change rows do not hold all values of its large columns")
        return instance, schema

    def _lost(self, topic: str, events: LostEvents, images: EventImages) -> RowHistory:
        """Read the lost events of a topic.

        Raises:
            NotCompensable: an event is missing, or is not a change in this version.
        """
        history, patience_s = RowHistory(), self._config.kafka.start_timeout_s
        count = 0
        for partition, (first, following) in events.offsets.items():
            with partition_reader(self._topics.kafka, topic, partition=partition) as reader:
                if reader.begin(patience_s) > first:
                    raise NotCompensable("retention has removed its lost events")
                for message in reader.read(first, following, patience_s):
                    value = message.value()
                    if value is None:
                        continue
                    count += 1
                    try:
                        history.add(images.change_of(message.key(), value))
                    except HistoriesContradict:
                        raise
                    except (ValueError, KeyError, EOFError, IndexError) as error:
                        raise NotCompensable(f"its lost events: {error}") from error
        if count != events.events:
            raise NotCompensable("its lost events are not all in its topic")
        return history

    def _own(
        self,
        instance: CaptureInstance,
        schema: TableSchema,
        span: LsnRange,
        encoder: EnvelopeEncoder,
        images: EventImages,
    ) -> RowHistory:
        """Read the changes of the database in a range that is published from the lost history.

        Raises:
            NotCompensable: they are too many.
            PublisherError: they cannot be read or encoded.
        """
        history, count = RowHistory(), 0
        first = span.after.commit_lsn
        size = RowSize(schema)
        pages = ChangePages(self._connection, instance, schema, span, _PAGE, first, size)
        while (page := pages.read()) is not None:
            rows = cast("ChangePage", page).rows
            count += len(rows)
            if count > CHANGES_MAX:
                raise NotCompensable(f"the database has more than {CHANGES_MAX:,} own changes")
            times = dict.fromkeys((row[0] for row in rows), 0)
            encoded = encoder.encode(rows, times, is_whole=False)
            for key, value in zip(encoded.keys, encoded.values, strict=True):
                history.add(images.change_of(key, value))
        return history


def first_number(lost: LostHistory) -> int:
    """Return the number of the first event of an acceptance.

    It is higher than those of earlier acceptances at the same LSN.
    """
    return (lost.newest_offset + 1) * _NUMBERS


def _check_record(record: TableRecord, kept: Lsn, events: LostEvents) -> None:
    """Check that a table was whole at the last common LSN, and the same since.

    Raises:
        NotCompensable: it was not, or the events are too many.
    """
    is_whole = record.state is TableState.FOLLOWED and len(record.instances) == 1
    versions = record.covers_from, record.schema_lsn, record.snapshot_fence or Lsn.ZERO
    if not is_whole or any(lsn is None or lsn > kept for lsn in versions):
        raise NotCompensable("its snapshot, capture instance or columns are of the lost history")
    if record.lacks_changes or record.patch is not None:
        raise NotCompensable("changes of it are in the dead letters, or a patch is due")
    if events.events > CHANGES_MAX or events.bytes > BYTES_MAX:
        raise NotCompensable(
            f"more than {CHANGES_MAX:,} events or {BYTES_MAX:,} bytes of it are lost"
        )
