"""Key ranges: each key is in one, and those that differ are found and joined."""

from __future__ import annotations

import itertools
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.verify.ranges import (
    EVERYTHING,
    NOTHING,
    RANGE_ROWS,
    RANGES_MAX,
    KeyRange,
    differing,
    range_of,
    range_rows,
)

KEYS = st.integers(-(2**63), 2**63 - 1)


def ranges_of(lasts: list[int]) -> list[KeyRange]:
    bounds = [None, *lasts, None]
    return [KeyRange(*pair) for pair in itertools.pairwise(bounds)]


@given(st.lists(KEYS, max_size=30, unique=True), KEYS | st.none())
def test_a_key_is_in_the_range_whose_condition_it_meets(lasts, key):
    """SQLite has CASE and backticks as Spark has them. A key of a wrong lake may be NULL."""
    lasts.sort()
    database = sqlite3.connect(":memory:")
    number, *met = database.execute(
        f"SELECT {range_of('the key', lasts)},"
        f" {', '.join(keys.lake_condition('`the key`') for keys in ranges_of(lasts))}"
        " FROM (SELECT ? AS `the key`)",
        [key],
    ).fetchone()
    database.close()
    assert [place for place, is_met in enumerate(met) if is_met] == [number]


ONE, TWO = (1, 5, 5, 5, 5), (2, 5, 5, 5, 5)


@pytest.mark.parametrize(
    ("source", "lake", "found"),
    [
        ([ONE, ONE, ONE, NOTHING], {0: ONE, 1: ONE, 2: ONE}, []),
        ([ONE, ONE, ONE, NOTHING], {0: ONE, 1: TWO, 2: ONE}, [KeyRange(1, 2)]),
        ([ONE, ONE, ONE, NOTHING], {0: ONE, 1: (1, 5, 5, 5, 6), 2: ONE}, [KeyRange(1, 2)]),
        ([ONE, ONE, ONE, NOTHING], {0: ONE, 2: ONE}, [KeyRange(1, 2)]),
        ([ONE, ONE, ONE, NOTHING], {0: ONE, 1: ONE, 2: ONE, 3: ONE}, [KeyRange(3, None)]),
        (
            [ONE, ONE, ONE, NOTHING],
            {0: TWO, 1: ONE, 2: TWO, 3: ONE},
            [KeyRange(None, 1), KeyRange(2, None)],
        ),
        ([ONE, ONE, ONE, NOTHING], {3: ONE}, [EVERYTHING]),
        ([NOTHING], {}, []),
    ],
)
def test_ranges_that_differ_are_found_and_joined(source, lake, found):
    ranges = ranges_of([1, 2, 3][: len(source) - 1])
    assert differing(ranges, source, lake) == found


def test_large_tables_have_larger_ranges_rather_than_more():
    assert range_rows(0) == range_rows(RANGE_ROWS * RANGES_MAX) == RANGE_ROWS
    assert range_rows(RANGE_ROWS * RANGES_MAX * 10 + 1) == RANGE_ROWS * 10 + 1
