"""Why a table cannot be compared, and which errors say so of one table alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from tailrace.verify.table_shape import TableShape
from tailrace_publisher.errors import SourceBusy, SourceError
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.spark.jvm_errors import translated


class NotProvable(Exception):
    """A table cannot be compared; says why, and what helps."""


@contextmanager
def errors_of_one_table(shape: TableShape) -> Iterator[None]:
    """Compare one table: an error in the block that concerns no other table is NotProvable.

    Raises:
        NotProvable: the table cannot be compared.
        SourceError: the server did not answer.
        SinkError: the lake cannot be read.
    """
    try:
        yield
    except CutUnknown as error:
        raise NotProvable(str(error)) from error
    except SourceError as error:
        if not (error.of_one_table or isinstance(error, SourceBusy)):
            raise
        raise NotProvable(str(error)) from error
    except (PySparkException, Py4JError) as error:
        failure = translated(f"reading lake table {shape.table.path}", error)
        if isinstance(error, Py4JNetworkError):  # The JVM has ended.
            raise failure from error
        fix = f"if its files are damaged or gone, tailrace snapshot {shape.table.in_database}"
        raise NotProvable(f"{failure}. Fix: {fix}") from error
