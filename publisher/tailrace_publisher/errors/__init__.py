"""Every error of the publisher: what went wrong, where, and what to do about it.

Each class says two things of itself:

- ``retryable``: whether waiting helps. One loop in the daemon retries those, with backoff and a log
  line; everything else stops the daemon loudly.
- ``of_one_table``: whether it concerns one table alone when it comes while that table is handled.
  That is the default, because what nobody thought of must not end the other tables; an error that
  concerns all of them says so.

Errors of libraries are translated at the rim, by code (SQLSTATE, native error number, Kafka error
code), never by their text.

A publisher that has published before has shown that its configuration is right. From then on it
also retries those errors of the source which ``may_heal``: that is every one but those that only a
change of statements, permissions, passwords or options mends.
"""

from tailrace_publisher.errors.base import (
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
    PublisherReplaced,
    ReshardRefused,
    ShardsDiffer,
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
    SnapshotTooLarge,
    SourceBehind,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    StillStopped,
    TableRenamed,
)
from tailrace_publisher.errors.table import (
    ColumnsRefused,
    EncodeError,
    SchemaRefused,
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
    "ColumnsRefused",
    "ConfigError",
    "DatabaseReplaced",
    "DatabaseUnknown",
    "DeliveryError",
    "DeliveryRejected",
    "DeliveryTimeout",
    "EncodeError",
    "EncryptionRefused",
    "ForeignRecords",
    "KafkaUnavailable",
    "LoginRefused",
    "LsnWentBackwards",
    "OrderUnknown",
    "OutcomeUnknown",
    "PermissionMissing",
    "PositionExpired",
    "PreflightError",
    "PublisherError",
    "PublisherReplaced",
    "RecordTooLarge",
    "ReplicaBehind",
    "ReshardRefused",
    "RowsSwitched",
    "SchemaRefused",
    "ShardsDiffer",
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
    "ValuesConverted",
]
