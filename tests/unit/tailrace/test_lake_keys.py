"""Keys of rows over Arrow columns agree with a dictionary of tuples."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tailrace.lake.keys import KeyIndex, columns_of

VALUES: tuple[tuple[pa.DataType, list[Any]], ...] = (
    (pa.string(), [None, "", "a", "A", "a ", "ä"]),
    (pa.decimal128(38, 10), [None, Decimal("0"), Decimal("1E-10"), Decimal("9" * 28)]),
    (pa.binary(), [None, b"", b"\x00", b"\x00\xff"]),
    (pa.int64(), [None, -(2**63), 0, 2**63 - 1]),
    (pa.float64(), [None, 0.0, -0.0, 1.5]),
)


@pytest.mark.parametrize("width", range(1, len(VALUES) + 1))
def test_keys_are_found_by_value(width: int):
    chance = random.Random(width)
    names = [f"k{place}" for place in range(width)]

    def rows(count: int) -> pa.Table:
        columns = [
            pa.array([chance.choice(some) for _ in range(count)], type_)
            for type_, some in VALUES[:width]
        ]
        return pa.table(columns, names=names)

    def keys_of(table: pa.Table) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in table.to_pylist()]  # 0.0 == -0.0 here, too

    changes, others = rows(120), rows(300)
    keyed = columns_of(changes, names)
    index = KeyIndex(keyed)

    known = keys_of(keyed)
    assert index.count == len(set(known))
    by_number = dict(zip(index.numbers.tolist(), known, strict=True))
    expected = [key if key in set(known) else None for key in keys_of(others)]
    assert [by_number.get(number) for number in index.find(others).tolist()] == expected


def test_no_key_is_found_among_none():
    none = KeyIndex(pa.table({"k": pa.array([], pa.int32())}))
    assert none.count == 0
    assert none.find(pa.table({"k": pa.array([1, None], pa.int32())})).tolist() == [-1, -1]
