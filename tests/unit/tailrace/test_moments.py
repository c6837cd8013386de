"""Moments as people type them, and events as they are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.reading.moments import Moment, MomentError, parse_lsn
from tailrace.reading.schema_versions import changes_between
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress

LSNS = st.builds(
    Lsn, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)
)


def record(closed: Lsn, *, is_closed: bool = True, commit_ms: int | None = 5_000) -> Progress:
    return Progress(0, "s", "d", str(Lsn.ZERO), str(closed), commit_ms, is_closed, 0)


@given(LSNS)
def test_both_forms_of_an_lsn_are_read(lsn: Lsn):
    assert parse_lsn(str(lsn)) == lsn
    assert parse_lsn(f"0x{lsn.to_bytes().hex().upper()}") == lsn


def test_times_without_an_offset_are_utc():
    assert Moment.parse(None, "1970-01-01T00:00:05").time_ms == 5_000
    assert Moment.parse(None, "1970-01-01T01:00:05.250+01:00").time_ms == 5_250
    assert Moment.parse(None, None) == Moment()


@pytest.mark.parametrize("text", ["", "0x", "0x12", "zz", "00000001:0000:0001"])
def test_what_is_no_lsn_says_how_one_is_written(text: str):
    with pytest.raises(MomentError, match="is not an LSN"):
        parse_lsn(text)


@given(LSNS, LSNS)
def test_records_before_a_moment_are_passed_over_and_those_of_open_transactions_are_not(
    closed: Lsn, wanted: Lsn
):
    moment = Moment(lsn=wanted)
    assert moment.is_after(record(closed)) == (closed < wanted)
    assert not moment.is_after(record(closed, is_closed=False))
    assert moment.has_reached(closed, None) == (closed >= wanted)


def test_a_time_passes_over_what_was_committed_before_it():
    moment = Moment(time_ms=5_000)
    assert not moment.is_after(record(Lsn.ZERO))
    assert moment.is_after(record(Lsn.ZERO, commit_ms=4_999))
    assert not moment.is_after(record(Lsn.ZERO, commit_ms=None))
    assert (moment.has_reached(Lsn.ZERO, 4_999), moment.has_reached(Lsn.ZERO, 5_000)) == (
        False,
        True,
    )


def test_columns_are_compared_by_their_identity():
    number = ColumnType("int")
    before = [
        SchemaColumn(1, "id", number, nullable=False, key_ordinal=1),
        SchemaColumn(2, "old name", number),
        SchemaColumn(3, "gone", number),
    ]
    after = [
        before[0],
        replace(before[1], name="new name"),
        SchemaColumn(4, "more", ColumnType("bigint")),
    ]
    assert list(changes_between(before, after)) == [
        "renamed old name to new name",
        "added more bigint",
        "dropped gone",
    ]
    assert next(iter(changes_between(None, before))) == "id int NOT NULL (key 1)"
