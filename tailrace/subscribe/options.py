"""How and where a subscription reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer

from tailrace.reading.moments import Moment
from tailrace.subscribe.bookmark import Bookmark
from tailrace.subscribe.brokers import Brokers
from tailrace.subscribe.rows import EventDecoder
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import SchemaRegistry


@dataclass(frozen=True, slots=True)
class Options:
    """How a subscription reads.

    Attributes:
        follow: whether to wait for more at the end; if not, the iteration ends there.
        closed: whether to yield :class:`Closed` after each closed LSN that is reached.
        verify: whether the topics must hold every event that the ledger counts. If not, what
            retention or compaction removed is passed over.
        memory_bytes: of records that wait for their turn; one record of each partition may exceed
            it.
        transaction_max: changes of the largest :class:`Transaction`.
    """

    follow: bool = True
    closed: bool = False
    verify: bool = True
    memory_bytes: int = 64 << 20
    transaction_max: int = 100_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Where a subscription reads, and from where on.

    Attributes:
        since: what comes before this moment is left out.
        table_of: the table of a data topic that is read; None for other topics.
        registry: to be closed with the subscription; None if it is not its own.
        has_group: whether offsets may be committed.
    """

    brokers: Brokers
    consumer: Consumer
    decoder: EventDecoder
    bookmark: Bookmark
    since: Moment
    table_of: Callable[[str], TableName | None]
    registry: SchemaRegistry | None
    has_group: bool
