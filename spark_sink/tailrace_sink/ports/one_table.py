"""The border of one table's work: whatever fails there is an error of the sink, and ends only it.

Errors of Spark, of a store and of files may be of a moment, so they are tried again
(:class:`ApplyFailed`). A table that fails alone in every attempt stops (ADR 0059). An error that
nobody foresaw stops its table at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_service.fault_place import place_of
from tailrace_service.registry.client import RegistryError
from tailrace_sink.errors import (
    ApplyFailed,
    LakeRowsChanged,
    LakeTableChanged,
    SinkError,
    UnexpectedTableError,
    UnsupportedSchemaChange,
)
from tailrace_sink.ports.writes import RowsChanged
from tailrace_sink.spark.jvm_errors import translated

_log = structlog.get_logger("tailrace.sink")


def _never(_: PySparkException | Py4JError) -> bool:
    return False


@contextmanager
def of_one_table(
    table: str,
    *,
    is_shared: bool = False,
    is_replaced: bool = True,
    is_refused: Callable[[PySparkException | Py4JError], bool] = _never,
) -> Iterator[None]:
    """Do the work of one table.

    Args:
        table: name of the source table, or path of the lake table.
        is_shared: whether the lake table has rows of several source tables.
        is_replaced: whether a new snapshot replaces the lake table.
        is_refused: whether a constraint of the lake table refused a row.

    Raises:
        TableError: the table must stop.
        SinkError, RegistryError: any other error, with the place of an unforeseen one.
    """
    try:
        yield
    except LakeTableChanged as error:
        if not is_shared and (is_replaced or not error.is_replaced):
            raise
        found = error.table, error.column, error.problem
        raise LakeTableChanged(*found, is_shared=is_shared, is_replaced=False) from error
    except (SinkError, RegistryError):
        raise
    except RowsChanged as error:
        raise LakeRowsChanged(error.path, error.change, is_shared=is_shared) from error
    except UnsupportedType as error:
        fix = "leave its column out of the capture instance"
        raise UnsupportedSchemaChange(table, "", str(error), fix) from error
    except (PySparkException, Py4JError) as error:
        if is_refused(error):
            reason = str(translated("writing", error))
            raise LakeTableChanged(
                table, "", reason, is_shared=is_shared, is_replaced=is_replaced
            ) from error
        raise translated(f"table {table}", error) from error
    except OSError as error:
        # PyArrow raises it for what a store answers, too. It names files, and no values.
        raise ApplyFailed(f"table {table}", f"{type(error).__name__}: {error}") from error
    except (MemoryError, pa.ArrowException) as error:
        reason = f"{type(error).__name__} in {place_of(error)}"
        raise ApplyFailed(f"table {table}", reason) from error
    except Exception as error:
        _log.error(
            "unexpected_error", table=table, error=type(error).__name__, where=place_of(error)
        )
        raise UnexpectedTableError(table, error) from error
