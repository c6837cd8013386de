"""The keys of the rows that may differ after a database was accepted (ADR 0116).

They are where the two histories wrote them. First come those of the lost events in the topic, then
those of the database's own change rows up to the last published LSN. Both are read in order, and
only a bounded number of keys is in memory.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tailrace_publisher.change.page import ChangePage, position_of
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    CheckpointUnavailable,
    PositionExpired,
    RepairRefused,
)
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.snapshot.key_text import key_text
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.repair_keys import AskedKey
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_service.registry.client import RegistryError

_KEYS_AT_ONCE: Final = 10_000
"""Distinct keys of lost events in memory; each further look into the topic costs a connection."""
_PAGE: Final = PageLimit(2_000, 16_000_000)
_VALUES: Final = 5
"""Index of the first column value in a change row."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading resumes.

    Attributes:
        partition: number of the topic's partition; None once the topic is read.
        offset: of the next record.
        events: how many events were read before it, in all partitions.
        after: position in the change table; None before its first row.
    """

    partition: int | None = None
    offset: int = 0
    events: int = 0
    after: ChangePosition | None = None

    def write(self) -> str:
        after = None if self.after is None else self.after.to_bytes().hex()
        return json.dumps([self.partition, self.offset, self.events, after])

    @classmethod
    def read(cls, text: str) -> _Place:
        partition, offset, events, after = json.loads(text)
        position = None if after is None else ChangePosition.from_bytes(bytes.fromhex(after))
        return cls(partition, offset, events, position)


class LostKeys:
    """The keys of one table; see :class:`RepairKeys`.

    Args:
        encoder: writes keys of events; for the reading thread alone.
        topics: where the lost events are, and the schemas of their keys.
    """

    def __init__(
        self,
        table: PendingTable,
        wanted: LostRows,
        encoder: EnvelopeEncoder,
        topics: DatabaseTopics,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._encoder = encoder
        self._topics = topics
        self._ready: deque[tuple[_Place, AskedKey]] = deque()
        self._partitions = sorted(wanted.offsets)
        resume_key = table.progress.resume_key
        self._next = self._start_of(0, 0) if resume_key is None else _Place.read(resume_key)
        self._has_ended = False

    def take(self, connection: Connection, number: int) -> list[AskedKey]:
        """Return the next keys, so many at most; none at the end."""
        while not self._ready and not self._has_ended:
            if self._next.partition is not None:
                self._ready.extend(self._of_topic())
            else:
                self._ready.extend(self._of_changes(connection))
        return [self._ready.popleft()[1] for _ in range(min(number, len(self._ready)))]

    @property
    def place(self) -> str:
        """The place of the next key, after that of every key before it."""
        return (self._ready[0][0] if self._ready else self._next).write()

    def _start_of(self, index: int, events: int) -> _Place:
        """Return the start of a partition; of the change table after the last one.

        Args:
            events: how many were read before.
        """
        if index == len(self._partitions):
            return _Place(events=events)
        number = self._partitions[index]
        return _Place(number, self._wanted.offsets[number][0], events)

    def _of_topic(self) -> Iterator[tuple[_Place, AskedKey]]:
        """Read keys of lost events, until they are enough or the topic is read."""
        found: dict[bytes, tuple[_Place, bytes]] = {}
        while self._next.partition is not None and len(found) < _KEYS_AT_ONCE:
            self._next = self._read_partition(self._next.partition, found)
        if self._next.partition is None and self._next.events != self._wanted.events:
            raise self._refused("its lost events are not all in its topic")
        decoder = RecordDecoder(None, self._topics.registry)
        for payload, (place, raw) in found.items():
            yield place, self._key_of(self._values_in(decoder, raw), payload)

    def _read_partition(self, number: int, found: dict[bytes, tuple[_Place, bytes]]) -> _Place:
        """Add the keys of a partition, each at the place of its first record.

        Returns:
            Where reading continues.
        """
        offset, events = self._next.offset, self._next.events
        end, topic = self._wanted.offsets[number][1], self._wanted.topic
        with partition_reader(self._topics.kafka, topic, partition=number) as reader:
            if reader.begin(PATIENCE_S) > offset:
                raise self._refused("retention has removed its lost events")
            for message in reader.read(offset, end, PATIENCE_S):
                place = _Place(number, int(message.offset()), events)
                raw = message.key()
                if raw is None:
                    raise self._refused("a lost event has no key")
                payload = split_frame(raw)[1]
                if payload not in found and len(found) >= _KEYS_AT_ONCE:
                    return place
                found.setdefault(payload, (place, raw))
                events += message.value() is not None  # a tombstone is none
        return self._start_of(self._partitions.index(number) + 1, events)

    def _values_in(self, decoder: RecordDecoder, raw: bytes) -> list[Any]:
        """Return the values of an event's key, in the order of the identity."""
        try:
            record = decoder.decode(raw)
            return [record[avro_name(name)] for name in self._table.instance.identity]
        except RegistryError as error:
            if error.retryable:
                raise CheckpointUnavailable(f"the key of a lost event: {error}") from error
            raise self._refused(f"the key of a lost event: {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise self._refused("a lost event has another key") from error

    def _of_changes(self, connection: Connection) -> Iterator[tuple[_Place, AskedKey]]:
        """Read the keys of the next page of the database's own changes."""
        table, wanted, place = self._table, self._wanted, self._next
        identity = set(table.instance.identity)
        columns = tuple(column for column in table.schema.columns if column.name in identity)
        schema = replace(table.schema, columns=columns)
        after = place.after or ChangePosition.end_of(wanted.kept)
        # The connection is the one that found the range, so it sees the range.
        span, first = LsnRange(after, wanted.through, Lsn.ZERO), wanted.kept.increment()
        pages = ChangePages(
            *(connection, table.instance, schema, span, _PAGE, first, RowSize(schema))
        )
        try:
            page = cast("ChangePage | None", pages.read())
        except (PositionExpired, CaptureInstanceGone) as error:
            raise self._refused("cleanup has removed changes of the database") from error
        if page is None or not page.rows:
            self._has_ended = True
            return
        self._next = replace(place, after=position_of(page.rows[-1]))
        rows = list(dict.fromkeys(tuple(row[_VALUES:]) for row in page.rows))
        places = [[column.name for column in columns].index(n) for n in table.instance.identity]
        for row, payload in zip(rows, self._payloads(columns, rows), strict=True):
            yield place, self._key_of([row[index] for index in places], payload)

    def _payloads(self, columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[bytes]:
        """Return the keys of the rows' events, without their frame."""
        given = {column.name: place for place, column in enumerate(columns)}
        names = [column.name for column in self._table.schema.columns]
        whole = [[row[given[name]] if name in given else None for name in names] for row in rows]
        _, keys = self._encoder.encode_images(whole, self._wanted.through)
        return [split_frame(key or b"")[1] for key in keys]

    def _key_of(self, values: Sequence[Any], payload: bytes) -> AskedKey:
        columns = self._table.instance.identity_columns
        texts = (key_text(column, value) for column, value in zip(columns, values, strict=True))
        return AskedKey(tuple(texts), payload)

    def _refused(self, reason: str) -> RepairRefused:
        return RepairRefused(self._table.name, reason)
