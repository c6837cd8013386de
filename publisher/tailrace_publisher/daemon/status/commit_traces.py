"""The publisher's part of traces: from the oldest commit in a Kafka transaction to its own end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.runtime import Runtime
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_service.tracing.traces import ROOT, Attributes, Span, TraceKey

_TOPICS_MAX = 20


class CommitTraces:
    """Notes when the steps of a Kafka transaction happened; does nothing where none are wanted.

    Snapshots close no LSN, and so are in no trace.

    Args:
        runtime: with what takes the spans.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._traces = runtime.traces
        self._clock = runtime.clock
        self._prefix, self._database = runtime.config.prefix, runtime.config.source.database
        self._shard = runtime.shard.number
        self._planned_ms = self._sealed_ms = 0
        self._oldest_ms: int | None = None
        self._read_ms = 0

    def planned(self) -> None:
        """The commits of a window are known: it is read from now on."""
        if self._traces is not None:
            self._planned_ms = self._clock.now_ms()

    def opened(self, parts: Sequence[EncodedRows], commit_ms: Mapping[bytes, int]) -> None:
        """The first change rows of a Kafka transaction are about to be sent.

        Args:
            parts: they.
            commit_ms: commit times by the bytes of the LSN, milliseconds UTC.
        """
        if self._traces is None or self._oldest_ms is not None:
            return
        first = min((part.positions[0] for part in parts if part.positions), default=b"")
        self._oldest_ms = commit_ms.get(first[:LSN_BYTES])
        self._read_ms = self._planned_ms

    def sealed(self) -> None:
        """Everything is sent; it is committed now."""
        if self._traces is not None:
            self._sealed_ms = self._clock.now_ms()

    def committed(self, after: Lsn, closed: Lsn, events: int, topics: Iterable[str]) -> None:
        """It is committed.

        Args:
            after: closed LSN of the Kafka transaction before.
            closed: its own; the same inside a source transaction that is not over.
            events: how many it has.
            topics: where they are.
        """
        if self._traces is None or closed == after:
            return
        oldest_ms, self._oldest_ms = self._oldest_ms, None
        key = TraceKey(self._prefix, self._database, self._shard, str(closed))
        if not events or oldest_ms is None or not self._traces.wants(key):
            return
        read_ms, sealed_ms, ended_ms = self._read_ms, self._sealed_ms, self._clock.now_ms()
        named: Attributes = {
            "messaging.system": "kafka",
            "tailrace.after_lsn": str(after),
            "tailrace.events": events,
            "tailrace.topics": tuple(sorted(topics)[:_TOPICS_MAX]),
        }
        self._traces.send(
            key,
            Span(ROOT, oldest_ms, ended_ms, named),
            Span("capture", oldest_ms, read_ms, {}),
            Span("read", read_ms, sealed_ms, {}),
            Span("commit", sealed_ms, ended_ms, {}),
        )
