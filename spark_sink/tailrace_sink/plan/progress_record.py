"""Progress records, decoded."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import fastavro

from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, PartitionProgress, Progress
from tailrace_sink.errors import DividedIntoShards, ForeignRecord

SchemaById = Callable[[int], dict[str, Any]]
"""Looks up a registered schema by its id."""


_READER = fastavro.parse_schema(PROGRESS_SCHEMA)


def decode_progress(value: bytes, schema_by_id: SchemaById) -> Progress:
    """Decode a framed progress record, ignoring fields of a newer writer.

    Raises:
        ForeignRecord: it is no progress record.
        DividedIntoShards: it is of one of several shards.
    """
    try:
        schema_id, body = split_frame(value)
        writer = _parsed(schema_by_id, schema_id)
        raw = cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(body), writer, _READER))
        found = Progress.from_record(raw)
    except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
        raise ForeignRecord(
            f"the progress topic holds a foreign record ({error}). Fix: remove foreign producers"
            " from the topic"
        ) from error
    if found.shard or found.shards > 1:
        raise DividedIntoShards(f"the progress record that closes LSN {found.closed_lsn}")
    return found


@lru_cache(maxsize=64)
def _parsed(schema_by_id: SchemaById, schema_id: int) -> Any:
    return fastavro.parse_schema(schema_by_id(schema_id))


@dataclass(frozen=True, slots=True)
class Loss:
    """The events of a topic that a cut of the log lacks.

    Attributes:
        below: partition to the first offset that the cut has; without one it lacks all.
    """

    reason: str
    below: Mapping[int, int] = field(default_factory=dict)

    def has(self, part: PartitionProgress) -> bool:
        """Whether records of a range are missing."""
        return not self.below or part.first_offset < self.below.get(part.partition, 0)


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A progress record and its place in the progress topic.

    Attributes:
        value: the record, framed and in Avro.
        batch: batch id of its cut in the log; 0 if it does not come from the log.
        lost: topics of which that cut lacks events.
        in_kafka: whether the log has no events of that cut.
    """

    partition: int
    offset: int
    progress: Progress
    value: bytes = b""
    batch: int = 0
    lost: Mapping[str, Loss] = field(default_factory=dict)
    in_kafka: bool = False

    def why_lost(self, part: PartitionProgress) -> str | None:
        """Return the reason why the log lacks events of one of its ranges; None if it has all."""
        loss = self.lost.get(part.topic)
        return loss.reason if loss is not None and loss.has(part) else None

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(part.count for part in self.progress.partitions)
