"""Commits by Delta's own classes where this release of Delta has them, else by its public ways.

The classes and methods are no interface: another release may lack one, or have it with other
parameters. That is found when it is called, before anything is committed. Then the public way is
taken, for this table and from then on for all: slower, and right.
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


def is_available(spark: SparkSession) -> bool:
    """Whether this release of Delta has the parts, as far as is known."""
    return writing_classes(spark) is not None


def in_parts(
    spark: SparkSession, step: str, commit: Callable[[], _Result | None]
) -> _Result | None:
    """What a commit by Delta's own classes returned; None where the public way is to be taken.

    Args:
        spark: whose JVM it is.
        step: what is done, for the log.
        commit: None also where it cannot do this one.

    Raises:
        PySparkException, Py4JError: it failed by something else than a part that is not there.
    """
    if not is_available(spark):
        return None
    try:
        return commit()
    except (PySparkException, Py4JError, TypeError) as error:
        if not is_missing(error):
            raise
        if give_up_writing(spark):
            _log.error(
                "delta_parts_missing",
                step=step,
                reason=" ".join(str(error).split())[:_REASON_MAX],
                effect="tables are written by MERGE and by Delta's own writer, which takes longer",
                fix="run the sink with the release of Delta that"
                " compose/tailrace_compose/local/jars.lock names",
            )
        return None


def is_missing(error: PySparkException | Py4JError | TypeError) -> bool:
    """Whether a class or a method of the JVM is not there, or has other parameters."""
    if isinstance(error, TypeError):
        return "'JavaPackage' object is not callable" in str(error)
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return "does not exist" in str(error)  # Py4J's own words, of a method and of a constructor
    return not _MISSING.isdisjoint(cause_classes(error))
