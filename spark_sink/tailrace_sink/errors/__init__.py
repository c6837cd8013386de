"""Every error of the sink: what went wrong, where, and what to do about it.

Each class declares ``retryable``: the run loop tries those again, with a growing pause and a log
line; everything else stops the sink loudly. Errors of Spark's JVM are translated in one place
(``jvm_errors``) by the class names in their chain of causes, never by their text.
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
    SchemaUnknown,
    UnsupportedEventForm,
    UnsupportedTopicName,
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
    ClassArchiveFailed,
    LakeTableChanged,
    LakeTableUnreadable,
    LakeTaken,
    UnsupportedSchemaChange,
)
from tailrace_sink.errors.progress import (
    ForeignRecord,
    LedgerMismatch,
    LsnWentBackwards,
    ProgressGap,
)

__all__ = [
    "EXCLUDED",
    "SNAPSHOT_HELPS",
    "AppendSkipped",
    "ApplyFailed",
    "BadRecord",
    "BadRecordRefused",
    "ChangesLost",
    "ClassArchiveFailed",
    "ConfigError",
    "ForeignRecord",
    "KafkaUnavailable",
    "LakeTableChanged",
    "LakeTableUnreadable",
    "LakeTaken",
    "LedgerMismatch",
    "LsnWentBackwards",
    "ProgressGap",
    "ProgressTruncated",
    "SchemaUnknown",
    "SinkError",
    "TableError",
    "TableExcluded",
    "TopicGone",
    "TopicRecreated",
    "TopicUnknown",
    "UnsupportedEventForm",
    "UnsupportedSchemaChange",
    "UnsupportedTopicName",
]
