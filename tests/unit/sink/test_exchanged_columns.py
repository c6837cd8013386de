"""Columns that somebody else has put in the place of the sink's."""

from __future__ import annotations

import json

import pytest

from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY, PENDING_PROPERTY
from tailrace_sink.tables.exchanged_columns import exchanged_columns

OURS = {COLUMNS_PROPERTY: json.dumps({"id": [1, "int", 1], "v": [2, "int", 0]})}
BEFORE = {"id": 1, "v": 2, "_cdc_op": 3, "team": 4}


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (BEFORE, None),
        (BEFORE | {"v": 5}, "v"),
        (BEFORE | {"v": 5, "_cdc_op": 6}, "_cdc_op, v"),
        ({"id": 1, "w": 2, "_cdc_op": 3}, None),  # its description says that v is gone
        (BEFORE | {"team": 5}, None),  # a column of somebody else
    ],
)
def test_names_of_other_columns_are_told(now: dict[str, int], named: str | None):
    expected = None if named is None else f"another column has the name {named}"
    assert exchanged_columns(OURS, BEFORE, now) == expected


@pytest.mark.parametrize(
    "property_", [{PENDING_PROPERTY: '{"v": [2, "int", 0]}'}, {COLUMNS_PROPERTY: "damaged"}]
)
def test_what_the_sink_announces_or_cannot_read_is_left_to_others(property_: dict[str, str]):
    assert exchanged_columns(OURS | property_, BEFORE, BEFORE | {"v": 5}) is None
