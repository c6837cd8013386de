import uuid
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tailrace.demo.compare import compare_positions
from tailrace.demo.latency import Percentiles, by_closing, percentiles
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tests.end_to_end.table_rows import compare_rows


def position(block, operation=Operation.INSERT):
    return ChangePosition(Lsn(1, block, 1), 1, Lsn(1, block, 2), operation)


def test_equal_rows_are_equal_whatever_their_order():
    guid = uuid.uuid4()
    source = [(1, Decimal("1.50"), guid), (2, None, None)]
    lake = [(2, None, None), (1, Decimal("1.50"), str(guid))]

    assert compare_rows("t", source, lake, 1).equal


def test_missing_unexpected_differing_and_repeated_rows_are_each_told():
    comparison = compare_rows("t", [(1, "a"), (2, "b")], [(2, "B"), (3, "c"), (3, "c")], 1)

    assert comparison.missing == [(1, "a")]
    assert comparison.differing == [((2, "b"), (2, "B"))]
    assert comparison.unexpected == [(3, "c")]
    assert comparison.differences == 4


def test_a_row_that_differs_by_null_only_differs():
    assert not compare_rows("t", [(1, None)], [(1, "")], 1).equal


def test_every_change_row_exactly_once():
    rows = [position(1), position(2, Operation.UPDATE_BEFORE), position(2, Operation.UPDATE_AFTER)]
    events = [position(1), position(2, Operation.UPDATE_AFTER)]
    snapshot = [ChangePosition.of_snapshot(Lsn(1, 0, 1))] * 3

    assert compare_positions("t", rows, events + snapshot).equal
    assert compare_positions("t", rows, events[:1]).missing == [events[1]]
    assert compare_positions("t", rows, [*events, events[0]]).repeated == [events[0]]
    assert compare_positions("t", rows, [*events, position(9)]).unexpected == [position(9)]


def test_latency_is_measured_to_the_first_closing_at_or_above_the_commit():
    closings = [("a", 1000), ("c", 3000)]

    assert by_closing([("a", 500), ("b", 500), ("c", 500), ("d", 500)], closings) == [0.5, 2.5, 2.5]


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_values_that_occurred(latencies):
    figures = percentiles(latencies)

    assert isinstance(figures, Percentiles)
    assert min(latencies) <= figures.p50_s <= figures.p99_s <= max(latencies)


def test_percentiles_of_nothing_are_none():
    assert percentiles([]) is None
