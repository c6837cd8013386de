"""Retries of writes that conflict with another writer, for instance an OPTIMIZE.

Delta refuses a commit if another commit in between changed the same files or the table's metadata.
The statement is run again at once, and reads the table again. It does not count as a failure of the
batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_service.backoff import Backoff
from tailrace_sink.spark.jvm_errors import cause_classes

ATTEMPTS_MAX: Final = 20
"""Attempts until a conflict counts as a failure: pauses grow to two seconds."""
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0
_PACKAGES: Final = ("io.delta.exceptions.", "org.apache.spark.sql.delta.")
_OTHER_BATCH: Final = "ConcurrentTransactionException"
_NAMES: Final = frozenset(
    {
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        _OTHER_BATCH,
        "ConcurrentWriteException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }
)

_REFUSALS: Final = ("InvariantViolationException", "DeltaUnsupportedOperationException")
"""The second is that of ``delta.appendOnly``."""

_Result = TypeVar("_Result")

_log = structlog.get_logger("tailrace.sink")


def retried(step: str, write: Callable[[], _Result]) -> _Result:
    """Run a write until it does not conflict, and return its result.

    Args:
        step: name of the step in the log.
        write: is called again after a conflict.

    Raises:
        PySparkException, Py4JError: another error, or too many conflicts in a row.
    """
    backoff = Backoff(_PAUSE_MAX_S, first_s=_PAUSE_FIRST_S)
    while True:
        try:
            return write()
        except (PySparkException, Py4JError) as error:
            pause_s = backoff.next_s()
            if backoff.attempts >= ATTEMPTS_MAX or not is_conflict(error):
                raise
            _log.info("write_conflict", step=step, attempt=backoff.attempts)
        threading.Event().wait(pause_s)


def is_refused(error: PySparkException | Py4JError) -> bool:
    """Whether a constraint or a property of the table refused a write; the sink sets none."""
    return any(name.endswith(_REFUSALS) for name in cause_classes(error))


def is_concurrent_batch(error: PySparkException | Py4JError) -> bool:
    """Whether another writer committed a batch of the same application in between."""
    return any(name.endswith(f".{_OTHER_BATCH}") for name in cause_classes(error))


def is_conflict(error: PySparkException | Py4JError) -> bool:
    """Whether a commit conflicted with another one."""
    for name in cause_classes(error):
        package, _, simple = name.rpartition(".")
        if simple in _NAMES and f"{package}.".startswith(_PACKAGES):
            return True
    return False
