"""Commits that were read in blocks are those that were read row by row."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.commit_ms import CommitMilliseconds
from tailrace_publisher.encode.blocks.runs import commit_runs
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form
from tailrace_publisher.source.blocks.commit_columns import commits_of
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_schemas.position.change_position import POSITION_BYTES
from tailrace_schemas.position.lsn import Lsn
from tests.property.blocks import cells_of

LSNS = st.sets(st.binary(min_size=10, max_size=10), max_size=12).map(sorted)
TIMES = st.none() | st.datetimes(datetime(1753, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001
IDS = st.none() | st.binary(min_size=1, max_size=10)
OFFSETS = st.none() | st.integers(-840, 840)
OFFSET = st.integers(-840, 840)
CELLS = (
    *(Cell(Form.BYTES, 10), Cell(Form.TIMESTAMP, 16), Cell(Form.BYTES, 10)),
    Cell(Form.LONG, 8),
)


@st.composite
def entries(draw: st.DrawFn, *, zoned: bool) -> list[tuple[object, ...]]:
    return [
        (lsn, draw(TIMES), draw(IDS), *([draw(OFFSETS)] if zoned else [])) for lsn in draw(LSNS)
    ]


def in_blocks(rows: list[tuple[object, ...]], cut: int) -> Commits:
    def block(some: list[tuple[object, ...]]) -> list[Cells]:
        columns = list(zip(*some, strict=True))
        return [cells_of(cell, column) for cell, column in zip(CELLS, columns, strict=False)]

    return commits_of([block(part) for part in (rows[:cut], rows[cut:]) if part])


@pytest.mark.parametrize("zoned", [False, True])
@given(data=st.data())
def test_they_are_the_same_entries_with_the_same_times(zoned: bool, data: st.DataObject) -> None:
    rows = data.draw(entries(zoned=zoned))
    offset = data.draw(OFFSET)
    plain = Commits.of_rows(rows) if rows else Commits()

    columns = in_blocks(rows, data.draw(st.integers(0, len(rows))))

    assert list(columns) == list(plain)
    assert [entry.offset_minutes for entry in columns] == [c.offset_minutes for c in plain]
    assert columns.milliseconds(offset) == plain.milliseconds(offset)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
    assert list(columns[start:stop]) == list(plain[start:stop])
    some, plain_some = columns[start:stop], plain[start:stop]
    assert some.milliseconds(offset) == plain_some.milliseconds(offset)
    for lsn in map(Lsn.from_bytes, [*plain.lsns, bytes(10), b"\xff" * 10]):
        assert columns.at(lsn) == plain.at(lsn)
        assert list(columns.up_to(lsn)) == list(plain.up_to(lsn))


@given(lsns=LSNS, data=st.data())
def test_times_are_found_as_in_a_dictionary(lsns: list[bytes], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 2**50), min_size=len(lsns), max_size=len(lsns)))
    plain = dict(zip(lsns, numbers, strict=True))
    times = CommitMilliseconds(
        np.frombuffer(b"".join(lsns), np.uint8).reshape(-1, 10), np.array(numbers, np.int64)
    )

    assert times == plain
    others = data.draw(st.lists(st.binary(min_size=9, max_size=11)))
    for lsn in [*lsns, *others]:
        assert times.get(lsn) == plain.get(lsn)
        assert times.get(lsn, -1) == plain.get(lsn, -1)
        assert (lsn in times) == (lsn in plain)

    taken = sorted(data.draw(st.lists(st.sampled_from([*lsns, *others]))) if lsns else [])
    taken = [lsn for lsn in taken if len(lsn) == 10]
    rest = bytes(POSITION_BYTES - 10)
    positions = np.frombuffer(b"".join(lsn + rest for lsn in taken), np.uint8)
    positions = positions.reshape(-1, POSITION_BYTES)
    if plain.keys() >= set(taken):
        found = [list(map(np.ndarray.tolist, commit_runs(positions, t))) for t in (times, plain)]
        assert found[0] == found[1]
    else:
        with pytest.raises(Declined):
            commit_runs(positions, times)
