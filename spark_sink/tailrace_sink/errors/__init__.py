"""All errors of the sink: what happened, where, and how to fix it.

The run loop retries an error whose class is ``retryable``, with a growing pause and a log line. Any
other error ends the sink. ``jvm_errors`` translates errors of Spark's JVM by the class names in
their chain of causes, never by their text.
"""

from tailrace_sink.errors.base import (
    EXCLUDED,
    SNAPSHOT_HELPS,
    ConfigError,
    SinkError,
    TableError,
    TableExcluded,
)
from tailrace_sink.errors.events import (
    BadRecord,
    BadRecordRefused,
    SchemaNotStored,
    SchemaUnknown,
    UnsupportedEventForm,
    UnsupportedTopicName,
)
from tailrace_sink.errors.iceberg import (
    CatalogUnavailable,
    CatalogUnsafe,
    CatalogUnusable,
    ForeignCommit,
    SnapshotExpired,
)
from tailrace_sink.errors.kafka import (
    ChangesLost,
    KafkaUnavailable,
    ProgressTruncated,
    TopicGone,
    TopicRecreated,
    TopicUnknown,
)
from tailrace_sink.errors.lake import (
    AppendSkipped,
    ApplyFailed,
    ChangesUnknown,
    LakeNameTaken,
    LakeRowsChanged,
    LakeTableChanged,
    LakeTableUnreadable,
    LakeTaken,
    NameTaken,
    NamingFailed,
    PartitionValueRefused,
    RowsElsewhere,
    SchemaChangeRefused,
    UnexpectedTableError,
    UnsupportedSchemaChange,
)
from tailrace_sink.errors.progress import (
    DividedIntoShards,
    ForeignRecord,
    LedgerMismatch,
    LsnWentBackwards,
    ProgressGap,
)
from tailrace_sink.errors.store import DiskUnwritable, StoreUnavailable, StoreUnsafe, StoreUnusable

__all__ = [
    "EXCLUDED",
    "SNAPSHOT_HELPS",
    "AppendSkipped",
    "ApplyFailed",
    "BadRecord",
    "BadRecordRefused",
    "CatalogUnavailable",
    "CatalogUnsafe",
    "CatalogUnusable",
    "ChangesLost",
    "ChangesUnknown",
    "ConfigError",
    "DiskUnwritable",
    "DividedIntoShards",
    "ForeignCommit",
    "ForeignRecord",
    "KafkaUnavailable",
    "LakeNameTaken",
    "LakeRowsChanged",
    "LakeTableChanged",
    "LakeTableUnreadable",
    "LakeTaken",
    "LedgerMismatch",
    "LsnWentBackwards",
    "NameTaken",
    "NamingFailed",
    "PartitionValueRefused",
    "ProgressGap",
    "ProgressTruncated",
    "RowsElsewhere",
    "SchemaChangeRefused",
    "SchemaNotStored",
    "SchemaUnknown",
    "SinkError",
    "SnapshotExpired",
    "StoreUnavailable",
    "StoreUnsafe",
    "StoreUnusable",
    "TableError",
    "TableExcluded",
    "TopicGone",
    "TopicRecreated",
    "TopicUnknown",
    "UnexpectedTableError",
    "UnsupportedEventForm",
    "UnsupportedSchemaChange",
    "UnsupportedTopicName",
]
