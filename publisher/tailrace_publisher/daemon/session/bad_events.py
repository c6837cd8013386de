"""Events that become dead letters: those that are too large, and the log and count of all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import RecordTooLarge
from tailrace_publisher.options.events import OnBadEvent
from tailrace_publisher.runtime import Runtime
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.records.dead_letters import DeadLetter

_NUMBERS_BYTES: Final = 200
"""Upper bound for the bytes that an event's numbers in its transaction add to it."""
_ADD_NOTHING: Final = frozenset({Operation.READ, Operation.INSERT})

_log = structlog.get_logger(__name__)


class BadEvents:
    """Dead letters about to be sent; does nothing if the option has another value.

    Args:
        runtime: with the option on_bad_event.
        delivery: knows the largest possible event.
        state: stores which tables lack changes.
    """

    def __init__(self, runtime: Runtime, delivery: KafkaDelivery, state: PublisherState) -> None:
        self._is_wanted = runtime.config.on_bad_event is OnBadEvent.DEAD_LETTER
        self._delivery = delivery
        self._state = state
        self._metrics = runtime.metrics
        self._uncounted: Counter[str] = Counter()
        self._logged: set[tuple[str, str, str]] = set()

    def without_too_large(self, part: EncodedRows) -> EncodedRows:
        """Turn events that exceed the message limit into letters, before events are numbered."""
        if not self._is_wanted or not len(part):
            return part
        most = self._delivery.largest_event(part.topic) - _NUMBERS_BYTES
        keys, values = part.written()
        if max(map(len, values)) + max(len(key or b"") for key in keys) <= most:
            return part
        letters = {
            index: _too_large(part, index, key, len(value), most)
            for index, (key, value) in enumerate(zip(keys, values, strict=True))
            if len(value) + len(key or b"") > most
        }
        return part.with_letters(letters) if letters else part

    def note(self, part: EncodedRows) -> EncodedRows:
        """Return the part to send, marked if the table's events lack changes by now.

        If a delete is missing, or an update that may have changed its key, the counts by operation
        are left out. Otherwise readers would take them for everything that happened to the table.
        """
        table = part.table
        if table is None or not (self._is_wanted or self._state.of(table).lacks_changes):
            return part
        for letter in part.letters.values():
            self._uncounted[str(table)] += 1
            self._log_letter(letter)
        if any(le.position.operation not in _ADD_NOTHING for le in part.letters.values()):
            self._state.note_lacking(table)
        if self._state.of(table).lacks_changes and not part.lacks_operations:
            return replace(part, lacks_operations=True)
        return part

    def committed(self) -> None:
        """Count what is published."""
        for table, count in self._uncounted.items():
            self._metrics.dead_letters.labels(table=table).inc(count)
        self._uncounted.clear()

    def _log_letter(self, letter: DeadLetter) -> None:
        kind = letter.table, letter.error, letter.column
        if kind in self._logged:
            return
        self._logged.add(kind)
        _log.error(
            "event_in_dead_letters",
            table=letter.table,
            column=letter.column,
            position=str(letter.position),
            error=letter.error,
            reason=letter.reason,
            effect="the topic lacks this change; further ones like it are counted, not logged",
        )
        self._metrics.failed(letter.error, letter.reason, letter.table)


def _too_large(
    part: EncodedRows, index: int, key: bytes | None, size: int, most: int
) -> DeadLetter:
    return DeadLetter(
        table=str(part.table),
        topic=part.topic,
        position=ChangePosition.from_bytes(part.positions[index]),
        error=RecordTooLarge.__name__,
        reason=f"its event has {size} bytes before compression, and {most} are allowed"
        " (max.message.bytes of the topic; above 16 MiB kafka.extra message.max.bytes, too)",
        key=key,
    )
