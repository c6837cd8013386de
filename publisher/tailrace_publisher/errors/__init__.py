"""Every error of the publisher: what happened to which object, why, and how to fix it.

Each class has two properties:

- ``retryable``: whether waiting helps. One loop in the daemon retries such errors, with backoff and
  a log line. Any other error stops the daemon with a message.
- ``of_one_table``: whether the error stops only the table that was being handled. That is the
  default, because an unforeseen error must not end the other tables. An error that affects all of
  them sets it to false.

Errors of libraries are translated where they enter, by code (SQLSTATE, native error number, Kafka
error code), never by their text.

A publisher that has published before has proved that its configuration works. From then on it also
retries errors of the source with ``may_heal``. Those are all except the ones that only another
statement, permission, password or option can fix.
"""

from tailrace_publisher.errors.base import (
    ClientUnusable,
    ConfigError,
    PreflightError,
    PublisherError,
    SnapshotsIncomplete,
    StartRefused,
)
from tailrace_publisher.errors.checkpoint import (
    CheckpointError,
    CheckpointLost,
    CheckpointRetentionTooShort,
    CheckpointUnavailable,
    DividedIntoShards,
    LakeUnknown,
    PublisherReplaced,
)
from tailrace_publisher.errors.delivery import (
    DeliveryError,
    DeliveryRejected,
    DeliveryTimeout,
    ForeignRecords,
    KafkaUnavailable,
    OutcomeUnknown,
    RecordTooLarge,
    TokenUnavailable,
    TopicCompacted,
    TopicPartitionsChanged,
    TopicRefused,
)
from tailrace_publisher.errors.primary import CleanupRefused, HistoryUnproven, RotationRefused
from tailrace_publisher.errors.source import (
    CaptureInstanceGone,
    DatabaseReplaced,
    DatabaseUnknown,
    EncryptionRefused,
    LoginRefused,
    LsnWentBackwards,
    OrderUnknown,
    PermissionMissing,
    PositionExpired,
    ReplicaBehind,
    SchemaChanged,
    SnapshotTooLarge,
    SourceBehind,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    StillStopped,
    TableRenamed,
    UnreadableKey,
    ValuesHidden,
)
from tailrace_publisher.errors.table import (
    ColumnsRefused,
    EncodeError,
    OutboxRefused,
    RepairRefused,
    SchemaRefused,
    SendingFailed,
    TableFailed,
    UnexpectedTableError,
)
from tailrace_publisher.errors.unlogged import RowsSwitched, ValuesConverted

__all__ = [
    "CaptureInstanceGone",
    "CheckpointError",
    "CheckpointLost",
    "CheckpointRetentionTooShort",
    "CheckpointUnavailable",
    "CleanupRefused",
    "ClientUnusable",
    "ColumnsRefused",
    "ConfigError",
    "DatabaseReplaced",
    "DatabaseUnknown",
    "DeliveryError",
    "DeliveryRejected",
    "DeliveryTimeout",
    "DividedIntoShards",
    "EncodeError",
    "EncryptionRefused",
    "ForeignRecords",
    "HistoryUnproven",
    "KafkaUnavailable",
    "LakeUnknown",
    "LoginRefused",
    "LsnWentBackwards",
    "OrderUnknown",
    "OutboxRefused",
    "OutcomeUnknown",
    "PermissionMissing",
    "PositionExpired",
    "PreflightError",
    "PublisherError",
    "PublisherReplaced",
    "RecordTooLarge",
    "RepairRefused",
    "ReplicaBehind",
    "RotationRefused",
    "RowsSwitched",
    "SchemaChanged",
    "SchemaRefused",
    "SendingFailed",
    "SnapshotTooLarge",
    "SnapshotsIncomplete",
    "SourceBehind",
    "SourceBusy",
    "SourceError",
    "SourceUnavailable",
    "StartRefused",
    "StillStopped",
    "TableFailed",
    "TableRenamed",
    "TokenUnavailable",
    "TopicCompacted",
    "TopicPartitionsChanged",
    "TopicRefused",
    "UnexpectedTableError",
    "UnreadableKey",
    "ValuesConverted",
    "ValuesHidden",
]
