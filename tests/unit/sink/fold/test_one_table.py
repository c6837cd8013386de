"""Whatever fails in one table's work is an error of the sink, and ends only that work."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from structlog.testing import capture_logs

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_sink.errors import (
    SNAPSHOT_HELPS,
    ApplyFailed,
    KafkaUnavailable,
    LakeRowsChanged,
    LakeTableChanged,
    SinkError,
    TableError,
    UnexpectedTableError,
    UnsupportedSchemaChange,
)
from tailrace_sink.ports.one_table import of_one_table
from tailrace_sink.ports.writes import RowsChanged

NAME = "shop.dbo.orders"
SECRET = "value of a row"


def raised(error: BaseException, *, is_refused: bool = False, **options: bool) -> SinkError:
    with (
        pytest.raises(SinkError) as caught,
        of_one_table(NAME, is_refused=lambda _: is_refused, **options),
    ):
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "AWS Error SLOW_DOWN during CreateMultipartUpload"),
        TimeoutError("connection to the store"),
        PySparkException("a stage failed"),
        pa.ArrowInvalid(SECRET),
        pa.ArrowNotImplementedError(SECRET),
        MemoryError(),
    ],
)
def test_what_may_be_of_a_moment_is_tried_again(error: Exception):
    found = raised(error)
    assert isinstance(found, ApplyFailed)
    assert found.retryable
    assert NAME in str(found)
    assert SECRET not in str(found)


@pytest.mark.parametrize("error", [KeyError(SECRET), ValueError(SECRET), StopIteration(SECRET)])
def test_an_unforeseen_error_stops_its_table_by_name_and_shows_no_value(error: Exception):
    with capture_logs() as told:
        found = raised(error)
    assert isinstance(found, UnexpectedTableError)
    assert isinstance(found, TableError)
    (event,) = told
    assert event["event"] == "unexpected_error"
    assert "test_one_table" in event["where"]
    assert SECRET not in f"{found}{told}"


def test_errors_that_say_what_they_are_pass():
    error = KafkaUnavailable("no broker answers")
    assert raised(error) is error


def test_rows_that_somebody_changed_are_named_by_the_table_they_are_in():
    found = raised(RowsChanged("shop/dbo/orders.changes", "version 4: DELETE"))
    assert isinstance(found, LakeRowsChanged)
    assert "shop/dbo/orders.changes" in str(found)


def test_of_a_shared_table_all_sources_are_told():
    for error in (
        LakeTableChanged(NAME, "n", "it was dropped"),
        RowsChanged("shop/dbo/orders", "version 4: DELETE"),
    ):
        assert "each of its source tables" in str(raised(error, is_shared=True))


def test_a_refused_row_is_the_lake_tables_constraint():
    assert isinstance(raised(PySparkException("refused"), is_refused=True), LakeTableChanged)


def test_a_type_without_a_lake_form_is_told_with_its_fix():
    found = raised(UnsupportedType("orders.shape", "geometry"))
    assert isinstance(found, UnsupportedSchemaChange)
    assert "leave its column out" in str(found)


def test_an_end_of_the_process_is_no_error_of_a_table():
    with pytest.raises(KeyboardInterrupt), of_one_table(NAME):
        raise KeyboardInterrupt


def test_what_no_snapshot_replaces_is_to_be_undone_or_moved_away():
    error = LakeTableChanged("shop.dbo.orders.changes", "v", "it was dropped", is_replaced=False)
    for found in (
        raised(error),
        raised(LakeTableChanged(NAME, "n", "it was dropped"), is_replaced=False),
        raised(PySparkException("refused"), is_refused=True, is_replaced=False),
    ):
        assert "move the table's folder away (in a catalog, drop the table)" in str(found)
        assert SNAPSHOT_HELPS not in str(found), "the sink would request it again and again"
