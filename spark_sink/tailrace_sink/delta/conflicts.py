"""Writes that lose against somebody else's: an OPTIMIZE, a foreign writer.

Delta refuses a commit when another one got in between and touched the same files or the table's
metadata. The statement is right as it is and reads the table anew, so it is carried out again at
once, in its place, and is not counted as a failure of the batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_sink.spark.jvm_errors import cause_classes

ATTEMPTS_MAX: Final = 20
"""Attempts until a conflict counts as a failure: pauses grow to two seconds."""
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0
_PACKAGES: Final = ("io.delta.exceptions.", "org.apache.spark.sql.delta.")
_NAMES: Final = frozenset(
    {
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }
)

_Result = TypeVar("_Result")

_log = structlog.get_logger("tailrace.sink")


def retried(step: str, write: Callable[[], _Result]) -> _Result:
    """Carry out a write until nobody else's is in its way; what it returned.

    Args:
        step: what is written, for the log.
        write: may be carried out again after a conflict.

    Raises:
        PySparkException, Py4JError: another error, or too many conflicts in a row.
    """
    pause_s = _PAUSE_FIRST_S
    attempt = 1
    while True:
        try:
            return write()
        except (PySparkException, Py4JError) as error:
            if attempt >= ATTEMPTS_MAX or not is_conflict(error):
                raise
            _log.info("write_conflict", step=step, attempt=attempt)
        threading.Event().wait(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)
        attempt += 1


def is_refused(error: PySparkException | Py4JError) -> bool:
    """Whether a constraint of the table, which only somebody else can have set, refuses a row."""
    return any(name.endswith("InvariantViolationException") for name in cause_classes(error))


def is_conflict(error: PySparkException | Py4JError) -> bool:
    """Whether a commit lost against another one."""
    for name in cause_classes(error):
        package, _, simple = name.rpartition(".")
        if simple in _NAMES and f"{package}.".startswith(_PACKAGES):
            return True
    return False
