"""Signals of operators, read while the stream runs.

The changes that a signal causes, and the offset after it, are part of the publisher's state. So
they are in the same Kafka transaction, and a signal takes effect exactly once, whatever fails
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tailrace_publisher.daemon.orders.pause import Pause
from tailrace_publisher.daemon.orders.table_orders import TableOrders
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.deliver.topics import signals_spec
from tailrace_publisher.errors import DeliveryRejected
from tailrace_publisher.ports import KafkaConsumer
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.records.signals import (
    AcceptedLoss,
    PauseSignal,
    RepairSignal,
    SnapshotSignal,
    TableSignal,
    read_signal,
)
from tailrace_schemas.topics.topic_names import told_apart

_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 100
_ANSWER_S: Final = 5.0
"""How long a look at the topic's ends may take; it is needed only once they are lost."""
_REFUSED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


def signals_refusal(topics: DatabaseTopics, delivery: KafkaDelivery) -> str | None:
    """Create the signals topic; return why it cannot be read, or None.

    Call this before the data topics are created. After those of a thousand tables, brokers take
    seconds until a new topic has a leader.

    Raises:
        KafkaUnavailable: no broker answered in time.
    """
    try:
        delivery.ensure_topics([signals_spec(topics.names.signals)])
    except DeliveryRejected as error:
        return str(error)
    return None


class Signals:
    """The reader of the signals topic, which carries out the signals.

    Args:
        refusal: as :func:`signals_refusal` returns it.
        orders: carries out requests for single tables.
        pause: of the publisher as a whole.
    """

    def __init__(
        self,
        topics: DatabaseTopics,
        refusal: str | None,
        tables: PublishedTables,
        orders: TableOrders,
        pause: Pause,
    ) -> None:
        self._topic = topic = topics.names.signals
        self._state = state = pause.state
        self._tables = tables
        self._orders = orders
        self._pause = pause
        self._consumer: KafkaConsumer | None = None
        if refusal is not None:
            self._do_without(refusal)
            return
        self._consumer = topics.kafka.clients.consumer(
            {
                **topics.kafka.options,
                "group.id": f"{topic}-reader",  # required by the client; never joined
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # Not "earliest": a topic that lost its end would be carried out from its beginning.
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, state.signals_offset or 0)])

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def take(self, finish: Callable[[], None]) -> bool:
        """Carry out the signals that arrived since the last call; never waits.

        Call this between source transactions. Invalid signals are logged and skipped.

        Args:
            finish: commits what was sent, before a signal changes what is true of it.

        Returns:
            Whether a signal was read. Only a commit makes its effect durable.

        Raises:
            PublisherError: the catalog or a table's topic could not be queried.
        """
        if self._consumer is None:
            return False
        try:
            messages = self._consumer.consume(_AT_ONCE, 0)
        except KafkaException as error:
            self._do_without(str(error))
            return False
        has_taken = False
        for message in messages:
            failure = message.error()
            if failure is None:
                if not has_taken:
                    finish()
                has_taken = True
                self._take(message.offset() or 0, message.value())
            elif failure.code() in _REFUSED:
                self._do_without(failure.str())
                break
            elif failure.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - a public code
                self._go_on(self._consumer)
                break
        return has_taken

    def _go_on(self, consumer: KafkaConsumer) -> None:
        """Continue in a topic without a record at our offset: its beginning or its end is lost.

        See: librdkafka, CONFIGURATION.md, auto.offset.reset
        """
        place = TopicPartition(self._topic, 0, self._state.signals_offset or 0)
        try:
            found = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _ANSWER_S)
        except KafkaException as error:
            found = None
            _log.debug("signals_place_not_found", topic=self._topic, reason=str(error))
        if found is not None:
            begin, end = found
            if place.offset > end:
                self._refuse(
                    end - 1,  # whoever sent the newest one may wait for its outcome
                    f"the topic was read to offset {place.offset} and has {end} now: it lost its"
                    " end, or was deleted and created. What it has is not carried out, so that"
                    " nothing takes effect twice; send again what had no effect",
                )
            place.offset = max(begin, min(place.offset, end))
            self._state.signals_offset = place.offset
        consumer.assign([place])  # a consumer that told this error stands still

    def _take(self, offset: int, value: bytes | None) -> None:
        self._state.signals_offset = offset + 1
        try:
            signal = read_signal(value)
        except ValueError as error:
            self._refuse(offset, str(error))
            return
        match signal:
            case AcceptedLoss():
                pass  # only a start without a checkpoint uses it, and has read it already
            case PauseSignal():
                refusal = self._pause.set(is_paused=signal.is_paused)
                if refusal is not None:
                    self._refuse(offset, refusal)
            case TableSignal(order, ()):
                self._orders.carry_out_of_all(order)
            case SnapshotSignal(names):
                for name, table in self._named(offset, names):
                    self._read_rows(offset, table, signal.condition_of(name))
            case RepairSignal(name, rows):
                for _, table in self._named(offset, (name,)):
                    self._refuse_table(offset, "repair", table, self._orders.repair(table, rows))
            case TableSignal(order, names):
                for _, table in self._named(offset, names):
                    refusal = self._orders.carry_out(order, table)
                    self._refuse_table(offset, order.value, table, refusal)

    def _read_rows(self, offset: int, table: PublishedTable, where: str | None) -> None:
        """Begin a snapshot of all rows, or of those of a condition, or refuse the signal."""
        if where is None:
            self._refuse_table(offset, "snapshot", table, self._orders.read_all(table))
        else:
            refusal = self._orders.read_part(table, where)
            self._refuse_table(offset, "partial snapshot", table, refusal)

    def _refuse_table(
        self, offset: int, what: str, table: PublishedTable, refusal: str | None
    ) -> None:
        """Refuse a signal for one of its tables, if there is a reason."""
        if refusal is not None:
            self._refuse(offset, f"{what}: {refusal}", str(table.name))

    def _named(self, offset: int, names: Iterable[str]) -> Iterator[tuple[str, PublishedTable]]:
        """Yield the named tables that are published here; refuse names of no published table."""
        for name in names:
            found = self._tables.find(name)
            if len(found) > 1:
                self._refuse(offset, told_apart(name, found), name)
            elif found:
                table = self._tables.get(found[0])
                if table is not None:
                    yield name, table
            else:
                self._refuse(
                    offset,
                    "no such table is published; name it as schema.table, and see that it is"
                    " captured and selected by tables",
                    name,
                )

    def _refuse(self, offset: int, reason: str, table: str | None = None) -> None:
        self._state.refuse_signal(offset, reason if table is None else f"{table}: {reason}")
        _log.error("signal_refused", topic=self._topic, offset=offset, table=table, reason=reason)

    def _do_without(self, reason: str) -> None:
        self.close()
        _log.warning(
            "signals_not_available",
            topic=self._topic,
            reason=reason,
            effect="snapshots cannot be requested, and nothing can be paused or stopped",
            fix="grant Create and Read on the topic",
        )
