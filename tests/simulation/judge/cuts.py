"""A cut is true: what a reader makes of a table up to a closed LSN is the table at that LSN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.simulation.judge.history import Named
from tests.simulation.judge.reader import PLAIN, Reader, Wrong, frozen, identity_text


def check_exactly_once(reader: Reader, after: bytes, up_to: bytes) -> None:
    """Each change between two cuts was published once.

    Raises:
        Wrong: one is missing, or there is one more.
    """
    expected = reader.history.expected(after, up_to)
    found = Counter(event.identity for event in reader.since)
    if found != expected:
        missing = [identity_text(i) for i in (expected - found)]
        more = [identity_text(i) for i in (found - expected)]
        raise Wrong(
            f"{reader.topic}: between {after.hex()} and {up_to.hex()} missing {missing},"
            f" too many {more}"
        )


def check_state(reader: Reader, closed: bytes, *, released: bool) -> None:
    """What a reader makes of a table is the table.

    Raises:
        Wrong: it is not.
    """
    history = reader.history
    if not (reader.is_dirty or released) and history.changed_at <= (reader.newest or b""):
        return
    reader.is_dirty = False
    reader.newest = history.changed_at
    if history.key:
        right = {tuple(row[name] for name in history.key): row for row in history.rows.values()}
        for key in right.keys() | reader.rows.keys():
            _compare(reader, closed, key, reader.rows.get(key), right.get(key))
        return
    rows = Counter(frozen({n: row.get(n) for n in PLAIN}) for row in history.rows.values())
    bag = Counter({image: count for image, count in reader.bag.items() if count})
    if rows != bag:
        raise Wrong(
            f"{reader.topic}: at {closed.hex()} too few {dict(rows - bag)}, too many"
            f" {dict(bag - rows)}"
        )


def check_complete(reader: Reader, closed: bytes, columns: Iterable[str]) -> None:
    """Each row of a keyed table has the source's value of each column; without an event, NULL.

    Raises:
        Wrong: one has not.
    """
    history = reader.history
    for row in history.rows.values() if history.key else ():
        key = tuple(row[name] for name in history.key)
        found = reader.rows[key]
        for name in columns:
            if name in row and row[name] is not None and found.get(name) is None:
                raise Wrong(
                    f"{reader.topic}: at {closed.hex()} key {key} lacks {name}: {row[name]}"
                )


def _compare(
    reader: Reader, closed: bytes, key: Any, found: Named | None, right: Named | None
) -> None:
    at = f"{reader.topic}: at {closed.hex()} key {key}"
    if found is None or right is None:
        raise Wrong(f"{at} is {found}, should be {right}")
    for name, value in found.items():
        if name in right and value != right[name]:
            raise Wrong(f"{at}: {name} is {value}, should be {right[name]}")
