"""Browsing a table's events: the key that a text means, the windows, and what was searched."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tailrace.reading.change_rows import NotThere
from tailrace.reading.newest_events import Found, _windows
from tailrace.web.browsing import searched, wanted_by


@pytest.mark.parametrize(
    ("asked", "key", "is_it"),
    [
        ("", {"id": 7}, True),
        ("7", {"id": 7}, True),
        ("7", {"id": 70}, False),
        ('{"ID": 7}', {"id": 7}, True),
        ('[1, "a"]', {"no": 1, "name": "a"}, True),
        ('["1", "a"]', {"no": 1, "name": "a"}, True),
        ('{"name": "a", "no": 2}', {"no": 1, "name": "a"}, False),
        ("1.50", {"price": Decimal("1.50")}, True),
        ("true", {"is_on": True}, True),
        ("null", {"text": "null"}, True),
    ],
)
def test_a_key_is_meant_by_its_text(asked: str, key: dict[str, object], is_it: bool):
    assert wanted_by(asked)(key) is is_it


def test_a_text_that_is_no_key_is_refused_with_what_one_looks_like():
    with pytest.raises(NotThere, match="write a JSON object or array of its columns, no, name"):
        wanted_by("7")({"no": 1, "name": "a"})
    with pytest.raises(NotThere, match="have no key"):
        wanted_by("7")(None)
    assert wanted_by("")(None)


def test_the_windows_meet_grow_and_end_at_a_bound():
    back = list(_windows({0: (10, 100), 1: (95, 97)}, 10, forward=False))
    assert back == [{0: (80, 100), 1: (95, 97)}, {0: (40, 80)}, {0: (10, 40)}]
    on = list(_windows({0: (10, 100)}, 10, forward=True))
    assert on == [{0: (10, 30)}, {0: (30, 70)}, {0: (70, 100)}]
    looked_at = sum(
        high - low for w in _windows({0: (0, 10**9)}, 50, forward=False) for low, high in w.values()
    )
    assert 40_000 <= looked_at < 120_000, "the last window may pass the bound, once"
    assert list(_windows({}, 50, forward=False)) == []


def test_what_was_searched_is_said():
    found = Found()
    assert searched(found) == "No record was there to search."
    found.saw(1_795_000_000_000)
    found.saw(1_794_999_000_000)
    span = "published from 2026-11-18T10:50:00.000Z to 2026-11-18T11:06:40.000Z"
    assert searched(found) == (
        f"Searched: 2 records, {span}. For others give a time, or run tailrace tail."
    )
    found.is_whole = True
    assert searched(found) == f"Everything asked for was searched: 2 records, {span}."
