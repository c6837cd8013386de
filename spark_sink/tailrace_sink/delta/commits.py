"""Commits by Delta's own classes, or by its public interface if this release lacks one of them.

These classes and methods are no public interface. Another release may lack one, or change its
parameters. The call fails then, before anything is committed. From then on the public interface is
used for all tables, which is slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.classes import give_up_writing, writing_classes
from tailrace_sink.spark.jvm_errors import cause_classes

_MISSING: Final = frozenset(
    {
        "java.lang.AbstractMethodError",
        "java.lang.ClassNotFoundException",
        "java.lang.IllegalAccessError",
        "java.lang.IncompatibleClassChangeError",
        "java.lang.NoClassDefFoundError",
        "java.lang.NoSuchFieldError",
        "java.lang.NoSuchMethodError",
        "java.lang.NoSuchMethodException",
    }
)
_REASON_MAX: Final = 300

_Result = TypeVar("_Result")

_log = structlog.get_logger("tailrace.sink")


def is_available(spark: SparkSession, step: str) -> bool:
    """Whether no part is known to be missing in this release of Delta; logged the first time."""
    if writing_classes(spark) is not None:
        return True
    _give_up(spark, step, "a class is missing or has other parameters")
    return False


def in_parts(
    spark: SparkSession, step: str, commit: Callable[[], _Result | None]
) -> _Result | None:
    """Run a commit by Delta's own classes; None if the public interface must be used.

    Args:
        step: name of the step in the log.
        commit: returns None if it cannot do this commit.

    Raises:
        PySparkException, Py4JError: the commit failed, though no part was missing.
    """
    if not is_available(spark, step):
        return None
    try:
        return commit()
    except (PySparkException, Py4JError, TypeError) as error:
        if not is_missing(error):
            raise
        _give_up(spark, step, " ".join(str(error).split())[:_REASON_MAX])
        return None


def _give_up(spark: SparkSession, step: str, reason: str) -> None:
    """Use the public interface from now on; log it the first time."""
    if give_up_writing(spark):
        _log.error(
            "delta_parts_missing",
            step=step,
            reason=reason,
            effect="tables are written by MERGE and by Delta's own writer, which takes longer",
            fix="run the sink with a release of Delta that docs/readers.md names as tested",
        )


def is_missing(error: PySparkException | Py4JError | TypeError) -> bool:
    """Whether a class or a method of the JVM is missing, or has other parameters."""
    if isinstance(error, TypeError):
        return "'JavaPackage' object is not callable" in str(error)
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return "does not exist" in str(error)  # Py4J's text for a method and for a constructor
    return not _MISSING.isdisjoint(cause_classes(error))
