"""Rows of a Delta table, read without a JVM.

pyarrow's reader calls Python on threads of its own. If one of them still runs when the process
ends, C++ aborts the process: `tailrace status` on a lake in S3 ended with signal 6 now and then.
deltalake's query engine has no such threads.
"""

from __future__ import annotations

from typing import Any, Final

from deltalake import DeltaTable, QueryBuilder
from pyarrow import ArrowException, RecordBatchReader, Table

_MICROSECONDS: Final = "SET datafusion.execution.parquet.coerce_int96 = 'us'"
"""Times of INT96, which Spark writes by default, are else nanoseconds: from 1677 to 2262."""


def query_engine() -> QueryBuilder:
    """Return an engine that reads times of any year, however a file stores them."""
    engine = QueryBuilder()
    engine.execute(_MICROSECONDS).read_all()
    return engine


def query_table(table: DeltaTable, query: str) -> Table:
    """Run a query over a Delta table, which it calls ``t``.

    Raises:
        DeltaError: the table has a feature that deltalake does not know, or the query is wrong.
        OSError: a file of the table cannot be read.
    """
    answer = query_engine().register("t", table).execute(query)
    try:
        return RecordBatchReader.from_stream(answer).read_all()
    except ArrowException as error:  # The engine's own errors arrive as an ArrowInvalid.
        raise OSError(str(error)) from error


def query_rows(table: DeltaTable, query: str) -> list[dict[str, Any]]:
    """Return the answer of :func:`query_table` as Python's values, row by row."""
    rows: list[dict[str, Any]] = query_table(table, query).to_pylist()
    return rows
