"""Traces of changes: which there are, and the ids of their spans.

A trace follows one Kafka transaction of the publisher, from the oldest commit in it to the lake's
tables. Nothing of it travels with the data. The ids, and which transactions are traced, follow from
prefix, database, shard and closed LSN, which publisher and sink both know. So spans of two
processes, hours apart, or sent twice after a crash, are of one trace (docs/adr/0034).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

ROOT: Final = "publish"
"""Name of the span that the others are below: the publisher's."""

Attributes = Mapping[str, str | int | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TraceKey:
    """What a trace follows: the Kafka transaction of a shard that closes an LSN.

    Attributes:
        shard: number of the shard.
        closed_lsn: what it closes, as text.
    """

    prefix: str
    database: str
    shard: int
    closed_lsn: str

    @property
    def trace_id(self) -> int:
        """128 bits of the SHA-256 of the parts, joined by zero bytes."""
        return int.from_bytes(self._digest()[:16]) or 1

    def span_id(self, name: str) -> int:
        """64 bits of the same, followed by the span's name."""
        return int.from_bytes(self._digest(name)[:8]) or 1

    def is_sampled(self, ratio: float) -> bool:
        """Whether the trace is among a share of all: by its last 64 bits, as OpenTelemetry does."""
        return self.trace_id & (1 << 64) - 1 < round(ratio * (1 << 64))

    def _digest(self, *further: str) -> bytes:
        parts = (self.prefix, self.database, str(self.shard), self.closed_lsn, *further)
        return hashlib.sha256("\0".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Span:
    """A step of a trace.

    Attributes:
        name: publish (the root), or that of a step below it.
        began_ms: milliseconds UTC. If clocks differ it may be after the end.
        attributes: in addition to those that identify the trace.
    """

    name: str
    began_ms: int
    ended_ms: int
    attributes: Attributes


class SpanExport(Protocol):
    """Sends spans, in a thread of its own; what its queue does not take is dropped."""

    def send(self, key: TraceKey, span: Span) -> None:
        """Send a span."""

    def close(self) -> None:
        """Send what waits, within the time limits of some requests."""


class Traces:
    """The spans of one program; those of traces that are not sampled cost a hash.

    Args:
        ratio: share of the traces that are sampled.
    """

    def __init__(self, ratio: float, export: SpanExport) -> None:
        self._ratio = ratio
        self._export = export

    def wants(self, key: TraceKey) -> bool:
        """Whether the trace is sampled."""
        return key.is_sampled(self._ratio)

    def send(self, key: TraceKey, *spans: Span) -> None:
        """Send spans of a trace that is sampled."""
        for span in spans:
            self._export.send(key, span)

    def close(self) -> None:
        """Send what waits."""
        self._export.close()
