"""Several source tables in one lake table, with their origin in the key (``sink.into``)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tailrace_sink import read
from tailrace_sink.reading.cut import Cut
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.random_tables import change, expected, listed, snapshot

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROUNDS = 5
STEPS = 14
"""Of a sink that writes to two sources' rows in three tables."""
KEY = column(1, "id", "int", key=1)
INTO: dict[str, Any] = {"into": {r"dbo\.orders_.*": "all.orders"}}
KINDS: dict[str, Any] = {"kinds": {r"all\..*": ["mirror", "changelog", "history"]}}
HOME = "shop/all/orders"


def newest(lake: Lake) -> Cut:
    return read(lake.spark, lake.address).as_of("latest")


def in_lake(cut: Cut, table: SourceTable, name: str = "all.orders") -> dict[Any, Any]:
    """The rows of one source in the shared table."""
    rows = cut.read(name).where(f"_cdc_table = '{table.name.table}' AND _cdc_schema = 'dbo'")
    names = [c.name for c in table.schema.columns]
    found = [row.asDict() for row in rows.select(*names).collect()]
    by_key = {table.key_of(row): row for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


@pytest.mark.slow("random changes and kills in a lake of their own")
@pytest.mark.parametrize("more", [{}, {"bulk_changes": 1, "local_changes_max": 0}])
def test_each_source_keeps_to_its_own_rows(source: Source, lake: Lake, more: dict[str, Any]):
    chance = random.Random(77)
    lake.options |= {**INTO, **more, "merge_pool": 2}
    # Equal keys in both; the ids of equal columns differ.
    a = source.table("orders_a", KEY, column(2, "v", "int"))
    b = source.table("orders_b", column(5, "id", "int", key=1), column(7, "v", "int"))
    tables = [a, b]
    for table in tables:
        change(source, table, chance)
    source.publish()
    lake.catch_up()
    since = dict.fromkeys(("orders_a", "orders_b"), source.through)
    lake.options |= KINDS  # switched on later
    for number in range(ROUNDS):
        for table in tables:
            change(source, table, chance)
        source.publish()
        if number in (1, 3):
            snapshot(source, chance.choice(tables), chance, names_it_first=number == 1)
        lake.break_off(at=chance.randrange(STEPS))
        cut = newest(lake)
        for table in tables:
            assert in_lake(cut, table) == source.cuts[cut.closed_lsn][table.name.table], number
        lake.catch_up()
        cut = newest(lake)
        assert cut.closed_lsn == source.through
        for table in tables:
            name = table.name.table
            kept = cut.read("all.orders", is_history=True).where(f"_cdc_table = '{name}'")
            assert listed(kept) == expected(source, table, since[name], source.through), number
        if number == 2:
            # A third one comes with a snapshot of its own.
            c = source.table("orders_c", KEY, column(2, "v", "int"), column(3, "note", "int"))
            since["orders_c"] = source.commit(lambda t, c=c: t.insert(c, id=1, v=1, note=5))
            tables.append(c)
    assert cut.tables == [cut.tables[0]]
    assert str(cut.tables[0]) == "shop.all.orders"
    a.rows.clear()  # nothing is left of one of them
    snapshot(source, a, chance, names_it_first=True)
    lake.catch_up()
    cut = newest(lake)
    for table in tables:
        assert in_lake(cut, table) == table.rows
