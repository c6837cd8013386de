"""Translation of errors of Spark's JVM to the sink's, by class names and error conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException

from tailrace_sink.errors import ApplyFailed, ChangesLost, KafkaUnavailable, SinkError, TopicUnknown

_CAUSES_MAX: Final = 20
_REASON_CHARACTERS_MAX: Final = 400
_NOT_TRANSLATED: Final = "Cannot find main error class"
_PARSED: Final = re.compile(r"\[Source: \(.*")
"""What Jackson adds of a text that it cannot parse. Entries of Delta's log have values of rows."""
_VIOLATED: Final = re.compile(r"(violated by row) with values:.*")
"""What Delta adds of a row that a constraint refuses."""
_DAMAGED: Final = ("DeltaChecksumException", "iceberg.exceptions.NotFoundException")
_NO_PARQUET: Final = "is not a Parquet file"
_KAFKA: Final = "org.apache.kafka.common.errors."
_UNKNOWN_TOPIC: Final = f"{_KAFKA}UnknownTopicOrPartitionException"
_UNAVAILABLE: Final = frozenset(
    {
        f"{_KAFKA}TimeoutException",
        f"{_KAFKA}DisconnectException",
        f"{_KAFKA}NetworkException",
        f"{_KAFKA}LeaderNotAvailableException",
        f"{_KAFKA}NotLeaderOrFollowerException",
        f"{_KAFKA}CoordinatorNotAvailableException",
        f"{_KAFKA}BrokerNotAvailableException",
    }
)
_LOST: Final = frozenset(
    {
        f"{_KAFKA}OffsetOutOfRangeException",
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
        "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
    }
)


def translated(step: str, error: PySparkException | Py4JError) -> SinkError:
    """Translate an error of Spark.

    Args:
        step: name of the step in the message.
    """
    throwable = _throwable(error)
    causes = _causes(throwable)
    classes = [name for name, _ in causes]
    reason = _shortened(causes[-1][1] if causes else str(error))
    if isinstance(error, PySparkException):
        condition = error.getCondition() or ""
        if condition.startswith("KAFKA_DATA_LOSS"):
            return ChangesLost(step, reason)
    if _LOST.intersection(classes):
        return ChangesLost(step, reason)
    if _UNKNOWN_TOPIC in classes:
        return TopicUnknown(f"{step}: {reason}")
    if _UNAVAILABLE.intersection(classes):
        return KafkaUnavailable(f"{step}: Kafka is not available: {reason}")
    return ApplyFailed(step, reason, classes)


def is_analysis_error(error: PySparkException | Py4JError) -> bool:
    """Whether Spark could not resolve a statement, perhaps as its table has other columns now.

    PySpark looks up the text of such an error by its condition. For conditions of Delta it finds
    none, and raises that failure instead of the error.
    """
    if isinstance(error, AnalysisException):
        return True
    return any(_NOT_TRANSLATED in message for _, message in _causes(_throwable(error))[:1])


def lacks_file(classes: Iterable[str]) -> bool:
    """Whether a missing file is among the Java classes of an error's causes."""
    return any(name.endswith("FileNotFoundException") for name in classes)


def shows_damage(classes: Iterable[str], reason: str) -> bool:
    """Whether the causes of an error show a missing or damaged file, and no lack of the store."""
    found = list(classes)
    is_damaged = any(name.endswith(_DAMAGED) for name in found) or _NO_PARQUET in reason
    return is_damaged or lacks_file(found)


def cause_classes(error: PySparkException | Py4JError) -> list[str]:
    """Return the Java classes of an error's causes, outermost first; empty without Java."""
    return [name for name, _ in _causes(_throwable(error))]


def _throwable(error: BaseException) -> Any:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    # PySpark keeps the Java exception that it translated.
    return getattr(error, "_origin", None)


def _causes(throwable: Any) -> list[tuple[str, str]]:
    """Return (class, message) of a Java exception and its causes, outermost first."""
    causes: list[tuple[str, str]] = []
    try:
        while throwable is not None and len(causes) < _CAUSES_MAX:
            name, message = str(throwable.getClass().getName()), throwable.getMessage()
            causes.append((name, name if message is None else str(message)))
            throwable = throwable.getCause()
    except (Py4JError, Py4JNetworkError):
        # The JVM has ended: return the causes found so far.
        return causes
    return causes


def _shortened(text: str) -> str:
    line = _PARSED.sub("[Source: ...]", " ".join(text.split()))
    line = _VIOLATED.sub(r"\1", line)
    return line if len(line) <= _REASON_CHARACTERS_MAX else f"{line[:_REASON_CHARACTERS_MAX]}..."
