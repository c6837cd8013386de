"""What was verified of each range: no more than was compared, and nothing is left out."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tailrace.verify.metrics import VerifyMetrics
from tailrace.verify.ranges import EVERYTHING, KeyRange
from tailrace.verify.verified import (
    EVERY_DIFFERING_MS,
    EVERY_MS,
    VerifiedTable,
    VerifiedUnreadable,
    due_ms,
    next_range,
    of_json,
    to_json,
    with_tables,
)

KEYS = range(-1, 12)


def lsn(number: int) -> str:
    return f"00000000:{number:08x}:0001"


def new() -> VerifiedTable:
    return VerifiedTable(7, 1)


@st.composite
def comparisons(draw: DrawFn) -> list[tuple[KeyRange, int, bool]]:
    """Parts that were compared, each with the rows that differed and whether it was proven."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        after, last = sorted(draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=2)))
        keys = KeyRange(
            None if draw(st.booleans()) or after == last else after,
            None if draw(st.booleans()) else last,
        )
        differing = draw(st.sampled_from([0, 0, 3]))
        found.append((keys, differing, not differing and draw(st.booleans())))
    return found


@given(comparisons())
def test_each_key_has_what_its_last_comparisons_found(done):
    """Against a model that has every key on its own."""
    table = new()
    verified: dict[int, tuple[int, str] | None] = dict.fromkeys(KEYS)
    tried = dict.fromkeys(KEYS, 0)
    for at_ms, (keys, differing, is_proven) in enumerate(done, start=10):
        table = table.compared(keys, at_ms, differing, lsn(at_ms) if is_proven else None)
        for key in filter(keys.has, KEYS):
            tried[key] = at_ms
            verified[key] = (at_ms, lsn(at_ms)) if is_proven else verified[key]

    parts = table.ranges
    assert (parts[0].keys.after, parts[-1].keys.last) == (None, None)
    assert all(one.keys.last == two.keys.after for one, two in itertools.pairwise(parts))
    for key in KEYS:
        (part,) = (part for part in parts if part.keys.has(key))
        known = verified[key]
        assert part.tried_ms == tried[key]
        # A part that was not proven again has the oldest proof of what it is made of.
        assert part.verified_ms is None or (known is not None and part.verified_ms <= known[0])
        assert (part.lsn is None) == (part.verified_ms is None)
    assert of_json(to_json({"dbo.t": table}), "f") == {"dbo.t": table}


def test_a_walk_goes_on_where_a_process_was_stopped():
    tables = {"dbo.t": new()}
    for at_ms, last in ((10, 5), (20, 9), (30, None)):
        tables = of_json(to_json(tables), "f")
        picked = next_range(tables, at_ms, differing_first=False)
        assert picked is not None
        name, part = picked
        assert (tables[name].lsn, tables[name].oldest_ms) == (None, 1)
        keys = KeyRange(part.keys.after, last)
        tables[name] = tables[name].compared(keys, at_ms, 0, lsn(at_ms))
    table = tables["dbo.t"]
    assert [part.keys for part in table.ranges] == [
        KeyRange(None, 5),
        KeyRange(5, 9),
        KeyRange(9, None),
    ]
    assert (table.lsn, table.oldest_ms) == (lsn(10), 10)
    assert next_range(tables, 9 + EVERY_MS, differing_first=False) is None
    assert due_ms(tables) == 10 + EVERY_MS
    assert next_range(tables, 10 + EVERY_MS, differing_first=False) == ("dbo.t", table.ranges[0])


def test_ranges_that_became_small_are_joined_and_those_that_grew_are_split():
    table = new().compared(KeyRange(None, 5), 10, 0, lsn(10)).compared(KeyRange(5, 9), 20, 0, "b")
    joined = table.compared(KeyRange(None, 8), 30, 0, lsn(30))
    assert [(p.keys.last, p.tried_ms) for p in joined.ranges] == [(8, 30), (9, 20), (None, 0)]
    split = table.compared(KeyRange(None, 2), 30, 0, lsn(30))
    assert [(p.keys.last, p.tried_ms) for p in split.ranges] == [
        (2, 30),
        (5, 10),
        (9, 20),
        (None, 0),
    ]


def test_rows_that_differ_stay_counted_until_they_are_found_equal_and_take_turns():
    tables = {"dbo.a": new().compared(KeyRange(None, 5), 10, 2, None), "dbo.b": new()}
    tables["dbo.a"] = tables["dbo.a"].compared(KeyRange(5, None), 20, 0, lsn(20))
    assert (tables["dbo.a"].differing, tables["dbo.a"].lsn, tables["dbo.a"].oldest_ms) == (
        2,
        None,
        1,
    )
    later = 10 + EVERY_DIFFERING_MS
    for first, name in ((True, "dbo.a"), (False, "dbo.b")):
        picked = next_range(tables, later, differing_first=first)
        assert picked is not None
        assert picked[0] == name
    soon = next_range(tables, later - 1, differing_first=True)
    assert soon is not None
    assert soon[0] == "dbo.b"
    # A comparison that could not be made leaves its LSN, and does not count as equal.
    failed = tables["dbo.a"].compared(KeyRange(5, None), later, 0, None)
    assert [p.lsn for p in failed.ranges] == [None, lsn(20)]
    repaired = failed.compared(KeyRange(None, 5), later, 0, lsn(40))
    assert (repaired.differing, repaired.lsn) == (0, lsn(20))


def test_a_table_that_was_created_again_is_new():
    known = {"dbo.t": new().compared(EVERYTHING, 10, 0, lsn(10)), "dbo.gone": new()}
    assert with_tables(known, {"dbo.t": 7, "dbo.u": 8}, 50) == {
        "dbo.t": known["dbo.t"],
        "dbo.u": VerifiedTable(8, 50),
    }
    assert with_tables(known, {"dbo.t": 9}, 50) == {"dbo.t": VerifiedTable(9, 50)}


def test_without_tables_nothing_is_due():
    assert next_range({}, 10, differing_first=True) is None
    assert due_ms({}) == float("inf")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"dbo.t": 1}',
        '{"dbo.t": {"object_id": 7, "since_ms": 1, "ranges": []}}',
        '{"dbo.t": {"object_id": 7, "since_ms": 1, "ranges": [[5, 1, 0, null, null]]}}',
        '{"dbo.t": {"object_id": 7, "since_ms": 1, "ranges": [[null, 1, 0, null, null, 3]]}}',
        json.dumps({"dbo.t": {"ranges": [[None, 1, 0, None, None]]}}),
    ],
)
def test_another_file_is_refused_with_the_fix(text):
    with pytest.raises(VerifiedUnreadable, match=r"^lake/f does not have .* Fix: remove it"):
        of_json(text, "lake/f")


def test_the_metrics_are_those_of_the_tables_that_are_there():
    metrics = VerifyMetrics()
    table = new().compared(EVERYTHING, 10, 0, lsn(10))
    metrics.show({"dbo.t": table, "dbo.gone": new()})
    metrics.compared("dbo.t", 5)
    differing = table.compared(KeyRange(None, 3), 20, 4, None)
    metrics.show({"dbo.t": differing})

    def shown(name: str, of: str = "dbo.t") -> float | None:
        return metrics.registry.get_sample_value(f"tailrace_verified_{name}", {"table": of})

    assert shown("lsn") == 10 * 2**16 + 1
    assert shown("differing_rows") == 4
    assert shown("rows_total") == 5
    assert (shown("age_seconds") or 0) > 1e9
    assert [shown(name, "dbo.gone") for name in ("lsn", "age_seconds", "rows_total")] == [None] * 3
