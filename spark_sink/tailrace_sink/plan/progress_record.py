"""Progress records as the sink reads them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import fastavro

from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, PartitionProgress, Progress
from tailrace_sink.errors import ForeignRecord

SchemaById = Callable[[int], dict[str, Any]]
"""Looks a registered schema up by its id."""


_READER = fastavro.parse_schema(PROGRESS_SCHEMA)


def decode_progress(value: bytes, schema_by_id: SchemaById) -> Progress:
    """A progress record from its framed bytes; a newer writer's extra fields are ignored.

    Raises:
        ForeignRecord: not a progress record.
    """
    try:
        schema_id, body = split_frame(value)
        writer = _parsed(schema_by_id, schema_id)
        raw = cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(body), writer, _READER))
        return Progress.from_record(raw)
    except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
        raise ForeignRecord(
            f"the progress topic holds a record that is not one of ours ({error}); remove foreign"
            " producers from the topic"
        ) from error


@lru_cache(maxsize=64)
def _parsed(schema_by_id: SchemaById, schema_id: int) -> Any:
    return fastavro.parse_schema(schema_by_id(schema_id))


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cut of the log does not have of a topic.

    Attributes:
        reason: why.
        below: partition to the offset from which on it has them; all are missing where there is
            none.
    """

    reason: str
    below: Mapping[int, int] = field(default_factory=dict)

    def has(self, part: PartitionProgress) -> bool:
        """Whether records of a range are missing."""
        return not self.below or part.first_offset < self.below.get(part.partition, 0)


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A progress record and where it stands in the progress topic.

    Attributes:
        partition: partition of the progress topic.
        offset: its offset there.
        progress: what it says.
        value: as it stands in the topic.
        batch: batch id of the cut in the log that has it; 0 where it does not come from the log.
        lost: topics of which that cut does not have all records.
    """

    partition: int
    offset: int
    progress: Progress
    value: bytes = b""
    batch: int = 0
    lost: Mapping[str, Loss] = field(default_factory=dict)

    def why_lost(self, part: PartitionProgress) -> str | None:
        """Why records of one of its ranges are not in the log; None when all are."""
        loss = self.lost.get(part.topic)
        return loss.reason if loss is not None and loss.has(part) else None

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(part.count for part in self.progress.partitions)
