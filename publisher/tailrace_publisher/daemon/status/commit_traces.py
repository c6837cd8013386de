"""The publisher's part of traces: from the oldest commit in a Kafka transaction to its own end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.runtime import Runtime
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_service.tracing.traces import ROOT, Attributes, Span, TraceKey

_TOPICS_MAX = 20


class CommitTraces:
    """The times of a Kafka transaction's steps; does nothing if the options want no traces.

    Snapshots close no LSN, so they are in no trace.

    Args:
        runtime: with the export of the spans.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._traces = runtime.traces
        self._clock = runtime.clock
        self._prefix, self._database = runtime.config.prefix, runtime.config.source.database
        self._planned_ms = self._sealed_ms = 0
        self._oldest_ms: int | None = None
        self._read_ms = 0

    def planned(self) -> None:
        """Note that the commits of a window are known and its rows are read from now on."""
        if self._traces is not None:
            self._planned_ms = self._clock.now_ms()

    def opened(self, parts: Sequence[EncodedRows], commit_ms: Mapping[bytes, int]) -> None:
        """Note that the first change rows of a Kafka transaction are about to be sent.

        Args:
            commit_ms: commit times by the bytes of the LSN, milliseconds UTC.
        """
        if self._traces is None or self._oldest_ms is not None:
            return
        first = min((part.positions[0] for part in parts if part.positions), default=b"")
        self._oldest_ms = commit_ms.get(first[:LSN_BYTES])
        self._read_ms = self._planned_ms

    def sealed(self) -> None:
        """Note that everything is sent and the commit starts."""
        if self._traces is not None:
            self._sealed_ms = self._clock.now_ms()

    def committed(self, after: Lsn, closed: Lsn, events: int, topics: Iterable[str]) -> None:
        """Send the spans of a committed Kafka transaction.

        Args:
            after: closed LSN of the Kafka transaction before.
            closed: its own closed LSN; the same inside an unfinished source transaction.
        """
        if self._traces is None or closed == after:
            return
        oldest_ms, self._oldest_ms = self._oldest_ms, None
        key = TraceKey(self._prefix, self._database, 0, str(closed))
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
