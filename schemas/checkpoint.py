"""The checkpoint record: what a restarted publisher goes on from.

Compacted topic ``<prefix>.offsets``, written in the same Kafka transaction as the data. One record
per capture instance that changed, plus one for the database (``capture_instance`` empty) that says
"everything up to this position is out".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CHECKPOINT_KEY_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "CheckpointKey",
    "namespace": "tailrace",
    "fields": [
        {"name": "server", "type": "string"},
        {"name": "database", "type": "string"},
        {"name": "capture_instance", "type": "string"},
    ],
}

CHECKPOINT_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Checkpoint",
    "namespace": "tailrace",
    "fields": [
        {"name": "start_lsn", "type": "string"},
        {"name": "seqval", "type": "string"},
        {"name": "command_id", "type": "long"},
        {"name": "operation", "type": "int"},
        {"name": "schema_lsn", "type": ["null", "string"], "default": None},
        {"name": "snapshot_state", "type": "string"},
        {"name": "snapshot_fence_lsn", "type": ["null", "string"], "default": None},
        {"name": "snapshot_resume_key", "type": ["null", "string"], "default": None},
        {"name": "snapshot_rows", "type": "long", "default": 0},
        {"name": "database_guid", "type": ["null", "string"], "default": None},
        {"name": "recovery_fork_guid", "type": ["null", "string"], "default": None},
        {"name": "written_ms", "type": "long"},
    ],
}
"""``snapshot_state`` is one of pending, running, done, skipped. ``snapshot_resume_key`` is a JSON
array of the last key read, as text that SQL Server converts back."""


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Whose checkpoint it is; ``capture_instance`` is empty for the database's own."""

    server: str
    database: str
    capture_instance: str


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """The value, field by field as in ``CHECKPOINT_SCHEMA``; LSNs are text."""

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
