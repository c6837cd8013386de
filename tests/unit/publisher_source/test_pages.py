"""The two halves of an update stay together, whatever the page size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.change.page import ChangeRow, join_carried
from tailrace_publisher.change.ranges import LsnRange, first_lsn_after, is_closed
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition, Operation


@st.composite
def change_rows(draw: st.DrawFn) -> list[ChangeRow]:
    rows: list[ChangeRow] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from("iud"), max_size=20))):
        seqval = number.to_bytes(10, "big")
        operations = {"i": (2,), "d": (1,), "u": (3, 4)}[kind]
        rows += [(b"c" * 10, number, seqval, operation, b"", number) for operation in operations]
    return rows


@given(change_rows(), st.integers(1, 7))
def test_pages_hold_whole_updates_and_lose_none(rows: list[ChangeRow], size: int):
    out: list[ChangeRow] = []
    carried = None
    for start in range(0, len(rows), size):
        page, carried = join_carried(carried, rows[start : start + size])
        assert not page or page[-1][3] != 3
        assert not page or page[0][3] != 4
        out += page

    assert carried is None
    assert out == rows


def test_a_before_image_without_its_after_image_is_an_error():
    before = (b"c" * 10, 1, b"s" * 10, 3, b"", 1)
    stranger = (b"c" * 10, 1, b"t" * 10, 4, b"", 1)

    with pytest.raises(ValueError, match="not its after image"):
        join_carried(before, [stranger])


def test_a_position_inside_a_transaction_needs_that_transaction_again():
    lsn = Lsn(1, 2, 3)
    inside = ChangePosition(lsn, 1, Lsn(1, 2, 1), Operation.INSERT)

    assert first_lsn_after(inside) == lsn
    assert first_lsn_after(ChangePosition.end_of(lsn)) == lsn.increment()
    assert is_closed(ChangePosition.end_of(lsn))
    assert not is_closed(inside)


def test_a_range_does_not_run_backwards():
    with pytest.raises(ValueError, match="backwards"):
        LsnRange(ChangePosition.end_of(Lsn(2, 0, 0)), Lsn(1, 0, 0))
