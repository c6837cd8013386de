"""A source database and its publisher in one, which knows what the lake must hold."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import (
    PROGRESS_SCHEMA,
    OperationCounts,
    PartitionProgress,
    PatchedColumns,
    Progress,
    position_hash,
    signed,
)
from tailrace_schemas.records.signals import AcceptedLoss, SnapshotSignal
from tailrace_schemas.topics.topic_names import TableName, TopicNames, value_subject
from tailrace_service.registry.client import SchemaRegistry
from tests.envelopes.messages import (
    FIRST_COMMIT_MS,
    PARTITIONS,
    Message,
    Messages,
    framed_progress,
)
from tests.envelopes.tables import DATABASE, Cut, Row, SourceTable
from tests.envelopes.topics import Topics
from tests.envelopes.transaction import Transaction


class Source:
    """A source database and its publisher in one."""

    def __init__(self, bootstrap: str, registry_url: str, *, prefix: str | None = None) -> None:
        self.prefix = prefix or f"t{uuid.uuid4().hex[:10]}"
        self.names = TopicNames(self.prefix)
        self.placeholder: str | None = None  # in the place of values that are unavailable
        self.tables: dict[str, SourceTable] = {}
        self.snapshotting: list[SourceTable] = []  # in every progress record, until removed
        self.cuts: dict[str, Cut] = {}
        self.registry = SchemaRegistry(registry_url)
        self.topics = Topics(bootstrap)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": self.prefix,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(30)
        self._beside = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._next_lsn = Lsn(1, 0, 1)
        self.through = str(Lsn.ZERO)
        self.pending: list[Message] = []
        self._messages = Messages(self.prefix)
        self.topics.create(self.names.progress)
        subject = value_subject(self.names.progress)
        self._progress_id = self.registry.register(subject, PROGRESS_SCHEMA)

    def close(self) -> None:
        self.registry.close()

    def next_lsn(self) -> Lsn:
        lsn, self._next_lsn = self._next_lsn, Lsn(1, self._next_lsn.block + 1, 1)
        return lsn

    def signals(self) -> list[SnapshotSignal | AcceptedLoss]:
        """What was asked of the publisher."""
        return self.topics.signals(self.names.signals)

    def table(self, name: str, *columns: SchemaColumn) -> SourceTable:
        """A captured table with its topic and its first schema version."""
        table_name = TableName(DATABASE, "dbo", name)
        topic = self.names.data(table_name)
        self.topics.create(topic, PARTITIONS)
        schema = TableSchema(table_name, f"dbo_{name}", self.next_lsn(), columns)
        table = SourceTable(table_name, topic, schema, self._register(topic, schema))
        self.tables[name] = table
        return table

    def alter(self, table: SourceTable, *columns: SchemaColumn) -> None:
        """Begin a new schema version; the rows follow by column id."""
        old = {c.column_id: c.name for c in table.schema.columns}
        table.schema = TableSchema(
            table.name, table.schema.capture_instance, self.next_lsn(), columns
        )
        table.value_schema_id = self._register(table.topic, table.schema)
        table.rows = {
            key: {c.name: row[old[c.column_id]] if c.column_id in old else None for c in columns}
            for key, row in table.rows.items()
        }

    def _register(self, topic: str, schema: TableSchema) -> int:
        return self.registry.register(value_subject(topic), envelope_schema(self.prefix, schema))

    def commit(self, *changes: Callable[[Transaction], None]) -> str:
        """One source transaction; its messages wait for :meth:`publish`.

        Returns:
            The commit LSN.
        """
        transaction = Transaction(self, self.next_lsn())
        for change in changes:
            change(transaction)
        self.pending += transaction.messages
        self.cuts[str(transaction.lsn)] = self.cut()
        return str(transaction.lsn)

    def cut(self) -> Cut:
        """All rows as they are now."""
        return {name: copy.deepcopy(table.rows) for name, table in self.tables.items()}

    def snapshot(self, table: SourceTable, rows: Iterable[Row], op: str = "r") -> str:
        """Rows read at a fence; they wait for :meth:`publish`.

        Args:
            op: r of a snapshot, u of a patch.
        """
        fence = self.next_lsn()
        for row in rows:
            position = ChangePosition.of_snapshot(fence)
            table.rows[table.key_of(row)] = dict(row)
            self.pending.append(self.message(table, op, None, row, position))
        self.cuts[str(fence)] = self.cut()
        return str(fence)

    def publish(
        self,
        through: str | None = None,
        *,
        closed: bool = True,
        snapshotting: Sequence[SourceTable] = (),
        messages: Sequence[Message] | None = None,
        abort: bool = False,
        late_marker: bool = False,
        patched: Sequence[PatchedColumns] = (),
    ) -> None:
        """Write the waiting messages and their progress record in one Kafka transaction.

        Args:
            through: the LSN that the record closes; default: the last commit.
            closed: False inside an unfinished source transaction.
            snapshotting: more tables whose snapshot is not finished.
            messages: these instead of all that wait.
            abort: abort the Kafka transaction instead.
            late_marker: leave the changes without the marker that commits them, until
                :meth:`write_marker`; the progress record is there already.
            patched: columns of patches that end here.
        """
        if messages is None:
            messages, self.pending = self.pending, []
        after = self.through
        if not abort:
            self.through = self.through if not closed else through or self._last_lsn()
        self.producer.begin_transaction()
        ledger: dict[tuple[str, int], PartitionProgress] = {}
        for message in messages:
            entry = ledger.setdefault(
                (message.topic, message.partition),
                PartitionProgress(message.topic, message.partition, -1, -1, 0, 0),
            )
            self._produce(message, entry)
        self.producer.flush(30)
        record = replace(
            self._progress(after),
            closed=closed,
            partitions=list(ledger.values()),
            snapshotting=[table.topic for table in (*self.snapshotting, *snapshotting)],
            patched=list(patched),
        )
        framed = framed_progress(self._progress_id, record)
        if late_marker:
            self._beside.produce(self.names.progress, framed)
            self._beside.flush(30)
            return
        self.producer.produce(self.names.progress, framed)
        if abort:
            self.producer.abort_transaction(30)
        else:
            self.producer.commit_transaction(30)

    def publish_idle(self, count: int) -> list[str]:
        """Write progress records without changes in one Kafka transaction.

        Returns:
            The LSN that each of them closes.
        """
        self.producer.begin_transaction()
        closed = []
        for _ in range(count):
            after, self.through = self.through, str(self.next_lsn())
            record = framed_progress(self._progress_id, self._progress(after))
            self.producer.produce(self.names.progress, record)
            closed.append(self.through)
        self.producer.commit_transaction(30)
        return closed

    def _progress(self, after: str) -> Progress:
        """The record that closes the LSN up to which all is published, without changes."""
        return Progress(
            shard=0,
            server="test",
            database=DATABASE,
            after_lsn=after,
            closed_lsn=self.through,
            closed_commit_ms=FIRST_COMMIT_MS + Lsn.parse(self.through).block,
            closed=True,
            published_ms=FIRST_COMMIT_MS,
            partitions=[],
        )

    def write_marker(self) -> None:
        """Commit what a late marker left open."""
        self.producer.commit_transaction(30)

    def _produce(self, message: Message, entry: PartitionProgress) -> None:
        def delivered(error: Any, report: Any) -> None:
            assert error is None, error
            offset = report.offset()
            entry.first_offset = (
                offset if entry.first_offset < 0 else min(entry.first_offset, offset)
            )
            entry.next_offset = max(entry.next_offset, offset + 1)

        if message.position is not None:
            entry.count += 1
            one = OperationCounts.of_positions({int(message.position.operation): 1})
            entry.operations = one.plus(entry.operations or OperationCounts())
            entry.bytes = (entry.bytes or 0) + len(message.value or b"")
            total = entry.position_hash + position_hash(message.position.to_bytes())
            entry.position_hash = signed(total)
        if message.schema_id not in entry.schema_ids:
            entry.schema_ids.append(message.schema_id)
        self.producer.produce(
            message.topic,
            message.value,
            key=message.key,
            partition=message.partition,
            on_delivery=delivered,
        )
        self.producer.poll(0)

    def _last_lsn(self) -> str:
        return max([*self.cuts, self.through])

    def message(
        self,
        table: SourceTable,
        op: str,
        before: Row | None,
        after: Row | None,
        position: ChangePosition,
        unavailable: Sequence[str] = (),
    ) -> Message:
        """One event, framed."""
        return self._messages.message(table, op, before, after, position, unavailable)
