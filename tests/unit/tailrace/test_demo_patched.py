"""What the demo's comparison of a patch with the source finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tailrace.demo.patched import PatchComparison, compare_patch, tell, whole_in_topics
from tailrace.demo.verify import PATCH, gather
from tailrace.reading.topics import Event
from tailrace_schemas.records.progress import PatchedColumns, Progress

RIGHT = PatchComparison("dbo_flights_r1", [], 2, [], [], "0b", "0b")


def patch(key: int, gate: str, lsn: str) -> dict[str, Any]:
    return {"after": {"id": key, "gate": gate}, "source": {"commit_lsn": lsn}}


@pytest.mark.parametrize(
    ("found", "differs"),
    [
        (patch(1, "A01", "0b"), False),  # as the row is
        (patch(1, "B02", "0b"), True),
        (patch(2, "A02", "0b"), False),  # as it was before its change at 0c
        (patch(2, "C09", "0b"), True),  # as it became by that
        (patch(2, "C09", "0c"), False),
        (patch(2, "D01", "0d"), False),  # as it is after its second one
        (patch(3, "A03", "0b"), False),  # deleted at 0c
        (patch(3, "A03", "0c"), True),
    ],
)
def test_a_patch_has_the_values_of_its_lsn(found: dict[str, Any], differs: bool):
    rows = {1: {"id": 1, "gate": "A01"}, 2: {"id": 2, "gate": "D01"}}
    images = {
        2: [("0c", {"id": 2, "gate": "A02"}), ("0d", {"id": 2, "gate": "C09"})],
        3: [("0c", {"id": 3, "gate": "A03"})],
    }

    assert compare_patch([found], rows, images, "id") == ([found["after"]["id"]] if differs else [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"others": ["dbo_flights"]},
        {"differing": [1]},
        {"missing": [1]},
        {"in_lake": "0c"},
        {"in_lake": None, "whole_from": None},
    ],
)
def test_a_wrong_patch_is_reported(wrong: dict[str, Any]):
    found = replace(RIGHT, **wrong)

    assert RIGHT.equal
    assert not found.equal
    assert "wrong" in tell(found, 2)[-1]


def test_the_report_says_whether_rows_were_patched():
    assert "2 patched" in tell(RIGHT, 2)[1]
    assert "no row" in tell(replace(RIGHT, rows=0), 0)[1]
    assert len(tell(RIGHT, 2)) == 2


def test_a_column_is_whole_from_the_record_that_names_it():
    def record(closed_lsn: str, *patched: PatchedColumns) -> Progress:
        return Progress(0, "air", "Airline", "", closed_lsn, None, True, 0, patched=[*patched])

    records = [
        record("0a", PatchedColumns("planes", ["gate"]), PatchedColumns("flights", ["code"])),
        record("0b", PatchedColumns("flights", ["code", "gate"])),
    ]

    assert whole_in_topics(records, "flights", "gate") == "0b"
    assert whole_in_topics(records[:1], "flights", "gate") is None


def test_a_patch_is_no_change_of_the_source():
    source = {"commit_lsn": "0000000a:00000001:0001", "ts_ms": 1, "snapshot": PATCH}
    event = Event("air.Airline.dbo.flights", 0, 0, 0, {}, {"op": "u", "source": source}, 1)

    facts = gather([event])

    assert facts.patches == [event.envelope]
    assert facts.operations["flights"] == {"c": 0, "u": 0, "d": 0, "r": 0, PATCH: 1}
    assert not facts.commits
    assert not facts.positions
    assert facts.events_total == 1
