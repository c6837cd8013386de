"""The checkpoint record: what a restarted publisher goes on from.

Compacted topic ``<prefix>.offsets``, written in the same Kafka transaction as the data. One record
per capture instance that changed, plus one for the database (``capture_instance`` empty) that says
"everything up to this position is out".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tailrace_schemas.avsc import load

CHECKPOINT_KEY_SCHEMA: Final[dict[str, Any]] = load("checkpoint_key")
"""Key of the checkpoint topic."""

CHECKPOINT_SCHEMA: Final[dict[str, Any]] = load("checkpoint")
"""Value of the checkpoint topic; its fields are explained in avsc/checkpoint.avsc."""


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Whose checkpoint it is; ``capture_instance`` is empty for the database's own."""

    server: str
    database: str
    capture_instance: str


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """The value, field by field as in ``CHECKPOINT_SCHEMA``; LSNs are text.

    Fields with a default are missing in records of earlier versions.
    """

    start_lsn: str
    seqval: str
    command_id: int
    operation: int
    schema_lsn: str | None
    snapshot_state: str
    snapshot_fence_lsn: str | None
    snapshot_resume_key: str | None
    snapshot_rows: int
    database_guid: str | None
    recovery_fork_guid: str | None
    written_ms: int
    signals_offset: int | None = None
    closed_lsn: str | None = None
    tran_end_time: str | None = None
    tran_id: str | None = None
    family_guid: str | None = None
    source_object_id: int | None = None
    source_schema: str | None = None
    source_table: str | None = None
    stopped_reason: str | None = None
